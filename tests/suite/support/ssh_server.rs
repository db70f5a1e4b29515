//! A real sshd of the test: own keys, own port, and a folder with an `ssh` that uses the test's own configuration.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::docker;

/// The server. It ends with the test.
pub struct SshServer {
    daemon: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl SshServer {
    /// Starts it, or returns `None` after saying why not. `standalone/prepare.sh` installs the program, so that under
    /// `FLOCK_TEST_REQUIRE_DOCKER=1` a missing one is a failure.
    pub fn start() -> Option<Self> {
        let must = docker::is_required();
        let sshd = Path::new("/usr/sbin/sshd");
        if !nix::unistd::geteuid().is_root() || !sshd.exists() {
            assert!(!must || sshd.exists(), "FLOCK_TEST_REQUIRE_DOCKER=1 and no sshd (openssh-server)");
            eprintln!("not run: an sshd of the test needs root and openssh-server");
            return None;
        }
        // Where it separates its rights; the system's own service makes it as well.
        std::fs::create_dir_all("/run/sshd").unwrap();
        let folder = tempfile::Builder::new().prefix("flock-sshd-").tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["host", "own"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(at(name))
                .stdin(Stdio::null())
                .status();
            assert!(made.unwrap().success());
        }
        std::fs::copy(at("own.pub"), at("authorized")).unwrap();
        let port = super::home::free_port();
        let settings = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
             AllowStreamLocalForwarding yes\n",
            at("host").display(),
            at("authorized").display()
        );
        std::fs::write(at("sshd_config"), settings).unwrap();
        let daemon = Command::new(sshd)
            .args(["-D", "-e", "-f"])
            .arg(at("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(at("log")).unwrap())
            .spawn()
            .unwrap();
        let server = Self { daemon, folder, port };
        super::wait_until("sshd listens", Duration::from_secs(30), || {
            std::net::TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(|error| error.to_string())
        });
        server.write_client();
        Some(server)
    }

    fn write_client(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        let at = |name: &str| self.folder.path().join(name);
        let settings = format!(
            "Host *\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  \
             GlobalKnownHostsFile /dev/null\n",
            at("own").display(),
            at("known").display()
        );
        std::fs::write(at("ssh_config"), settings).unwrap();
        let programs = at("bin");
        std::fs::create_dir_all(&programs).unwrap();
        let script = format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", at("ssh_config").display());
        std::fs::write(programs.join("ssh"), script).unwrap();
        std::fs::set_permissions(programs.join("ssh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Has the client know the server's key.
    pub fn trust(&self) {
        let key = std::fs::read_to_string(self.folder.path().join("host.pub")).unwrap();
        let line = format!("[127.0.0.1]:{} {key}", self.port);
        std::fs::write(self.folder.path().join("known"), line).unwrap();
    }

    /// Lets nobody in any more, or the test's own key again.
    pub fn let_in(&self, is_open: bool) {
        let text = match is_open {
            true => std::fs::read_to_string(self.folder.path().join("own.pub")).unwrap(),
            false => String::new(),
        };
        std::fs::write(self.folder.path().join("authorized"), text).unwrap();
    }

    /// Cuts all connections. New ones are taken.
    pub fn cut(&self) {
        let daemon = self.daemon.id().to_string();
        // The process of each connection, and what that one has started for it.
        let sessions = Command::new("pgrep").args(["-P", &daemon]).output().unwrap();
        for session in String::from_utf8(sessions.stdout).unwrap().lines() {
            let _ = Command::new("pkill").args(["-KILL", "-P", session]).status();
            let _ = Command::new("kill").args(["-KILL", session]).status();
        }
    }

    /// The address of a socket behind it.
    pub fn address(&self, socket: &Path) -> String {
        format!("ssh://127.0.0.1:{}{}", self.port, socket.display())
    }

    /// A PATH on which its client comes first.
    pub fn path(&self) -> String {
        let programs: PathBuf = self.folder.path().join("bin");
        format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default())
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

//! Podman's service in place of a Docker engine. It leaves out parts of what a sandbox asks for, so it is refused.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::docker::{docker, is_required};
use crate::support::home::TempHome;
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

/// The service, with storage and a socket of its own. It ends with the test.
struct Podman {
    service: Child,
    folder: tempfile::TempDir,
}

impl Podman {
    /// Starts it, or returns `None` after saying why not. `standalone/test.sh` installs the program, so that under
    /// `FLOCK_TEST_REQUIRE_DOCKER=1` a missing one is a failure.
    fn start() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("not run: a podman of the test needs root");
            return None;
        }
        let missing: Vec<&str> =
            ["podman", "docker"].into_iter().filter(|name| which::which(name).is_err()).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            assert!(!is_required(), "FLOCK_TEST_REQUIRE_DOCKER=1 and no {missing} (apt-get install podman)");
            eprintln!("not run: there is no {missing}");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("flock-podman-").tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let service = Command::new("podman")
            .args(["--cgroup-manager", "cgroupfs", "--storage-driver", "vfs", "--root"])
            .arg(at("root"))
            .arg("--runroot")
            .arg(at("run"))
            .args(["system", "service", "--time", "0"])
            .arg(format!("unix://{}", at("podman.sock").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let podman = Self { service, folder };
        wait_until("podman answers", LIMIT, || {
            let asked = std::os::unix::net::UnixStream::connect(podman.folder.path().join("podman.sock"));
            asked.map(drop).map_err(|error| error.to_string())
        });
        Some(podman)
    }

    fn host(&self) -> String {
        format!("unix://{}", self.folder.path().join("podman.sock").display())
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
        // Its storage is a mount of its own with some drivers.
        let _ = Command::new("umount").arg("-l").arg(self.folder.path().join("root/vfs")).output();
    }
}

#[test]
fn podman_is_refused_before_anything_is_made_in_it() {
    let Some(podman) = Podman::start() else { return };
    let home = TempHome::new().init();
    let (before, host) = (home.config_text(), podman.host());
    let run = home.flock(["engine", "add", "pod", &host]).fails(1);
    assert!(run.stderr.contains("kind: it is Podman, ") && run.stderr.contains("hint: "), "{run:?}");
    assert_eq!(home.config_text(), before);
    for kind in [&["images", "-q"][..], &["ps", "-aq"], &["volume", "ls", "-q"]] {
        assert_eq!(docker(&[&["-H", &host], kind].concat()), "", "{kind:?}");
    }
}

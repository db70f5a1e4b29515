//! A second engine for what the machine's own must not be changed for: OCI runtimes that are registered with it, and
//! engines that hang or end. It has a network, folders and sockets of its own, and ends with the test.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flock::home::Home;
use flock::sandbox::engine::Engine;
use flock::sandbox::image::Recipe;
use tempfile::TempDir;

use super::docker::{self, docker as docker_command};

/// The engine.
pub struct ExtraEngine {
    daemon: Child,
    folder: TempDir,
    tls: Option<TlsPort>,
}

/// A port of this machine on which an engine takes those who have a certificate of `authority.pem`. The test keeps it open, so
/// that nobody else gets it while the engine is started again.
struct TlsPort {
    listener: TcpListener,
    /// The path of the certificate that the engine shows.
    certificate: String,
}

impl TlsPort {
    /// The options of an engine that has this port from [`Self::handed_over`].
    fn options(&self) -> String {
        let (authority, key) = (tls_file("authority.pem"), tls_file("server.key"));
        let own = &self.certificate;
        format!("--host fd:// --tlsverify --tlscacert {authority} --tlscert {own} --tlskey {key}")
    }

    /// The port as the engine's standard input. The engine has a network of its own, in which it can't open the port itself.
    fn handed_over(&self) -> Stdio {
        OwnedFd::from(self.listener.try_clone().unwrap()).into()
    }
}

impl ExtraEngine {
    /// One that knows these runtimes by the names of their programs, or `None` after saying why not. `standalone/prepare.sh`
    /// installs the programs, so that under `FLOCK_TEST_REQUIRE_DOCKER=1` a missing one is a failure.
    pub fn with(runtimes: &[(&str, &[&str])]) -> Option<Self> {
        Self::with_all(runtimes, None)
    }

    fn with_all(runtimes: &[(&str, &[&str])], tls: Option<TlsPort>) -> Option<Self> {
        let missing = runtimes.iter().map(|(name, _)| *name).chain(["dockerd", "unshare"]);
        let missing: Vec<&str> = missing.filter(|name| which::which(name).is_err()).collect();
        let must = docker::is_required();
        if !nix::unistd::geteuid().is_root() {
            eprintln!("not run: a second engine needs root");
            return None;
        }
        if !missing.is_empty() {
            assert!(
                !must,
                "FLOCK_TEST_REQUIRE_DOCKER=1 and no {} (apt-get install crun runsc)",
                missing.join(", ")
            );
            eprintln!("not run: there is no {}", missing.join(", "));
            return None;
        }
        let images = LoadedImages::of_this_process();
        let folder = new_folder();
        if let Some(images) = images {
            images.copy_to(folder.path());
        }
        let extra = Self::start(folder, runtimes, tls);
        if images.is_none() {
            load_images(&extra.host());
        }
        Some(extra)
    }

    /// One that knows the engine's own runtime only.
    pub fn plain() -> Option<Self> {
        Self::with(&[])
    }

    /// One that can be reached by TLS, too. It shows the certificate of this name; [`tls_file`] says which there are.
    pub fn with_tls(certificate: &str) -> Option<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        Self::with_all(&[], Some(TlsPort { listener, certificate: tls_file(certificate) }))
    }

    /// Gives it another certificate, which it shows from its next start on.
    pub fn set_certificate(&mut self, name: &str) {
        self.tls.as_mut().unwrap().certificate = tls_file(name);
    }

    fn start(folder: TempDir, runtimes: &[(&str, &[&str])], tls: Option<TlsPort>) -> Self {
        let known: serde_json::Map<String, serde_json::Value> = runtimes
            .iter()
            .map(|(name, arguments)| {
                let path = which::which(name).unwrap();
                ((*name).to_owned(), serde_json::json!({"path": path, "runtimeArgs": arguments}))
            })
            .collect();
        let daemon_json =
            serde_json::json!({"runtimes": known, "bridge": "none", "iptables": false, "ip-forward": false});
        std::fs::write(folder.path().join("daemon.json"), daemon_json.to_string()).unwrap();
        let daemon = Self::spawn(folder.path(), tls.as_ref());
        let extra = Self { daemon, folder, tls };
        extra.wait();
        extra
    }

    fn spawn(folder: &Path, tls: Option<&TlsPort>) -> Child {
        let at = |name: &str| folder.join(name).display().to_string();
        let (input, takes, options) = match tls {
            // Sockets that another process has opened begin with the number 3.
            Some(port) => {
                (port.handed_over(), "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1", port.options())
            }
            None => (Stdio::null(), "", String::new()),
        };
        // crun knows control groups of one version or the other, not both at once.
        let script = format!(
            "umount /sys/fs/cgroup/unified 2>/dev/null; {takes} exec dockerd --config-file {} --data-root {} --exec-root {} \
             --pidfile {} --host unix://{} {options} >>{} 2>&1",
            at("daemon.json"),
            at("data"),
            at("exec"),
            at("pid"),
            at("docker.sock"),
            at("log")
        );
        Command::new("unshare")
            .args(["--net", "--mount", "--propagation", "private", "sh", "-c", &script])
            .stdin(input)
            .spawn()
            .unwrap()
    }

    fn wait(&self) {
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while !self.answers() {
            if std::time::Instant::now() > end {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                panic!("the second engine does not start: {log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops the engine in the middle of what it does, or lets it go on. Connections to it are accepted meanwhile, and not
    /// answered.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.daemon.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Kills the engine. Its containers may live on.
    pub fn kill(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        self.kill_containerd();
    }

    /// Kills the engine for good, and closes its port: who connects to it is refused at once.
    pub fn lose(&mut self) {
        self.kill();
        self.tls = None;
    }

    /// Kills the daemon's containerd too: an engine that starts while the last one's is about to end would wait for it in
    /// vain.
    fn kill_containerd(&self) {
        let file = self.folder.path().join("exec/containerd/containerd.pid");
        let Ok(written) = std::fs::read_to_string(&file) else { return };
        let pid = nix::unistd::Pid::from_raw(written.trim().parse().unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        super::wait_until("containerd ends", Duration::from_secs(30), || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            // What nobody waits for stays as a zombie, which the engine would take for a living one.
            let has_ended = status.is_empty() || status.contains("State:\tZ");
            has_ended.then_some(()).ok_or(status)
        });
        std::fs::remove_file(&file).unwrap();
    }

    /// Starts the engine again after [`Self::kill`], with all that it had.
    pub fn revive(&mut self) {
        self.daemon = Self::spawn(self.folder.path(), self.tls.as_ref());
        self.wait();
    }

    /// As flock reaches it.
    pub fn engine(&self) -> Arc<Engine> {
        Arc::new(Engine::at(self.host()))
    }

    /// Its address.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Its address by TLS.
    pub fn tls_address(&self) -> String {
        format!("tcp://{}", self.tls.as_ref().unwrap().listener.local_addr().unwrap())
    }

    /// The path of its socket.
    pub fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("docker.sock")
    }

    fn answers(&self) -> bool {
        let asks = || super::docker::block_on(async { self.engine().version().await.is_ok() });
        // In a thread of its own, since a test may be in a runtime here.
        self.socket().exists()
            && std::thread::scope(|scope| scope.spawn(asks).join().expect("the engine is asked"))
    }

    /// Ends the engine, unless it has ended.
    fn end(&mut self) {
        if self.daemon.try_wait().unwrap().is_none() {
            // It ends its containers, and removes its mounts. A test may have left it stopped.
            self.signal(nix::sys::signal::Signal::SIGTERM);
            self.signal(nix::sys::signal::Signal::SIGCONT);
        }
        let end = std::time::Instant::now() + Duration::from_secs(30);
        while self.daemon.try_wait().unwrap().is_none() {
            if std::time::Instant::now() > end {
                let _ = self.daemon.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for ExtraEngine {
    fn drop(&mut self) {
        self.end();
        unmount(self.folder.path());
    }
}

/// Gives an engine the images of the machine's engine.
pub fn load_images(host: &str) {
    super::docker::engine_with_images().unwrap();
    let keeper = Home::new("/flock-test-images".into(), None);
    let images = Recipe::ALL.map(|recipe| recipe.reference(&keeper));
    let mut save = Command::new("docker").arg("save").args(images).stdout(Stdio::piped()).spawn().unwrap();
    let load = Command::new("docker")
        .args(["-H", host, "load"])
        .stdin(save.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(load.status.success() && save.wait().unwrap().success(), "{load:?}");
}

/// Both images in the data folder of an engine that has ended. An engine needs seconds of processor time to load them, so
/// one does it for all engines of this process, and the others start with a copy.
struct LoadedImages {
    engine: ExtraEngine,
    _remover: Child,
}

impl LoadedImages {
    /// Returns those of this process, or `None` if each engine has to load them for itself.
    fn of_this_process() -> Option<&'static Self> {
        // Tests that come meanwhile wait. After a panic in here, the next test tries again.
        static LOADED: OnceLock<Option<LoadedImages>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref()
    }

    fn load() -> Option<Self> {
        let folder = new_folder();
        let mut loaded =
            Self { _remover: remover(folder.path()), engine: ExtraEngine::start(folder, &[], None) };
        // With this driver, two folders of plain files hold the images and nothing else. Other drivers make subvolumes, and
        // the image store of containerd is a part of a database with all that containerd knows.
        let driver = docker_command(&["-H", &loaded.engine.host(), "info", "--format", "{{.Driver}}"]);
        if driver != "overlay2" {
            return None;
        }
        load_images(&loaded.engine.host());
        loaded.engine.end();
        Some(loaded)
    }

    /// Puts them into the folder of an engine that has not started yet.
    fn copy_to(&self, folder: &Path) {
        let data = folder.join("data");
        std::fs::create_dir(&data).unwrap();
        // Nothing else of the data folder, because id, networks and volumes are each engine's own. An engine changes the
        // list of images, so it gets a copy. It only adds and removes layers, so links to their files do: copies of 450 MB
        // each would fill a TMPDIR in memory.
        for (how, part) in [("-a", "image"), ("-al", "overlay2")] {
            let from = self.engine.folder.path().join("data").join(part);
            let copied = Command::new("cp").arg(how).args([&from, &data]).output().unwrap();
            assert!(copied.status.success(), "{copied:?}");
        }
    }
}

/// Starts a shell that removes the folder when this process has ended: a static value is never dropped, and a process that
/// is killed can't clean up. The shell ignores the signals that end the whole process group.
fn remover(folder: &Path) -> Child {
    let script = r#"trap "" HUP INT TERM; cat >/dev/null; exec rm -rf -- "$0""#;
    Command::new("sh")
        .args(["-c", script])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the path of a file for TLS with an engine. `authority.pem` has signed `server.pem`, which is for 127.0.0.1, and
/// `client.pem`, and also `server-expired.pem` and `client-expired.pem`, which were valid until 2021. Their keys are `server.key`
/// and `client.key`. `another.pem` is an authority that has signed `client-stranger.pem`, for the client's key.
pub fn tls_file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/engine_tls").join(name).display().to_string()
}

fn new_folder() -> TempDir {
    tempfile::Builder::new().prefix("flock-engine-").tempdir().unwrap()
}

/// What a daemon that was killed leaves mounted keeps its folder from being removed.
fn unmount(folder: &Path) {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let below = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|at| Path::new(at).starts_with(folder));
    let mut below: Vec<&str> = below.collect();
    below.sort_unstable_by(|a, b| b.cmp(a));
    for at in below {
        let _ = Command::new("umount").args(["-l", at]).output();
    }
}

//! A second engine for what the machine's own must not be changed for: OCI runtimes that are registered with it, and
//! engines that hang or end. It has a network, folders and sockets of its own, and ends with the test.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use flock::home::Home;
use flock::sandbox::engine::Engine;
use flock::sandbox::image::Recipe;

use super::docker;

/// The engine.
pub struct ExtraEngine {
    daemon: Child,
    folder: tempfile::TempDir,
}

impl ExtraEngine {
    /// One that knows these runtimes by the names of their programs, or `None` after saying why not. `standalone/prepare.sh`
    /// installs the programs, so that under `FLOCK_TEST_REQUIRE_DOCKER=1` a missing one is a failure.
    pub fn with(runtimes: &[(&str, &[&str])]) -> Option<Self> {
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
        let folder = tempfile::Builder::new().prefix("flock-engine-").tempdir().unwrap();
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
        let daemon = Self::spawn(folder.path());
        let extra = Self { daemon, folder };
        extra.wait();
        extra.load_images();
        Some(extra)
    }

    /// One that knows the engine's own runtime only.
    pub fn plain() -> Option<Self> {
        Self::with(&[])
    }

    fn spawn(folder: &Path) -> Child {
        let at = |name: &str| folder.join(name).display().to_string();
        // crun knows control groups of one version or the other, not both at once.
        let script = format!(
            "umount /sys/fs/cgroup/unified 2>/dev/null; exec dockerd --config-file {} --data-root {} --exec-root {} --pidfile {} \
             --host unix://{} >>{} 2>&1",
            at("daemon.json"),
            at("data"),
            at("exec"),
            at("pid"),
            at("docker.sock"),
            at("log")
        );
        Command::new("unshare")
            .args(["--net", "--mount", "--propagation", "private", "sh", "-c", &script])
            .stdin(Stdio::null())
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
        self.daemon = Self::spawn(self.folder.path());
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

    /// Gives it the images of the machine's engine.
    fn load_images(&self) {
        super::docker::engine_with_images().unwrap();
        let keeper = Home::new("/flock-test-images".into(), None);
        let images = Recipe::ALL.map(|recipe| recipe.reference(&keeper));
        let mut save =
            Command::new("docker").arg("save").args(images).stdout(Stdio::piped()).spawn().unwrap();
        let load = Command::new("docker")
            .args(["-H", &self.host(), "load"])
            .stdin(save.stdout.take().unwrap())
            .output()
            .unwrap();
        assert!(load.status.success() && save.wait().unwrap().success(), "{load:?}");
    }
}

impl Drop for ExtraEngine {
    fn drop(&mut self) {
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
        unmount(self.folder.path());
    }
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

//! Podman's service in place of a Docker engine: a sandbox in it has the same walls.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use flock::sandbox::engine::Engine;
use flock::sandbox::mount::ApprovedMount;
use flock::sandbox::{CommandExit, Sandbox as _, SandboxError, containers};

use super::sandbox::{id, output, run};
use super::walls::ATTACKS;
use crate::support::docker::{self, Team, docker as docker_command, is_required};
use crate::support::extra_engine::load_images;
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
        std::fs::create_dir_all(at("set/below")).unwrap();
        let service = Command::new("unshare")
            .args(["--mount", "sh", "-c", SERVICE, "sh"])
            .arg(folder.path())
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

    /// The folder that is approved, and where the service sees a file on the file system below it.
    fn approved(&self) -> (PathBuf, PathBuf) {
        let set = self.folder.path().canonicalize().unwrap().join("set");
        let seen = format!("/proc/{}/root{}/below/hidden", self.service.id(), set.display());
        (set, seen.into())
    }

    fn host(&self) -> String {
        format!("unix://{}", self.folder.path().join("podman.sock").display())
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

/// Starts the service. crun refuses a machine that has control groups of both versions, as some have, and the approved folder
/// has another file system below it. The locks of all services of a machine would be the same. A copy of all files for each
/// container takes much longer than an overlay, but that can't be on another overlay.
const SERVICE: &str = r#"
cd "$1" || exit
umount /sys/fs/cgroup/unified 2>/dev/null
mount -t tmpfs none /dev/shm
mount -t tmpfs none "$1/set/below" && echo hidden > "$1/set/below/hidden"
case $(stat -f -c %T "$1") in *overlay*) storage=vfs ;; *) storage=overlay ;; esac
export TMPDIR="$1"
exec podman --cgroup-manager cgroupfs --storage-driver "$storage" --root "$1/root" --runroot "$1/run" --tmpdir "$1/tmp" \
    system service --time 0 "unix://$1/podman.sock"
"#;

#[test]
fn a_sandbox_in_podman_has_the_walls_of_one_in_docker() {
    if docker::engine_with_images().is_none() {
        return;
    }
    let Some(podman) = Podman::start() else { return };
    load_images(&podman.host());
    let Some(team) = Team::in_engine(Arc::new(Engine::at(podman.host())), &["coder"]) else { return };
    let (set, seen) = podman.approved();
    assert!(seen.exists(), "the service sees what is below the approved folder: {seen:?}");
    team.configure(|config| {
        config.agents[0].docker.memory = Some(128 << 20);
        config.mount_roots = vec![set.parent().unwrap().to_owned()];
    });
    let approved = vec![ApprovedMount { source: set, name: "set".to_owned() }];
    let next = || {
        let approved = approved.clone();
        team.sandbox().with_mounts(Arc::new(move |_| {
            let approved = approved.clone();
            Box::pin(async { approved })
        }))
    };
    let (coder, name) = (id("coder"), team.container("coder"));
    docker::block_on(async {
        let sandbox = next();
        if let Err(error) = sandbox.ensure(&coder).await {
            let why = flock::error::chain(&error);
            // Nested in another container, no runtime of Podman may start anything. That is not flock's to judge.
            assert!(why.contains("OCI runtime error"), "{why}");
            eprintln!("not run: podman can start no container here: {why}");
            return;
        }
        assert!(sandbox.probe(&coder).await.unwrap().is_confined());
        assert_eq!(output(&sandbox, "coder", ATTACKS).await, "nothing");
        assert_eq!(output(&sandbox, "coder", "ls /sys/class/net").await, "lo");
        assert_eq!(output(&sandbox, "coder", "ls /mnt/set; ls /mnt/set/below").await, "below");
        assert_eq!(output(&sandbox, "coder", "echo kept > made; cat made").await, "kept");
        // The last one leaves room for no other process.
        for forbidden in [
            "echo x > /etc/x",
            "echo x > /run/x",
            "echo x > /var/tmp/x",
            "echo x > /mnt/set/x",
            "echo x > /nix/x",
            "echo x > /workspace/AGENTS.md",
            "python3 -c \"b'x' * (256 << 20)\"",
            "ulimit -n 5000",
            "for i in $(seq 400); do sleep 5 & done; wait",
        ] {
            let outcome = run(&sandbox, "coder", forbidden).await.unwrap();
            assert_ne!(outcome.end, CommandExit::Exited(0), "{forbidden}");
        }
        // Another process of the home, after the first one has ended.
        drop(sandbox);
        let sandbox = next();
        assert_eq!(output(&sandbox, "coder", "cat made").await, "kept");
        // What is frozen ends all the same.
        containers::freeze(&team.engine, &name).await.unwrap();
        assert!(sandbox.containers().await.unwrap()[0].is_frozen());
        containers::freeze(&team.engine, &name).await.unwrap();
        containers::kill(&team.engine, &name).await.unwrap();
        containers::kill(&team.engine, &name).await.unwrap();
        assert_eq!(containers::running(&team.engine, &team.home).await.unwrap(), [""; 0]);
        drop(sandbox);
        let sandbox = next();
        assert_eq!(output(&sandbox, "coder", "cat made").await, "kept");
        sandbox.remove(&coder).await.unwrap();
        // The service has one runtime for all containers, and would take another one's name without an error.
        team.configure(|config| config.agents[0].docker.runtime = Some("runsc".to_owned()));
        let refused = sandbox.ensure(&coder).await;
        assert!(
            matches!(&refused, Err(SandboxError::NoRuntime { runtime, .. }) if runtime == "runsc"),
            "{refused:?}"
        );
        docker::remove_all(&team.engine, &team.home).await.unwrap();
    });
    for kind in [&["ps", "-aq"][..], &["volume", "ls", "-q"]] {
        assert_eq!(docker_command(&[&["-H", &podman.host()], kind].concat()), "", "{kind:?}");
    }
}

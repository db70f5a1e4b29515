//! Folders of the host that a person approved: readable in the sandbox, and nothing more of the host.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::mount::ApprovedMount;
use flock::sandbox::{Command, CommandExit, JobRequest, Sandbox as _, SandboxError};

use super::sandbox::{id, output, run};
use crate::support::docker::{self, Team};

/// A folder that everybody may read, outside of the home.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("flock-test-mounts-").tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

/// What is approved, to be changed by a test.
#[derive(Clone, Default)]
struct Approvals(Arc<Mutex<Vec<ApprovedMount>>>);

impl Approvals {
    fn set(&self, mounts: &[(&Path, &str)]) {
        *self.0.lock().unwrap() = mounts
            .iter()
            .map(|(source, name)| ApprovedMount { source: source.to_path_buf(), name: (*name).to_owned() })
            .collect();
    }

    fn of(&self, team: &Team) -> DockerSandbox {
        let approvals = self.0.clone();
        team.sandbox().with_mounts(Arc::new(move |agent| {
            assert_eq!(agent.as_str(), "coder");
            let approved = approvals.lock().unwrap().clone();
            Box::pin(async { approved })
        }))
    }
}

fn refusal(error: &SandboxError) -> &str {
    match error {
        SandboxError::Refused { what, .. } => what,
        other => panic!("not refused: {other}"),
    }
}

#[test]
fn an_approved_folder_can_be_read_and_not_changed() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let (_folder, root) = folder();
    let (data, file) = (root.join("data"), root.join("one.txt"));
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("numbers"), "1 2 3").unwrap();
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::write(&file, "one").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    let approvals = Approvals::default();
    let sandbox = approvals.of(&team);
    let coder = id("coder");
    docker::block_on(async {
        sandbox.ensure(&coder).await.unwrap();
        let before = sandbox.containers().await.unwrap().remove(0);
        approvals.set(&[(&data, "data"), (&file, "one")]);
        // A person's word for where mounts may be comes first.
        let error = sandbox.ensure(&coder).await.unwrap_err();
        assert!(refusal(&error).contains("mountRoots"), "{error}");
        approvals.set(&[]);
        sandbox.ensure(&coder).await.unwrap();
        team.configure(|config| config.mount_roots = vec![root.clone()]);
        let job = Command { command: "sleep 1000".to_owned(), keep: 100, ..Command::default() };
        let job = sandbox.spawn(&coder, job).await.unwrap();
        approvals.set(&[(&data, "data"), (&file, "one")]);
        // Not before nothing runs.
        assert_eq!(output(&sandbox, "coder", "ls /mnt").await, "");
        sandbox.jobs(&coder, JobRequest::Kill(job.id)).await.unwrap();
        assert_eq!(output(&sandbox, "coder", "cat /mnt/data/numbers /mnt/one").await, "1 2 3one");
        let after = sandbox.containers().await.unwrap().remove(0);
        assert_ne!((before.id, before.spec), (after.id, after.spec));
        assert!(sandbox.probe(&coder).await.unwrap().is_confined());
        for forbidden in [
            "echo x > /mnt/data/new",
            "echo x > /mnt/one",
            "rm /mnt/data/numbers",
            "chmod 777 /mnt/data",
            "mkdir /mnt/x",
        ] {
            assert_ne!(
                run(&sandbox, "coder", forbidden).await.unwrap().end,
                CommandExit::Exited(0),
                "{forbidden}"
            );
        }
        assert_eq!(std::fs::read_to_string(data.join("numbers")).unwrap(), "1 2 3");
        // Taken away again, it is gone with the next command, whatever the agent lets run.
        let job = Command { command: "sleep 1000".to_owned(), keep: 100, ..Command::default() };
        sandbox.spawn(&coder, job).await.unwrap();
        approvals.set(&[(&file, "one")]);
        assert_eq!(output(&sandbox, "coder", "ls /mnt").await, "one");
        approvals.set(&[]);
        assert_eq!(output(&sandbox, "coder", "ls /mnt").await, "");
    });
}

#[test]
fn what_is_not_what_was_approved_is_refused() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let (_folder, root) = folder();
    let (data, secret) = (root.join("data"), root.join("secret"));
    for path in [&data, &secret] {
        std::fs::create_dir(path).unwrap();
    }
    std::fs::write(secret.join("key"), "secret").unwrap();
    team.configure(|config| config.mount_roots = vec![root.clone(), team.home.root().to_owned()]);
    let approvals = Approvals::default();
    let sandbox = approvals.of(&team);
    let coder = id("coder");
    docker::block_on(async {
        approvals.set(&[(&data, "data")]);
        sandbox.ensure(&coder).await.unwrap();
        // A link in the place of what was approved. The running container has what it was made with.
        std::fs::remove_dir(&data).unwrap();
        std::os::unix::fs::symlink(&secret, &data).unwrap();
        assert_eq!(output(&sandbox, "coder", "ls /mnt/data").await, "");
        sandbox.stop_all().await.unwrap();
        let next = approvals.of(&team);
        let error = next.ensure(&coder).await.unwrap_err();
        assert!(refusal(&error).contains("a link leads elsewhere"), "{error}");
        next.remove(&coder).await.unwrap();
        assert!(matches!(next.ensure(&coder).await, Err(SandboxError::Refused { .. })));
        for path in [
            team.home.secrets(),
            team.home.workspace(&coder),
            team.home.root().to_owned(),
            root.join("missing"),
            PathBuf::from("/etc"),
            PathBuf::from("/"),
        ] {
            approvals.set(&[(&path, "x")]);
            let error = next.ensure(&coder).await.unwrap_err();
            assert!(matches!(error, SandboxError::Refused { .. }), "{}: {error}", path.display());
        }
        // A socket that somebody listens on is a way out, also in a folder that is only read.
        let open = root.join("open");
        std::fs::create_dir(&open).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(open.join("agent.sock")).unwrap();
        std::fs::set_permissions(open.join("agent.sock"), PermissionsExt::from_mode(0o777)).unwrap();
        approvals.set(&[(&open, "open")]);
        let error = next.ensure(&coder).await.unwrap_err();
        assert!(matches!(error, SandboxError::NotConfined { .. }), "{error}");
        approvals.set(&[]);
        assert_eq!(output(&next, "coder", "echo fine").await, "fine");
    });
}

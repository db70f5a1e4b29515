//! The users that sandboxes run as, where flock may choose them.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use flock::sandbox::{Command, Sandbox as _};

use super::sandbox::{id, output};
use crate::support::docker::{self, Team};
use crate::support::wait_until;

/// Makes inotify instances until there are no more, says so in a file, and keeps them.
const EXHAUST: &str = "python3 -c 'import ctypes, time
c = ctypes.CDLL(None)
n = 0
while c.inotify_init1(0) >= 0: n += 1
open(\"full\", \"w\").write(str(n))
time.sleep(1000)'";

#[test]
fn an_agent_uses_up_inotify_for_itself_alone() {
    let Some(team) = Team::new(&["coder", "other"]) else { return };
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not run: only root gives each agent a user of its own");
        return;
    }
    let sandbox = team.sandbox();
    docker::block_on(async {
        let users = [output(&sandbox, "coder", "id -u").await, output(&sandbox, "other", "id -u").await];
        assert_ne!(users[0], users[1]);
        let job = Command { command: EXHAUST.to_owned(), keep: 1024, ..Command::default() };
        sandbox.spawn(&id("coder"), job).await.unwrap();
        let full = team.home.workspace(&id("coder")).join("full");
        let is_full = || full.exists().then_some(()).ok_or_else(|| "it is not there".to_owned());
        wait_until("the file that says so", Duration::from_secs(60), is_full);
        let one = "python3 -c 'import ctypes; print(ctypes.CDLL(None).inotify_init1(0) >= 0)'";
        assert_eq!(output(&sandbox, "coder", one).await, "False");
        assert_eq!(output(&sandbox, "other", one).await, "True");
        // Another gateway of the home gives the same user, so that the container stays.
        assert_eq!(output(&team.sandbox(), "other", "id -u").await, users[1]);
    });
}

#[test]
fn a_workspace_of_before_goes_over_to_its_agents_own_user() {
    let Some(team) = Team::new(&["coder"]) else { return };
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not run: only root gives each agent a user of its own");
        return;
    }
    let workspace = team.home.workspace(&id("coder"));
    std::fs::create_dir_all(workspace.join("deep/er")).unwrap();
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(workspace.join("deep/file"), "old\n").unwrap();
    std::fs::hard_link(workspace.join("deep/file"), workspace.join("deep/er/twice")).unwrap();
    std::os::unix::fs::symlink(outside.path(), workspace.join("link")).unwrap();
    for path in ["", "deep", "deep/er", "deep/file", "link"] {
        std::os::unix::fs::lchown(workspace.join(path), Some(10_001), Some(10_001)).unwrap();
    }
    let sandbox = team.sandbox();
    docker::block_on(async {
        let work = "echo new >> deep/file; echo more > deep/er/more; cat deep/er/twice; id -u";
        let said = output(&sandbox, "coder", work).await;
        let (text, user) = said.rsplit_once('\n').unwrap();
        assert_eq!(text, "old\nnew");
        let uid = |path: &str| std::fs::symlink_metadata(workspace.join(path)).unwrap().uid().to_string();
        assert_eq!(
            ["", "deep/er", "deep/file", "link"].map(uid),
            [user, user, user, user].map(str::to_owned)
        );
        assert_eq!(std::fs::metadata(outside.path()).unwrap().uid(), 0);
    });
}

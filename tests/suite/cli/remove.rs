//! `flock remove` and `flock list`.

use super::session::{session, snapshot};
use crate::support::home::TempHome;

#[test]
fn remove_says_what_it_kept() {
    let home = TempHome::new().init();
    for id in ["coder", "writer", "reader"] {
        home.flock(["add", id, "--no-container"]).ok();
    }
    snapshot!(
        "remove",
        session(
            &home,
            &[
                "remove coder",
                "remove coder",
                "rm writer --purge",
                "rm writer --purge --yes",
                "remove reader --purge --yes --json",
                "remove ../x",
                "remove nobody --json",
                "list",
                "remove --help",
            ]
        )
    );
    assert!(home.file("agents/coder/identity/AGENTS.md").exists());
    assert!(!home.file("workspaces/writer").exists());
    assert!(!home.file("workspaces/reader").exists());
}

#[test]
fn list_shows_the_team() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let mut document = home.config();
    document["plugins"]["entries"]["flock"]["config"]["gatewayAgents"][2]["runtime"] = "x\u{1b}[2J".into();
    std::fs::write(home.file("config.json"), document.to_string()).unwrap();
    snapshot!("list", session(&home, &["list", "ls --json", "list extra", "list --help"]));
}

#[test]
fn purge_removes_links_and_not_what_they_point_to() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let outside = home.outside().join("precious");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "x").unwrap();
    std::os::unix::fs::symlink(&outside, home.file("workspaces/coder/link")).unwrap();
    home.flock(["remove", "coder", "--purge", "--yes"]).ok();
    assert!(outside.join("file").exists());
    assert!(!home.file("workspaces/coder").exists());
}

#[test]
fn a_workspace_elsewhere_is_never_deleted() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let own = home.outside().join("project");
    std::fs::create_dir(&own).unwrap();
    home.flock(["config", "set", "agents.list[coder].workspace", own.to_str().unwrap()]).ok();
    home.flock(["remove", "coder", "--purge", "--yes"]).ok();
    assert!(own.exists());
}

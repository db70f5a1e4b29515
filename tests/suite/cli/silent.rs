//! A gateway that runs and does not answer: nobody writes into its database beside it.

use flock::process::ProcessId;

use crate::support::home::TempHome;

#[test]
fn nothing_is_written_beside_a_gateway_that_does_not_answer() {
    let home = TempHome::new().init();
    home.flock(["channel", "create", "dev", "--topic", "work"]).ok();
    home.flock(["add", "coder", "--no-container"]).ok();
    // This process stands for it: it lives, and listens nowhere.
    let run = home.path().join("run");
    std::fs::create_dir_all(&run).unwrap();
    let file = run.join("gateway.pid");
    std::fs::write(&file, format!("{}\n", ProcessId::current())).unwrap();
    for line in [
        &["channel", "post", "dev", "hello"][..],
        &["channel", "create", "other", "--topic", "work"],
        &["channel", "assign", "dev", "--add", "coder"],
        &["remove", "coder"],
        &["approvals", "revoke", "r-aaaaaaaa"],
        &["freeze", "--all"],
    ] {
        let refused = home.flock(line.iter().copied()).fails(5).stderr;
        assert!(
            refused.contains("runs but does not answer") && refused.contains("flock restart"),
            "{refused}"
        );
    }
    std::fs::remove_file(&file).unwrap();
    let listed = home.flock(["list", "--json"]).ok().json();
    assert!(listed["agents"].as_array().unwrap().iter().any(|agent| agent["id"] == "coder"), "{listed}");
    let channels = home.flock(["channel", "list", "--json"]).ok().json();
    assert_eq!(channels["channels"].as_array().unwrap().len(), 1, "{channels}");
    let said = home.flock(["channel", "read", "dev", "--json"]).ok().json();
    assert!(!said.to_string().contains("hello"), "{said}");
}

//! A gateway that runs and does not answer: nobody writes into its database beside it.

use std::time::Duration;

use flock::home::lock::Lock;
use flock::process::ProcessId;

use crate::support::home::TempHome;
use crate::support::wait_until;

#[test]
fn nothing_is_written_beside_a_gateway_that_does_not_answer() {
    let home = TempHome::new().init();
    home.flock(["channel", "create", "dev", "--topic", "work"]).ok();
    home.flock(["add", "coder", "--no-container"]).ok();
    // This process stands for it: it lives, holds the gateway's lock, and listens nowhere.
    let run = home.path().join("run");
    std::fs::create_dir_all(&run).unwrap();
    let file = run.join("gateway.pid");
    std::fs::write(&file, format!("{}\n", ProcessId::current())).unwrap();
    let lock = Lock::try_acquire(&run.join("gateway.lock")).unwrap();
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
    // One that was started by hand has no PID file.
    std::fs::remove_file(&file).unwrap();
    let refused = home.flock(["freeze", "--all"]).fails(5).stderr;
    assert!(refused.contains("a gateway that no supervisor runs"), "{refused}");
    drop(lock);
    let listed = home.flock(["list", "--json"]).ok().json();
    assert!(listed["agents"].as_array().unwrap().iter().any(|agent| agent["id"] == "coder"), "{listed}");
    let channels = home.flock(["channel", "list", "--json"]).ok().json();
    assert_eq!(channels["channels"].as_array().unwrap().len(), 1, "{channels}");
    let said = home.flock(["channel", "read", "dev", "--json"]).ok().json();
    assert!(!said.to_string().contains("hello"), "{said}");
}

#[test]
fn a_second_gateway_says_whom_it_waits_for_and_goes_on_after_that() {
    let home = TempHome::new().init();
    let run = home.path().join("run");
    let lock = Lock::try_acquire(&run.join("gateway.lock")).unwrap();
    let log = home.outside().join("second.log");
    let file = std::fs::File::create(&log).unwrap();
    let mut second = home.command().args(["gateway", "serve"]).stderr(file).spawn().unwrap();
    let text = || std::fs::read_to_string(&log).unwrap();
    let said =
        |what: &'static str| {
            wait_until(what, Duration::from_secs(60), || {
                if text().contains(what) { Ok(()) } else { Err(text()) }
            });
        };
    said("waits until another gateway of this home has ended");
    assert!(text().contains("gateway.lock") && second.try_wait().unwrap().is_none(), "{}", text());
    drop(lock);
    said("the gateway listens");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(second.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(second.wait().unwrap().success(), "{}", text());
}

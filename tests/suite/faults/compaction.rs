//! The process is killed between the moment a compaction is written and the moment it counts.

use std::os::unix::process::ExitStatusExt as _;

use flock::fault_point::FaultPoint;

use super::provider::with_agents;
use super::{LONG, end, gateway};
use crate::support::home::TempHome;
use crate::support::model_server::{ModelServer, Reply};
use crate::support::wait_until;

const KEY: &str = "agent:ada:flock:main:ann";

fn until_answering(home: &TempHome) {
    wait_until("the gateway answers", LONG, || {
        let run = home.flock(["status", "--json"]);
        if run.code == 0 { Ok(()) } else { Err(format!("{run:?}")) }
    });
}

#[test]
fn a_kill_between_write_and_use_costs_nothing() {
    let model = ModelServer::start();
    model.always(Reply::text(&"understood ".repeat(200)));
    let home = with_agents(&model, &["ada"]);
    let folder = home.file("workspaces/ada/deliverables/findings/main");
    std::fs::create_dir_all(&folder).unwrap();
    for n in 0..200 {
        std::fs::write(folder.join(format!("finding_{n:03}.md")), "found").unwrap();
    }
    let mut first = gateway(&home, &format!("{:?}", FaultPoint::Compacted));
    until_answering(&home);
    for n in 0..4 {
        home.flock(["chat", "ada", &format!("message {n}"), "--session", KEY]).ok();
    }
    let run = home.flock(["session", "compact", KEY]);
    assert_ne!(run.code, 0, "{run:?}");
    let status =
        wait_until("the gateway to die", LONG, || first.try_wait().unwrap().ok_or("it lives".to_owned()));
    assert_eq!(status.signal(), Some(9));

    let second = gateway(&home, "nowhere");
    until_answering(&home);
    home.flock(["chat", "ada", "and now?", "--session", KEY]).ok();
    let last = model.requests().pop().unwrap().body.to_string();
    assert!(last.contains("message 0") && last.contains("and now?") && !last.contains("message 1"), "{last}");
    assert!(last.contains("200 files in /workspace/deliverables/findings/main/"), "{last}");
    let again = home.flock(["session", "compact", KEY, "--json"]).ok().json();
    assert_eq!(again["compacted"]["number"], 2, "the first one counts: {again}");
    end(second);
}

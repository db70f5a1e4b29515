//! The gateway is killed in the middle of indexing. The next search finds everything, and nothing twice.

use std::os::unix::process::ExitStatusExt as _;

use super::{LONG, end, gateway};
use crate::support::home::TempHome;
use crate::support::wait_until;

#[test]
fn a_kill_in_the_middle_of_indexing_leaves_an_index_that_goes_on() {
    let home = TempHome::new().init();
    home.flock(["add", "ada", "--no-container"]).ok();
    std::fs::create_dir_all(home.file("workspaces/ada/memory")).unwrap();
    for n in 0..3 {
        std::fs::write(home.file(format!("workspaces/ada/memory/{n}.md")), format!("the zebra number {n}"))
            .unwrap();
    }
    std::fs::write(home.file("vaults/shared/animals.md"), "a zebra in the vault").unwrap();
    home.flock(["channel", "create", "dev", "--topic", "work", "--member", "human:ann"]).ok();
    for n in 0..4 {
        home.flock(["channel", "post", "dev", &format!("zebra post {n}"), "--as", "ann"]).ok();
    }
    let mut step = 1;
    loop {
        for ending in ["", "-wal", "-shm"] {
            drop(std::fs::remove_file(home.file(format!("data/search.db{ending}"))));
        }
        let mut child = gateway(&home, &format!("Indexing:{step}"));
        wait_until("the gateway answers", LONG, || {
            let run = home.flock(["status", "--json"]);
            if run.code == 0 || child.try_wait().unwrap().is_some() {
                Ok(())
            } else {
                Err(format!("{run:?}"))
            }
        });
        let run = home.flock(["search", "zebra", "--json"]);
        if run.code == 0 && child.try_wait().unwrap().is_none() {
            assert_eq!(run.json()["results"].as_array().unwrap().len(), 8, "{run:?}");
            end(child);
            break;
        }
        let status =
            wait_until("the gateway to die", LONG, || child.try_wait().unwrap().ok_or(format!("{run:?}")));
        assert_eq!(status.signal(), Some(9), "{run:?}");
        let found = home.flock(["search", "zebra", "--json"]).ok().json();
        assert_eq!(found["results"].as_array().unwrap().len(), 8, "after step {step}: {found}");
        step += 1;
    }
    assert!(step >= 6, "it was killed after each source: {step}");
}

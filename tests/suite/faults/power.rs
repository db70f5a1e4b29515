//! What a disk leaves that lost writes, as in a power cut: the database of one moment with the transcripts of another,
//! and with an end of the audit that was written down at a third. Each start settles what does not fit and says so.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::storage::{ask, is_settled, running, slowly, store, with_agent};
use crate::support::database::SavedDatabase;
use crate::support::docker::block_on;
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, log_text, said, transcripts};

/// What is written by itself beside the database, and can so be lost by itself.
const PARTS: [&[&str]; 2] = [&["agents/coder/sessions", "agents/tester/sessions"], &["data/audit.head"]];

fn copy(from: &Path, to: &Path, files: &[&str]) {
    for file in files {
        drop(std::fs::remove_dir_all(to.join(file)));
        drop(std::fs::remove_file(to.join(file)));
        if from.join(file).exists() {
            std::fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
            let copied = Command::new("cp").arg("-a").args([from.join(file), to.join(file)]).status();
            assert!(copied.unwrap().success());
        }
    }
}

/// Keeps everything of this moment in a folder, but for a database on a server. Returns that of the database.
fn save(home: &TempHome, to: &Path) -> SavedDatabase {
    PARTS.iter().for_each(|files| copy(&home.path(), to, files));
    home.database().saved(to)
}

/// Has something of each kind done, named by the moment.
fn use_it(home: &TempHome, moment: &str) -> String {
    is_answered(home, &format!("@coder are you there at {moment}?"));
    home.flock(["chat", "coder", &format!("are you there in private at {moment}?")]).ok();
    let task = ask(home, &format!("are you there for a task at {moment}?"));
    is_settled(home);
    task
}

/// Says this in the channel and waits for the answer.
fn is_answered(home: &TempHome, text: &str) {
    home.flock(["channel", "post", "work", text]).ok();
    wait_until("it is answered", LIMIT, || {
        let all = said(home, "work");
        let asked = all.iter().position(|(_, said)| said == text);
        let is_answered = |at: usize| all[at..].iter().any(|(by, _)| by == "coder");
        if asked.is_some_and(is_answered) { Ok(()) } else { Err(format!("{all:?}\n{}", log_text(home))) }
    });
}

fn lost(home: &TempHome) -> Option<String> {
    let found = home.flock(["doctor", "--json"]).json();
    let checks = found["checks"].as_array().unwrap().iter();
    let says = |check: &Value| {
        let text = check["message"].as_str().unwrap_or_default();
        (check["state"] != "ok" && text.contains("the disk lost writes")).then(|| text.to_owned())
    };
    let all: Vec<String> = checks.filter_map(says).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

fn positions_past_the_end(home: &TempHome) -> i64 {
    let query = "SELECT count(*) FROM delivery JOIN channel ON channel.id = delivery.channel
               WHERE delivered_seq > (SELECT max(seq) FROM message WHERE message.channel = delivery.channel)
               OR last_seq > (SELECT max(seq) FROM message WHERE message.channel = delivery.channel)";
    home.database().number(query)
}

#[test]
fn every_mixture_of_older_and_newer_files_is_settled_and_said() {
    let home = with_agent(TempHome::new().init());
    let root = home.path();
    let [first, second] = ["first", "second"].map(|name| home.outside().join(name));
    let served = Served::start(&home);
    let mut tasks = vec![use_it(&home, "first")];
    served.stop();
    let first_database = save(&home, &first);
    let served = Served::start(&home);
    tasks.push(use_it(&home, "second"));
    // And what is in the middle of something.
    home.flock(["channel", "post", "work", &format!("@coder {}", slowly(3))]).ok();
    tasks.push(ask(&home, &slowly(3)));
    wait_until("both turns run", LIMIT, || match running(&home) {
        2 => Ok(()),
        count => Err(format!("{count}\n{}", log_text(&home))),
    });
    served.kill();
    let second_database = save(&home, &second);

    for mixture in 0..8_u32 {
        let is_older = |part: usize| mixture & (1 << part) != 0;
        home.database().bring_back(if is_older(0) { &first_database } else { &second_database });
        for (part, files) in (1..).zip(PARTS) {
            copy(if is_older(part) { &first } else { &second }, &root, files);
        }
        let case = format!("database, transcripts, head: {:?} are older", [0, 1, 2].map(is_older));
        let served = Served::start(&home);
        is_settled(&home);
        // A task may be given out again only after the turns that were cut off are settled.
        for id in &tasks {
            wait_until("each task has ended", LIMIT, || {
                match block_on(store(&home).tasks().find(id)).unwrap() {
                    Some(task) if !task.state.is_final() => {
                        Err(format!("{case}: {task:?}\n{}", log_text(&home)))
                    }
                    _ => Ok(()),
                }
            });
        }
        let is_said = lost(&home);
        let does_not_fit = is_older(0) != is_older(1) || is_older(0) && !is_older(2);
        assert_eq!(is_said.is_some(), does_not_fit, "{case}: {is_said:?}\n{}", log_text(&home));
        if is_older(1) && !is_older(0) {
            // What the transcript lost of the channel is shown once more.
            wait_until("it is shown again", LIMIT, || {
                let seen = transcripts(&home, "coder").join("\n");
                if seen.contains("are you there at second?") {
                    Ok(())
                } else {
                    Err(format!("{case}: {seen}"))
                }
            });
        }
        is_answered(&home, &format!("@coder are you there after {mixture}?"));
        assert_eq!(home.flock(["chat", "coder", "are you there now?"]).ok().stdout, "here I am\n", "{case}");
        is_settled(&home);
        assert_eq!(positions_past_the_end(&home), 0, "{case}");
        served.stop();
    }
}

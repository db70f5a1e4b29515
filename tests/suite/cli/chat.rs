//! `flock chat` at a terminal: what its line editor does, and how the terminal is left.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::LocalFlags;
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::home::TempHome;
use crate::support::terminal::Terminal;
use crate::support::wait_until;
use crate::team::stage::{Served, add};

const ENTER: &str = "\r";
const UP: &str = "\u{1b}[A";
const LEFT: &str = "\u{1b}[D";
const TAB: &str = "\t";
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const LIMIT: Duration = Duration::from_secs(60);
/// What the editor writes when it begins to read.
const READS: &str = "\u{1b}[?2004h";

/// A home with the agents `coder` and `scout`, and a gateway.
fn house() -> (TempHome, Served) {
    let home = TempHome::new().init();
    let slow =
        json!({"when": "slowly", "steps": [{"pace_ms": 100, "say": "one two three four five six seven"}]});
    let long = json!({"when": "for ever", "steps": [{"say": "perhaps it begins and ", "pace_ms": 1000}]});
    add(&home, "coder", &json!([slow, long, {"steps": [{"say": "I heard that"}]}]));
    add(&home, "scout", &json!([{"steps": [{"say": "scout here"}]}]));
    let served = Served::start(&home);
    (home, served)
}

fn chat(home: &TempHome) -> Terminal {
    Terminal::controlling(home, &["chat", "coder"])
}

/// What the person said to `coder`, in order.
fn said(home: &TempHome) -> Vec<String> {
    let folder = home.file("agents/coder/sessions");
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for line in files.flat_map(|path| {
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    }) {
        texts(&serde_json::from_str(&line).unwrap(), &mut found);
    }
    found
}

fn texts(value: &Value, found: &mut Vec<String>) {
    if value["role"] == "user" {
        let blocks = value["content"].as_array().into_iter().flatten();
        found.extend(blocks.filter_map(|block| block["text"].as_str().map(str::to_owned)));
        found.extend(value["content"].as_str().map(str::to_owned));
    } else if let Some(object) = value.as_object() {
        object.values().for_each(|value| texts(value, found));
    }
}

#[test]
fn a_pasted_block_is_one_message_that_is_called_back_in_the_next_chat() {
    let (home, _served) = house();
    let mut terminal = chat(&home);
    terminal.at(READS, "\u{1b}[200~first line\r\nsecond\tone\u{1b}[201~");
    terminal.at("second", ENTER);
    terminal.at("I heard that", "");
    terminal.at_number(2, READS, CTRL_D);
    assert_eq!(terminal.end().0, 0);
    assert_eq!(said(&home), ["first line\nsecond\tone"]);
    let history = home.file("data/chat-history.jsonl");
    assert_eq!(std::fs::read_to_string(&history).unwrap(), "\"first line\\nsecond\\tone\"\n");
    assert_eq!(std::fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);

    let mut terminal = chat(&home);
    terminal.at(READS, UP);
    terminal.at("second", ENTER);
    terminal.at("I heard that", "");
    // The cursor moves: x, left, y.
    terminal.at_number(2, READS, &format!("ax{LEFT}y{ENTER}"));
    terminal.at_number(2, "I heard that", "");
    terminal.at_number(3, READS, &format!(" secretly{ENTER}"));
    terminal.at_number(3, "I heard that", "");
    terminal.at_number(4, READS, CTRL_D);
    assert_eq!(terminal.end().0, 0);
    assert_eq!(said(&home)[1..], ["first line\nsecond\tone", "ayx", " secretly"]);
    assert!(!std::fs::read_to_string(&history).unwrap().contains("secretly"));
}

#[test]
fn tab_completes_commands_agents_and_channels() {
    let (home, _served) = house();
    home.flock(["channel", "create", "release", "--topic", "x"]).ok();
    let mut terminal = chat(&home);
    terminal.at(READS, &format!("/cont{TAB}"));
    terminal.at("/context ", ENTER);
    terminal.at("Nothing was said in this session yet.", "");
    terminal.at_number(2, READS, &format!("tell @sc{TAB}of #rel{TAB}now{ENTER}"));
    terminal.at("I heard that", "");
    terminal.at_number(3, READS, &format!("/agent sc{TAB}{ENTER}"));
    terminal.at("scout · script/scout", "");
    terminal.at_number(4, READS, &format!("hello{ENTER}"));
    terminal.at("scout here", "");
    terminal.at_number(5, READS, &format!("/agent nobody{ENTER}"));
    terminal.at("there is no agent nobody", "");
    terminal.at_number(6, READS, &format!("/help{ENTER}"));
    terminal.at("Ctrl-V Ctrl-J", "");
    terminal.at_number(7, READS, &format!("/quit{ENTER}"));
    assert_eq!(terminal.end().0, 0);
    assert!(said(&home).contains(&"tell @scout of #release now".to_owned()), "{:?}", said(&home));
}

#[test]
fn what_is_typed_while_an_answer_streams_waits_for_the_prompt() {
    let (home, _served) = house();
    let mut terminal = chat(&home);
    terminal.at(READS, &format!("slowly{ENTER}"));
    terminal.at("one", &format!("and then{ENTER}a third{ENTER}"));
    terminal.at_number(2, "I heard that", "");
    terminal.at_number(4, READS, CTRL_D);
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("one two three four five six seven"), "the answer is whole: {seen:?}");
    assert_eq!(said(&home), ["slowly", "and then", "a third"]);
}

#[test]
fn ctrl_c_drops_the_line_or_the_answer_and_ends_the_chat_the_second_time() {
    let (home, _served) = house();
    let mut terminal = chat(&home);
    let before = terminal.modes();
    terminal.at(READS, "never said");
    terminal.at("never said", CTRL_C);
    terminal.at_number(2, READS, &format!("for ever{ENTER}"));
    terminal.at("perhaps", CTRL_C);
    terminal.at("stopped", "");
    terminal.at_number(3, READS, &format!("still there?{ENTER}"));
    terminal.at("I heard that", "");
    terminal.at_number(4, READS, CTRL_C);
    terminal.at_number(1, "press Ctrl-C again", "dropped, too");
    terminal.at("dropped, too", CTRL_C);
    terminal.at_number(6, READS, CTRL_C);
    terminal.at_number(2, "press Ctrl-C again", "");
    terminal.at_number(7, READS, CTRL_C);
    let modes = wait_for_end(&terminal);
    assert_eq!(modes, before);
    assert_eq!(terminal.end().0, 130);
    assert_eq!(said(&home), ["for ever", "still there?"]);
}

/// The modes at the end of the program.
fn wait_for_end(terminal: &Terminal) -> nix::sys::termios::Termios {
    let pid = terminal.child.id();
    wait_until("the end", LIMIT, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.contains(") Z ") || stat.is_empty() { Ok(()) } else { Err(stat) }
    });
    terminal.modes()
}

#[test]
fn the_terminal_is_given_back_however_the_chat_ends() {
    let (home, _served) = house();
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGQUIT, 131)] {
        for is_asking in [false, true] {
            let mut terminal = chat(&home);
            let before = terminal.modes();
            assert!(before.local_flags.contains(LocalFlags::ECHO | LocalFlags::ICANON));
            if is_asking {
                terminal.at(READS, &format!("for ever{ENTER}"));
                terminal.at("perhaps", "");
            } else {
                terminal.at(READS, "half a li");
                terminal.at("half a li", "");
            }
            assert!(!terminal.modes().local_flags.contains(LocalFlags::ECHO));
            kill(Pid::from_raw(terminal.child.id().cast_signed()), signal).unwrap();
            assert_eq!(wait_for_end(&terminal), before, "{signal} {is_asking}");
            wait_until("pastes are not bracketed any more", LIMIT, || {
                let seen = terminal.seen.lock().unwrap();
                if seen.rfind("\u{1b}[?2004l") > seen.rfind(READS) { Ok(()) } else { Err(seen.clone()) }
            });
            let (ended, seen) = terminal.end();
            assert_eq!(ended, code, "{seen}");
        }
    }
    let history = home.file("data/chat-history.jsonl");
    std::fs::remove_file(&history).unwrap();
    std::fs::create_dir(&history).unwrap();
    let mut terminal = chat(&home);
    let before = terminal.modes();
    terminal.at("failed to read the input history", "");
    terminal.at(READS, &format!("hello{ENTER}"));
    terminal.at("I heard that", "");
    terminal.at_number(2, READS, CTRL_D);
    assert_eq!(wait_for_end(&terminal), before);
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn what_is_pasted_steers_no_terminal_and_arrives_as_it_is() {
    let (home, _served) = house();
    let mut terminal = chat(&home);
    let evil = "a\u{9b}2Jb\u{7}c\u{202e}d";
    terminal.at(READS, &format!("\u{1b}[200~{evil}\u{1b}[201~"));
    terminal.at("2Jb", ENTER);
    terminal.at("I heard that", "");
    terminal.at_number(2, READS, UP);
    terminal.at_number(2, "2Jb", CTRL_D);
    terminal.press(CTRL_C);
    terminal.at_number(3, READS, CTRL_D);
    let (_, seen) = terminal.end();
    assert!(!seen.contains(['\u{9b}', '\u{7}', '\u{202e}']), "{seen:?}");
    assert_eq!(said(&home), [evil]);
}

#[test]
fn without_a_terminal_that_can_be_edited_on_lines_are_read_as_before() {
    let (home, _served) = house();
    let run = home.flock_with_input(["chat", "coder"], "one\ntwo\n").ok();
    assert!(run.stdout.contains("I heard that") && !run.stdout.contains('\u{1b}'), "{run:?}");
    assert_eq!(said(&home), ["one\ntwo\n"]);
    let mut terminal = Terminal::new(&home, &["chat", "coder"], &[("TERM", "dumb")]);
    terminal.at("> ", "three\n");
    terminal.at("I heard that", CTRL_D);
    let (code, seen) = terminal.end();
    assert!(code == 0 && !seen.contains('\u{1b}'), "{seen:?}");
    assert!(!home.file("data/chat-history.jsonl").exists());
}

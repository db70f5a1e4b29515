//! `flock top`: on a terminal of its own, and as JSON.

use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use nix::pty::Winsize;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::home::TempHome;
use crate::support::terminal::Terminal;
use crate::support::wait_until;
use crate::team::stage::{Served, add, play};

const LIMIT: Duration = Duration::from_secs(60);

fn house() -> (TempHome, Served) {
    let home = TempHome::new().init();
    add(&home, "coder", &json!([{"steps": [{"say": "I heard that"}]}]));
    let served = Served::start(&home);
    (home, served)
}

fn resize(terminal: &Terminal, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is a terminal's, and the size lives until the call returns.
    let set = unsafe { nix::libc::ioctl(terminal.keys.as_raw_fd(), nix::libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(set, 0);
}

/// Waits until a word is shown after a place in what was written.
fn shows(terminal: &Terminal, after: usize, word: &str) {
    // A frame is written whole only on a screen of a new size. Otherwise letters that are there already are left out.
    let (mut rows, mut resized) = (20, None::<Instant>);
    wait_until(word, LIMIT, || {
        // A screen that changes all the time leaves no time for anything else.
        if resized.is_none_or(|at| at.elapsed() > Duration::from_millis(200)) {
            rows = 20 + (rows + 1) % 20;
            resize(terminal, rows, 100);
            resized = Some(Instant::now());
        }
        let seen = terminal.seen.lock().unwrap();
        let last = &seen[seen.floor_char_boundary(seen.len().saturating_sub(4000))..];
        if seen[after..].contains(word) { Ok(()) } else { Err(last.to_owned()) }
    });
}

fn length(terminal: &Terminal) -> usize {
    terminal.seen.lock().unwrap().len()
}

/// The only agent that is frozen.
fn is_frozen(home: &TempHome) -> Result<String, String> {
    let listed = home.flock(["list", "--json"]).ok().json();
    let agents = listed["agents"].as_array().unwrap();
    let frozen: Vec<_> = agents.iter().filter(|agent| !agent["frozen"].is_null()).collect();
    match frozen.as_slice() {
        [one] => Ok(one["id"].as_str().unwrap().to_owned()),
        _ => Err(listed.to_string()),
    }
}

#[test]
fn a_key_freezes_an_agent_and_the_terminal_is_left_as_it_was() {
    let (home, _served) = house();
    let mut terminal = Terminal::controlling(&home, &["top"]);
    // The program changes them when it begins, and a new terminal always has the same.
    let before = Terminal::controlling(&home, &["--version"]).modes();
    terminal.at("coder", "f");
    wait_until("a frozen agent", LIMIT, || is_frozen(&home));
    terminal.at("frozen", "");
    terminal.press("?");
    shows(&terminal, 0, "arrows");
    terminal.press("?");
    terminal.press("q");
    wait_until("the end", LIMIT, || {
        terminal.child.try_wait().unwrap().ok_or_else(|| terminal.seen.lock().unwrap().clone())
    });
    assert_eq!(terminal.modes(), before);
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    let last = |what: &str| seen.rfind(what).unwrap_or_else(|| panic!("{what:?} in {seen:?}"));
    assert!(last("\u{1b}[?1049l") > last("\u{1b}[?1049h") && last("\u{1b}[?25h") > last("\u{1b}[?25l"));
}

#[test]
fn a_key_counts_that_comes_with_another_size() {
    let (home, _served) = house();
    let mut terminal = Terminal::controlling(&home, &["top"]);
    terminal.at("coder", "");
    for round in 0..20 {
        let before = length(&terminal);
        resize(&terminal, 10 + round % 2, 40);
        terminal.press("?");
        shows(&terminal, before, "arrows");
        terminal.press("?");
    }
    // Nothing else ends it: the terminal stays open here, so it gets no hang-up.
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn the_mouse_is_used_only_if_that_is_wanted() {
    let (home, _served) = house();
    let mut plain = Terminal::controlling(&home, &["top"]);
    plain.at("coder", "q");
    assert!(!plain.end().1.contains("\u{1b}[?1000h"));
    let mut terminal = Terminal::controlling(&home, &["top", "--mouse"]);
    // A turn of the wheel, as a terminal reports it, and a key at once after it.
    terminal.at("orchestrator", "\u{1b}[<65;1;1Mf");
    let frozen = wait_until("a frozen agent", LIMIT, || is_frozen(&home));
    assert_eq!(frozen, "orchestrator");
    terminal.press("q");
    let (code, seen) = terminal.end();
    assert!(code == 0 && seen.contains("\u{1b}[?1000h"), "{code} {seen:?}");
    let last = |what: &str| seen.rfind(what).unwrap_or_else(|| panic!("{what:?} in {seen:?}"));
    assert!(last("\u{1b}[?1000l") > last("\u{1b}[?1000h"), "the terminal has the mouse again");
}

#[test]
fn a_signal_restores_the_terminal() {
    let (home, _served) = house();
    let mut terminal = Terminal::controlling(&home, &["top"]);
    terminal.at("coder", "");
    kill(Pid::from_raw(terminal.child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let (code, seen) = terminal.end();
    assert!(code == 0 && seen.contains("\u{1b}[?1049l"), "{code} {seen}");
}

/// The state of a process, as the kernel names it.
fn state(terminal: &Terminal) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", terminal.child.id())).unwrap();
    stat.rsplit_once(") ").unwrap().1[..1].to_owned()
}

#[test]
fn suspended_it_leaves_the_terminal_and_takes_it_again() {
    let (home, _served) = house();
    let mut terminal = Terminal::controlling(&home, &["top"]);
    let before = Terminal::controlling(&home, &["--version"]).modes();
    terminal.at("coder", "\u{1a}");
    wait_until("it is stopped", LIMIT, || match state(&terminal).as_str() {
        "T" => Ok(()),
        other => Err(other.to_owned()),
    });
    assert_eq!(terminal.modes(), before);
    // The end of what it wrote may still be on its way through the terminal.
    wait_until("the screen is left", LIMIT, || {
        let seen = terminal.seen.lock().unwrap();
        if seen.trim_end().ends_with("\u{1b}[?1049l") { Ok(()) } else { Err(seen.clone()) }
    });
    let stopped = length(&terminal);
    kill(Pid::from_raw(terminal.child.id().cast_signed()), Signal::SIGCONT).unwrap();
    shows(&terminal, stopped, "coder");
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn it_finds_the_gateway_again_that_was_killed() {
    let (home, served) = house();
    let mut terminal = Terminal::controlling(&home, &["top"]);
    terminal.at("coder", "");
    let before = length(&terminal);
    served.kill();
    // Of "the gateway is not running" or "the gateway ended", because of which it looks for it again.
    shows(&terminal, before, "gateway");
    let _again = Served::start(&home);
    home.flock(["freeze", "coder"]).ok();
    shows(&terminal, before, "frozen");
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_request_is_read_and_approved() {
    let home = TempHome::new().init();
    let request = json!({"kind": "egress", "host": "wanted.example.org", "reason": "for the test"});
    let call = json!({"calls": [{"name": "flock_sysadmin_request", "arguments": request}]});
    play(
        &home,
        "asker",
        &json!([{"when": "go", "steps": [call, {"say": "asked"}]}, {"steps": [{"say": ""}]}]),
    );
    home.flock(["add", "asker", "--no-container", "--model", "script/asker", "--network", "proxy"]).ok();
    let _served = Served::start(&home);
    home.flock(["chat", "asker", "go"]).ok();
    let listed = || home.flock(["approvals", "list", "--all", "--json"]).ok().json();
    let waits = |listed: &Value| listed["requests"][0]["state"] == "waiting";
    wait_until("a request that waits", LIMIT, || {
        let listed = listed();
        if waits(&listed) { Ok(()) } else { Err(listed.to_string()) }
    });
    let mut terminal = Terminal::controlling(&home, &["top"]);
    // The agent that asks is the first one, which is selected.
    terminal.at("asker", "a");
    shows(&terminal, 0, "wanted.example.org");
    // It is read to its end, and the question is answered.
    resize(&terminal, 40, 100);
    for key in [" ", " ", " ", "a"] {
        terminal.press(key);
    }
    shows(&terminal, 0, "y/n");
    terminal.press("y");
    wait_until("the approval", LIMIT, || {
        let listed = listed();
        let state = listed["requests"][0]["state"].as_str().unwrap().to_owned();
        if matches!(state.as_str(), "approved" | "done") { Ok(()) } else { Err(listed.to_string()) }
    });
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn without_a_terminal_it_prints_json_or_says_what_to_use() {
    let home = TempHome::new().init();
    let refused = home.flock(["top"]).fails(2);
    assert!(
        refused.stderr.contains("flock status") && refused.stderr.contains("flock top --json"),
        "{refused:?}"
    );
    home.flock(["top", "--json"]).fails(4);
    add(&home, "coder", &json!([{"steps": [{"say": "I heard that"}]}]));
    let _served = Served::start(&home);
    let shown = home.flock(["top", "--json"]).ok().json();
    assert!(shown["agents"].as_array().unwrap().iter().any(|agent| agent["id"] == "coder"), "{shown}");
    assert!(shown["gateway"]["turns"]["running"].is_u64() && shown["usage"]["agents"].is_array(), "{shown}");
}

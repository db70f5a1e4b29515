//! What the program does for a person at a terminal: it asks, with the answers given here as keys.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::pty::{Winsize, openpty};

use crate::support::home::TempHome;
use crate::support::wait_until;

/// The binary on a terminal of its own.
struct Terminal {
    child: Child,
    keys: File,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    fn new(home: &TempHome, args: &[&str], env: &[(&str, &str)]) -> Self {
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let mut command = home.command();
        command.args(args).env("TERM", "xterm").envs(env.iter().copied());
        command.stdin(end(&pty.slave)).stdout(end(&pty.slave)).stderr(end(&pty.slave));
        let child = command.spawn().unwrap();
        drop(command);
        drop(pty.slave);
        let keys = File::from(pty.master);
        let mut screen = keys.try_clone().unwrap();
        let seen = Arc::new(Mutex::new(String::new()));
        let writer = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // A terminal whose program has ended gives an error, not an end.
            while let Ok(count) = screen.read(&mut buffer) {
                writer.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { child, keys, seen }
    }

    /// Waits for a text and then presses keys.
    fn at(&mut self, text: &str, keys: &str) {
        wait_until(text, Duration::from_secs(20), || {
            let seen = self.seen.lock().unwrap();
            if seen.contains(text) { Ok(()) } else { Err(seen.clone()) }
        });
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn end(mut self) -> (i32, String) {
        let status = wait_until("the end", Duration::from_secs(20), || {
            self.child.try_wait().unwrap().ok_or_else(|| self.seen.lock().unwrap().clone())
        });
        (status.code().unwrap(), self.seen.lock().unwrap().clone())
    }
}

const DOWN: &str = "\u{1b}[B";
const ENTER: &str = "\r";
const CTRL_C: &str = "\u{3}";

#[test]
fn init_asks_for_the_model_and_offers_the_demo() {
    let home = TempHome::new();
    let mut terminal = Terminal::new(&home, &["init", "--no-images"], &[("OPENAI_API_KEY", "sk-planted")]);
    // The demo comes after what was found.
    terminal.at("OPENAI_API_KEY is set", DOWN);
    terminal.at("to try flock without an account", ENTER);
    terminal.at("Add the OpenClaw gateway", ENTER);
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    assert_eq!(home.config()["agents"]["defaults"]["model"]["primary"], "script/demo", "{seen}");
    assert!(!seen.contains("sk-planted"), "{seen}");
}

#[test]
fn a_key_is_kept_for_who_says_yes() {
    for (answer, kept) in [("y", true), ("n", false)] {
        let home = TempHome::new();
        let mut terminal =
            Terminal::new(&home, &["init", "--no-images"], &[("OPENAI_API_KEY", "sk-planted")]);
        terminal.at("OPENAI_API_KEY is set", ENTER);
        terminal.at("Keep the key of OPENAI_API_KEY", answer);
        terminal.at("Add the OpenClaw gateway", ENTER);
        let (code, seen) = terminal.end();
        assert_eq!(code, 0, "{seen}");
        assert_eq!(home.file("secrets/openai").exists(), kept, "{seen}");
        assert!(!seen.contains("sk-planted"), "{seen}");
    }
}

#[test]
fn giving_up_makes_no_home() {
    let home = TempHome::new();
    let mut terminal = Terminal::new(&home, &["init", "--no-images"], &[]);
    terminal.at("Which model", "");
    // Before the program reads single keys, the terminal swallows this one.
    let mut keys = terminal.keys.try_clone().unwrap();
    wait_until("the end", Duration::from_secs(20), || {
        let _ = keys.write_all(CTRL_C.as_bytes());
        terminal.child.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
    });
    let (code, seen) = terminal.end();
    assert_eq!(code, 1, "{seen}");
    assert!(seen.contains("given up") && !home.file("config.json").exists(), "{seen}");
}

#[test]
fn purge_asks_and_takes_no_for_an_answer() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let mut terminal = Terminal::new(&home, &["remove", "coder", "--purge"], &[]);
    terminal.at("for good?", ENTER);
    let (code, seen) = terminal.end();
    assert_eq!(code, 1, "no is the default: {seen}");
    assert!(home.file("workspaces/coder").exists());
    let mut terminal = Terminal::new(&home, &["remove", "coder", "--purge"], &[]);
    terminal.at("for good?", "y");
    assert_eq!(terminal.end().0, 0);
    assert!(!home.file("workspaces/coder").exists());
}

#[test]
fn with_yes_nobody_is_asked() {
    let home = TempHome::new();
    let terminal = Terminal::new(&home, &["init", "--no-images", "--yes"], &[]);
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
}

#[test]
fn uninstall_shows_what_it_removes_and_asks() {
    let home = TempHome::new().init();
    let mut terminal = Terminal::new(&home, &["uninstall", "--purge"], &[]);
    terminal.at("Remove all this for good?", ENTER);
    terminal.at("nothing was removed", "");
    let (code, seen) = terminal.end();
    assert_eq!(code, 1, "no is what it takes for an answer: {seen}");
    assert!(seen.contains("workspaces, agents"), "{seen}");
    assert!(home.file("config.json").exists());
    let mut terminal = Terminal::new(&home, &["uninstall", "--purge"], &[]);
    terminal.at("Remove all this for good?", "y");
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    assert!(!home.path().exists());
}

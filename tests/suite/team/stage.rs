//! A home with agents that follow scripts, and a gateway of it as a process.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::home::TempHome;
use crate::support::wait_until;

pub const LIMIT: Duration = Duration::from_secs(60);

/// `flock gateway serve` of a home; killed when dropped.
pub struct Served(Child);

impl Served {
    /// Starts it and waits until it answers.
    pub fn start(home: &TempHome) -> Self {
        Self::start_as(home, home.command())
    }

    /// The same by a command of the test's own, which is given the verb.
    pub fn start_as(home: &TempHome, mut command: Command) -> Self {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(home.outside().join("gateway.log"))
            .unwrap();
        let child = command
            .args(["gateway", "serve"])
            .env("FLOCK_LOG", "debug")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let served = Self(child);
        wait_until("the gateway answers", LIMIT, || {
            let run = home.flock(["status", "--json"]);
            if run.code == 0 { Ok(()) } else { Err(format!("{run:?}\n{}", log_text(home))) }
        });
        served
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends it as `flock stop` does, and waits for its end.
    pub fn stop(self) {
        self.end(Signal::SIGTERM);
    }

    /// Ends it as a crash does.
    pub fn kill(self) {
        self.end(Signal::SIGKILL);
    }

    fn end(mut self, how: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), how).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

pub fn log_text(home: &TempHome) -> String {
    std::fs::read_to_string(home.outside().join("gateway.log")).unwrap_or_default()
}

/// Adds a worker that follows a script of these replies.
pub fn add(home: &TempHome, agent: &str, replies: &Value) {
    play(home, agent, replies);
    home.flock(["add", agent, "--no-container", "--model", &format!("script/{agent}")]).ok();
}

/// Writes the script of an agent.
pub fn play(home: &TempHome, agent: &str, replies: &Value) {
    std::fs::create_dir_all(home.file("scripts")).unwrap();
    std::fs::write(home.file(format!("scripts/{agent}")), json!({"replies": replies}).to_string()).unwrap();
}

/// The authors and texts of a channel.
pub fn said(home: &TempHome, channel: &str) -> Vec<(String, String)> {
    let read = home.flock(["channel", "read", channel, "--json", "-n", "200"]).ok().json();
    let text = |message: &Value, key: &str| message[key].as_str().unwrap().to_owned();
    let messages = read["messages"].as_array().unwrap().iter();
    messages.map(|message| (text(message, "author"), text(message, "content"))).collect()
}

/// Waits until somebody has said this in a channel; gives all that was said.
pub fn until_said(home: &TempHome, channel: &str, author: &str, text: &str) -> Vec<(String, String)> {
    wait_until(&format!("{author} says {text:?}"), LIMIT * 2, || {
        let all = said(home, channel);
        let is_there = all.iter().any(|(by, said)| by == author && said.contains(text));
        if is_there { Ok(all) } else { Err(format!("{all:#?}\n{}", log_text(home))) }
    })
}

/// The texts of all transcripts of an agent, one each.
pub fn transcripts(home: &TempHome, agent: &str) -> Vec<String> {
    let Ok(folder) = std::fs::read_dir(home.file(format!("agents/{agent}/sessions"))) else {
        return Vec::new();
    };
    folder.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

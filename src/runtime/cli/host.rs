//! Programs on this machine itself, where a person chose that: as the user who runs flock, in the agent's workspace.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::env;
use crate::id::AgentId;
use crate::process::{self, ProcessId};
use crate::sandbox::{Piece, Run};

/// Set for a program and inherited by all it starts, over any change of session: how they are found again.
const MARK: &str = "FLOCK_TURN";

/// What it gets of flock's own environment: who and where the user is, language and time, the way to the network. Keys
/// of providers stay out: its models it asks through flock, or with its own login.
const PASSED: [&str; 16] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
];

/// Whether what runs on the host is root there.
#[must_use]
pub fn is_root() -> bool {
    nix::unistd::getuid().is_root()
}

/// The command that has an agent's turns run in its sandbox again.
#[must_use]
pub fn off(agent: &AgentId) -> String {
    format!("flock config unset plugins.entries.flock.config.gatewayAgents[{agent}].onHost")
}

/// The environment of a program on the host, before its own.
#[must_use]
pub fn environment() -> Vec<(OsString, OsString)> {
    let passes = |name: &OsString| {
        name.to_str().is_some_and(|name| {
            PASSED.contains(&name) || env::NETWORK.contains(&name) || name.starts_with("LC_")
        })
    };
    let mut passed: Vec<_> = env::inherited().filter(|(name, _)| passes(name)).collect();
    // What opens flock's relay and tools goes to no proxy.
    for name in ["NO_PROXY", "no_proxy"] {
        let known = passed.iter_mut().find(|(known, _)| known == name);
        match known {
            Some((_, hosts)) if hosts.is_empty() => hosts.push(LOOPBACK),
            Some((_, hosts)) => {
                hosts.push(",");
                hosts.push(LOOPBACK);
            }
            None => passed.push((name.into(), LOOPBACK.into())),
        }
    }
    passed
}

/// Runs a program to its end and gives its exit code, or 128 and the signal. Dropping the future kills it with all it
/// has started. `home` is the digest of the home it runs for.
///
/// # Errors
///
/// If it can't be started or heard.
pub async fn attend(
    run: &Run,
    folder: &Path,
    home: &str,
    heard: &mut (dyn FnMut(Piece<'_>) + Send),
) -> io::Result<i32> {
    let Some((file, arguments)) = run.command.split_first() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let mark = format!("{home}.{:016x}", rand::random::<u64>());
    let mut command = Command::new(file);
    command.args(arguments).current_dir(folder).env_clear().envs(environment());
    command.envs(run.env.iter().map(|(name, value)| (name, value))).env(MARK, &mark);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C in the terminal that flock was started from is not for it.
    command.process_group(0).kill_on_drop(true);
    let mut tree = Tree(Some(format!("{MARK}={mark}")));
    let mut child = command.spawn()?;
    let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut input), Some(mut out), Some(mut err)) = (input, out, err) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let feed = async move {
        // A program may end without reading all of it.
        let _ = input.write_all(&run.input).await;
        drop(input);
        std::future::pending::<()>().await;
    };
    let read = async {
        let (mut out_bytes, mut err_bytes) = (vec![0; PIECE], vec![0; PIECE]);
        let (mut out_open, mut err_open) = (true, true);
        while out_open || err_open {
            tokio::select! {
                read = out.read(&mut out_bytes), if out_open => match read? {
                    0 => out_open = false,
                    read => heard(Piece::Out(&out_bytes[..read])),
                },
                read = err.read(&mut err_bytes), if err_open => match read? {
                    0 => err_open = false,
                    read => heard(Piece::Err(&err_bytes[..read])),
                },
            }
        }
        Ok::<(), io::Error>(())
    };
    let ended = async {
        let status = child.wait().await;
        // What it left behind may hold its streams open.
        tokio::time::sleep(LAST_WORDS).await;
        status
    };
    let status = tokio::select! {
        status = ended => status?,
        () = feed => child.wait().await?,
        read = read => { read?; child.wait().await? }
    };
    tree.0 = None;
    Ok(status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(-1))
}

/// Ends what programs of this home left on the host when the process that ran them was killed.
pub fn sweep(home: &str) {
    let mark = format!("{MARK}={home}.");
    kill_all(|variable| variable.starts_with(mark.as_bytes()));
}

/// All that a program has started, killed when this is dropped.
struct Tree(Option<String>);

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(mark) = self.0.take() {
            kill_all(|variable| variable == mark.as_bytes());
        }
    }
}

/// This process and those that it descends from: where a program on the host has started flock, they have its mark.
fn own_line() -> Vec<i32> {
    let mut line = vec![ProcessId::current().pid];
    while let Some(parent) =
        line.last().and_then(|pid| process::parent(*pid)).filter(|pid| *pid > 1 && !line.contains(pid))
    {
        line.push(parent);
    }
    line
}

/// Kills every process of this user with such a variable. Rounds, because a process that forks without end makes new ones
/// while the old are killed.
fn kill_all(marked: impl Fn(&[u8]) -> bool) {
    let spared = own_line();
    for _ in 0..MOST_ROUNDS {
        let Ok(processes) = fs_err::read_dir("/proc") else { return };
        let found: Vec<Pid> = processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| !spared.contains(pid))
            .filter(|pid: &i32| {
                fs_err::read(format!("/proc/{pid}/environ"))
                    .is_ok_and(|all| all.split(|byte| *byte == 0).any(&marked))
            })
            .map(Pid::from_raw)
            .collect();
        if found.is_empty() {
            return;
        }
        for pid in &found {
            let _ = kill(*pid, Signal::SIGSTOP);
        }
        for pid in &found {
            let _ = kill(*pid, Signal::SIGKILL);
        }
    }
}

/// What no proxy is asked for.
const LOOPBACK: &str = "127.0.0.1,localhost";
/// Bytes that are read at once.
const PIECE: usize = 16 * 1024;
/// How long the streams of a process that has ended are still read.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(300);
/// How often is looked for what was started meanwhile.
const MOST_ROUNDS: usize = 50;

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::time::Duration;

    use super::*;

    fn sleeper(home: &str) -> std::process::Child {
        let mut command = std::process::Command::new("sleep");
        command.arg("4714").env(MARK, format!("{home}.0123")).process_group(0).spawn().unwrap()
    }

    #[tokio::test]
    async fn what_a_killed_gateway_left_is_ended_and_that_of_other_homes_stays() {
        let (own, other) =
            (format!("{:016x}", rand::random::<u64>()), format!("{:016x}", rand::random::<u64>()));
        let (mut left, mut stays) = (sleeper(&own), sleeper(&other));
        let has_begun = |child: &std::process::Child| {
            fs_err::read(format!("/proc/{}/cmdline", child.id())).is_ok_and(|line| line.starts_with(b"sleep"))
        };
        let begun = async {
            while !has_begun(&left) || !has_begun(&stays) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), begun).await.unwrap();
        sweep(&own);
        left.wait().unwrap();
        assert!(ProcessId::of(i32::try_from(stays.id()).unwrap()).is_some());
        stays.kill().unwrap();
        stays.wait().unwrap();
    }

    #[test]
    fn no_key_and_nothing_that_leads_a_program_elsewhere_is_passed_on() {
        for name in [
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "NODE_OPTIONS",
            "LD_PRELOAD",
            "FLOCK_HOME",
        ] {
            assert!(!PASSED.contains(&name) && !env::NETWORK.contains(&name), "{name}");
        }
    }
}

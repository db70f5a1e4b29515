//! The handover to util-linux's program of the same name.
//!
//! Called with a command line of that program, this process replaces itself with it. So scripts with
//! `flock -n /run/lock/x command` keep working if flock comes first on PATH.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Failure;
use crate::env;
use crate::error::Kind;

/// Returns `true` if the command line is meant for util-linux's `flock`.
///
/// Its first argument is then an option of that program, a file descriptor, a word with a slash or an existing path,
/// and no verb of this program. A folder with the name of a verb does not hide the verb.
pub(crate) fn is_for_util_linux(args: &[OsString], is_verb: impl Fn(&str) -> bool) -> bool {
    // Both programs have `--verbose`. The argument after it tells which one is meant.
    let Some(first) = args.iter().skip(1).find(|arg| *arg != "--verbose") else { return false };
    // A verb is always valid UTF-8, so such a word can only be a path.
    let Some(text) = first.to_str() else { return Path::new(first).exists() };
    if text.starts_with("--") {
        return is_foreign_long_option(text);
    }
    if let Some(cluster) = text.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
        return is_foreign_short_options(cluster);
    }
    if text.is_empty() || is_verb(text) {
        return false;
    }
    text.bytes().all(|byte| byte.is_ascii_digit()) || text.contains('/') || Path::new(text).exists()
}

/// Replaces this process with the next `flock` on PATH that is not this program. Returns only if that failed.
pub(crate) fn exec(args: &[OsString]) -> Failure {
    match try_exec(args) {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

/// Returns the next `flock` on PATH that is neither this program nor one that has handed over to this one.
pub(crate) fn other_flock() -> Option<PathBuf> {
    let path = env::PATH.get_os()?;
    let passed = visited_programs();
    which::which_in_all("flock", Some(path), "/")
        .ok()?
        .find(|found| found.canonicalize().is_ok_and(|real| !passed.contains(&real)))
}

fn try_exec(args: &[OsString]) -> Result<Infallible, Failure> {
    let Some(other) = other_flock() else {
        let word = args.get(1).map(|word| word.to_string_lossy()).unwrap_or_default();
        return Err(Failure::new(
            Kind::Usage,
            format!(
                "{word:?} is no verb of this flock, and the lock program of util-linux, which has the same \
                 name, is not on PATH"
            ),
        )
        .hint("flock --help"));
    };
    let mut passed = OsString::new();
    for path in visited_programs() {
        if !passed.is_empty() {
            passed.push(":");
        }
        passed.push(path);
    }
    let error = Command::new(&other).args(&args[1..]).env(env::HANDED_OVER.name, passed).exec();
    Err(Failure::with_cause(format!("failed to run {}", other.display()), &error))
}

/// Returns this program and those that handed over to it. Without the list two copies of flock would call each other
/// forever.
fn visited_programs() -> Vec<PathBuf> {
    let mut passed: Vec<PathBuf> = env::HANDED_OVER.get_os().map(|paths| split(&paths)).unwrap_or_default();
    if let Ok(own) = std::env::current_exe().and_then(|exe| exe.canonicalize())
        && !passed.contains(&own)
    {
        passed.push(own);
    }
    passed
}

fn split(paths: &OsStr) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    paths.as_bytes().split(|byte| *byte == b':').map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

/// Returns `true` for a long option of util-linux's flock. It may be shortened, unless it could then be one of ours.
fn is_foreign_long_option(text: &str) -> bool {
    let name = text[2..].split('=').next().unwrap_or_default();
    !name.is_empty()
        && !OWN_OPTIONS.iter().any(|ours| ours.starts_with(name))
        && UTIL_LINUX_OPTIONS.iter().any(|theirs| theirs.starts_with(name))
}

/// Returns `true` for short options of util-linux's flock, combined as in `-xn` or with a value as in `-w5`.
fn is_foreign_short_options(cluster: &str) -> bool {
    for (at, c) in cluster.char_indices() {
        match c {
            's' | 'x' | 'e' | 'u' | 'n' | 'o' | 'F' => {}
            // These options take a value, so the rest of the word can be anything.
            'w' | 'E' | 'c' => return true,
            // Both programs have `-h` and `-V`. Alone they are ours.
            'h' | 'V' if at > 0 => {}
            _ => return false,
        }
    }
    true
}

const UTIL_LINUX_OPTIONS: [&str; 14] = [
    "shared",
    "exclusive",
    "unlock",
    "nb",
    "nonblock",
    "nonblocking",
    "wait",
    "timeout",
    "close",
    "conflict-exit-code",
    "no-fork",
    "command",
    "fcntl",
    "start",
];

const OWN_OPTIONS: [&str; 8] = ["home", "json", "quiet", "verbose", "color", "yes", "help", "version"];

#[cfg(test)]
mod tests {
    use super::*;

    fn theirs(line: &str) -> bool {
        let args: Vec<OsString> = std::iter::once("flock").chain(line.split(' ')).map(Into::into).collect();
        is_for_util_linux(&args, |word| matches!(word, "list" | "init" | "start"))
    }

    #[test]
    fn util_linux_command_lines_are_recognised() {
        for line in [
            "-n /tmp/x true",
            "-xn /tmp/x true",
            "-w5 /tmp/x true",
            "--wait 5 /tmp/x true",
            "--wait=5 /tmp/x",
            "--nonb /tmp/x",
            "-c true",
            "9",
            "200",
            "/tmp",
            "/tmp/not-there-yet true",
            "./lock true",
            "--verbose /tmp/x true",
            "--verbose /tmp/x echo start",
            "--verbose -n /tmp/x echo list",
            "-u 9",
            "-n /tmp/x list",
        ] {
            assert!(theirs(line), "{line}");
        }
    }

    #[test]
    fn flock_command_lines_are_not_handed_over() {
        for line in [
            "",
            "list",
            "init --yes",
            "--help",
            "--version",
            "-h",
            "-V",
            "-q list",
            "-v list",
            "--verbose list",
            "--verbose --home /tmp list",
            "--verbose",
            "--home /tmp list",
            "--json list",
            "-y init",
            "lsit",
            "-",
            "--",
            "--color never list",
        ] {
            assert!(!theirs(line), "{line}");
        }
    }
}

//! How OpenClaw's gateway is started: its command line, and all of the environment that it gets.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::check::Program;
use super::derive::{Key, TOKEN_VARIABLE};
use crate::config::agents::STANDARD_PATH;
use crate::env;
use crate::supervise::child;
use crate::supervise::ending::Endings;
use crate::supervise::restart::Limits;
use crate::supervise::state::Exit;

/// Where it is told to read and write.
#[derive(Clone, Copy, Debug)]
pub struct Folders<'a> {
    /// Its configuration.
    pub config: &'a Path,
    /// Its state; its home folder too, so that it finds no settings or keys of the user's.
    pub state: &'a Path,
}

/// What is run. `secrets` are the variables that its configuration refers to; it gets no other key, and of flock's own
/// environment what is named in [`PASSED`].
#[must_use]
pub fn program(program: &Program, folders: Folders<'_>, secrets: &[(String, String)]) -> child::Program {
    let env = environment(env::inherited(), program, folders, secrets);
    child::Program {
        file: program.node.clone(),
        args: vec![program.entry.clone().into(), "gateway".into(), "run".into()],
        env,
    }
}

/// What it gets of flock's own environment: how to reach the engine, model APIs through a proxy and with which
/// certificates, language and time zone.
pub const PASSED: [&str; 8] =
    ["USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "DOCKER_HOST", "XDG_RUNTIME_DIR", "NODE_OPTIONS"];

fn environment(
    from: impl Iterator<Item = (OsString, OsString)>,
    program: &Program,
    folders: Folders<'_>,
    secrets: &[(String, String)],
) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsString| {
        name.to_str().is_some_and(|name| {
            PASSED.contains(&name) || env::NETWORK.contains(&name) || name.starts_with("LC_")
        })
    };
    let mut env: Vec<(OsString, OsString)> = from.filter(|(name, _)| passes(name)).collect();
    env.extend(own(program, folders));
    env.extend(secrets.iter().map(|(name, value)| (name.into(), value.into())));
    env
}

/// What it gets whatever it is started for.
pub(super) fn own(program: &Program, folders: Folders<'_>) -> [(OsString, OsString); 6] {
    let node = program.node.parent().unwrap_or(Path::new("/")).display();
    [
        ("HOME".into(), folders.state.into()),
        ("PATH".into(), format!("{node}:{STANDARD_PATH}").into()),
        ("OPENCLAW_CONFIG_PATH".into(), folders.config.into()),
        ("OPENCLAW_STATE_DIR".into(), folders.state.into()),
        // Else some versions start themselves again in a process of their own, which outlives the first.
        ("OPENCLAW_NO_RESPAWN".into(), "1".into()),
        ("NO_COLOR".into(), "1".into()),
    ]
}

/// Where no model is asked each key only has to have a value: the variables of a configuration with this token and no key.
pub(super) fn without_keys(token: &str, keys: &[Key]) -> Vec<(String, String)> {
    let keys = keys.iter().map(|key| (key.variable.clone(), "not-the-key".to_owned()));
    std::iter::once((TOKEN_VARIABLE.to_owned(), token.to_owned())).chain(keys).collect()
}

/// How its ends are read. Newer versions end with 78 (`EX_CONFIG`) where a new start would end the same way, older ones
/// with 1 whatever it was; some take most of a minute to say that their port is taken.
pub static ENDINGS: Endings = Endings { tells, lasting, passing: |_| None };

fn lasting(exit: Exit, said: Option<&str>) -> Option<crate::error::Kind> {
    use crate::error::Kind;
    let (Exit::Code(1 | 78), said) = (exit, said.unwrap_or_default()) else { return None };
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&HELD) {
        return Some(Kind::Conflict);
    }
    (exit == Exit::Code(78) || has(&CONFIG)).then_some(Kind::Usage)
}

fn tells(line: &str) -> bool {
    HELD.iter().chain(&CONFIG).any(|word| line.contains(word)) || line.contains("Error:")
}

/// What it says where another process has its port or its state.
const HELD: [&str; 5] =
    ["already in use", "EADDRINUSE", "already running", "gateway lock", "another gateway instance"];
/// What it says of its configuration.
const CONFIG: [&str; 6] = [
    "Invalid config",
    "Config invalid",
    "Missing config",
    "missing gateway.mode",
    "Refusing to start",
    "Refusing to bind",
];

/// Asking it whether it takes its configuration compiles a version that never ran, on a machine that may be slow; then
/// its state may be copied.
pub const READY: Duration = Duration::from_mins(10);

/// From its start to its first answer: the first start of a version compiles it, which takes 70 seconds on a slow machine.
pub const START: Duration = Duration::from_secs(180);

/// Its limits: its first start takes long, and it lets turns end before it does.
#[must_use]
pub fn limits(common: &Limits) -> Limits {
    let millis = |limit: Duration| i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
    Limits { ready: millis(READY), start: millis(START), backoff: 1_000, window: 900_000, ..common.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn it_gets_what_it_needs_and_nothing_else() {
        let from = [
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C"),
            ("https_proxy", "http://proxy"),
            ("DOCKER_HOST", "unix:///d"),
            ("ANTHROPIC_API_KEY", "planted"),
            ("AWS_SECRET_ACCESS_KEY", "planted"),
            ("FLOCK_HOME", "/home/ann/.flock"),
            ("HOME", "/home/ann"),
            ("PATH", "/opt/bin"),
            ("SSH_AUTH_SOCK", "/s"),
            ("OPENCLAW_GATEWAY_TOKEN", "planted"),
        ];
        let from = from.into_iter().map(|(name, value)| (name.into(), value.into()));
        let program = Program {
            node: "/n/bin/node".into(),
            entry: "/o/openclaw.mjs".into(),
            version: "2026.9.6".into(),
        };
        let folders = Folders { config: Path::new("/h/openclaw.json"), state: Path::new("/h/state") };
        let secrets = [("FLOCK_PROVIDER_KEY_X".to_owned(), "key".to_owned())];
        let mut env = environment(from, &program, folders, &secrets);
        env.sort();
        let env: Vec<(&str, &str)> =
            env.iter().map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap())).collect();
        assert_eq!(
            env,
            [
                ("DOCKER_HOST", "unix:///d"),
                ("FLOCK_PROVIDER_KEY_X", "key"),
                ("HOME", "/h/state"),
                ("LANG", "C.UTF-8"),
                ("LC_ALL", "C"),
                ("NO_COLOR", "1"),
                ("OPENCLAW_CONFIG_PATH", "/h/openclaw.json"),
                ("OPENCLAW_NO_RESPAWN", "1"),
                ("OPENCLAW_STATE_DIR", "/h/state"),
                ("PATH", "/n/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
                ("https_proxy", "http://proxy"),
            ]
        );
    }

    #[test]
    fn ends_that_would_come_again_are_known() {
        for (exit, said, kind) in [
            (Exit::Code(78), None, Some(Kind::Usage)),
            (Exit::Code(78), Some("gateway already running (pid 7); lock timeout"), Some(Kind::Conflict)),
            (Exit::Code(1), Some("Invalid config at /x.json:"), Some(Kind::Usage)),
            (Exit::Code(1), Some("Error: listen EADDRINUSE: 127.0.0.1:3790"), Some(Kind::Conflict)),
            (Exit::Code(1), Some("TypeError: x is not a function"), None),
            (Exit::Code(1), None, None),
            (Exit::Code(0), Some("Invalid config at /x.json:"), None),
            (Exit::Signal(9), None, None),
        ] {
            assert_eq!(lasting(exit, said), kind, "{exit} {said:?}");
        }
        assert!(tells("Invalid config at /x.json:") && tells("TypeError: Error: y") && !tells("listening"));
    }
}

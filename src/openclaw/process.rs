//! Defines how OpenClaw's gateway is started: its command line and its complete environment.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::check::OpenClawProgram;
use super::derive::{ProviderKey, TOKEN_VARIABLE};
use crate::config::agents::STANDARD_PATH;
use crate::env;
use crate::supervise::child;
use crate::supervise::exit_reason::ExitRules;
use crate::supervise::restart::SupervisionLimits;
use crate::supervise::state::Exit;

/// The files and folders that OpenClaw is told to use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folders<'a> {
    /// The configuration file.
    pub config: &'a Path,
    /// The state folder. It is also `HOME`, so that OpenClaw finds no settings or keys of the user.
    pub state: &'a Path,
}

/// Returns the command that starts the gateway. `secrets` are the variables to which its configuration refers. It gets
/// no other key. Of flock's own environment it gets only the variables in [`PASSED`], those for network access, and
/// `LC_*`.
#[must_use]
pub(crate) fn program(
    program: &OpenClawProgram,
    folders: Folders<'_>,
    secrets: &[(String, String)],
) -> child::ChildCommand {
    let env = environment(env::inherited(), program, folders, secrets);
    child::ChildCommand {
        file: program.node.clone(),
        args: vec![program.entry.clone().into(), "gateway".into(), "run".into()],
        env,
    }
}

/// Variables that are passed on from flock's own environment. They say how to reach the engine and which language and
/// time zone to use.
pub(crate) const PASSED: [&str; 8] =
    ["USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "DOCKER_HOST", "XDG_RUNTIME_DIR", "NODE_OPTIONS"];

fn environment(
    from: impl Iterator<Item = (OsString, OsString)>,
    program: &OpenClawProgram,
    folders: Folders<'_>,
    secrets: &[(String, String)],
) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsString| {
        name.to_str().is_some_and(|name| {
            PASSED.contains(&name) || env::NETWORK_VARS.contains(&name) || name.starts_with("LC_")
        })
    };
    let mut env: Vec<(OsString, OsString)> = from.filter(|(name, _)| passes(name)).collect();
    env.extend(own(program, folders));
    env.extend(secrets.iter().map(|(name, value)| (name.into(), value.into())));
    env
}

/// Returns the variables that OpenClaw gets in every start, check or trial.
pub(super) fn own(program: &OpenClawProgram, folders: Folders<'_>) -> [(OsString, OsString); 6] {
    let node = program.node.parent().unwrap_or(Path::new("/")).display();
    [
        ("HOME".into(), folders.state.into()),
        ("PATH".into(), format!("{node}:{STANDARD_PATH}").into()),
        ("OPENCLAW_CONFIG_PATH".into(), folders.config.into()),
        ("OPENCLAW_STATE_DIR".into(), folders.state.into()),
        // Without this, some versions restart themselves in a separate process, which outlives the first.
        ("OPENCLAW_NO_RESPAWN".into(), "1".into()),
        ("NO_COLOR".into(), "1".into()),
    ]
}

/// Returns the variables of a configuration with this token and placeholder keys. Without a model request, a key only
/// has to have a value.
pub(super) fn placeholder_environment(token: &str, keys: &[ProviderKey]) -> Vec<(String, String)> {
    let keys = keys.iter().map(|key| (key.variable.clone(), "not-the-key".to_owned()));
    std::iter::once((TOKEN_VARIABLE.to_owned(), token.to_owned())).chain(keys).collect()
}

/// Reads OpenClaw's exit codes and output. Newer versions exit with 78 (`EX_CONFIG`) if a new start would fail the same
/// way. Older ones exit with 1 in every case. Some take most of a minute to report that their port is taken.
pub(crate) static EXIT_REASONS: ExitRules =
    ExitRules { tells, lasting, passing: |_| None, replaced: |_| false };

fn lasting(exit: Exit, said: Option<&str>) -> Option<crate::error::Kind> {
    use crate::error::Kind;
    // A signal or another code says nothing about the next start, so the usual restart applies.
    let (Exit::Code(1 | 78), said) = (exit, said.unwrap_or_default()) else { return None };
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&CONFLICT_TEXTS) {
        return Some(Kind::Conflict);
    }
    // Exit code 1 may be any error, so it counts as lasting only if the output names the configuration.
    (exit == Exit::Code(78) || has(&CONFIG_ERROR_TEXTS)).then_some(Kind::Usage)
}

fn tells(line: &str) -> bool {
    CONFLICT_TEXTS.iter().chain(&CONFIG_ERROR_TEXTS).any(|word| line.contains(word))
        || line.contains("Error:")
}

/// Texts that OpenClaw prints if another process holds its port or state.
const CONFLICT_TEXTS: [&str; 5] =
    ["already in use", "EADDRINUSE", "already running", "gateway lock", "another gateway instance"];
/// Texts that OpenClaw prints if its configuration is wrong.
const CONFIG_ERROR_TEXTS: [&str; 6] = [
    "Invalid config",
    "Config invalid",
    "Missing config",
    "missing gateway.mode",
    "Refusing to start",
    "Refusing to bind",
];

/// Time limit for the preparation of a start. The configuration check compiles a version that never ran, possibly on a
/// slow machine, and afterwards the state may be copied.
pub(crate) const READY: Duration = Duration::from_mins(10);

/// Time limit from the start to the first answer. The first start of a version compiles it, which takes 70 seconds on a
/// slow machine.
pub(crate) const START: Duration = Duration::from_secs(180);

/// Returns OpenClaw's restart limits. Its first start takes long, and it lets running turns end before it stops.
#[must_use]
pub(crate) fn limits(common: &SupervisionLimits) -> SupervisionLimits {
    let millis = |limit: Duration| i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
    SupervisionLimits {
        ready: millis(READY),
        start: millis(START),
        backoff: 1_000,
        window: 900_000,
        ..common.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn the_environment_has_only_the_required_variables() {
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
        let program = OpenClawProgram {
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
    fn permanent_failures_are_recognized() {
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

//! What the installed program itself says of a configuration. Newer versions have a command for it; older ones say it
//! when they are asked for any setting.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use super::OpenClawError;
use super::derive::{Key, TOKEN_VARIABLE};
use crate::config::agents::STANDARD_PATH;

/// An installed OpenClaw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The Node that runs it.
    pub node: PathBuf,
    /// Its entry, `openclaw.mjs`.
    pub entry: PathBuf,
    /// Its version, as in `2026.2.9`.
    pub version: String,
}

/// How long it may take: a version that was just installed compiles itself first.
const LIMIT: Duration = Duration::from_secs(180);
/// The most problems that are told.
const MOST: usize = 5;

/// Whether the program takes the configuration in `file`. Its state is a folder that is new and gone afterwards.
///
/// # Errors
///
/// [`OpenClawError::Invalid`] with what it says, [`OpenClawError::Unchecked`] if it can't be asked.
pub async fn check(program: &Program, file: &Path, keys: &[Key]) -> Result<(), OpenClawError> {
    let unchecked = |reason: String| OpenClawError::Unchecked { version: program.version.clone(), reason };
    let state = tempfile::tempdir_in(file.parent().unwrap_or(Path::new("/")))
        .map_err(|error| unchecked(error.to_string()))?;
    let validates = super::dialect::Dialect::of(&program.version).validates;
    let args: &[&str] =
        if validates { &["config", "validate", "--json"] } else { &["config", "get", "gateway.mode"] };
    let mut command = Command::new(&program.node);
    command
        .arg(&program.entry)
        .args(args)
        .env_clear()
        .envs(environment(program, file, state.path(), keys))
        .current_dir(state.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(LIMIT, command.output()).await;
    let output = match ended {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(unchecked(format!("{}: {error}", program.node.display()))),
        Err(_) => return Err(unchecked(format!("no answer within {} seconds", LIMIT.as_secs()))),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let problems = problems(&said);
    if problems.is_empty() {
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
        return Err(unchecked(format!("{}: {last}", output.status)));
    }
    Err(OpenClawError::Invalid { version: program.version.clone(), problems })
}

/// No key is needed to look at a configuration, only that each has a value.
fn environment(program: &Program, file: &Path, state: &Path, keys: &[Key]) -> Vec<(OsString, OsString)> {
    let node = program.node.parent().unwrap_or(Path::new("/")).display();
    let mut env: Vec<(OsString, OsString)> = vec![
        ("OPENCLAW_CONFIG_PATH".into(), file.into()),
        ("OPENCLAW_STATE_DIR".into(), state.into()),
        ("OPENCLAW_NO_RESPAWN".into(), "1".into()),
        ("HOME".into(), state.into()),
        ("NO_COLOR".into(), "1".into()),
        ("PATH".into(), format!("{node}:{STANDARD_PATH}").into()),
        (TOKEN_VARIABLE.into(), "not-the-token".into()),
    ];
    env.extend(keys.iter().map(|key| (key.variable.clone().into(), "not-the-key".into())));
    env
}

/// What it says is wrong, each with its place, in whichever of its ways.
fn problems(said: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Report {
        #[serde(default)]
        issues: Vec<Issue>,
    }
    #[derive(Deserialize)]
    struct Issue {
        #[serde(default)]
        path: String,
        #[serde(default)]
        message: String,
    }
    let report = said.find('{').and_then(|start| {
        let mut values = serde_json::Deserializer::from_str(&said[start..]).into_iter::<Report>();
        values.next()?.ok()
    });
    let mut found: Vec<String> = match report {
        Some(report) => report.issues.iter().map(|one| format!("{}: {}", one.path, one.message)).collect(),
        None => Vec::new(),
    };
    if found.is_empty() {
        let lines = said.replace("\\n", "\n");
        // It frames some of its lines.
        let lines = lines.lines().map(|line| line.trim_matches(|c: char| c.is_whitespace() || c == '│'));
        for problem in lines.filter_map(|line| line.strip_prefix("- ")) {
            if problem.contains(": ") && !found.iter().any(|known| known == problem) {
                found.push(problem.to_owned());
            }
        }
    }
    found.truncate(MOST);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_found_in_its_reports_and_in_its_frames() {
        let report = r#"a warning
{"ok": false, "valid": false, "issues": [{"path": "gateway", "message": "Unrecognized key: \"x\""}]}
Run: something"#;
        assert_eq!(problems(report), ["gateway: Unrecognized key: \"x\""]);
        let framed = "Invalid config at /x.json:\\n- gateway: Unrecognized key: \"x\"\n│  - gateway.x   │\n\
            Config invalid\nProblem:\n  - gateway: Unrecognized key: \"x\"\n  - tools: bad\n";
        assert_eq!(problems(framed), ["gateway: Unrecognized key: \"x\"", "tools: bad"]);
        assert!(problems("TypeError: {x} is not a function\n").is_empty());
        assert!(problems("").is_empty());
    }
}

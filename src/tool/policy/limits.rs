//! The limits on commands and paths that the owner sets for all agents, applied to one tool call.
//!
//! Paths and commands are judged by their text. For the file tools this is exact, because they follow no symbolic link.
//! For commands it is only a precaution and not a security boundary: an allowed program may start others, and a path
//! can be assembled while the command runs. The sandbox is the security boundary.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::shell;
use crate::config::{Agent, CommandPolicy, SandboxMode};
use crate::tool::catalog::find;

/// The input of a tool that the limits apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedInput {
    /// A shell command, its folder and its environment.
    Command,
    /// Input of a command that runs already. No call of its own is refused.
    Job,
    /// The path of a file.
    Path,
    /// The paths in a patch.
    Patch,
}

/// Returns `true` if the configured limits apply to this tool.
pub(super) fn apply_to(policy: &CommandPolicy, tool: &str) -> bool {
    match find(tool).and_then(|tool| tool.limited) {
        Some(LimitedInput::Command | LimitedInput::Job) => !policy.is_open(),
        // A list of allowed commands says nothing about files.
        Some(LimitedInput::Path | LimitedInput::Patch) => !policy.forbidden_paths.is_empty(),
        None => false,
    }
}

/// Returns the reason why a call exceeds the limits, or `None` if it does not.
pub(super) fn refusal(agent: &Agent, tool: &str, arguments: &Value) -> Option<String> {
    let policy = &agent.policy;
    if policy.is_open() {
        return None;
    }
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    match find(tool)?.limited? {
        LimitedInput::Command => command(agent, text("command")?, text("workdir"), arguments.get("env")),
        LimitedInput::Job => None,
        LimitedInput::Path => path(agent, text("path")?),
        LimitedInput::Patch => patched_files(text("input")?).find_map(|named| path(agent, named)),
    }
}

fn command(agent: &Agent, command: &str, workdir: Option<&str>, env: Option<&Value>) -> Option<String> {
    let policy = &agent.policy;
    let line = shell::parse(command);
    if let Some(allowed) = &policy.allowed_commands {
        // With an allow-list of commands, a line that cannot be parsed has to be refused. Without one only its paths
        // are checked.
        let line = match &line {
            Ok(line) => line,
            Err(what) => {
                return Some(format!(
                    "the command contains {what}, and only commands that flock can check by their text may run here: {}",
                    list(policy)
                ));
            }
        };
        if let Some(name) = line.programs.iter().find(|name| !allowed.contains(name)) {
            return Some(format!("{name:?} is not among the commands that may run here: {}", list(policy)));
        }
        if env.and_then(Value::as_object).is_some_and(|env| !env.is_empty()) {
            return Some(
                "env is not allowed if only certain commands may run: it can change what they do".to_owned(),
            );
        }
    }
    let base = base(agent);
    let folder = workdir.map_or_else(|| base.clone(), |dir| resolved(&base, dir));
    // The folder itself is compared first, because a word in the command need not name it again.
    if let Some(found) = workdir.and_then(|_| forbidden_entry(policy, &base, &folder)) {
        return Some(refused(found));
    }
    let named = match &line {
        Ok(line) => line.words.iter().find_map(|word| forbidden_in_word(policy, &base, &folder, word)),
        // The line cannot be parsed. Forbidden paths that are written out in it are still found.
        Err(_) => command
            .split(|c: char| c.is_whitespace() || "'\"`()<>|&;$={}".contains(c))
            .find_map(|word| forbidden_in_word(policy, &base, &folder, word)),
    };
    named.map(refused)
}

/// Returns the forbidden path that a word names, as a whole or after a `=`, `:`, `@` or `,` as in `--file=/etc/x`.
fn forbidden_in_word<'p>(
    policy: &'p CommandPolicy,
    base: &Path,
    folder: &Path,
    word: &str,
) -> Option<&'p str> {
    let after = word.match_indices(['=', ':', '@', ',']).map(|(at, _)| &word[at + 1..]);
    std::iter::once(word)
        .chain(after)
        .filter(|part| !part.is_empty())
        .find_map(|part| forbidden_entry(policy, base, &resolved(folder, part)))
}

fn path(agent: &Agent, named: &str) -> Option<String> {
    let base = base(agent);
    forbidden_entry(&agent.policy, &base, &resolved(&base, named)).map(refused)
}

/// Returns the entry of the forbidden paths that contains this path.
fn forbidden_entry<'p>(policy: &'p CommandPolicy, base: &Path, path: &Path) -> Option<&'p str> {
    policy.forbidden_paths.iter().map(String::as_str).find(|entry| path.starts_with(resolved(base, entry)))
}

/// Returns the folder against which relative paths are resolved.
fn base(agent: &Agent) -> PathBuf {
    match agent.sandbox {
        SandboxMode::All => PathBuf::from("/workspace"),
        SandboxMode::Off => agent.workspace.clone(),
    }
}

/// Resolves a path by its text alone, without reading the disk.
fn resolved(base: &Path, text: &str) -> PathBuf {
    let mut place = base.to_owned();
    for part in Path::new(text).components() {
        match part {
            Component::RootDir => place = PathBuf::from("/"),
            Component::ParentDir => {
                place.pop();
            }
            Component::Normal(name) => place.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    place
}

/// Returns the files named in a patch.
fn patched_files(input: &str) -> impl Iterator<Item = &str> {
    const MARKS: [&str; 4] = ["*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:"];
    input.lines().filter_map(|line| {
        let line = line.trim_start();
        MARKS.iter().find_map(|mark| line.strip_prefix(mark)).map(str::trim)
    })
}

fn list(policy: &CommandPolicy) -> String {
    match policy.allowed_commands.as_deref().unwrap_or_default() {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

fn refused(entry: &str) -> String {
    format!("{entry:?} is a path that the owner has forbidden to all agents")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sandbox::testing::agent as any_agent;
    use crate::tool::policy::{Decision, decide};

    fn agent(commands: Option<&[&str]>, paths: &[&str]) -> Agent {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let policy = CommandPolicy { allowed_commands: commands.map(texts), forbidden_paths: texts(paths) };
        Agent { policy, allow: vec!["*".to_owned()], ..any_agent("coder", "/nowhere/coder".into()) }
    }

    fn runs(agent: &Agent, tool: &str, arguments: Value) -> bool {
        match decide(agent, tool, &arguments) {
            Decision::Allow => true,
            Decision::Deny(_) => false,
            other @ Decision::Ask(_) => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_allowed_commands_run() {
        let some = agent(Some(&["git", "ls", "/usr/bin/cc"]), &[]);
        for (command, may) in [
            ("git status", true),
            ("git log | ls", true),
            ("/usr/bin/cc x.c", true),
            ("./git", false),
            ("/tmp/ls", false),
            ("cc x.c", false),
            ("ls; rm x", false),
            ("ls && curl x", false),
            ("echo $(ls)", false),
            ("ls $(rm x)", false),
            ("PATH=. ls", false),
            ("env ls", false),
            ("sh -c ls", false),
            ("", true),
        ] {
            assert_eq!(runs(&some, "exec", json!({"command": command})), may, "{command}");
        }
        assert!(!runs(&some, "exec", json!({"command": "ls", "env": {"PATH": "."}})));
        assert!(runs(&some, "exec", json!({"command": "ls", "env": {}})));
        assert!(runs(&some, "read", json!({"path": "x"})), "files are another matter");
        assert!(!runs(&agent(Some(&[]), &[]), "exec", json!({"command": "ls"})), "an empty list allows none");
        assert!(runs(&agent(None, &[]), "exec", json!({"command": "echo $(ls)"})));
        for odd in [json!({}), json!({"command": 1}), json!(null), json!("rm")] {
            assert!(runs(&some, "exec", odd), "what is no call is refused by the tool");
        }
    }

    #[test]
    fn calls_that_name_a_forbidden_path_are_denied() {
        let some = agent(None, &["/etc", "secrets/", "/workspace/a/b.txt"]);
        for (tool, argument, value, may) in [
            ("read", "path", "notes.md", true),
            ("read", "path", "secrets/key", false),
            ("read", "path", "./x/../secrets", false),
            ("read", "path", "/workspace//secrets/key", false),
            ("read", "path", "secrets2", true),
            ("write", "path", "a/b.txt", false),
            ("write", "path", "a/b.txt.bak", true),
            ("edit", "path", "/etc/passwd", false),
            ("image", "path", "secrets/a.png", false),
            ("apply_patch", "input", "*** Begin Patch\n*** Add File: x\n+a\n*** End Patch", true),
            (
                "apply_patch",
                "input",
                "*** Begin Patch\n*** Update File: x\n*** Move to: secrets/x\n*** End Patch",
                false,
            ),
            ("exec", "command", "cat /etc/passwd", false),
            ("exec", "command", "cat /etcetera", true),
            ("exec", "command", "cat ../etc/passwd", false),
            ("exec", "command", "cat '/e'tc/passwd", false),
            ("exec", "command", "tar --file=/etc/x", false),
            ("exec", "command", "cat <secrets/key", false),
            ("exec", "command", "echo $(cat secrets/key)", false),
            ("exec", "command", "ls", true),
        ] {
            assert_eq!(runs(&some, tool, json!({argument: value})), may, "{tool} {value}");
        }
        assert!(!runs(&some, "exec", json!({"command": "ls", "workdir": "/workspace/secrets"})));
        assert!(!runs(&some, "exec", json!({"command": "cat key", "workdir": "secrets"})));
        let everything = agent(None, &["/"]);
        assert!(!runs(&everything, "read", json!({"path": "x"})));
    }

    #[test]
    fn a_limit_denies_before_approval_is_asked() {
        let admin = Agent {
            sandbox: SandboxMode::Off,
            role: crate::config::Role::Sysadmin,
            ..agent(Some(&["df"]), &["/etc"])
        };
        let decision = |command: &str| decide(&admin, "exec", &json!({"command": command}));
        assert!(matches!(decision("df -h"), Decision::Ask(_)));
        assert!(matches!(decision("rm x"), Decision::Deny(reason) if reason.contains("df")));
        assert!(matches!(decision("df /etc"), Decision::Deny(reason) if reason.contains("/etc")));
    }
}

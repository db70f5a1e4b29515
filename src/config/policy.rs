//! The `policy` block: commands and paths that are forbidden to all agents, whatever their tools allow.

use super::view::{Problem, View};

/// The most entries in one list.
const MAX_ENTRIES: usize = 200;

/// Limits that apply to all agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandPolicy {
    /// Programs that `exec` may run, as they are written in a command. `None` allows any program.
    pub allowed_commands: Option<Vec<String>>,
    /// Files and folders that no tool may name, absolute or relative to the workspace.
    pub forbidden_paths: Vec<String>,
}

impl CommandPolicy {
    /// Returns `true` if the policy limits nothing.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.allowed_commands.is_none() && self.forbidden_paths.is_empty()
    }
}

/// Reads the block. An unknown key is refused, because a misspelt limit would limit nothing.
pub(super) fn policy(view: &View<'_>) -> Result<CommandPolicy, Problem> {
    view.only(&["allowedCommands", "forbiddenPaths"])?;
    let (commands, paths) = (view.get("allowedCommands")?, view.get("forbiddenPaths")?);
    // An empty list allows no command. A missing one allows all.
    let allowed_commands = commands.value.is_some().then(|| commands.texts()).transpose()?;
    let forbidden_paths = paths.texts()?;
    if allowed_commands.iter().flatten().any(|name| !is_command(name)) {
        return Err(
            commands.problem("must hold programs as they are called, as in \"git\" or \"/usr/bin/git\"")
        );
    }
    if forbidden_paths.iter().any(|path| !is_path(path)) {
        return Err(paths.problem("must hold paths as in \"/etc\" or \"secrets\", without \"..\""));
    }
    if allowed_commands.as_ref().is_some_and(|list| list.len() > MAX_ENTRIES) {
        return Err(commands.problem(&format!("can hold at most {MAX_ENTRIES} entries")));
    }
    if forbidden_paths.len() > MAX_ENTRIES {
        return Err(paths.problem(&format!("can hold at most {MAX_ENTRIES} entries")));
    }
    Ok(CommandPolicy { allowed_commands, forbidden_paths })
}

fn is_command(name: &str) -> bool {
    // `[` is a program too. White space and quotes are left out: a command's first word can't be compared with them.
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-' | '/' | '[');
    name.len() <= 255 && name.chars().all(allowed)
}

fn is_path(path: &str) -> bool {
    let names = || path.split('/').filter(|name| !name.is_empty() && *name != ".");
    path.len() <= 4096
        && !path.chars().any(char::is_control)
        && (names().next().is_some() || path == "/")
        // Paths are compared name by name, which `..` would defeat.
        && !names().any(|name| name == "..")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: &Value) -> Result<CommandPolicy, Problem> {
        policy(&View::new(Some(value), "policy", None))
    }

    #[test]
    fn a_policy_is_read_and_a_misspelt_one_refused() {
        let found =
            read(&json!({"allowedCommands": ["git", "/usr/bin/cc"], "forbiddenPaths": ["/etc", "secrets/"]}));
        let found = found.unwrap();
        assert_eq!(found.allowed_commands.unwrap(), ["git", "/usr/bin/cc"]);
        assert_eq!(found.forbidden_paths, ["/etc", "secrets/"]);
        assert!(read(&json!({})).unwrap().is_open());
        let none = read(&json!({"allowedCommands": []})).unwrap();
        assert!(!none.is_open(), "an empty list allows no command: {none:?}");
        for wrong in [
            json!({"allowedcommands": ["git"]}),
            json!({"allowedCommands": "git"}),
            json!({"allowedCommands": ["git status"]}),
            json!({"allowedCommands": [""]}),
            json!({"allowedCommands": ["$SHELL"]}),
            json!({"allowedCommands": vec!["a"; MAX_ENTRIES + 1]}),
            json!({"forbiddenPaths": ["../x"]}),
            json!({"forbiddenPaths": ["a/../b"]}),
            json!({"forbiddenPaths": ["./"]}),
            json!({"forbiddenPaths": ["a\nb"]}),
            json!({"forbiddenPaths": vec!["a"; MAX_ENTRIES + 1]}),
            json!([]),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }
}

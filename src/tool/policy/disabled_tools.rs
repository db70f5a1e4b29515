//! Applies the policy to the built-in tools of an agent program. The program does not ask flock about calls of its own
//! tools. A tool whose calls would have to be judged is therefore not given to it at all.

use super::{is_limited, offers};
use crate::config::Agent;

/// The kinds of built-in tools that are disabled in the program that runs an agent's turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "any of them goes with any other")]
pub struct DisabledTools {
    /// Tools that run commands.
    pub commands: bool,
    /// Tools that write or edit files.
    pub writing: bool,
    /// Tools that apply patches. Always `true` if [`Self::writing`] is, because a patch can write and edit.
    pub patching: bool,
    /// Tools that read, list or search files.
    pub reading: bool,
}

impl DisabledTools {
    /// Returns the kinds of tools to disable for this agent.
    #[must_use]
    pub fn of(agent: &Agent) -> Self {
        let may = |tool: &str| offers(agent, tool) && !is_limited(agent, tool);
        // A tool that writes whole files can also change them, and one that edits files can also create them. So both
        // permissions are needed.
        let writing = !(may("write") && may("edit"));
        Self {
            commands: !may("exec"),
            writing,
            patching: writing || !may("apply_patch"),
            reading: !may("read"),
        }
    }

    /// Returns `true` if any kind is disabled.
    #[must_use]
    pub(crate) fn is_any(self) -> bool {
        self != Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::model::Autonomy;
    use crate::config::{CommandPolicy, Role};
    use crate::sandbox::testing::agent as any_agent;

    fn agent(allow: &[&str], deny: &[&str]) -> Agent {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        Agent { allow: texts(allow), deny: texts(deny), ..any_agent("coder", "/nowhere/coder".into()) }
    }

    /// Returns the first letters of the disabled kinds.
    fn told(agent: &Agent) -> String {
        let DisabledTools { commands, writing, patching, reading } = DisabledTools::of(agent);
        let all = [(commands, 'c'), (writing, 'w'), (patching, 'p'), (reading, 'r')];
        all.into_iter().filter(|(is, _)| *is).map(|(_, letter)| letter).collect()
    }

    #[test]
    fn a_programs_tools_are_disabled_if_flocks_equivalent_is_not_offered() {
        let table: &[(&[&str], &[&str], &str)] = &[
            (&["*"], &[], ""),
            (&["group:fs", "exec"], &[], ""),
            (&["*"], &["exec"], "c"),
            (&["*"], &["bash"], "c"),
            (&["*"], &["group:runtime"], "c"),
            (&["*"], &["process"], ""),
            (&["*"], &["write"], "wp"),
            (&["*"], &["edit"], "wp"),
            (&["*"], &["apply_patch"], "p"),
            (&["*"], &["read"], "r"),
            (&["*"], &["group:fs"], "wpr"),
            (&["exec", "read", "write", "edit"], &[], "p"),
            (&["read"], &[], "cwp"),
            (&["flock_*"], &[], "cwpr"),
            (&[], &[], "cwpr"),
            // An invalid pattern allows nothing in the allow list, and denies everything in the deny list.
            (&["group:what"], &[], "cwpr"),
            (&["*"], &["group:what"], "cwpr"),
        ];
        for (allow, deny, expected) in table {
            let agent = agent(allow, deny);
            assert_eq!(told(&agent), *expected, "allow {allow:?} deny {deny:?}");
            assert_eq!(DisabledTools::of(&agent).is_any(), !expected.is_empty());
        }
        let profile = Agent { profile: Some(vec!["read".to_owned()]), ..agent(&["*"], &[]) };
        assert_eq!(told(&profile), "cwp");
        for role in [Role::Orchestrator, Role::Sysadmin, Role::Worker] {
            assert_eq!(told(&Agent { role, ..agent(&["*"], &["exec"]) }), "c");
        }
    }

    #[test]
    fn a_readonly_agent_keeps_only_reading_tools() {
        let readonly = Agent { autonomy: Autonomy::Readonly, ..agent(&["*"], &[]) };
        assert_eq!(told(&readonly), "cwp");
        for autonomy in [Autonomy::Supervised, Autonomy::Full] {
            assert_eq!(told(&Agent { autonomy, ..agent(&["*"], &[]) }), "");
        }
    }

    #[test]
    fn tools_with_call_limits_are_disabled() {
        let limited = |commands: Option<&[&str]>, paths: &[&str]| {
            let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
            let policy =
                CommandPolicy { allowed_commands: commands.map(texts), forbidden_paths: texts(paths) };
            told(&Agent { policy, ..agent(&["*"], &[]) })
        };
        assert_eq!(limited(Some(&["git"]), &[]), "c");
        assert_eq!(limited(Some(&[]), &[]), "c");
        assert_eq!(limited(None, &["secrets"]), "cwpr");
        assert_eq!(limited(None, &[]), "");
    }
}

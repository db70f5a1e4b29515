//! What the policy leaves to a program of its own tools. Nobody asks flock about a call of those: one whose calls would
//! have to be judged is not given at all.

use super::{is_limited, offers};
use crate::config::Agent;

/// Kinds of its own tools that a program which runs an agent's turns is to be without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "any of them goes with any other")]
pub struct Withheld {
    /// What runs commands.
    pub commands: bool,
    /// What writes files or edits them.
    pub writing: bool,
    /// What applies patches; always where [`Self::writing`] is, since a patch can do all of that.
    pub patching: bool,
    /// What reads files, lists them or searches them.
    pub reading: bool,
}

impl Withheld {
    /// What this agent's program is to be without.
    #[must_use]
    pub fn of(agent: &Agent) -> Self {
        let may = |tool: &str| offers(agent, tool) && !is_limited(agent, tool);
        // One that writes whole files can change them, and one that changes them can make them.
        let writing = !(may("write") && may("edit"));
        Self {
            commands: !may("exec"),
            writing,
            patching: writing || !may("apply_patch"),
            reading: !may("read"),
        }
    }

    /// Whether there is anything.
    #[must_use]
    pub fn is_any(self) -> bool {
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

    /// What is withheld, by its first letters.
    fn told(agent: &Agent) -> String {
        let Withheld { commands, writing, patching, reading } = Withheld::of(agent);
        let all = [(commands, 'c'), (writing, 'w'), (patching, 'p'), (reading, 'r')];
        all.into_iter().filter(|(is, _)| *is).map(|(_, letter)| letter).collect()
    }

    #[test]
    fn a_programs_own_tools_go_by_what_flocks_would_be_offered() {
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
            // What can't be read allows nothing, and denies all.
            (&["group:what"], &[], "cwpr"),
            (&["*"], &["group:what"], "cwpr"),
        ];
        for (allow, deny, expected) in table {
            let agent = agent(allow, deny);
            assert_eq!(told(&agent), *expected, "allow {allow:?} deny {deny:?}");
            assert_eq!(Withheld::of(&agent).is_any(), !expected.is_empty());
        }
        let profile = Agent { profile: Some(vec!["read".to_owned()]), ..agent(&["*"], &[]) };
        assert_eq!(told(&profile), "cwp");
        for role in [Role::Orchestrator, Role::Sysadmin, Role::Worker] {
            assert_eq!(told(&Agent { role, ..agent(&["*"], &["exec"]) }), "c");
        }
    }

    #[test]
    fn who_may_only_read_has_what_reads() {
        let readonly = Agent { autonomy: Autonomy::Readonly, ..agent(&["*"], &[]) };
        assert_eq!(told(&readonly), "cwp");
        for autonomy in [Autonomy::Supervised, Autonomy::Full] {
            assert_eq!(told(&Agent { autonomy, ..agent(&["*"], &[]) }), "");
        }
    }

    #[test]
    fn what_flock_would_judge_by_the_call_is_not_given() {
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

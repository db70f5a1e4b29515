//! Checks of imported skills: whether each is still what a person agreed to.

use super::check::Check;
use crate::config::Config;
use crate::home::Home;
use crate::id::AgentId;
use crate::skill::{InstalledSkill, SkillState, installed};
use crate::tool::{policy, team};

const NAME: &str = "skills";

/// Checks each imported skill. Skills that a person wrote here are not checked.
pub(super) fn all(home: &Home, config: &Config) -> Vec<Check> {
    let skills = installed::all(home);
    let imported: Vec<&InstalledSkill> =
        skills.iter().filter(|skill| skill.state != SkillState::Own).collect();
    if imported.is_empty() {
        return Vec::new();
    }
    let readers = policy::agents_with(config, team::READ_SKILL.name)
        .iter()
        .map(AgentId::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let readers = if readers.is_empty() { "no agent".to_owned() } else { readers };
    let checks: Vec<Check> = imported.iter().filter_map(|skill| check(skill, &readers)).collect();
    if checks.is_empty() {
        let count = imported.len();
        let text = format!("{count} imported skills are what was agreed to; {readers} can read them");
        return vec![Check::ok(NAME, text)];
    }
    checks
}

fn check(skill: &InstalledSkill, readers: &str) -> Option<Check> {
    let name = &skill.name;
    let reason = crate::clean::summary(skill.state.reason()?, 300);
    Some(match skill.state {
        SkillState::Unknown { .. } => {
            let text = format!("the record of where the skill {name} came from can't be read: {reason}");
            Check::warn(NAME, text, format!("flock skill show {name}"))
        }
        _ => {
            let text = format!(
                "the skill {name}, which {readers} can read, was changed since it was imported: {reason}; the update shows \
                 the difference and puts it back, and `flock skill adopt {name}` keeps it as it is"
            );
            Check::warn(NAME, text, format!("flock skill update {name}"))
        }
    })
}

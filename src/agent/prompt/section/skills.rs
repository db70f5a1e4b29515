//! The section about skills: the written instructions for work in this home.

use std::fmt::Write as _;

use super::offered;
use crate::agent::prompt::PromptContext;
use crate::agent::prompt::quote::escaped;
use crate::agent::prompt::skills::Skill;

/// Returns the section's text.
pub(super) fn text(context: &PromptContext<'_>) -> String {
    let list = &context.knowledge.skills;
    // An agent that may not read skills is not told about them.
    if list.skills.is_empty() || !offered(context.tools, READ_SKILL) {
        return String::new();
    }
    let mut text = "## Skills\n\nThese are instructions for work here.".to_owned();
    if list.skills.iter().any(|skill| skill.instruction.is_none()) {
        // Writing to a `String` can't fail.
        let _ = write!(text, " Load one by its name with `{READ_SKILL}` before you do that work.");
    }
    text.push_str("\n\n<available_skills>\n");
    for skill in &list.skills {
        write_skill(&mut text, skill);
    }
    text.push_str("</available_skills>");
    if list.more {
        text.push_str("\n\nThere are more skills than these.");
    }
    text
}

fn write_skill(text: &mut String, skill: &Skill) {
    let name = escaped(skill.name.as_str());
    let _ = write!(text, "  <skill>\n    <n>{name}</n>\n");
    if !skill.description.is_empty() {
        let _ = writeln!(text, "    <description>{}</description>", escaped(&skill.description));
    }
    match &skill.instruction {
        Some(instruction) => {
            let _ = writeln!(text, "    <instruction>{}</instruction>", escaped(instruction));
        }
        None => {
            let _ = writeln!(text, "    <location>skills/{name}/SKILL.md</location>");
        }
    }
    if !skill.tools.is_empty() {
        text.push_str("    <tools>\n");
        for (name, kind) in &skill.tools {
            let kind =
                if kind.is_empty() { String::new() } else { format!("<kind>{}</kind>", escaped(kind)) };
            let _ = writeln!(text, "      <tool><n>{}</n>{kind}</tool>", escaped(name));
        }
        text.push_str("    </tools>\n");
    }
    text.push_str("  </skill>\n");
}

const READ_SKILL: &str = "flock_read_skill";

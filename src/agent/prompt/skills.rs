//! Skills as a prompt has them: what a person has written in `skills/<name>/SKILL.md`, in part or whole.

use std::io::Read as _;
use std::path::Path;

use super::front::Front;
use crate::config::SkillsMode;
use crate::home::beneath::Root;
use crate::home::{Home, shared};
use crate::id::FolderName;

/// The most skills that a prompt has.
const MAX_SKILLS: usize = 30;
/// How much of a file is read, in bytes: in full, and for its front matter alone.
const FULL_BYTES: u64 = 64 * 1024;
const COMPACT_BYTES: u64 = 4 * 1024;
/// The most characters of one skill's instructions.
const MAX_INSTRUCTION: usize = 4_000;
/// The most characters of all instructions: what comes after is only named.
const MAX_INSTRUCTIONS: usize = 20_000;
const MAX_DESCRIPTION: usize = 300;

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its folder, by which it is read.
    pub name: FolderName,
    /// What it is for; may be empty.
    pub description: String,
    /// What it says, as far as a prompt has it; `None` where it is to be read by its name.
    pub instruction: Option<String>,
    /// The tools that it brings or needs: name and kind.
    pub tools: Vec<(String, String)>,
}

/// The skills of a home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillList {
    /// The first of them by name.
    pub skills: Vec<Skill>,
    /// Whether there are more.
    pub more: bool,
}

/// Reads them. One that can't be read is left out: `flock_read_skill` says why.
#[must_use]
pub(super) fn read(home: &Home, mode: SkillsMode) -> SkillList {
    let names = shared::names(&home.skills());
    let Ok(root) = shared::open(&home.skills()) else { return SkillList::default() };
    let more = names.len() > MAX_SKILLS;
    let mut room = MAX_INSTRUCTIONS;
    let skills = names.into_iter().take(MAX_SKILLS).filter_map(|name| skill(&root, name, mode, &mut room));
    SkillList { skills: skills.collect(), more }
}

fn skill(root: &Root, name: FolderName, mode: SkillsMode, room: &mut usize) -> Option<Skill> {
    let path = Path::new(name.as_str()).join("SKILL.md");
    let (file, size) = root.open_file(&path).ok()?;
    let cap = if mode == SkillsMode::Full { FULL_BYTES } else { COMPACT_BYTES };
    let mut bytes = Vec::new();
    file.take(cap).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let front = Front::parse(&text);
    let description = front.description.unwrap_or_else(|| first_sentence(front.body));
    let instruction =
        (mode == SkillsMode::Full).then(|| instruction(front.body.trim(), size > cap, room)).flatten();
    Some(Skill {
        description: crate::clean::label(&description, MAX_DESCRIPTION),
        instruction,
        tools: front.tools,
        name,
    })
}

/// As much of the text as there is room for, and where it was cut, said; nothing once there is none.
fn instruction(body: &str, is_cut: bool, room: &mut usize) -> Option<String> {
    let most = MAX_INSTRUCTION.min(*room);
    if most == 0 || body.is_empty() {
        return None;
    }
    let end = body.char_indices().nth(most).map(|(end, _)| end);
    let text = &body[..end.unwrap_or(body.len())];
    *room -= text.chars().count();
    let cut = if end.is_some() || is_cut { "\n[cut here: read it whole with flock_read_skill]" } else { "" };
    Some(format!("{text}{cut}"))
}

/// What a skill without a description says first.
fn first_sentence(body: &str) -> String {
    let mut lines = body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().unwrap_or_default().to_owned()
}

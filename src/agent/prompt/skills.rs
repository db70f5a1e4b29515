//! Skills for a prompt, read from the `skills/<name>/SKILL.md` files that a person wrote, in part or whole.

use std::io::Read as _;
use std::path::Path;

use crate::config::SkillsMode;
use crate::home::beneath::Root;
use crate::home::{Home, user_dirs};
use crate::id::FolderName;
use crate::skill::front_matter::FrontMatter;

/// The most skills in a prompt.
const MAX_SKILLS: usize = 30;
/// The most bytes of a file that are read: for its full text, and for its front matter alone.
const MAX_FULL_BYTES: u64 = 64 * 1024;
const MAX_COMPACT_BYTES: u64 = 4 * 1024;
/// The most characters of one skill's instructions.
const MAX_INSTRUCTION: usize = 4_000;
/// The most characters of all instructions together. Skills after that are only named.
const MAX_INSTRUCTIONS: usize = 20_000;
const MAX_DESCRIPTION: usize = 300;

/// A skill as a prompt shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// The skill's folder. Agents read the skill by this name.
    pub name: FolderName,
    /// The skill's purpose. May be empty.
    pub description: String,
    /// The instructions, as far as the prompt includes them. `None` if the agent has to read them itself.
    pub instruction: Option<String>,
    /// The tools that the skill brings or needs, each as name and kind.
    pub tools: Vec<(String, String)>,
}

/// The skills of a home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillList {
    /// The skills, sorted by name, up to the limit.
    pub skills: Vec<Skill>,
    /// `true` if there are more skills.
    pub more: bool,
}

/// Reads the skills. One that can't be read is left out; `flock_read_skill` reports why.
#[must_use]
pub(super) fn read(home: &Home, mode: SkillsMode) -> SkillList {
    let names = user_dirs::names(&home.skills());
    let Ok(root) = user_dirs::open(&home.skills()) else { return SkillList::default() };
    let more = names.len() > MAX_SKILLS;
    let mut room = MAX_INSTRUCTIONS;
    // All skills share the room for instructions, so those with later names may only be named.
    let skills =
        names.into_iter().take(MAX_SKILLS).filter_map(|name| read_skill(&root, name, mode, &mut room));
    SkillList { skills: skills.collect(), more }
}

/// Returns what a skill says about its purpose, which may be empty. `None` if its file can't be read.
#[must_use]
pub(crate) fn purpose(home: &Home, name: &FolderName) -> Option<String> {
    let root = user_dirs::open(&home.skills()).ok()?;
    // Without instructions no room is needed.
    read_skill(&root, name.clone(), SkillsMode::Compact, &mut 0).map(|skill| skill.description)
}

fn read_skill(root: &Root, name: FolderName, mode: SkillsMode, room: &mut usize) -> Option<Skill> {
    let path = Path::new(name.as_str()).join("SKILL.md");
    let (file, size) = root.open_file(&path).ok()?;
    // In compact mode only the front matter is needed, which is at the beginning of the file.
    let cap = if mode == SkillsMode::Full { MAX_FULL_BYTES } else { MAX_COMPACT_BYTES };
    let mut bytes = Vec::new();
    file.take(cap).read_to_end(&mut bytes).ok()?;
    // The file may have been cut within a character, so invalid bytes are replaced.
    let text = String::from_utf8_lossy(&bytes);
    let front = FrontMatter::parse(&text);
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

/// Returns as much of the text as there is room for, with a note if it was cut, or `None` if there is no room left.
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

/// Returns the first line that is not a heading, as the description of a skill without one.
fn first_sentence(body: &str) -> String {
    let mut lines = body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().unwrap_or_default().to_owned()
}

//! What an agent knows when a turn begins, beside the conversation: who it is, what it remembers, and what
//! the team has written down. Agents write most of it, so everything is opened as hostile and bounded.

use std::io::Read as _;
use std::path::Path;

use super::files::{IdentityFile, read_identity};
use super::persona::{self, Persona};
use super::quote;
use super::skills::{self, SkillList};
use crate::config::Agent;
use crate::home::beneath::{BeneathError, Entry, Root};
use crate::home::walk::{Limits, walk};
use crate::home::{Home, shared};
use crate::id::FolderName;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// The name of the machine.
    pub host: String,
    /// The persona that the configuration names.
    pub persona: Option<Persona>,
    /// Who the agent is, and its `MEMORY.md`.
    pub files: Vec<IdentityFile>,
    /// What is in its `memory/`.
    pub memory: Listing,
    /// The vaults, the first few by name.
    pub vaults: Vec<Vault>,
    /// Whether there are more of them.
    pub more_vaults: bool,
    /// The skills.
    pub skills: SkillList,
}

/// Some files, the one that was changed last first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// A line for each, its name and its size.
    pub lines: Vec<String>,
    /// How many more there are; `None` where they were not all counted.
    pub left_out: Option<usize>,
}

/// A vault as a prompt has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vault {
    /// Its name.
    pub name: FolderName,
    /// The beginning of its index, if it has one: the file's name, and the text.
    pub index: Option<(&'static str, String)>,
    /// Its files.
    pub files: Listing,
}

impl Knowledge {
    /// Reads it. What can't be read is left out, or says so in its place: a prompt never fails.
    #[must_use]
    pub fn read(home: &Home, agent: &Agent) -> Self {
        let vaults = shared::names(&home.vaults());
        Self {
            host: host(),
            persona: persona::read(home, agent),
            files: read_identity(&agent.identity, &agent.workspace),
            memory: Root::open(&agent.workspace)
                .map(|root| listing(&root, Path::new(MEMORY), MEMORY_BYTES))
                .unwrap_or_default(),
            more_vaults: vaults.len() > MAX_VAULTS,
            vaults: vaults
                .into_iter()
                .take(MAX_VAULTS)
                .filter_map(|name| vault(&home.vaults(), name))
                .collect(),
            skills: skills::read(home, agent.skills),
        }
    }
}

impl Default for Listing {
    fn default() -> Self {
        Self { lines: Vec::new(), left_out: Some(0) }
    }
}

impl Listing {
    /// The lines, and a last one where there are more.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self.lines.iter().map(|line| format!("- {line}")).collect();
        match self.left_out {
            Some(0) => {}
            Some(more) => lines.push(format!("- and {more} more")),
            None => lines.push("- and more".to_owned()),
        }
        lines.join("\n")
    }

    /// Whether nothing is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.left_out == Some(0)
    }
}

fn host() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn vault(vaults: &Path, name: FolderName) -> Option<Vault> {
    let root = Root::open(&vaults.join(name.as_str())).ok()?;
    let index = INDEXES.into_iter().find_map(|file| Some((file, beginning(&root, file)?)));
    let files = listing(&root, Path::new(""), VAULT_BYTES);
    Some(Vault { name, index, files })
}

/// The first lines of a file; `None` where there is none, or nothing in it.
fn beginning(root: &Root, name: &str) -> Option<String> {
    let (file, _) = match root.open_file(Path::new(name)) {
        Ok(opened) => opened,
        Err(BeneathError::NotFound { .. }) => return None,
        Err(error) => return Some(format!("[it can't be read: {error}]")),
    };
    let mut bytes = Vec::new();
    file.take(INDEX_BYTES as u64 * 4).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    let start = crate::tool::bounded::start(text, INDEX_BYTES);
    match (text.is_empty(), start.len() < text.len()) {
        (true, _) => None,
        (false, false) => Some(text.to_owned()),
        (false, true) => Some(format!("{start}\n[cut here]")),
    }
}

/// The files below a folder, as many as go into `room` bytes.
fn listing(root: &Root, folder: &Path, room: usize) -> Listing {
    let Ok(found) = walk(root, folder, LOOK) else { return Listing::default() };
    let mut files: Vec<&Entry> = found.files().collect();
    files.sort_by(|a, b| b.modified_ms.cmp(&a.modified_ms).then_with(|| a.path.cmp(&b.path)));
    let mut lines = Vec::new();
    let mut used = 0;
    for file in &files {
        let path = file.path.strip_prefix(folder).unwrap_or(&file.path);
        // In whole kilobytes: a prompt that changes with every byte would never be in a provider's cache.
        let line = format!("{} ({} KB)", quote::label(&path.to_string_lossy()), file.size.div_ceil(1024));
        used += line.len() + 3;
        if used > room {
            break;
        }
        lines.push(line);
    }
    let left_out = (!found.more).then(|| files.len() - lines.len());
    Listing { lines, left_out }
}

/// The agent's own notes, in its workspace.
const MEMORY: &str = "memory";

/// Where a vault says what is in it; the first that is there.
const INDEXES: [&str; 3] = ["index.md", "README.md", "readme.md"];

/// How much of a folder is looked at.
const LOOK: Limits = Limits { depth: 4, entries: 2000 };

const MEMORY_BYTES: usize = 1000;
const INDEX_BYTES: usize = 600;
const VAULT_BYTES: usize = 400;
const MAX_VAULTS: usize = 4;

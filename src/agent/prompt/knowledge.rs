//! The knowledge of an agent at the beginning of a turn besides the conversation: its identity, its memory and the
//! team's vaults. Agents write most of these files, so all are opened as hostile and read within limits.

use std::io::Read as _;
use std::path::Path;

use super::files::{IdentityFile, read_files};
use super::persona::{self, Persona};
use super::quote;
use super::skills::{self, SkillList};
use crate::config::Agent;
use crate::home::beneath::{BeneathError, DirEntry, Root};
use crate::home::walk::{Listing, WalkLimits, walk};
use crate::home::{Home, user_dirs};
use crate::id::FolderName;
use crate::process;
use crate::sandbox::workspace_files::Workspaces;

/// The files and names that a prompt is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// The machine's host name.
    pub host: String,
    /// The persona that the configuration names.
    pub persona: Option<Persona>,
    /// The identity files, and the agent's `MEMORY.md`.
    pub files: Vec<IdentityFile>,
    /// The files in the agent's `memory/`.
    pub memory: FileListing,
    /// The first few vaults by name.
    pub vaults: Vec<Vault>,
    /// `true` if there are more vaults.
    pub more_vaults: bool,
    pub skills: SkillList,
}

/// A list of files, the most recently changed first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileListing {
    /// A line per file, with its name and size.
    pub lines: Vec<String>,
    /// Number of files that are not listed. `None` if not all were counted.
    pub left_out: Option<usize>,
}

/// A vault as a prompt shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vault {
    pub name: FolderName,
    /// The beginning of the vault's index, as the file's name and text, if it has one.
    pub index: Option<(&'static str, String)>,
    pub files: FileListing,
}

impl Knowledge {
    /// Reads the knowledge. A prompt never fails: what can't be read is left out or replaced by the reason.
    #[must_use]
    pub fn read(home: &Home, agent: &Agent) -> Self {
        Self::read_by(home, agent, &Workspaces::of_this_machine())
    }

    /// Reads the knowledge as [`Knowledge::read`] does, also of a workspace on another machine.
    #[must_use]
    pub(crate) fn read_by(home: &Home, agent: &Agent, workspaces: &Workspaces) -> Self {
        let vaults = user_dirs::names(&home.vaults());
        let workspace = workspaces.open(&agent.id, &agent.workspace).map_err(BeneathError::from);
        Self {
            host: process::host_name(),
            persona: persona::read(home, agent),
            files: read_files(&agent.identity, workspace.as_ref()),
            memory: workspace
                .as_ref()
                .map(|files| list_files(files, Path::new(MEMORY_FOLDER), MEMORY_BYTES))
                .unwrap_or_default(),
            more_vaults: vaults.len() > MAX_VAULTS,
            vaults: vaults
                .into_iter()
                .take(MAX_VAULTS)
                .filter_map(|name| read_vault(&home.vaults(), name))
                .collect(),
            skills: skills::read(home, agent.skills),
        }
    }
}

impl Default for FileListing {
    fn default() -> Self {
        Self { lines: Vec::new(), left_out: Some(0) }
    }
}

impl FileListing {
    /// Returns the lines, with a last one that says how many more there are.
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

    /// Returns `true` if there are no files.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.left_out == Some(0)
    }
}

fn read_vault(vaults: &Path, name: FolderName) -> Option<Vault> {
    let root = Root::open(&vaults.join(name.as_str())).ok()?;
    let index = INDEX_FILES.into_iter().find_map(|file| Some((file, read_beginning(&root, file)?)));
    let files = list_files(&root, Path::new(""), VAULT_BYTES);
    Some(Vault { name, index, files })
}

/// Returns the first bytes of a file, or `None` if it is missing or empty.
fn read_beginning(root: &Root, name: &str) -> Option<String> {
    let (file, _) = match root.open_file(Path::new(name)) {
        Ok(opened) => opened,
        Err(BeneathError::NotFound { .. }) => return None,
        Err(error) => return Some(format!("[it can't be read: {error}]")),
    };
    let mut bytes = Vec::new();
    file.take(INDEX_BYTES as u64 * 4).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    let start = crate::tool::safe_text::start(text, INDEX_BYTES);
    match (text.is_empty(), start.len() < text.len()) {
        (true, _) => None,
        (false, false) => Some(text.to_owned()),
        (false, true) => Some(format!("{start}\n[cut here]")),
    }
}

/// Lists the files below a folder, as many as fit into `room` bytes.
fn list_files(root: &impl Listing, folder: &Path, room: usize) -> FileListing {
    // A folder that is missing or can't be read counts as empty.
    let Ok(found) = walk(root, folder, WALK_LIMITS) else { return FileListing::default() };
    let mut files: Vec<&DirEntry> = found.files().collect();
    // Files of the same time are sorted by path, so that the prompt does not change without a reason.
    files.sort_by(|a, b| b.modified_ms.cmp(&a.modified_ms).then_with(|| a.path.cmp(&b.path)));
    let mut lines = Vec::new();
    let mut used = 0;
    for file in &files {
        let path = file.path.strip_prefix(folder).unwrap_or(&file.path);
        // Sizes are in whole kilobytes. A prompt that changed with every byte would never be in a provider's cache.
        let line = format!("{} ({} KB)", quote::label(&path.to_string_lossy()), file.size.div_ceil(1024));
        // Three bytes for the dash, the blank and the line feed.
        used += line.len() + 3;
        if used > room {
            break;
        }
        lines.push(line);
    }
    let left_out = (!found.more).then(|| files.len() - lines.len());
    FileListing { lines, left_out }
}

/// Folder of the agent's own notes in its workspace.
const MEMORY_FOLDER: &str = "memory";

/// Names of a vault's index file. The first that exists is used.
const INDEX_FILES: [&str; 3] = ["index.md", "README.md", "readme.md"];

/// The limits on reading a folder.
const WALK_LIMITS: WalkLimits = WalkLimits { depth: 4, entries: 2000 };

const MEMORY_BYTES: usize = 1000;
const INDEX_BYTES: usize = 600;
const VAULT_BYTES: usize = 400;
const MAX_VAULTS: usize = 4;

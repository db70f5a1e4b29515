//! Folders of the home that all agents see: `vaults/` and `skills/`. Each has a folder for each vault or skill.

use std::path::Path;

use super::beneath::{Kind, Root};
use crate::id::FolderName;

/// The vaults or skills in a folder, in order. A link, a file, or a name that is none is not among them; where
/// the folder is missing there are none.
#[must_use]
pub fn names(folder: &Path) -> Vec<FolderName> {
    let listed = Root::open(folder).and_then(|root| root.list(Path::new(""), MAX));
    let (entries, _) = listed.unwrap_or_default();
    let folders = entries.iter().filter(|entry| entry.kind == Kind::Folder);
    folders.filter_map(|entry| entry.path.to_str()?.parse().ok()).collect()
}

const MAX: usize = 1000;

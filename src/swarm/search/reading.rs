//! Reads a file that a search can find, for a person who looks at a result in its place.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::sync::Arc;

use serde::Serialize;

use super::SearchArea;
use super::corpus::files_of;
use super::files::{FileStore, MEMORY_FILE, MEMORY_FOLDER};
use crate::agent::compaction::findings;
use crate::id::{AgentId, FolderName};
use crate::secret_text;
use crate::store::SourceKind;
use crate::swarm::vault::Vaults;
use crate::swarm::{Swarm, SwarmError};

/// The agent or the vault that a file belongs to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileOwner {
    Agent(AgentId),
    Vault(FolderName),
}

/// A file that a search can find.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchedFile {
    #[serde(rename = "in")]
    pub area: SearchArea,
    #[serde(flatten)]
    pub owner: FileOwner,
    pub path: String,
    /// The part that is searched. Keys are replaced.
    pub text: String,
    /// Unset if the file is longer than that.
    pub is_whole: bool,
}

impl Swarm {
    /// Returns a file that a search can find, or `None` if there is none at this path that is a text.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoAgent`] if the agent does not exist.
    pub(crate) async fn searched_file(
        self: &Arc<Self>,
        owner: FileOwner,
        path: String,
    ) -> Result<Option<SearchedFile>, SwarmError> {
        let workspace = match &owner {
            FileOwner::Agent(id) => {
                let config = self.config();
                let agent = config.agent(id).ok_or_else(|| SwarmError::NoAgent(id.clone()))?;
                Some(files_of(self, agent))
            }
            FileOwner::Vault(_) => None,
        };
        let vaults = Vaults::new(self.home());
        let work = move || {
            let (area, store) = match (&owner, &workspace) {
                (FileOwner::Vault(name), _) => (SearchArea::Vaults, FileStore::Vault(&vaults, name)),
                (FileOwner::Agent(_), Some(files)) => {
                    let (area, kind) = area_of(&path)?;
                    (area, FileStore::Workspace(files, kind))
                }
                (FileOwner::Agent(_), None) => return None,
            };
            let (text, is_whole) = store.read(&path)?;
            let text = secret_text::without_keys(&text).into_owned();
            Some(SearchedFile { area, owner, path, text, is_whole })
        };
        Ok(tokio::task::spawn_blocking(work).await.unwrap_or_default())
    }
}

/// Returns the area of a path in a workspace, or `None` if it is not searched. A path that leads upwards or has hidden
/// names could lead from an area to the rest of the workspace.
fn area_of(path: &str) -> Option<(SearchArea, SourceKind)> {
    let path = Path::new(path);
    let is_plain =
        |part: Component<'_>| matches!(part, Component::Normal(name) if !name.as_bytes().starts_with(b"."));
    if !path.components().all(is_plain) {
        return None;
    }
    if path == Path::new(MEMORY_FILE) || path.starts_with(MEMORY_FOLDER) {
        return Some((SearchArea::Memory, SourceKind::Memory));
    }
    path.starts_with(findings::FOLDER).then_some((SearchArea::Findings, SourceKind::Findings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_searched_places_have_an_area() {
        for (path, area) in [
            ("MEMORY.md", Some(SearchArea::Memory)),
            ("memory/a/b.md", Some(SearchArea::Memory)),
            ("deliverables/findings/main/finding_1.md", Some(SearchArea::Findings)),
            ("other.md", None),
            ("memory.md", None),
            ("memory/../other.md", None),
            ("memory/.git/config", None),
            ("./MEMORY.md", None),
            ("/MEMORY.md", None),
            ("deliverables/report.md", None),
            ("../tester/MEMORY.md", None),
            ("", None),
        ] {
            assert_eq!(area_of(path).map(|(area, _)| area), area, "{path}");
        }
    }
}

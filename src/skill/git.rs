//! Reads a skill from a commit of a git repository. The repository is fetched into a bare one that exists only meanwhile:
//! no file of it is checked out, so no filter, hook or setting of anybody takes effect.

use std::cell::Cell;

use git2::{Commit, FileMode, ObjectType, Odb, Repository, RepositoryInitOptions, Tree, TreeEntry};

use super::content::{SKILL_FILE, SkillContent, SkillFile};
use super::error::ImportError;
use super::folder::MAX_CANDIDATES;
use super::record::{PinKind, RecordedOrigin};
use crate::clean;
use crate::home::Home;
use crate::home::scratch::ScratchDir;
use crate::install::source::{self, RepositoryAddress, ResolvedReference};

/// The most MiB that are received for one commit.
const MAX_RECEIVED: u64 = 512;
/// The most folders that are looked through for a `SKILL.md`, and their depth.
const MAX_SEARCHED: usize = 5_000;
const MAX_SEARCH_DEPTH: usize = 5;

/// A folder of a git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitOrigin {
    pub(super) address: RepositoryAddress,
    /// The path of the folder in the repository. Empty for the repository itself.
    pub(super) path: String,
    /// A branch, a tag or a commit.
    pub(super) reference: String,
}

impl GitOrigin {
    /// Returns the place as a person writes it.
    #[must_use]
    pub(super) fn place(&self) -> String {
        clean::inline(&format!("{}#{}", self.address.as_str(), self.path)).into_owned()
    }
}

/// Fetches the commit that the reference means now, and reads the folder from it.
///
/// # Errors
///
/// Returns an error if the repository or the folder can't be read, or has something that can't be imported.
pub(super) fn read(
    home: &Home,
    origin: &GitOrigin,
    progress: &dyn Fn(u64),
) -> Result<(SkillContent, RecordedOrigin), ImportError> {
    let address = &origin.address;
    let tip = source::resolve(address, &origin.reference)?;
    let fail = |source| ImportError::Git { repository: address.as_str().to_owned(), source };
    let scratch = ScratchDir::make(&home.skill_fetches(), &format!("{}", std::process::id()))?;
    let mut options = RepositoryInitOptions::new();
    // Without a template of the user's, which could bring hooks and settings.
    options.bare(true).external_template(false);
    let repository = Repository::init_opts(scratch.path(), &options).map_err(fail)?;
    let is_too_much = Cell::new(false);
    let fetched = source::fetch_commit(&repository, address, &origin.reference, &tip, &|sent| {
        let received = sent.received_bytes() as u64;
        progress(received);
        is_too_much.set(received > MAX_RECEIVED << 20);
        !is_too_much.get()
    });
    let commit = match fetched {
        Err(_) if is_too_much.get() => {
            return Err(ImportError::TooMuch {
                repository: address.as_str().to_owned(),
                limit: MAX_RECEIVED,
            });
        }
        fetched => fetched?,
    };
    let reader = Reader { repository: &repository, objects: repository.odb().map_err(fail)?, origin };
    let content = reader.skill(&commit)?;
    let recorded = RecordedOrigin::Git {
        repository: address.as_str().to_owned(),
        path: origin.path.clone(),
        reference: origin.reference.clone(),
        pin: pin_kind(&tip),
        commit: commit.id().to_string(),
    };
    Ok((content, recorded))
}

fn pin_kind(tip: &ResolvedReference) -> PinKind {
    match &tip.name {
        None => PinKind::Commit,
        Some(name) if name.starts_with("refs/tags/") => PinKind::Tag,
        Some(_) => PinKind::Branch,
    }
}

/// A reader of the trees of one repository.
struct Reader<'r> {
    repository: &'r Repository,
    objects: Odb<'r>,
    origin: &'r GitOrigin,
}

impl<'r> Reader<'r> {
    fn skill(&self, commit: &Commit<'r>) -> Result<SkillContent, ImportError> {
        let mut tree = commit.tree().map_err(|error| self.failed(error))?;
        for name in self.origin.path.split('/').filter(|name| !name.is_empty()) {
            let found = tree.get_name(name).filter(is_folder).map(|entry| entry.id());
            let Some(id) = found else {
                let place = self.origin.address.as_str().to_owned();
                return Err(ImportError::NoFolder { place, path: self.origin.path.clone() });
            };
            tree = self.tree(id)?;
        }
        let place = self.origin.place();
        if tree.get_name(SKILL_FILE).is_none() {
            let mut candidates = Vec::new();
            let mut left = MAX_SEARCHED;
            self.search(&tree, &self.origin.path, &mut left, &mut candidates);
            return Err(ImportError::NoSkill { place, candidates });
        }
        let mut content = SkillContent::new(place);
        self.descend(&tree, "", &mut content)?;
        Ok(content)
    }

    fn descend(&self, tree: &Tree<'r>, above: &str, content: &mut SkillContent) -> Result<(), ImportError> {
        for entry in tree {
            let Some(path) = content.admit(above, entry.name_bytes())? else { continue };
            let mode = entry.filemode();
            if is_folder(&entry) {
                self.descend(&self.tree(entry.id())?, &path, content)?;
            } else if mode == i32::from(FileMode::Link) {
                return Err(content.unfit(&path, "is a link, which is never followed"));
            } else if mode == i32::from(FileMode::Commit) {
                return Err(content.unfit(&path, "is another repository, which is never fetched"));
            } else {
                // The size is known before the file is unpacked.
                let (size, kind) =
                    self.objects.read_header(entry.id()).map_err(|error| self.failed(error))?;
                if kind != ObjectType::Blob {
                    return Err(content.unfit(&path, "is neither a file nor a folder"));
                }
                content.check_room(&path, size as u64)?;
                let blob = self.repository.find_blob(entry.id()).map_err(|error| self.failed(error))?;
                let is_executable = mode == i32::from(FileMode::BlobExecutable);
                content.add(path, SkillFile { bytes: blob.content().to_vec(), is_executable })?;
            }
        }
        Ok(())
    }

    /// Collects the folders below a tree that have a `SKILL.md`.
    fn search(&self, tree: &Tree<'r>, above: &str, left: &mut usize, found: &mut Vec<String>) {
        for entry in tree {
            let Ok(name) = std::str::from_utf8(entry.name_bytes()) else { continue };
            if !is_folder(&entry) || *left == 0 || found.len() >= MAX_CANDIDATES {
                continue;
            }
            *left -= 1;
            let path = if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
            let Ok(inner) = self.repository.find_tree(entry.id()) else { continue };
            if inner.get_name(SKILL_FILE).is_some() {
                found.push(clean::summary(&path, 200));
            } else if path.split('/').count() < MAX_SEARCH_DEPTH {
                self.search(&inner, &path, left, found);
            }
        }
    }

    fn tree(&self, id: git2::Oid) -> Result<Tree<'r>, ImportError> {
        self.repository.find_tree(id).map_err(|error| self.failed(error))
    }

    fn failed(&self, source: git2::Error) -> ImportError {
        ImportError::Git { repository: self.origin.address.as_str().to_owned(), source }
    }
}

fn is_folder(entry: &TreeEntry<'_>) -> bool {
    entry.filemode() == i32::from(FileMode::Tree)
}

//! The commits at which tags were first seen in this home. A tag can be moved upstream. A version that was requested by
//! its tag stays at that commit until a person requests the other commit explicitly.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::{io, write_record};
use super::source::ResolvedReference;
use super::{DEFAULT_COMMIT, DEFAULT_REFERENCE, DEFAULT_REPOSITORY, InstallError};
use crate::home::atomic;

/// A tag that points to another commit than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedTag {
    pub tag: String,
    /// The commit when the tag was first seen, 40 hex digits.
    pub was: String,
    /// The commit that the name means now.
    pub now: String,
    /// `true` if the name is a branch now.
    pub is_branch: bool,
}

/// An installed version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstalledReference<'a> {
    pub origin: &'a str,
    /// The branch, tag or commit that was requested.
    pub reference: &'a str,
    /// `true` if the reference is a branch.
    pub follows: bool,
    pub commit: &'a str,
}

impl InstalledReference<'_> {
    /// Returns `true` if a person requested the commit by its id.
    fn is_by_commit(&self) -> bool {
        self.reference.len() >= 7 && self.commit.starts_with(&self.reference.to_ascii_lowercase())
    }
}

/// Returns the old and new commit if a reference was a tag before and means something else now. `record` is the file
/// with the known tags. The installed versions, newest first, count as well, because an older flock kept no record.
///
/// # Errors
///
/// Returns an error if the record cannot be read, because the former commit is then unknown.
pub(crate) fn moved(
    record: &Path,
    origin: &str,
    reference: &str,
    tip: &ResolvedReference,
    installed: &[InstalledReference<'_>],
) -> Result<Option<MovedTag>, InstallError> {
    let (Some(tag), Some(now)) = (tag(reference), tip.commit.as_deref()) else { return Ok(None) };
    // A person who requested the new commit by its id has accepted it.
    if tip.name.is_none() || installed.iter().any(|one| one.commit == now && one.is_by_commit()) {
        return Ok(None);
    }
    let noted = read(record)?.remove(origin).and_then(|mut tags| tags.remove(tag));
    let same = |one: &&InstalledReference<'_>| {
        one.origin == origin && !one.follows && self::tag(one.reference) == Some(tag) && !one.is_by_commit()
    };
    let was = noted.or_else(|| installed.iter().find(same).map(|one| one.commit.to_owned())).or_else(|| {
        (origin == DEFAULT_REPOSITORY && tag == DEFAULT_REFERENCE).then(|| DEFAULT_COMMIT.to_owned())
    });
    // A branch of the same name would be followed by updates, so it is reported even at the same commit.
    Ok(was.filter(|was| was != now || tip.is_branch).map(|was| MovedTag {
        tag: tag.to_owned(),
        was,
        now: now.to_owned(),
        is_branch: tip.is_branch,
    }))
}

/// Records the commit of a tag. Other references are not recorded.
///
/// # Errors
///
/// Returns an error if the record cannot be read or written.
pub(crate) fn note(record: &Path, origin: &str, tip: &ResolvedReference) -> Result<(), InstallError> {
    let (Some(name), Some(commit)) = (tip.name.as_deref(), tip.commit.as_deref()) else { return Ok(()) };
    let Some(tag) = name.strip_prefix(TAG_PREFIX) else { return Ok(()) };
    let mut all = read(record)?;
    let tags = all.entry(origin.to_owned()).or_default();
    if tags.insert(tag.to_owned(), commit.to_owned()).as_deref() == Some(commit) {
        return Ok(());
    }
    write_record(record, serde_json::to_vec_pretty(&all))
}

/// Returns the tag that a reference may mean. `HEAD` and other full names are not tags.
fn tag(reference: &str) -> Option<&str> {
    match reference.strip_prefix(TAG_PREFIX) {
        Some(tag) => Some(tag),
        None => (reference != "HEAD" && !reference.starts_with("refs/")).then_some(reference),
    }
}

/// Reads the known tags of each repository.
fn read(record: &Path) -> Result<BTreeMap<String, BTreeMap<String, String>>, InstallError> {
    let Some(bytes) = atomic::read(record, MAX_RECORD)? else { return Ok(BTreeMap::new()) };
    serde_json::from_slice(&bytes).map_err(|error| io("read", record)(error.into()))
}

const TAG_PREFIX: &str = "refs/tags/";
const MAX_RECORD: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn tip(name: &str, commit: &str) -> ResolvedReference {
        let name = (!name.is_empty()).then(|| name.to_owned());
        let is_branch = name.as_deref().is_some_and(|name| name.starts_with("refs/heads/"));
        ResolvedReference { name, commit: Some(commit.to_owned()), is_branch }
    }

    fn installed<'a>(reference: &'a str, commit: &'a str) -> InstalledReference<'a> {
        InstalledReference { origin: "/there", reference, follows: false, commit }
    }

    #[test]
    fn a_moved_tag_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join("tags.json");
        let moved = |reference: &str, tip: &ResolvedReference, installed: &[InstalledReference<'_>]| {
            moved(&record, "/there", reference, tip, installed).unwrap()
        };
        let (was, now) = (tip("refs/tags/v1", A), tip("refs/tags/v1", B));
        assert_eq!(moved("v1", &was, &[]), None);
        note(&record, "/there", &was).unwrap();
        assert_eq!(moved("v1", &was, &[]), None);
        let found = moved("v1", &now, &[]).unwrap();
        assert_eq!((found.was.as_str(), found.now.as_str(), found.is_branch), (A, B, false));
        assert!(moved("refs/tags/v1", &now, &[]).is_some(), "under its full name as well");
        assert!(moved("v1", &tip("refs/heads/v1", A), &[]).unwrap().is_branch, "a branch took its name");
        assert_eq!(moved("refs/heads/v1", &tip("refs/heads/v1", B), &[]), None);
        assert_eq!(super::moved(&record, "/elsewhere", "v1", &now, &[]).unwrap(), None);
        // A person who requested the commit by its id knows what it is.
        assert_eq!(moved("v1", &now, &[installed(B, B)]), None);
        assert_eq!(moved("v1", &now, &[installed("bbbbbbb", B)]), None);
        assert!(moved("v1", &now, &[installed("main", B)]).is_some());
        note(&record, "/there", &now).unwrap();
        assert_eq!(moved("v1", &now, &[]), None);
    }

    #[test]
    fn installed_versions_stand_in_for_a_missing_record() {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join("tags.json");
        let now = tip("refs/tags/v1", B);
        assert!(moved(&record, "/there", "v1", &now, &[installed("v1", A)]).unwrap().is_some());
        let followed = InstalledReference { follows: true, ..installed("v1", A) };
        assert_eq!(moved(&record, "/there", "v1", &now, &[followed]).unwrap(), None);
        // The version that flock was tested with is known before anything is installed.
        let name = format!("refs/tags/{DEFAULT_REFERENCE}");
        assert!(
            moved(&record, DEFAULT_REPOSITORY, DEFAULT_REFERENCE, &tip(&name, B), &[]).unwrap().is_some()
        );
        assert_eq!(
            moved(&record, DEFAULT_REPOSITORY, DEFAULT_REFERENCE, &tip(&name, DEFAULT_COMMIT), &[]).unwrap(),
            None
        );
        // Branches and commits are not recorded.
        note(&record, "/there", &tip("refs/heads/main", A)).unwrap();
        note(&record, "/there", &tip("", A)).unwrap();
        assert!(!record.exists());
        std::fs::write(&record, "{").unwrap();
        assert!(moved(&record, "/there", "v1", &now, &[]).is_err());
    }
}

//! Finds the files of a checkout that differ from its commit. A checkout is compared with its commit before anything of
//! it is built or run, and an installed version is compared again before it is put back in use.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use git2::{ObjectType, Oid, Repository, Tree};

/// Altered files: the path of each, and the git hash of its present contents. The hash is empty if the file is missing.
pub type Alterations = BTreeMap<String, String>;

/// Compares a checkout with a commit, byte for byte. Files that the commit does not have are ignored.
///
/// # Errors
///
/// Returns an error if the folder is not a checkout of that commit, or a file cannot be read.
pub(crate) fn find(checkout: &Path, commit: &str) -> Result<Alterations, git2::Error> {
    let repository = Repository::open(checkout)?;
    let head = repository.head()?.peel_to_commit()?;
    if head.id() != Oid::from_str(commit)? {
        return Err(git2::Error::from_str(&format!("it is a checkout of commit {}", head.id())));
    }
    let mut found = Alterations::new();
    compare_tree(&repository, &head.tree()?, checkout, "", &mut found)?;
    Ok(found)
}

fn compare_tree(
    repository: &Repository,
    tree: &Tree<'_>,
    folder: &Path,
    prefix: &str,
    found: &mut Alterations,
) -> Result<(), git2::Error> {
    for entry in tree {
        let path = folder.join(OsStr::from_bytes(entry.name_bytes()));
        let name = format!("{prefix}{}", String::from_utf8_lossy(entry.name_bytes()));
        match entry.kind() {
            Some(ObjectType::Tree) => {
                let inner = repository.find_tree(entry.id())?;
                compare_tree(repository, &inner, &path, &format!("{name}/"), found)?;
            }
            Some(ObjectType::Blob) => {
                // A link that was replaced by a file with the same text is an alteration too.
                let is_link = entry.filemode() == i32::from(git2::FileMode::Link);
                let held = hash(&path, is_link)?;
                if held.as_deref() != Some(&*entry.id().to_string()) {
                    found.insert(name, held.unwrap_or_default());
                }
            }
            // A submodule. flock never fetches submodules.
            _ => {}
        }
    }
    Ok(())
}

/// Returns the hash of what is at a path, as git computes it. The content of a link is its target. Returns `None` if
/// nothing is there, or something of another kind.
fn hash(path: &Path, is_link: bool) -> Result<Option<String>, git2::Error> {
    // `symlink_metadata` does not follow links, so the hash never covers a file outside the checkout.
    let failed = |error: std::io::Error| git2::Error::from_str(&format!("{}: {error}", path.display()));
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let hash = if is_link && meta.is_symlink() {
        let target = std::fs::read_link(path).map_err(failed)?;
        Oid::hash_object(ObjectType::Blob, target.as_os_str().as_bytes())?
    } else if !is_link && meta.is_file() {
        Oid::hash_file(ObjectType::Blob, path)?
    } else {
        return Ok(None);
    };
    Ok(Some(hash.to_string()))
}

#[cfg(test)]
mod tests {
    use git2::Signature;

    use super::*;

    #[test]
    fn changed_files_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let repository = Repository::init(root).unwrap();
        std::fs::create_dir(root.join("src")).unwrap();
        std::fs::write(root.join("src/a"), "one\r\n").unwrap();
        std::fs::write(root.join("b"), "two").unwrap();
        std::fs::write(root.join(".gitattributes"), "* text=auto\n").unwrap();
        std::os::unix::fs::symlink("b", root.join("link")).unwrap();
        let mut index = repository.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        let blob = repository.blob(b"one\r\n").unwrap();
        let mut entry = index.get_path(Path::new("src/a"), 0).unwrap();
        entry.id = blob;
        index.add(&entry).unwrap();
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        let who = Signature::now("Ann", "ann@example.org").unwrap();
        let commit = repository.commit(Some("HEAD"), &who, &who, "x", &tree, &[]).unwrap().to_string();
        assert_eq!(find(root, &commit).unwrap(), Alterations::new());

        std::fs::write(root.join("untracked"), "x").unwrap();
        std::fs::write(root.join("src/a"), "one\n").unwrap();
        std::fs::remove_file(root.join("b")).unwrap();
        std::fs::remove_file(root.join("link")).unwrap();
        std::fs::write(root.join("link"), "b").unwrap();
        let found = find(root, &commit).unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["b", "link", "src/a"]);
        assert_eq!(found["b"], "");
        assert_eq!(found["src/a"], Oid::hash_object(ObjectType::Blob, b"one\n").unwrap().to_string());
        assert!(find(root, &"0".repeat(40)).is_err(), "it is a checkout of another commit");
    }
}

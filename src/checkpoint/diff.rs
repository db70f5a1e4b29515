//! The differences between two trees.

use std::collections::HashSet;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use super::content::ContentId;
use super::error::CheckpointError;
use super::objects::Objects;
use super::tree::{Node, Tree, TreeEntry};

/// A path that is different in two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Relative to the workspace.
    pub(crate) path: PathBuf,
    pub(crate) before: Option<Node>,
    pub(crate) after: Option<Node>,
}

impl Change {
    /// Returns `added`, `removed` or `changed`.
    pub(crate) const fn verb(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        }
    }
}

/// Returns the differences from one tree to another, sorted so that a folder comes before what is in it. A folder that
/// only one of them has is listed with everything in it.
///
/// # Errors
///
/// Returns an error if a tree is missing or damaged.
pub(super) fn diff(
    objects: &Objects,
    before: Option<ContentId>,
    after: Option<ContentId>,
) -> Result<Vec<Change>, CheckpointError> {
    let mut changes = Vec::new();
    descend(objects, (before, after), &mut Vec::new(), &mut changes)?;
    Ok(changes)
}

fn descend(
    objects: &Objects,
    (before, after): (Option<ContentId>, Option<ContentId>),
    path: &mut Vec<u8>,
    changes: &mut Vec<Change>,
) -> Result<(), CheckpointError> {
    if before == after {
        return Ok(());
    }
    let (before, after) = entries(objects, before, after)?;
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let name = match (before.peek(), after.peek()) {
            (None, None) => return Ok(()),
            (Some(one), None) | (None, Some(one)) => one.name.clone(),
            (Some(one), Some(other)) => one.name.clone().min(other.name.clone()),
        };
        let one = before.next_if(|entry| entry.name == name).map(|entry| entry.node);
        let other = after.next_if(|entry| entry.name == name).map(|entry| entry.node);
        if one == other {
            continue;
        }
        let above = path.len();
        if above > 0 {
            path.push(b'/');
        }
        path.extend(&name);
        let inner = (tree_of(one.as_ref()), tree_of(other.as_ref()));
        let is_same = matches!((&one, &other), (Some(one), Some(other)) if one.is_same(other));
        if !is_same {
            let path = PathBuf::from(std::ffi::OsString::from_vec(path.clone()));
            changes.push(Change { path, before: one, after: other });
        }
        descend(objects, inner, path, changes)?;
        path.truncate(above);
    }
}

const fn tree_of(node: Option<&Node>) -> Option<ContentId> {
    match node {
        Some(Node::Folder { tree, .. }) => Some(*tree),
        _ => None,
    }
}

/// Reads the entries of both folders, without the parts that both share.
fn entries(
    objects: &Objects,
    before: Option<ContentId>,
    after: Option<ContentId>,
) -> Result<(Vec<TreeEntry>, Vec<TreeEntry>), CheckpointError> {
    let read = |id: Option<ContentId>| id.map(|id| objects.tree(id)).transpose();
    let (before, after) = (read(before)?, read(after)?);
    let parts = |tree: &Option<Tree>| match tree {
        Some(Tree::Parts(parts)) => parts.iter().copied().collect(),
        _ => HashSet::new(),
    };
    // An entry of a shared part has no other one of its name, so it is the same in both.
    let (mine, theirs): (HashSet<ContentId>, HashSet<ContentId>) = (parts(&before), parts(&after));
    Ok((unshared(objects, before, &theirs)?, unshared(objects, after, &mine)?))
}

fn unshared(
    objects: &Objects,
    tree: Option<Tree>,
    other: &HashSet<ContentId>,
) -> Result<Vec<TreeEntry>, CheckpointError> {
    match tree {
        None => Ok(Vec::new()),
        Some(Tree::Entries(entries)) => Ok(entries),
        Some(Tree::Parts(parts)) => {
            let mut entries = Vec::new();
            for part in parts.into_iter().filter(|part| !other.contains(part)) {
                entries.extend(objects.folder(part)?);
            }
            Ok(entries)
        }
    }
}

/// Looks up a path in a tree.
///
/// # Errors
///
/// Returns an error if a tree is missing or damaged.
#[cfg(test)]
pub(super) fn find(
    objects: &Objects,
    tree: ContentId,
    path: &std::path::Path,
) -> Result<Option<Node>, CheckpointError> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut found = Node::Folder { mode: 0, tree };
    for name in path.iter() {
        let Node::Folder { tree, .. } = found else { return Ok(None) };
        let Some(entry) = objects.folder(tree)?.into_iter().find(|entry| entry.name == name.as_bytes())
        else {
            return Ok(None);
        };
        found = entry.node;
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> TreeEntry {
        let content = ContentId::of_file(text.as_bytes());
        TreeEntry { name: name.into(), node: Node::File { mode: 0o644, size: text.len() as u64, content } }
    }

    fn folder(objects: &Objects, name: &str, entries: &[TreeEntry]) -> TreeEntry {
        let tree = objects.put_folder(entries, None).unwrap();
        TreeEntry { name: name.into(), node: Node::Folder { mode: 0o755, tree } }
    }

    fn paths(changes: &[Change]) -> Vec<(&str, &str)> {
        changes.iter().map(|change| (change.verb(), change.path.to_str().unwrap())).collect()
    }

    #[test]
    fn each_difference_is_found_with_what_is_below_it() {
        let home = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(home.path()).unwrap();
        let same = folder(&objects, "same", &[file("x", "x")]);
        let old = folder(&objects, "old", &[file("x", "x"), file("y", "y")]);
        let link = TreeEntry { name: b"z".to_vec(), node: Node::Link { target: b"/etc".to_vec() } };
        let before = [file("a", "1"), old, same.clone(), file("z", "z")];
        let after = [file("a", "2"), file("b", "1"), file("old", "now a file"), same, link];
        let (one, other) =
            (objects.put_folder(&before, None).unwrap(), objects.put_folder(&after, None).unwrap());
        let changes = diff(&objects, Some(one), Some(other)).unwrap();
        let expected = [
            ("changed", "a"),
            ("added", "b"),
            ("changed", "old"),
            ("removed", "old/x"),
            ("removed", "old/y"),
            ("changed", "z"),
        ];
        assert_eq!(paths(&changes), expected);
        assert_eq!(diff(&objects, Some(one), Some(one)).unwrap(), []);
        assert_eq!(diff(&objects, None, Some(one)).unwrap().len(), 7);
        assert_eq!(find(&objects, one, "old/y".as_ref()).unwrap(), Some(file("y", "y").node));
        assert_eq!(find(&objects, one, "old/n".as_ref()).unwrap(), None);
        assert_eq!(find(&objects, one, "a/x".as_ref()).unwrap(), None);
    }

    #[test]
    fn large_folders_are_compared_by_their_parts() {
        let home = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(home.path()).unwrap();
        let mut entries: Vec<TreeEntry> = (0..3_000).map(|at| file(&format!("{at:05}"), "x")).collect();
        let before = objects.put_folder(&entries, None).unwrap();
        entries.remove(1_500);
        entries[7] = file("00007", "y");
        entries.insert(2_000, file("02000b", "z"));
        let after = objects.put_folder(&entries, None).unwrap();
        let changes = diff(&objects, Some(before), Some(after)).unwrap();
        let expected = [("changed", "00007"), ("removed", "01500"), ("added", "02000b")];
        assert_eq!(paths(&changes), expected);
        entries.truncate(10);
        let few = objects.put_folder(&entries, None).unwrap();
        assert_eq!(diff(&objects, Some(after), Some(few)).unwrap().len(), 2_990);
    }
}

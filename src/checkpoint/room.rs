//! Decides if the disk of a workspace has room for what a rewind writes. Pure.

use std::path::Path;

use super::content::ContentId;
use super::diff::Change;
use super::error::CheckpointError;
use super::tree::Node;
use crate::home::free_space::RESERVE;
use crate::id::AgentId;
use crate::sandbox::disk_room::BLOCK;

/// Returns the most bytes that changes take of a disk at any moment, in the order in which [`apply`](super::apply::apply) makes
/// them. `of_file` returns those of a content with its size: none if a file shares its blocks with the checkpoints.
///
/// What goes without a successor goes first and makes room. A file that is replaced goes after the new one is complete.
pub(super) fn needed(changes: &[Change], mut of_file: impl FnMut(ContentId, u64) -> u64) -> u64 {
    let (mut taken, mut freed, mut peak) = (0_u64, 0_u64, 0_u64);
    for change in changes {
        if let (Some(Node::File { size, content, .. }), None | Some(Node::Folder { .. })) =
            (&change.before, &change.after)
        {
            freed = freed.saturating_add(of_file(*content, *size));
        }
    }
    for change in changes {
        let new = match (&change.before, &change.after) {
            // Only its permissions change, or it goes.
            (_, None) | (Some(Node::Folder { .. }), Some(Node::Folder { .. })) => continue,
            (Some(Node::File { content: old, .. }), Some(Node::File { content, .. })) if old == content => {
                continue;
            }
            (_, Some(Node::File { size, content, .. })) => of_file(*content, *size).max(BLOCK),
            (_, Some(Node::Folder { .. } | Node::Link { .. })) => BLOCK,
        };
        taken = taken.saturating_add(new);
        peak = peak.max(taken.saturating_sub(freed));
        if let (Some(Node::File { size, content, .. }), Some(Node::File { .. } | Node::Link { .. })) =
            (&change.before, &change.after)
        {
            freed = freed.saturating_add(of_file(*content, *size));
        }
    }
    peak
}

/// Checks that a disk has room for the files of an agent, besides what stays free for everything else. `folder` is on that disk.
///
/// # Errors
///
/// Returns [`CheckpointError::NoRoom`] if it has not.
pub(super) fn check(agent: &AgentId, folder: &Path, needed: u64, free: u64) -> Result<(), CheckpointError> {
    let needed = needed.saturating_add(RESERVE);
    if free >= needed {
        return Ok(());
    }
    Err(CheckpointError::NoRoom { agent: agent.clone(), folder: folder.to_owned(), needed, free })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::error::Explain as _;

    fn file(mode: u32, text: &str) -> Node {
        Node::File { mode, size: text.len() as u64, content: ContentId::of_file(text.as_bytes()) }
    }

    fn folder(mode: u32) -> Node {
        Node::Folder { mode, tree: ContentId::of_tree(b"") }
    }

    #[test]
    fn only_what_is_written_needs_room() {
        let link = || Node::Link { target: b"a".to_vec() };
        let large = 100 * BLOCK;
        for (before, after, expected) in [
            (Some(file(0o644, "old")), None, 0),
            (Some(folder(0o755)), None, 0),
            (Some(file(0o644, "same")), Some(file(0o600, "same")), 0),
            (Some(folder(0o755)), Some(folder(0o700)), 0),
            (None, Some(folder(0o700)), BLOCK),
            (Some(file(0o644, "old")), Some(link()), BLOCK),
            (None, Some(file(0o644, "")), BLOCK),
            (None, Some(file(0o644, "large")), large),
            (Some(file(0o644, "old")), Some(file(0o644, "large")), large),
            (Some(folder(0o755)), Some(file(0o644, "large")), large),
        ] {
            let change = Change { path: PathBuf::from("x"), before, after };
            let of_file = |_: ContentId, size: u64| if size == 5 { large } else { size };
            assert_eq!(needed(std::slice::from_ref(&change), of_file), expected, "{change:?}");
        }
        let new = |name: &str| Change { path: name.into(), before: None, after: Some(file(0o644, name)) };
        assert_eq!(needed(&[new("a"), new("b")], |_, _| 2 * BLOCK), 4 * BLOCK);
        assert_eq!(needed(&[new("a"), new("b")], |_, _| u64::MAX), u64::MAX);
    }

    #[test]
    fn what_goes_makes_room_when_it_goes() {
        let change = |name: &str, before: &str, after: &str| {
            let node = |text: &str| (!text.is_empty()).then(|| file(0o644, text));
            Change { path: name.into(), before: node(before), after: node(after) }
        };
        let of_file = |_: ContentId, size: u64| size * BLOCK;
        // A file was moved: what it is now goes first.
        let moved = [change("a", "", "text"), change("b", "text", "")];
        assert_eq!(needed(&moved, of_file), 0);
        assert_eq!(needed(&[change("a", "", "a text"), change("b", "text", "")], of_file), 2 * BLOCK);
        // Of several files that are replaced, one is there twice at any moment.
        let replaced = ["a", "b", "c"].map(|name| change(name, "text", "more"));
        assert_eq!(needed(&replaced, of_file), 4 * BLOCK);
        // Files that share their blocks with the checkpoints make no room.
        let of_file = |_: ContentId, size: u64| if size == 4 { 0 } else { size * BLOCK };
        assert_eq!(needed(&[change("a", "", "a text"), change("b", "text", "")], of_file), 6 * BLOCK);
    }

    #[test]
    fn a_disk_keeps_its_reserve_and_the_error_says_what_is_missing() {
        let agent: AgentId = "coder".parse().unwrap();
        let check = |needed, free| check(&agent, Path::new("/w/coder"), needed, free);
        check(1 << 20, (1 << 20) + RESERVE).unwrap();
        check(u64::MAX, u64::MAX).unwrap();
        let error = check(300 << 20, 100 << 20).unwrap_err();
        let text = error.to_string();
        for part in ["files of coder", "/w/coder has 100 MiB free", "364 MiB", " 64 MiB", "free some space"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(error.hint().as_deref(), Some("df -h /w/coder"));
        assert!(check(1 << 20, (1 << 20) + RESERVE - 1).is_err());
    }
}

//! A folder as a stored tree: its entries by name, each with the id of its content.
//!
//! Trees are stored by content, so two checkpoints share each folder that is the same in both. A large folder is a list
//! of parts. The place where a part ends depends on a name only, so a changed entry changes one part and not those
//! after it.

use super::content::ContentId;

/// The content of a directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File {
        mode: u32,
        size: u64,
        content: ContentId,
    },
    Folder {
        mode: u32,
        tree: ContentId,
    },
    Link {
        /// The path that the link contains.
        target: Vec<u8>,
    },
}

impl Node {
    /// Returns a word for the kind of entry.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::Folder { .. } => "folder",
            Self::Link { .. } => "link",
        }
    }

    pub(crate) const fn is_folder(&self) -> bool {
        matches!(self, Self::Folder { .. })
    }

    /// Returns `true` if both are the same, whatever is in them if they are folders.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Folder { mode, .. }, Self::Folder { mode: other, .. }) => mode == other,
            _ => self == other,
        }
    }
}

/// A named entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) node: Node,
}

/// A stored object of a folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tree {
    Entries(Vec<TreeEntry>),
    /// The objects whose entries together are the folder's, in the order of names.
    Parts(Vec<ContentId>),
}

/// The number of entries up to which a folder is one object.
const WHOLE: usize = 192;
/// The least and the most entries of a part.
const PART: std::ops::Range<usize> = 32..512;
/// One of how many names ends a part.
const ENDS: u32 = 128;

const ENTRIES: u8 = b'E';
const PARTS: u8 = b'P';

/// Splits the entries of a folder into the parts that are stored as one object each. A small folder is one part.
pub(super) fn parts(entries: &[TreeEntry]) -> Vec<&[TreeEntry]> {
    if entries.len() <= WHOLE {
        return vec![entries];
    }
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, entry) in entries.iter().enumerate() {
        let length = at + 1 - begin;
        // An agent that chooses names with this in mind makes parts of the least or the most length.
        if length >= PART.start && (name_hash(&entry.name).is_multiple_of(ENDS) || length >= PART.end) {
            parts.push(&entries[begin..=at]);
            begin = at + 1;
        }
    }
    if begin < entries.len() {
        parts.push(&entries[begin..]);
    }
    parts
}

/// FNV-1a. It only spreads the ends of parts.
fn name_hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Encodes entries as one object.
pub(super) fn encode(entries: &[TreeEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + entries.len() * 64);
    bytes.push(ENTRIES);
    let text = |bytes: &mut Vec<u8>, text: &[u8]| {
        // Names have at most 255 bytes and links at most 4095.
        bytes.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
        bytes.extend(text);
    };
    for TreeEntry { name, node } in entries {
        match node {
            Node::File { mode, size, content } => {
                bytes.push(b'f');
                text(&mut bytes, name);
                bytes.extend(mode.to_le_bytes());
                bytes.extend(size.to_le_bytes());
                bytes.extend(content.0);
            }
            Node::Folder { mode, tree } => {
                bytes.push(b'd');
                text(&mut bytes, name);
                bytes.extend(mode.to_le_bytes());
                bytes.extend(tree.0);
            }
            Node::Link { target } => {
                bytes.push(b'l');
                text(&mut bytes, name);
                text(&mut bytes, target);
            }
        }
    }
    bytes
}

/// Encodes the list of a folder's parts.
pub(super) fn encode_parts(parts: &[ContentId]) -> Vec<u8> {
    let ids = parts.iter().flat_map(|part| part.0);
    std::iter::once(PARTS).chain(ids).collect()
}

/// Decodes an object of a folder. Returns `None` if the bytes are none.
pub(super) fn decode(bytes: &[u8]) -> Option<Tree> {
    let (kind, mut rest) = bytes.split_first()?;
    if *kind == PARTS {
        let (ids, []) = rest.as_chunks::<32>() else { return None };
        return Some(Tree::Parts(ids.iter().map(|id| ContentId(*id)).collect()));
    }
    if *kind != ENTRIES {
        return None;
    }
    let mut entries = Vec::new();
    while let Some((kind, after)) = rest.split_first() {
        rest = after;
        let name = text(&mut rest)?;
        let is_name =
            !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0);
        if !is_name {
            return None;
        }
        let node = match kind {
            b'f' => Node::File {
                mode: u32::from_le_bytes(*take(&mut rest)?),
                size: u64::from_le_bytes(*take(&mut rest)?),
                content: ContentId(*take(&mut rest)?),
            },
            b'd' => Node::Folder {
                mode: u32::from_le_bytes(*take(&mut rest)?),
                tree: ContentId(*take(&mut rest)?),
            },
            b'l' => Node::Link { target: text(&mut rest)?.to_owned() },
            _ => return None,
        };
        entries.push(TreeEntry { name: name.to_owned(), node });
    }
    Some(Tree::Entries(entries))
}

fn take<'b, const N: usize>(rest: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(taken)
}

fn text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::from(u16::from_le_bytes(*take(rest)?));
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, byte: u8) -> TreeEntry {
        let node = Node::File { mode: 0o644, size: 1, content: ContentId::of_file(&[byte]) };
        TreeEntry { name: name.into(), node }
    }

    #[test]
    fn entries_round_trip() {
        let entries = vec![
            TreeEntry {
                name: vec![0xff, b' ', b'\n'],
                node: Node::Folder { mode: 0o700, tree: ContentId::of_tree(b"") },
            },
            file("a", 1),
            TreeEntry { name: b"l".into(), node: Node::Link { target: vec![b'/'; 4095] } },
        ];
        let bytes = encode(&entries);
        assert_eq!(decode(&bytes), Some(Tree::Entries(entries)));
        let parts = vec![ContentId::of_tree(b"a"), ContentId::of_tree(b"b")];
        assert_eq!(decode(&encode_parts(&parts)), Some(Tree::Parts(parts)));
        for cut in 2..bytes.len() {
            // A prefix may be whole entries, and is never read beyond its end.
            let _ = decode(&bytes[..cut]);
        }
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_tree() {
        for name in ["", ".", "..", "a/b", "a\0b"] {
            assert_eq!(decode(&encode(&[file(name, 1)])), None, "{name:?}");
        }
    }

    #[test]
    fn a_change_in_a_large_folder_changes_one_part() {
        let mut entries: Vec<TreeEntry> = (0..50_000).map(|at| file(&format!("{at:06}"), 1)).collect();
        let ids = |entries: &[TreeEntry]| -> Vec<ContentId> {
            parts(entries).into_iter().map(|part| ContentId::of_tree(&encode(part))).collect()
        };
        let before = ids(&entries);
        assert!(before.len() > 100 && before.len() < 1_600);
        entries[20_000] = file("020000", 2);
        let after = ids(&entries);
        assert_eq!(after.len(), before.len());
        assert_eq!(after.iter().filter(|id| !before.contains(id)).count(), 1);
        entries.insert(30_000, file("029999x", 3));
        let inserted = ids(&entries);
        assert!(inserted.iter().filter(|id| !after.contains(id)).count() <= 3);
        assert_eq!(parts(&entries).concat(), entries);
    }
}

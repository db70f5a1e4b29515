//! The manifest of an archive: what it was made of, and each file in the order in which the archive has them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{hex, unhex};
use crate::store::snapshot::AuditHead;

/// The form of archives that this flock writes. A change of what [`super::tar_form`] writes needs a new number.
pub(crate) const FORMAT: u32 = 1;

/// What is known of an archive without its files. A newer form has at least these fields, so its error can name the
/// version.
#[derive(Debug, Deserialize)]
pub(super) struct Preamble {
    pub(super) format: u32,
    pub(super) flock: String,
}

/// The manifest of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    /// The form of the archive, [`FORMAT`].
    pub(crate) format: u32,
    /// The version of the flock that made it.
    pub(crate) flock: String,
    /// Unix milliseconds at which the database was copied.
    pub(crate) at: i64,
    pub(crate) home: HomeIdentity,
    /// `None` for a home that had no database yet.
    pub(crate) database: Option<DatabaseRecord>,
    /// The parts that were left out on request.
    pub(crate) without: Vec<Part>,
    /// The settings and files with keys that were left out, which have to be entered again.
    pub(crate) enter_again: Vec<String>,
    /// Entries that no archive can hold, and files that could not be read.
    pub(crate) left_out: Named,
    /// Every file, link and folder, in the order of the archive. A folder comes before its content.
    pub(crate) entries: Vec<Entry>,
}

/// The identity of the home that was backed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HomeIdentity {
    pub(crate) path: PathBuf,
    /// The number of the home's format.
    pub(crate) format: u32,
    /// The instance id, if the home had one.
    pub(crate) id: Option<String>,
}

/// What the copy of the database holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DatabaseRecord {
    /// The place on a server where the home had its database, as in `db.example:5432/flock, schema flock`. The archive has
    /// a copy of it in a file. `None` if it was a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// The version of its schema.
    pub(crate) schema: u32,
    /// The number of rows of each table.
    pub(crate) rows: BTreeMap<String, u64>,
    /// The last row of the audit.
    pub(crate) audit_head: AuditHead,
    /// The first fault in the audit, if the home's audit was not whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) audit_fault: Option<String>,
}

/// A part of a home that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// The agents' workspaces and checkpoints, and the workspaces of MCP servers.
    Workspaces,
    /// Keys and tokens.
    Secrets,
}

/// A file, folder or link of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The path below the home.
    pub(crate) path: RawPath,
    #[serde(flatten)]
    pub(crate) node: Node,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Node {
    Folder {
        mode: u32,
    },
    File {
        mode: u32,
        /// Unix seconds of the last change of the content.
        modified: u64,
        size: u64,
        /// SHA-256 of the content, without the holes of a sparse file.
        sha256: Digest,
        /// The places of the content in a sparse file: offset and length.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Vec<(u64, u64)>>,
        /// Set if the file changed each time it was read, so that its content may be of several moments.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        changed: bool,
    },
    Link {
        /// The path that the link contains.
        target: RawPath,
    },
    /// A further name of a file, by a hard link.
    Same {
        /// The path of the earlier entry.
        of: RawPath,
    },
}

impl Node {
    /// Returns the number of bytes that follow the entry's header in the archive, without padding.
    pub(super) fn stored_bytes(&self) -> u64 {
        match self {
            Self::File { size, data: None, .. } => *size,
            // The sum is checked for overflow when the manifest is read.
            Self::File { data: Some(data), .. } => data.iter().map(|(_, length)| *length).sum(),
            Self::Folder { .. } | Self::Link { .. } | Self::Same { .. } => 0,
        }
    }
}

/// A SHA-256, in hex in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) [u8; 32]);

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = unhex(&text).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("it is no SHA-256"))
    }
}

/// The bytes of a path. Names on Linux need not be UTF-8, and an agent chooses those in its workspace.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RawPath(pub(crate) Vec<u8>);

impl RawPath {
    pub(crate) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Returns `true` if the path leads to a place below a folder: it has at least one name, and none is empty, `.` or `..`.
    pub(super) fn is_below(&self) -> bool {
        let is_name = |name: &[u8]| !name.is_empty() && name != b"." && name != b".." && name.len() <= 255;
        !self.0.contains(&0) && self.0.split(|byte| *byte == b'/').all(is_name)
    }
}

impl From<&Path> for RawPath {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().to_owned())
    }
}

impl fmt::Debug for RawPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_path(), f)
    }
}

impl Serialize for RawPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => BTreeMap::from([("hex", hex(&self.0))]).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RawPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Hex { hex: String },
        }
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(Self(text.into_bytes())),
            Form::Hex { hex } => {
                unhex(&hex).map(Self).ok_or_else(|| serde::de::Error::custom("it is no path in hex"))
            }
        }
    }
}

/// The first paths of a kind, each with the reason, and their number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) count: usize,
    pub(crate) paths: Vec<String>,
}

/// The most paths that are listed of each kind of problem.
const MAX_NAMED: usize = 20;

impl Named {
    /// Counts a path, and lists it if it is one of the first.
    pub(super) fn add(&mut self, path: &Path, why: &str) {
        self.count += 1;
        if self.paths.len() < MAX_NAMED {
            let path = crate::clean::summary(&path.to_string_lossy(), 200);
            self.paths.push(format!("{path}: {why}"));
        }
    }
}

impl Manifest {
    /// Returns the number of files and the sum of their stored bytes.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let files = self.entries.iter().filter(|entry| matches!(entry.node, Node::File { .. }));
        files.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.node.stored_bytes()))
    }

    /// Returns the paths of the files that changed while they were read.
    pub(crate) fn changed(&self) -> Named {
        let mut changed = Named::default();
        for entry in &self.entries {
            if matches!(entry.node, Node::File { changed: true, .. }) {
                changed.add(entry.path.as_path(), "it changed while it was read");
            }
        }
        changed
    }

    /// Looks for what no flock writes into a manifest. Returns the first such thing.
    pub(super) fn fault(&self) -> Option<String> {
        let mut sum: u64 = 0;
        for Entry { path, node } in &self.entries {
            if !path.is_below() {
                return Some(format!("{path:?} leads out of the home"));
            }
            if !super::selection::may_hold(path.as_path(), node) {
                return Some(format!("no backup has {path:?}"));
            }
            match node {
                Node::File { size, data: Some(data), .. } => {
                    let mut end: u64 = 0;
                    for (offset, length) in data {
                        let next = offset.checked_add(*length).filter(|next| *next <= *size);
                        let is_aligned = |next: u64| {
                            offset.is_multiple_of(512) && (length.is_multiple_of(512) || next == *size)
                        };
                        match next {
                            Some(next) if *offset >= end && *length > 0 && is_aligned(next) => end = next,
                            _ => return Some(format!("the places in {path:?} are wrong")),
                        }
                    }
                }
                Node::File { .. } | Node::Folder { .. } => {}
                Node::Link { target } => {
                    if target.0.is_empty() || target.0.contains(&0) {
                        return Some(format!("the link {path:?} leads nowhere"));
                    }
                }
                Node::Same { of } => {
                    if !of.is_below() || !super::selection::may_share(path.as_path(), of.as_path()) {
                        return Some(format!("{path:?} and {of:?} can't be one file"));
                    }
                }
            }
            let Some(next) = sum.checked_add(node.stored_bytes()).filter(|sum| *sum <= i64::MAX as u64)
            else {
                return Some("its files are too large".to_owned());
            };
            sum = next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(size: u64, data: Option<Vec<(u64, u64)>>) -> Node {
        Node::File { mode: 0o600, modified: 7, size, sha256: Digest([9; 32]), data, changed: false }
    }

    fn manifest(entries: Vec<(&[u8], Node)>) -> Manifest {
        let entries = entries.into_iter().map(|(path, node)| Entry { path: RawPath(path.to_owned()), node });
        Manifest {
            format: FORMAT,
            flock: "0.2.0".to_owned(),
            at: 1,
            home: HomeIdentity { path: "/h".into(), format: 1, id: None },
            database: None,
            without: vec![Part::Secrets],
            enter_again: Vec::new(),
            left_out: Named::default(),
            entries: entries.collect(),
        }
    }

    #[test]
    fn every_name_survives_the_manifest() {
        let one = manifest(vec![
            (b"vaults/wiki/\xff\n\"x", file(513, Some(vec![(512, 1)]))),
            (b"vaults/wiki/link", Node::Link { target: RawPath(b"/\xfe".to_vec()) }),
            (b"vaults/wiki/same", Node::Same { of: RawPath(b"vaults/wiki/\xff\n\"x".to_vec()) }),
            (b"vaults", Node::Folder { mode: 0o700 }),
        ]);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), one);
        assert!(text.contains(r#""path":"vaults/wiki/link""#) && text.contains(r#"{"hex":"#), "{text}");
        assert_eq!(one.fault(), None);
        assert_eq!(one.totals(), (1, 1));
    }

    #[test]
    fn a_manifest_that_no_flock_writes_is_refused() {
        let folder = || Node::Folder { mode: 0o700 };
        for (path, node) in [
            (&b"../x"[..], folder()),
            (b"/etc/x", folder()),
            (b"vaults/../../x", folder()),
            (b"vaults//x", folder()),
            (b"vaults/.", folder()),
            (b"", folder()),
            (b"vaults/a\0b", folder()),
            (b"run/supervisor.lock", file(1, None)),
            (b"gateways/flock/flock-previous", file(1, None)),
            (b"workspaces", Node::Link { target: RawPath(b"/etc".to_vec()) }),
            (b"data/flock.db", Node::Link { target: RawPath(b"/etc/passwd".to_vec()) }),
            (b"vaults/x", Node::Link { target: RawPath(Vec::new()) }),
            (b"vaults/x", file(2048, Some(vec![(512, 1024), (1024, 512)]))),
            (b"vaults/x", file(2048, Some(vec![(1536, 1024)]))),
            (b"vaults/x", file(2048, Some(vec![(u64::MAX - 511, 512)]))),
            (b"vaults/x", file(2048, Some(vec![(1, 512)]))),
            (b"vaults/x", file(2048, Some(vec![(0, 0)]))),
            (b"vaults/x", file(u64::MAX, None)),
            (b"workspaces/a/x", Node::Same { of: RawPath(b"secrets/key".to_vec()) }),
            (b"workspaces/a/x", Node::Same { of: RawPath(b"workspaces/b/x".to_vec()) }),
            (b"workspaces/a/x", Node::Same { of: RawPath(b"workspaces/a/../../secrets/k".to_vec()) }),
        ] {
            let text = String::from_utf8_lossy(path).into_owned();
            assert!(manifest(vec![(path, node.clone())]).fault().is_some(), "{text} {node:?}");
        }
        let two = manifest(vec![(b"vaults/x", file(1 << 62, None)), (b"vaults/y", file(1 << 62, None))]);
        assert!(two.fault().is_some(), "together they are too large");
        assert!(serde_json::from_value::<Digest>(json!("abc")).is_err());
    }
}

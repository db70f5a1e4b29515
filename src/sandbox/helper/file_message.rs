//! Requests for the files of a workspace, and their answers. The helper program compiles this file as well, so it uses
//! only the standard library.
//!
//! Each request stands alone: the helper keeps no file open between two of them, so nothing has to be cleaned up when a
//! connection breaks. A large file is read and written in parts. [`FileVersion`] shows a reader that the file is another
//! one by now.

use super::codec::{Reader, Writer};

/// Limit on the bytes of a file in one frame.
pub const MAX_PART: usize = 256 * 1024;
/// Limit on a path in bytes, as Linux has it.
pub const MAX_PATH: usize = 4096;
/// Limit on a name in a list, in bytes. Longer ones are left out of lists.
pub const MAX_NAME: usize = 255;
/// Limit on the entries of a folder in one frame.
pub const MAX_LISTED: usize = 2048;

/// A request for a file or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRequest {
    /// The folder that nothing leads out of. It is trusted.
    pub root: Vec<u8>,
    /// The path below it, which no part of may be a link. An empty path is the folder itself.
    pub path: Vec<u8>,
    pub action: FileAction,
}

/// The action of a [`FileRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAction {
    /// Describes what is there, without following a link.
    Look,
    /// Lists the next entries of a folder, sorted by name.
    List {
        /// The entries after this name. Empty for the first ones.
        after: Vec<u8>,
        /// At most so many, and at most [`MAX_LISTED`].
        most: u32,
    },
    /// Reads a part of a regular file.
    Read {
        offset: u64,
        /// At most so many bytes, and at most [`MAX_PART`].
        most: u32,
        /// The version that was read before, if some was.
        version: Option<FileVersion>,
    },
    /// Writes a whole file in one step.
    Write {
        /// A random number, by which the file is known until it gets its name.
        draft: u64,
        bytes: Vec<u8>,
        /// The permissions. `None` keeps those of the file that is replaced.
        mode: Option<u32>,
    },
    /// Writes the next part of a file that gets its name later. The part at the offset 0 creates it.
    Part {
        /// A random number, the same for all parts of the file.
        draft: u64,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// Gives a file that was written in parts its name, in one step.
    Commit {
        draft: u64,
        /// The size that it must have.
        size: u64,
        /// The permissions. `None` keeps those of the file that is replaced.
        mode: Option<u32>,
    },
    /// Removes the parts of a file that gets no name.
    Discard { draft: u64 },
    /// Creates a folder and the folders above it. Existing ones stay as they are.
    MakeFolder,
    /// Removes a file, or a link without its target.
    Remove,
    /// Removes an empty folder.
    RemoveFolder,
    /// Reads the target of a link, which is answered as the bytes of a file.
    ReadLink,
    /// Creates a link in one step. Anything but a folder is replaced by it.
    MakeLink {
        /// A random number, by which the link is known until it gets its name.
        draft: u64,
        target: Vec<u8>,
    },
    /// Sets the permissions of a file or a folder, which may be the root.
    SetMode { mode: u32 },
    /// Tells the time, by the clock that files are stamped with.
    Clock,
    /// Writes the last part of a file and gives the file its name, in one step. Unlike with [`Self::Commit`], anything but
    /// a folder is replaced, and the permissions are the given ones.
    Put {
        draft: u64,
        /// The size of the parts before. With 0 there are none.
        offset: u64,
        bytes: Vec<u8>,
        mode: u32,
    },
    /// Makes a file that is written in parts longer, without writing to it.
    Hole {
        draft: u64,
        /// The size of the parts before.
        offset: u64,
        /// The size with the hole.
        size: u64,
    },
    /// Waits until everything that was written is on the disk.
    Sync,
}

/// The answer to a [`FileRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileReply {
    /// It is done.
    Done,
    /// The description of what is there, with an empty name.
    Entry(FileEntry),
    /// A part of a folder's entries.
    Entries {
        entries: Vec<FileEntry>,
        /// The name after which the next part begins. Empty if there is no more.
        next: Vec<u8>,
    },
    /// A part of a file.
    Bytes { bytes: Vec<u8>, version: FileVersion },
    /// The time in nanoseconds since the Unix epoch.
    Clock(i64),
    /// It was not done.
    Refused {
        why: FileRefusal,
        /// The number of the system's error, or 0 if it gave none.
        errno: u32,
    },
}

/// The state of a file by which another one, and another content, is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// In bytes.
    pub size: u64,
    pub inode: u64,
    /// Nanoseconds since the Unix epoch of the last change of the file or its attributes. A program can't set it.
    pub changed_ns: i64,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    pub name: Vec<u8>,
    pub kind: EntryKind,
    /// The permissions.
    pub mode: u32,
    /// Unix milliseconds of the last change of the content.
    pub modified_ms: i64,
    pub version: FileVersion,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Folder,
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

/// The reason why a [`FileRequest`] was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRefusal {
    NotFound,
    /// The path leads outside the folder, or through a link.
    Outside,
    /// A file is needed, and a folder is there.
    IsFolder,
    /// A folder is needed, and something else is there.
    NotFolder,
    /// A file is needed, and a FIFO is there.
    IsFifo,
    /// A file is needed, and a socket is there.
    IsSocket,
    /// A file is needed, and a device is there.
    IsDevice,
    /// A file is needed, and a socket or a device is there, which can't be opened to tell them apart.
    IsSpecial,
    /// The file is another one than before, or not the draft that it should be.
    Changed,
    /// A system call failed.
    System,
}

impl FileRefusal {
    const ALL: [Self; 10] = [
        Self::NotFound,
        Self::Outside,
        Self::IsFolder,
        Self::NotFolder,
        Self::IsFifo,
        Self::IsSocket,
        Self::IsDevice,
        Self::IsSpecial,
        Self::Changed,
        Self::System,
    ];
}

impl EntryKind {
    const ALL: [Self; 4] = [Self::File, Self::Folder, Self::Link, Self::Special];
}

impl FileRequest {
    pub(super) fn encode(&self, out: &mut Writer) {
        out.bytes(&self.root);
        out.bytes(&self.path);
        match &self.action {
            FileAction::Look => out.u8(0),
            FileAction::List { after, most } => {
                out.u8(1);
                out.bytes(after);
                out.u32(*most);
            }
            FileAction::Read { offset, most, version } => {
                out.u8(2);
                out.u64(*offset);
                out.u32(*most);
                out.u8(u8::from(version.is_some()));
                if let Some(version) = version {
                    out.version(version);
                }
            }
            FileAction::Write { draft, bytes, mode } => {
                out.u8(3);
                out.u64(*draft);
                out.bytes(bytes);
                out.mode(*mode);
            }
            FileAction::Part { draft, offset, bytes } => {
                out.u8(4);
                out.u64(*draft);
                out.u64(*offset);
                out.bytes(bytes);
            }
            FileAction::Commit { draft, size, mode } => {
                out.u8(5);
                out.u64(*draft);
                out.u64(*size);
                out.mode(*mode);
            }
            FileAction::Discard { draft } => {
                out.u8(6);
                out.u64(*draft);
            }
            FileAction::MakeFolder => out.u8(7),
            FileAction::Remove => out.u8(8),
            FileAction::RemoveFolder => out.u8(9),
            FileAction::ReadLink => out.u8(10),
            FileAction::MakeLink { draft, target } => {
                out.u8(11);
                out.u64(*draft);
                out.bytes(target);
            }
            FileAction::SetMode { mode } => {
                out.u8(12);
                out.u32(*mode);
            }
            FileAction::Clock => out.u8(13),
            FileAction::Put { draft, offset, bytes, mode } => {
                out.u8(14);
                out.u64(*draft);
                out.u64(*offset);
                out.bytes(bytes);
                out.u32(*mode);
            }
            FileAction::Hole { draft, offset, size } => {
                out.u8(15);
                out.u64(*draft);
                out.u64(*offset);
                out.u64(*size);
            }
            FileAction::Sync => out.u8(16),
        }
    }

    pub(super) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let (root, path) = (input.bytes(MAX_PATH)?, input.bytes(MAX_PATH)?);
        let action = match input.u8()? {
            0 => FileAction::Look,
            1 => FileAction::List { after: input.bytes(MAX_NAME)?, most: input.u32()? },
            2 => FileAction::Read {
                offset: input.u64()?,
                most: input.u32()?,
                version: match input.bool()? {
                    true => Some(input.version()?),
                    false => None,
                },
            },
            3 => {
                FileAction::Write { draft: input.u64()?, bytes: input.bytes(MAX_PART)?, mode: input.mode()? }
            }
            4 => {
                FileAction::Part { draft: input.u64()?, offset: input.u64()?, bytes: input.bytes(MAX_PART)? }
            }
            5 => FileAction::Commit { draft: input.u64()?, size: input.u64()?, mode: input.mode()? },
            6 => FileAction::Discard { draft: input.u64()? },
            7 => FileAction::MakeFolder,
            8 => FileAction::Remove,
            9 => FileAction::RemoveFolder,
            10 => FileAction::ReadLink,
            11 => FileAction::MakeLink { draft: input.u64()?, target: input.bytes(MAX_PATH)? },
            12 => FileAction::SetMode { mode: input.u32()? },
            13 => FileAction::Clock,
            14 => FileAction::Put {
                draft: input.u64()?,
                offset: input.u64()?,
                bytes: input.bytes(MAX_PART)?,
                mode: input.u32()?,
            },
            15 => FileAction::Hole { draft: input.u64()?, offset: input.u64()?, size: input.u64()? },
            16 => FileAction::Sync,
            _ => return None,
        };
        Some(Self { root, path, action })
    }
}

impl FileReply {
    pub(super) fn encode(&self, out: &mut Writer) {
        match self {
            Self::Done => out.u8(0),
            Self::Entry(entry) => {
                out.u8(1);
                out.entry(entry);
            }
            Self::Entries { entries, next } => {
                out.u8(2);
                out.u32(entries.len() as u32);
                entries.iter().for_each(|entry| out.entry(entry));
                out.bytes(next);
            }
            Self::Bytes { bytes, version } => {
                out.u8(3);
                out.bytes(bytes);
                out.version(version);
            }
            Self::Clock(now) => {
                out.u8(5);
                out.u64(*now as u64);
            }
            Self::Refused { why, errno } => {
                out.u8(4);
                out.u8(*why as u8);
                out.u32(*errno);
            }
        }
    }

    pub(super) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        Some(match input.u8()? {
            0 => Self::Done,
            1 => Self::Entry(input.entry()?),
            2 => Self::Entries {
                entries: input.list(MAX_LISTED, Reader::entry)?,
                next: input.bytes(MAX_NAME)?,
            },
            3 => Self::Bytes { bytes: input.bytes(MAX_PART)?, version: input.version()? },
            4 => Self::Refused { why: *FileRefusal::ALL.get(usize::from(input.u8()?))?, errno: input.u32()? },
            5 => Self::Clock(input.u64()? as i64),
            _ => return None,
        })
    }
}

impl Writer {
    fn version(&mut self, version: &FileVersion) {
        self.u64(version.size);
        self.u64(version.inode);
        self.u64(version.changed_ns as u64);
    }

    fn mode(&mut self, mode: Option<u32>) {
        self.u8(u8::from(mode.is_some()));
        if let Some(mode) = mode {
            self.u32(mode);
        }
    }

    fn entry(&mut self, entry: &FileEntry) {
        self.bytes(&entry.name);
        self.u8(entry.kind as u8);
        self.u32(entry.mode);
        self.u64(entry.modified_ms as u64);
        self.version(&entry.version);
    }
}

impl Reader<'_> {
    fn version(&mut self) -> Option<FileVersion> {
        Some(FileVersion { size: self.u64()?, inode: self.u64()?, changed_ns: self.u64()? as i64 })
    }

    fn mode(&mut self) -> Option<Option<u32>> {
        Some(match self.bool()? {
            true => Some(self.u32()?),
            false => None,
        })
    }

    fn entry(&mut self) -> Option<FileEntry> {
        Some(FileEntry {
            name: self.bytes(MAX_NAME)?,
            kind: *EntryKind::ALL.get(usize::from(self.u8()?))?,
            mode: self.u32()?,
            modified_ms: self.u64()? as i64,
            version: self.version()?,
        })
    }
}

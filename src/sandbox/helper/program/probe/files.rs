//! Checks which places can be written, which mounts exist, and where sockets and devices are.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::calls::{self, Device};
use super::{Lines, MAX_ENTRIES, MAX_WALK};

/// Paths to try in addition to every mount.
const WRITES: [&str; 20] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/etc/passwd",
    "/home",
    "/lib",
    "/nix",
    "/nix/store",
    "/nix/var",
    "/opt",
    "/root",
    "/run",
    "/srv",
    "/usr",
    "/var",
    "/var/tmp",
    "/tmp",
    "/workspace",
];
/// Files of the kernel whose effect reaches beyond a sandbox.
const KERNEL: [&str; 6] = [
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/kcore",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/release_agent",
];
/// Character devices that are harmless.
const DEVICES: [&str; 8] = [
    "/dev/console",
    "/dev/full",
    "/dev/null",
    "/dev/ptmx",
    "/dev/random",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
];
/// Folders to search and their depth, in this order. `/dev` is first, because a search in a slow file system (gVisor's)
/// ends by its time limit. The Nix store is left out, because it holds no sockets but up to a million files.
const PLACES: [(&str, usize); 11] = [
    ("/dev", 4),
    ("/run", 6),
    ("/var", 6),
    ("/nix/var", 8),
    ("/tmp", 3),
    ("/workspace", 3),
    ("/", 1),
    ("/etc", 2),
    ("/home", 3),
    ("/root", 3),
    ("/nix/store", 1),
];

pub struct Mount {
    target: PathBuf,
    kind: String,
    read_only: bool,
}

/// Reports `mount=<ro|rw> <type> <target> <part of its source> <source>` for each mount.
pub fn mounts(lines: &mut Lines) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for line in fs::read("/proc/self/mountinfo").unwrap_or_default().split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        // The fields before the dash vary in number. The type and the source come after it.
        let Some(dash) = words.iter().position(|word| *word == b"-") else { continue };
        let ([_, _, _, root, target, options, ..], [_, kind, source, ..]) = (&words[..], &words[dash..])
        else {
            continue;
        };
        let read_only = options.split(|byte| *byte == b',').any(|option| option == b"ro");
        let target = unescape(target);
        lines.say(
            "mount",
            &[if read_only { b"ro" } else { b"rw" }, kind, &target, &unescape(root), &unescape(source)],
        );
        mounts.push(Mount {
            target: PathBuf::from(OsString::from_vec(target)),
            kind: String::from_utf8_lossy(kind).into_owned(),
            read_only,
        });
    }
    mounts
}

/// Reports `writable=<path>` for each folder that accepts a new file and each file that opens for writing.
pub fn writes(mounts: &[Mount], lines: &mut Lines) {
    let fixed = WRITES.iter().map(PathBuf::from);
    let mounted =
        mounts.iter().filter(|mount| !mount.read_only && !is_kernel(mount)).map(|m| m.target.clone());
    let mut paths: Vec<PathBuf> = fixed.chain(mounted).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        if takes_writes(&path) {
            lines.say("writable", &[path.as_os_str().as_bytes()]);
        }
    }
    for path in KERNEL {
        if OpenOptions::new().write(true).open(path).is_ok() {
            lines.say("writable", &[path.as_bytes()]);
        }
    }
    // A control group is writable if another group can be created in it.
    for mount in mounts.iter().filter(|mount| mount.kind.starts_with("cgroup")) {
        let group = mount.target.join(".flock-probe");
        if fs::create_dir(&group).is_ok() {
            let _ = fs::remove_dir(&group);
            lines.say("writable", &[mount.target.as_os_str().as_bytes()]);
        }
    }
}

fn takes_writes(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    if metadata.is_dir() {
        // A new file with its own name, so that no file of the agent is touched.
        let file = path.join(format!(".flock-probe-{}", std::process::id()));
        let made = OpenOptions::new().write(true).create_new(true).open(&file).is_ok();
        if made {
            let _ = fs::remove_file(&file);
        }
        return made;
    }
    metadata.is_file() && OpenOptions::new().write(true).open(path).is_ok()
}

fn is_kernel(mount: &Mount) -> bool {
    matches!(mount.kind.as_str(), "proc" | "sysfs" | "devpts" | "mqueue") || mount.kind.starts_with("cgroup")
}

/// Reports `device=<path>` for each device that opens for reading or writing, and `walked=<entries> <whole|truncated>`.
pub fn walk(mounts: &[Mount], lines: &mut Lines) -> Vec<PathBuf> {
    let start = Instant::now();
    let mut sockets = Vec::new();
    let mut places: Vec<(PathBuf, usize)> =
        PLACES.iter().rev().map(|(path, deep)| (path.into(), *deep)).collect();
    // Other mounts may be parts of the host. A single mounted file may itself be a socket.
    for mount in mounts.iter().filter(|mount| !is_kernel(mount)) {
        let listed = |place: &str| Path::new(place) == mount.target || mount.target.starts_with("/nix");
        match fs::symlink_metadata(&mount.target) {
            Ok(metadata) if metadata.file_type().is_socket() => sockets.push(mount.target.clone()),
            Ok(metadata) if metadata.is_dir() && !PLACES.iter().any(|(place, _)| listed(place)) => {
                places.push((mount.target.clone(), 3));
            }
            _ => {}
        }
    }
    let (mut entries, mut truncated) = (0, false);
    while let Some((folder, deep)) = places.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES || start.elapsed() > MAX_WALK {
                truncated = true;
                places.clear();
                break;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_socket() {
                sockets.push(path);
            } else if kind.is_block_device() || kind.is_char_device() {
                device(&path, lines);
            } else if kind.is_dir() && deep > 1 && !(folder == Path::new("/") && is_listed(&path)) {
                places.push((path, deep - 1));
            }
        }
    }
    lines.say("walked", &[entries.to_string().as_bytes(), if truncated { b"truncated" } else { b"whole" }]);
    let made = std::env::temp_dir().join(format!(".flock-probe-{}", std::process::id()));
    let result: &[u8] = match calls::make_device(&made) {
        Device::Refused => b"closed",
        Device::Empty => b"empty",
        Device::Made => b"open",
    };
    lines.say("mknod", &[result]);
    sockets
}

fn is_listed(path: &Path) -> bool {
    PLACES.iter().any(|(place, _)| Path::new(place) == path)
}

fn device(path: &Path, lines: &mut Lines) {
    if DEVICES.iter().any(|known| Path::new(known) == path) || path.starts_with("/dev/pts") {
        return;
    }
    const O_NONBLOCK_NOCTTY: i32 = 0o4000 | 0o400;
    let opens = |write: bool| {
        OpenOptions::new().read(!write).write(write).custom_flags(O_NONBLOCK_NOCTTY).open(path).is_ok()
    };
    if opens(true) || opens(false) {
        lines.say("device", &[path.as_os_str().as_bytes()]);
    }
}

/// Decodes a path of mountinfo, in which the kernel writes blanks, tabs, line ends and backslashes as three octal
/// digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((byte, after)) = rest.split_first() {
        match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if *byte == b'\\' => {
                plain.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(*byte);
                rest = after;
            }
        }
    }
    plain
}

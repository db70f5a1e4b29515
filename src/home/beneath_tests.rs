use super::*;

use std::os::unix::fs::symlink;

fn workspace() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("ws")).unwrap();
    std::fs::write(dir.path().join("secret"), "secret").unwrap();
    let root = Root::open(&dir.path().join("ws")).unwrap();
    (dir, root)
}

fn to_path(text: &str) -> &Path {
    Path::new(text)
}

#[test]
fn files_are_written_and_read_back() {
    let (dir, root) = workspace();
    root.create_dir_all(to_path("a/b"), None).unwrap();
    root.write(to_path("a/b/c.txt"), b"one", None, None).unwrap();
    root.write(to_path("./a/b/c.txt"), b"two", None, None).unwrap();
    assert_eq!(root.read(to_path("a/b/c.txt"), 10).unwrap(), b"two");
    let (entries, more) = root.list(to_path("a/b"), 10).unwrap();
    assert_eq!((entries.len(), more), (1, false));
    assert_eq!(entries[0].path, to_path("a/b/c.txt"));
    assert_eq!(std::fs::read_dir(dir.path().join("ws/a/b")).unwrap().count(), 1, "no temporary file stays");
    assert!(root.list(Path::new(""), 10).unwrap().0.iter().any(|entry| entry.kind == FileKind::Folder));
    root.remove(to_path("a/b/c.txt")).unwrap();
    assert!(matches!(root.read(to_path("a/b/c.txt"), 10), Err(BeneathError::NotFound { .. })));
}

#[test]
fn a_rename_moves_between_folders_and_replaces_nothing() {
    let (dir, root) = workspace();
    root.create_dir_all(to_path("a"), None).unwrap();
    root.create_dir_all(to_path("b"), None).unwrap();
    root.write(to_path("a/one"), b"one", None, None).unwrap();
    assert!(root.rename(to_path("a/one"), to_path("b/two")).unwrap());
    assert_eq!(root.read(to_path("b/two"), 10).unwrap(), b"one");
    root.write(to_path("a/one"), b"other", None, None).unwrap();
    assert!(!root.rename(to_path("a/one"), to_path("b/two")).unwrap(), "the name is in use");
    assert_eq!(root.read(to_path("b/two"), 10).unwrap(), b"one");
    symlink("..", dir.path().join("ws/up")).unwrap();
    assert!(root.rename(to_path("a/one"), to_path("up/stolen")).is_err());
    assert!(!dir.path().join("stolen").exists());
}

#[test]
fn a_rewritten_file_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, root) = workspace();
    root.write(to_path("run.sh"), b"1", Some(0o755), None).unwrap();
    root.write(to_path("run.sh"), b"2", None, None).unwrap();
    let mode = std::fs::metadata(dir.path().join("ws/run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn nothing_leads_outside() {
    let (dir, root) = workspace();
    let ws = dir.path().join("ws");
    symlink("../secret", ws.join("link")).unwrap();
    symlink("..", ws.join("up")).unwrap();
    symlink("/etc", ws.join("etc")).unwrap();
    std::fs::write(ws.join("inside"), "x").unwrap();
    symlink("inside", ws.join("inner")).unwrap();
    for path in ["../secret", "/etc/passwd", "a/../../secret", "link", "up/secret", "etc/passwd", "inner"] {
        let read = root.read(to_path(path), 100).unwrap_err();
        assert!(
            matches!(read, BeneathError::Outside { .. } | BeneathError::WrongKind { .. }),
            "read {path}: {read:?}"
        );
        assert!(root.write(to_path(path), b"x", None, None).is_err(), "write {path}");
    }
    assert!(root.create_dir_all(to_path("up/new"), None).is_err());
    assert!(root.list(to_path("up"), 10).is_err());
    assert_eq!(std::fs::read(dir.path().join("secret")).unwrap(), b"secret");
}

#[test]
fn the_fallback_for_old_kernels_refuses_the_same() {
    let (dir, root) = workspace();
    let ws = dir.path().join("ws");
    std::fs::create_dir(ws.join("d")).unwrap();
    std::fs::write(ws.join("d/f"), "x").unwrap();
    symlink("..", ws.join("up")).unwrap();
    symlink("../secret", ws.join("link")).unwrap();
    let open = |names: &[&str]| {
        let names: Vec<&OsStr> = names.iter().map(OsStr::new).collect();
        root.resolve_stepwise(&names, OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
    };
    assert!(open(&["d", "f"]).is_ok());
    assert!(open(&["up", "secret"]).is_err());
    assert!(open(&["link"]).is_err());
}

#[test]
fn only_regular_files_are_read_and_nothing_blocks() {
    let (dir, root) = workspace();
    let ws = dir.path().join("ws");
    nix::unistd::mkfifo(&ws.join("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(ws.join("socket")).unwrap();
    std::fs::create_dir(ws.join("folder")).unwrap();
    for path in ["fifo", "socket", "folder"] {
        let error = root.read(to_path(path), 100).unwrap_err();
        assert!(matches!(error, BeneathError::WrongKind { .. }), "{path}: {error:?}");
        assert!(root.write(to_path(path), b"x", None, None).is_err(), "write {path}");
    }
}

#[test]
fn a_file_over_the_cap_is_refused() {
    let (_dir, root) = workspace();
    root.write(to_path("big"), &[b'x'; 1000], None, None).unwrap();
    assert!(matches!(root.read(to_path("big"), 999), Err(BeneathError::TooLarge { size: 1000, .. })));
    assert_eq!(root.read(to_path("big"), 1000).unwrap().len(), 1000);
}

#[test]
fn nothing_is_changed_behind_a_closed_fence() {
    let (dir, root) = workspace();
    let fence = WriteFence::new();
    let root = root.fenced(fence.clone());
    root.write(to_path("kept"), b"kept", None, None).unwrap();
    root.create_dir_all(to_path("folder"), None).unwrap();
    root.set_mode(to_path("kept"), 0o640).unwrap();
    fence.write_until(crate::clock::boot_ms());
    let (kept, folder, new) = (to_path("kept"), to_path("folder"), to_path("new"));
    for (what, done) in [
        ("write", root.write(kept, b"late", None, None)),
        ("create_dir_all", root.create_dir_all(new, None)),
        ("create_dir", root.create_dir(new, None)),
        ("create_file", root.create_file(new, None).map(drop)),
        ("link", root.link(new, kept)),
        ("hard_link", root.hard_link(kept, new)),
        ("rename", root.rename(kept, new).map(drop)),
        ("replace", root.replace(kept, new)),
        ("exchange", root.exchange(kept, folder)),
        ("remove", root.remove(kept)),
        ("remove_folder", root.remove_folder(folder)),
        ("set_mode", root.set_mode(kept, 0o600)),
        ("change_owner", root.change_owner(kept, Some((1, 1)))),
    ] {
        assert!(matches!(done, Err(BeneathError::CutOff { .. })), "{what}: {done:?}");
    }
    let (entries, _) = root.list(Path::new(""), 10).unwrap();
    let names: Vec<&Path> = entries.iter().map(|entry| entry.path.as_path()).collect();
    assert_eq!(names, [folder, kept], "no temporary file stays");
    assert_eq!((root.read(kept, 10).unwrap(), root.mode(kept).unwrap()), (b"kept".to_vec(), 0o640));
    // Others, such as commands, have no fence.
    Root::open(&dir.path().join("ws")).unwrap().write(kept, b"new", None, None).unwrap();
}

use std::os::unix::fs::symlink;

use super::*;
use crate::home::beneath::{BeneathError, FileKind, Root};
use crate::sandbox::helper::file_message::EntryKind;
use crate::sandbox::testing::helper;

/// Returns the refusal of the helper that stands for an error of flock's own access.
fn same(error: &BeneathError) -> FileRefusal {
    match error {
        BeneathError::Outside { .. } => FileRefusal::Outside,
        BeneathError::NotFound { .. } => FileRefusal::NotFound,
        BeneathError::WrongKind { wanted: "a folder", .. } => FileRefusal::NotFolder,
        BeneathError::WrongKind { found: "a folder", .. } => FileRefusal::IsFolder,
        BeneathError::WrongKind { found: "a FIFO", .. } => FileRefusal::IsFifo,
        BeneathError::WrongKind { found: "a socket", .. } => FileRefusal::IsSocket,
        BeneathError::WrongKind { found: "a device", .. } => FileRefusal::IsDevice,
        BeneathError::WrongKind { .. } => FileRefusal::IsSpecial,
        _ => FileRefusal::System,
    }
}

/// Paths of what [`fill`] makes, and of what is not there.
const PATHS: [&str; 19] = [
    "",
    ".",
    "file",
    "./file",
    "folder",
    "folder/",
    "folder/file",
    "folder/./file",
    "folder/../file",
    "../outside/secret",
    "/etc/passwd",
    "up",
    "up/secret",
    "link",
    "within",
    "file/below",
    "fifo",
    "nothing",
    "nothing/below",
];

fn fill(folder: &Path) -> PathBuf {
    let (place, outside) = (folder.join("place"), folder.join("outside"));
    std::fs::create_dir_all(place.join("folder")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    std::fs::write(place.join("file"), "file").unwrap();
    std::fs::write(place.join("folder/file"), "inner").unwrap();
    symlink("../outside", place.join("up")).unwrap();
    symlink("../outside/secret", place.join("link")).unwrap();
    symlink("file", place.join("within")).unwrap();
    nix::unistd::mkfifo(&place.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    place
}

#[tokio::test]
async fn the_helper_reaches_and_refuses_what_flocks_own_access_does() {
    let (own_folder, helpers_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let own = Root::open(&fill(own_folder.path())).unwrap();
    let place = fill(helpers_folder.path());
    let (_child, client) = helper(helpers_folder.path(), &place).await;
    let files = client.files();
    let compare =
        |what: &str, path: &str, own: Result<String, BeneathError>, its: Result<String, FileError>| {
            // Flock's own access can't always tell a link on the way from a file.
            let plain =
                |why: FileRefusal| if why == FileRefusal::NotFolder { FileRefusal::Outside } else { why };
            let own = own.map_err(|error| plain(same(&error)));
            let its = its.map_err(|error| plain(error.refusal().unwrap()));
            assert_eq!(own, its, "{what} {path:?}");
        };
    for path in PATHS {
        let at = Path::new(path);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        // Flock's own access has no entry for the folder itself, and no content.
        let is_root = matches!(path, "" | ".");
        if !is_root {
            compare("read", path, own.read(at, 100).map(text), files.read(at, 100).await.map(text));
        }
        let kind = |kind: FileKind| match kind {
            FileKind::File => EntryKind::File,
            FileKind::Folder => EntryKind::Folder,
            FileKind::Link => EntryKind::Link,
            FileKind::Other => EntryKind::Special,
        };
        if !is_root {
            let found = own.stat(at).map(|entry| format!("{:?}", kind(entry.kind)));
            let its = files.look(at).await.map(|entry| format!("{:?}", entry.kind));
            compare("look at", path, found, its);
        }
        let found = own.list(at, 100).map(|(entries, more)| {
            let names = entries.iter().map(|entry| entry.path.file_name().unwrap().to_owned());
            format!("{:?} {more}", names.collect::<Vec<_>>())
        });
        let its = files.list(at, 100).await.map(|(entries, more)| {
            let names = entries.iter().map(|entry| std::ffi::OsStr::from_bytes(&entry.name).to_owned());
            format!("{:?} {more}", names.collect::<Vec<_>>())
        });
        compare("list", path, found, its);
    }
    // Changes come last, in an order in which each path still is what it was made as.
    for path in PATHS {
        let at = Path::new(path);
        let done = |()| "done".to_owned();
        let (made, its) = (own.write(at, b"new", None, None), files.write(at, b"new", None).await);
        compare("write", path, made.map(done), its.map(done));
        let (made, its) = (own.create_dir_all(at, None), files.create_dir_all(at).await);
        compare("make the folder", path, made.map(done), its.map(done));
    }
    for path in PATHS {
        let at = Path::new(path);
        let done = |()| "done".to_owned();
        let (removed, its) = (own.remove(at), files.remove(at).await);
        compare("remove", path, removed.map(done), its.map(done));
    }
    let secret = |folder: &Path| std::fs::read_to_string(folder.join("outside/secret")).unwrap();
    assert_eq!(
        (secret(own_folder.path()), secret(helpers_folder.path())),
        ("secret".into(), "secret".into())
    );
}

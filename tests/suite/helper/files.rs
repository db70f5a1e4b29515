//! The files of a workspace, as the helper reaches them.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use flock::sandbox::helper::FileError;
use flock::sandbox::helper::file_message::{
    EntryKind, FileAction, FileEntry, FileRefusal, FileReply, FileRequest, FileVersion, MAX_LISTED, MAX_PART,
};
use flock::sandbox::helper::frame::{self, Decoder};
use flock::sandbox::helper::message::{HELLO, Reply, Request, VERSION};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const CAP: u64 = 10 << 20;

impl Helper {
    /// A new folder below which everything in a test happens.
    fn place(&self) -> PathBuf {
        let place = self.folder.path().join("place");
        std::fs::create_dir(&place).unwrap();
        place
    }

    async fn attach_at(&self, place: &Path) -> HelperClient {
        let (reader, writer) = self.streams();
        let client = HelperClient::attach(reader, writer, None).await.unwrap();
        let root = place.to_str().unwrap().to_owned();
        client.with_environment(Environment { root, ..Environment::default() })
    }
}

fn to_path(text: &str) -> &Path {
    Path::new(text)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn files_are_written_read_and_removed_in_one_frame_and_in_many() {
    let helper = Helper::start();
    let place = helper.place();
    let client = helper.attach_at(&place).await;
    let files = client.files();
    files.create_dir_all(to_path("a/b")).await.unwrap();
    files.create_dir_all(to_path("a/b")).await.unwrap();
    let numbers = (0..3 * MAX_PART + 5).map(|number| (number % 251) as u8);
    let large: Vec<u8> = numbers.collect();
    for (name, bytes) in [("a/b/empty", &b""[..]), ("a/b/small", &b"one"[..]), ("./a/b/large", &large[..])] {
        files.write(to_path(name), bytes, None).await.unwrap();
        assert!(files.read(to_path(name), CAP).await.unwrap() == bytes, "{name}");
        assert!(std::fs::read(place.join(name)).unwrap() == bytes, "{name}");
        files.write(to_path(name), b"two", None).await.unwrap();
        assert_eq!(files.read(to_path(name), 3).await.unwrap(), b"two");
    }
    assert_eq!(names(&place.join("a/b")), ["empty", "large", "small"], "no draft stays");
    let error = files.read(to_path("a/b/small"), 2).await.unwrap_err();
    assert!(matches!(error, FileError::TooLarge { size: 3, cap: 2, .. }), "{error}");
    let entry = files.look(to_path("a/b/small")).await.unwrap();
    assert_eq!((entry.kind, entry.version.size), (EntryKind::File, 3));
    assert_eq!(files.look(to_path("")).await.unwrap().kind, EntryKind::Folder);
    files.remove(to_path("a/b/small")).await.unwrap();
    let error = files.read(to_path("a/b/small"), 2).await.unwrap_err();
    assert_eq!(error.refusal(), Some(FileRefusal::NotFound));
}

#[tokio::test]
async fn a_file_keeps_its_permissions_and_gets_no_others_than_those_asked_for() {
    let helper = Helper::start();
    let place = helper.place();
    let client = helper.attach_at(&place).await;
    let files = client.files();
    let mode = |name: &str| std::fs::metadata(place.join(name)).unwrap().permissions().mode() & 0o7777;
    let large = vec![7_u8; MAX_PART + 1];
    for (name, bytes) in [("small", &b"x"[..]), ("large", &large[..])] {
        files.write(to_path(name), bytes, None).await.unwrap();
        assert_eq!(mode(name), 0o644);
        files.write(to_path(name), bytes, Some(0o6755)).await.unwrap();
        assert_eq!(mode(name), 0o755, "no file is made setuid");
        files.write(to_path(name), bytes, None).await.unwrap();
        assert_eq!(mode(name), 0o755);
    }
}

#[tokio::test]
async fn a_folder_of_any_size_is_listed_in_order() {
    let helper = Helper::start();
    let place = helper.place();
    let client = helper.attach_at(&place).await;
    let files = client.files();
    let count = 2 * MAX_LISTED + 10;
    let name = |number: usize| format!("{number:05}");
    for number in 0..count {
        std::fs::write(place.join(name(number)), "").unwrap();
    }
    for cap in [1, MAX_LISTED - 1, MAX_LISTED, MAX_LISTED + 1, count - 1, count, count + 1] {
        let (found, more) = files.list(to_path(""), cap).await.unwrap();
        assert_eq!((found.len(), more), (cap.min(count), cap < count), "{cap}");
        assert!(found.iter().enumerate().all(|(at, entry)| entry.name == name(at).as_bytes()), "{cap}");
    }
    let error = files.list(to_path("00000"), 1).await.unwrap_err();
    assert_eq!(error.refusal(), Some(FileRefusal::NotFolder));
}

#[tokio::test]
async fn nothing_leads_outside_and_nothing_but_a_file_is_read_or_replaced() {
    let helper = Helper::start();
    let place = helper.place();
    let outside = helper.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    std::fs::create_dir(place.join("folder")).unwrap();
    std::fs::write(place.join("file"), "file").unwrap();
    symlink("../outside", place.join("up")).unwrap();
    symlink(outside.join("secret"), place.join("link")).unwrap();
    symlink("file", place.join("within")).unwrap();
    nix::unistd::mkfifo(&place.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(place.join("socket")).unwrap();
    let client = helper.attach_at(&place).await;
    let files = client.files();
    for (path, why) in [
        ("../outside/secret", FileRefusal::Outside),
        ("folder/../../outside/secret", FileRefusal::Outside),
        ("/etc/passwd", FileRefusal::Outside),
        ("up/secret", FileRefusal::Outside),
        ("link", FileRefusal::Outside),
        ("within", FileRefusal::Outside),
        ("folder", FileRefusal::IsFolder),
        ("", FileRefusal::IsFolder),
        ("file/below", FileRefusal::NotFolder),
        ("fifo", FileRefusal::IsFifo),
        ("socket", FileRefusal::IsSpecial),
        ("nothing/below", FileRefusal::NotFound),
    ] {
        let read = files.read(to_path(path), CAP).await.unwrap_err();
        assert_eq!(read.refusal(), Some(why), "read {path:?}: {read}");
        let large = vec![0_u8; MAX_PART + 1];
        // What is replaced is looked at without opening it.
        let why = if why == FileRefusal::IsSpecial { FileRefusal::IsSocket } else { why };
        for bytes in [&b"new"[..], &large[..]] {
            let write = files.write(to_path(path), bytes, None).await.unwrap_err();
            assert_eq!(write.refusal(), Some(why), "write {path:?}: {write}");
        }
    }
    for path in ["up/made", "../made", "within/made", "file/made"] {
        assert!(files.create_dir_all(to_path(path)).await.is_err(), "{path}");
    }
    assert!(files.list(to_path("up"), 10).await.is_err());
    assert!(files.remove(to_path("up/secret")).await.is_err());
    assert_eq!(files.remove(to_path("folder")).await.unwrap_err().refusal(), Some(FileRefusal::IsFolder));
    assert_eq!(files.look(to_path("link")).await.unwrap().kind, EntryKind::Link);
    files.remove(to_path("link")).await.unwrap();
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "secret");
    assert_eq!(names(&outside), ["secret"]);
    assert_eq!(names(&place), ["fifo", "file", "folder", "socket", "up", "within"], "no draft stays");
}

#[test]
fn a_part_of_another_version_is_refused() {
    let helper = Helper::start();
    let place = helper.place();
    let mut raw = super::protocol::Raw::of(&helper);
    raw.greet(super::protocol::NONCE);
    let mut ask = |action: FileAction| {
        let root = place.to_str().unwrap().as_bytes().to_vec();
        let file = FileRequest { root, path: b"file".to_vec(), action };
        raw.send(&super::protocol::bytes(super::protocol::NONCE, &Request::File { request: 7, file }));
        match raw.reply(super::protocol::NONCE) {
            Reply::File { request: 7, reply } => reply,
            other => panic!("{other:?}"),
        }
    };
    let is_changed =
        |reply: &FileReply| matches!(reply, FileReply::Refused { why: FileRefusal::Changed, .. });
    std::fs::write(place.join("file"), "0123456789").unwrap();
    let read = |offset, version| FileAction::Read { offset, most: 4, version };
    let FileReply::Bytes { bytes, version } = ask(read(0, None)) else { panic!("it is read") };
    assert_eq!(bytes, b"0123");
    let FileReply::Bytes { bytes, .. } = ask(read(8, Some(version))) else { panic!("it is read") };
    assert_eq!(bytes, b"89");
    // Another file in its place, of the same size.
    std::fs::write(place.join("other"), "abcdefghij").unwrap();
    std::fs::rename(place.join("other"), place.join("file")).unwrap();
    assert!(is_changed(&ask(read(4, Some(version)))));

    // A draft that has not the size of what was sent is no file.
    assert_eq!(ask(FileAction::Part { draft: 1, offset: 0, bytes: b"new".to_vec() }), FileReply::Done);
    assert!(is_changed(&ask(FileAction::Part { draft: 1, offset: 4, bytes: b"!".to_vec() })));
    assert!(is_changed(&ask(FileAction::Commit { draft: 1, size: 4, mode: None })));
    assert_eq!(std::fs::read(place.join("file")).unwrap(), b"abcdefghij");
    assert_eq!(ask(FileAction::Commit { draft: 1, size: 3, mode: None }), FileReply::Done);
    assert_eq!(std::fs::read(place.join("file")).unwrap(), b"new");
    assert_eq!(
        ask(FileAction::Discard { draft: 1 }),
        FileReply::Done,
        "there is nothing to discard any more"
    );
}

#[tokio::test]
async fn a_large_file_that_is_given_up_leaves_nothing() {
    let helper = Helper::start();
    let place = helper.place();
    let client = helper.attach_at(&place).await;
    let files = client.files();
    let large = vec![1_u8; 20 * MAX_PART];
    let mut writes = Box::pin(files.write(to_path("large"), &large, None));
    // The first part is sent when the future is polled for the first time.
    tokio::select! {
        biased;
        written = &mut writes => panic!("twenty parts take longer than one step: {written:?}"),
        () = std::future::ready(()) => {}
    }
    drop(writes);
    // Requests are answered in their order.
    files.look(to_path("")).await.unwrap();
    assert_eq!(names(&place), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_broken_connection_had_written_gets_no_name_and_does_not_stay() {
    let helper = Helper::start();
    let place = helper.place();
    std::fs::write(place.join("large"), "old").unwrap();
    let mut raw = super::protocol::Raw::of(&helper);
    raw.greet(super::protocol::NONCE);
    let root = place.to_str().unwrap().as_bytes().to_vec();
    for (number, name) in [(1, "large"), (2, "new")] {
        let action = FileAction::Part { draft: number, offset: 0, bytes: vec![1; MAX_PART] };
        let file = FileRequest { root: root.clone(), path: name.as_bytes().to_vec(), action };
        raw.send(&super::protocol::bytes(super::protocol::NONCE, &Request::File { request: 7, file }));
        let reply = raw.reply(super::protocol::NONCE);
        assert_eq!(reply, Reply::File { request: 7, reply: FileReply::Done });
    }
    assert_eq!(names(&place).len(), 3, "two drafts beside the old file");
    drop(raw);
    let client = helper.attach_at(&place).await;
    assert_eq!(client.files().read(to_path("large"), CAP).await.unwrap(), b"old");
    assert_eq!(names(&place), ["large"]);
}

#[tokio::test]
async fn links_and_permissions_are_those_of_the_entry_itself() {
    let helper = Helper::start();
    let place = helper.place();
    let client = helper.attach_at(&place).await;
    let files = client.files();
    files.put_link(to_path("link"), 1, to_path("../outside")).await.unwrap();
    assert_eq!(files.read_link(to_path("link")).await.unwrap(), to_path("../outside"));
    files.write(to_path("file"), b"x", None).await.unwrap();
    files.put_link(to_path("file"), 2, to_path("link")).await.unwrap();
    assert_eq!(files.read_link(to_path("file")).await.unwrap(), to_path("link"), "a file is replaced");
    files.remove(to_path("file")).await.unwrap();
    files.set_mode(to_path(""), 0o750).await.unwrap();
    assert_eq!(files.look(to_path("")).await.unwrap().mode, 0o750);
    let refused = files.set_mode(to_path("link"), 0o600).await.unwrap_err();
    assert_eq!(refused.refusal(), Some(FileRefusal::Outside));
    files.create_dir_all(to_path("folder")).await.unwrap();
    files.set_mode(to_path("folder"), 0o700).await.unwrap();
    assert_eq!(files.look(to_path("folder")).await.unwrap().mode, 0o700);
    assert!(files.put_link(to_path("folder"), 3, to_path("link")).await.is_err(), "a folder is not replaced");
    files.write(to_path("folder/file"), b"x", None).await.unwrap();
    assert!(files.remove_folder(to_path("folder")).await.is_err(), "it is not empty");
    files.remove(to_path("folder/file")).await.unwrap();
    files.remove_folder(to_path("folder")).await.unwrap();
    assert!(files.remove_folder(to_path("link")).await.is_err());
    assert_eq!(names(&place), ["link"]);
}

/// A client of something that answers requests for files as `answer` says.
async fn answered(mut answer: impl FnMut(FileAction) -> FileReply + Send + 'static) -> HelperClient {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(theirs);
        let mut decoder = Decoder::new(HELLO);
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            decoder.push(&buffer[..count]);
            while let Some(found) = decoder.next_frame() {
                let reply = match Request::decode(found.kind, &found.payload) {
                    Some(Request::Hello { .. }) => Reply::Welcome { version: VERSION, listens: false },
                    Some(Request::File { request, file }) => {
                        Reply::File { request, reply: answer(file.action) }
                    }
                    other => panic!("{other:?}"),
                };
                let (kind, payload) = reply.encode();
                let mut out = Vec::new();
                frame::encode(kind, &found.nonce, &payload, &mut out).unwrap();
                if writer.write_all(&out).await.is_err() {
                    return;
                }
            }
        }
    });
    let (reader, writer) = tokio::io::split(ours);
    HelperClient::attach(reader, writer, None).await.unwrap()
}

fn version(size: u64) -> FileVersion {
    FileVersion { size, inode: 1, changed_ns: 1 }
}

fn entries(names: &[&[u8]], next: &[u8]) -> FileReply {
    let entry = |name: &&[u8]| FileEntry {
        name: name.to_vec(),
        kind: EntryKind::File,
        mode: 0o644,
        modified_ms: -1,
        version: version(u64::MAX),
    };
    FileReply::Entries { entries: names.iter().map(entry).collect(), next: next.to_vec() }
}

#[test]
fn a_message_has_one_encoding_and_a_part_of_it_is_none() {
    let known = FileVersion { size: 1, inode: 2, changed_ns: -3 };
    let actions = [
        FileAction::Look,
        FileAction::List { after: b"a".to_vec(), most: 7 },
        FileAction::Read { offset: 1 << 40, most: 5, version: None },
        FileAction::Read { offset: 0, most: 5, version: Some(known) },
        FileAction::Write { draft: 9, bytes: b"x".to_vec(), mode: Some(0o600) },
        FileAction::Part { draft: 9, offset: 4, bytes: vec![] },
        FileAction::Commit { draft: 9, size: 4, mode: None },
        FileAction::Discard { draft: u64::MAX },
        FileAction::MakeFolder,
        FileAction::Remove,
        FileAction::RemoveFolder,
        FileAction::ReadLink,
        FileAction::MakeLink { draft: 9, target: b"../a".to_vec() },
        FileAction::SetMode { mode: 0o700 },
        FileAction::Clock,
        FileAction::Put { draft: 9, offset: 4, bytes: b"x".to_vec(), mode: 0o600 },
        FileAction::Hole { draft: 9, offset: 4, size: 1 << 40 },
        FileAction::Sync,
    ];
    for action in actions {
        let file = FileRequest { root: b"/workspace".to_vec(), path: b"a/b".to_vec(), action };
        let request = Request::File { request: 3, file };
        let (kind, payload) = request.encode();
        for cut in 0..payload.len() {
            assert_eq!(Request::decode(kind, &payload[..cut]), None, "{request:?} cut at {cut}");
        }
        assert_eq!(Request::decode(kind, &[&payload[..], &[0]].concat()), None, "{request:?}");
        assert_eq!(Request::decode(kind, &payload), Some(request));
    }
    let refused = |why| FileReply::Refused { why, errno: 13 };
    let replies = [
        FileReply::Done,
        FileReply::Clock(-5),
        entries(&[b"a", b"b"], b"b"),
        FileReply::Bytes { bytes: b"x".to_vec(), version: known },
        refused(FileRefusal::NotFound),
        refused(FileRefusal::Outside),
        refused(FileRefusal::IsFolder),
        refused(FileRefusal::NotFolder),
        refused(FileRefusal::IsFifo),
        refused(FileRefusal::IsSocket),
        refused(FileRefusal::IsDevice),
        refused(FileRefusal::IsSpecial),
        refused(FileRefusal::Changed),
        refused(FileRefusal::System),
    ];
    let kinds = [EntryKind::File, EntryKind::Folder, EntryKind::Link, EntryKind::Special];
    let looks = kinds.map(|kind| {
        let name = Vec::new();
        FileReply::Entry(FileEntry { name, kind, mode: 0o755, modified_ms: 5, version: known })
    });
    for reply in replies.into_iter().chain(looks) {
        let reply = Reply::File { request: 3, reply };
        let (kind, payload) = reply.encode();
        for cut in 0..payload.len() {
            assert_eq!(Reply::decode(kind, &payload[..cut]), None, "{reply:?} cut at {cut}");
        }
        assert_eq!(Reply::decode(kind, &payload), Some(reply));
    }
}

#[tokio::test]
async fn a_sandbox_that_answers_wrongly_gets_nobody_to_ask_for_ever_or_to_take_more_than_was_asked_for() {
    for wrong in [
        entries(&[b"b", b"a"], b""),
        entries(&[b"a", b"a"], b""),
        entries(&[b"a/b"], b""),
        entries(&[b".."], b""),
        entries(&[b"a\0"], b""),
        entries(&[b"b"], b"a"),
        FileReply::Done,
    ] {
        let shown = format!("{wrong:?}");
        let client = answered(move |_| wrong.clone()).await;
        let found = client.files().list(to_path(""), 10).await;
        assert!(matches!(found, Err(FileError::Helper { .. })), "{shown}");
    }
    // Lists without an end.
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let client = answered(move |_| entries(&[], &count.fetch_add(1, Ordering::Relaxed).to_be_bytes())).await;
    assert!(client.files().list(to_path(""), 10).await.is_err());
    assert!(asked.load(Ordering::Relaxed) < 100, "it is not asked for ever");

    let bytes = |size: u64, count: usize| FileReply::Bytes { bytes: vec![0; count], version: version(size) };
    for (wrong, is_large) in
        [(bytes(11, 10), true), (bytes(3, 4), false), (bytes(4, 3), false), (bytes(u64::MAX, 0), true)]
    {
        let shown = format!("{wrong:?}");
        let client = answered(move |_| wrong.clone()).await;
        let error = client.files().read(to_path("file"), 10).await.unwrap_err();
        assert_eq!(matches!(error, FileError::TooLarge { .. }), is_large, "{shown}");
        assert_eq!(error.refusal(), (!is_large).then_some(FileRefusal::Changed), "{shown}");
    }
    // One more entry than was asked for.
    let client = answered(|_| entries(&[b"a", b"b"], b"b")).await;
    let (found, more) = client.files().list(to_path(""), 1).await.unwrap();
    assert_eq!((found.len(), more), (1, true));
}

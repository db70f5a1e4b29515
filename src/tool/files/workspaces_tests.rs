//! The file tools on both kinds of workspaces give the same results and the same reasons.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::*;
use crate::clock;
use crate::home::write_fence::{CutOff, WriteFence};
use crate::provider::message::joined_text;
use crate::sandbox::testing::helper;
use crate::sandbox::workspace_files::RemoteFiles;

fn fill(folder: &Path) -> PathBuf {
    let (place, outside) = (folder.join("place"), folder.join("outside"));
    std::fs::create_dir_all(place.join("folder")).unwrap();
    std::fs::create_dir_all(folder.join("identity")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(folder.join("identity/SOUL.md"), "kind").unwrap();
    std::fs::write(place.join("SOUL.md"), "not read").unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    std::fs::write(place.join("text"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(place.join("script"), "echo\n").unwrap();
    std::fs::set_permissions(place.join("script"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(place.join("binary"), b"a\0b").unwrap();
    std::fs::write(place.join("damaged"), b"a\xff b").unwrap();
    std::fs::write(place.join("long"), "line of text\n".repeat(100_000)).unwrap();
    std::fs::File::create(place.join("huge")).unwrap().set_len(MAX_FILE + 1).unwrap();
    symlink("../outside/secret", place.join("link")).unwrap();
    symlink("../outside", place.join("up")).unwrap();
    nix::unistd::mkfifo(&place.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    place
}

fn workspace(folder: &Path, files: WorkspaceFiles) -> Workspace {
    Workspace { files, identity: folder.join("identity"), owner: None }
}

/// The calls, in the order in which they are made.
fn calls() -> Vec<(FileToolFn, Value)> {
    let mut calls: Vec<(FileToolFn, Value)> = Vec::new();
    let paths = [
        "text",
        "/workspace/text",
        "folder",
        "folder/",
        "long",
        "huge",
        "binary",
        "damaged",
        "link",
        "up/secret",
        "fifo",
        "nothing",
        "nothing/below",
        "text/below",
        "../outside/secret",
        "/etc/passwd",
        "SOUL.md",
        "",
    ];
    for path in paths {
        calls.push((read::work, json!({"path": path})));
        calls.push((read::work, json!({"path": path, "offset": 2, "limit": 1})));
        calls.push((image::work, json!({"path": path})));
        calls.push((edit::work, json!({"path": path, "oldText": "two", "newText": "zwei"})));
        calls.push((write::work, json!({"path": path, "content": "new"})));
        let patch = format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch");
        calls.push((apply_patch::work, json!({"input": patch})));
    }
    let patches = [
        "*** Add File: made/by/patch\n+text",
        "*** Update File: script\n*** Move to: moved/script\n@@\n-echo\n+echo two",
        "*** Add File: up/new\n+text",
        "*** Update File: made/by/patch\n@@\n-text\n+more\n*** Delete File: nothing",
    ];
    for patch in patches {
        let patch = format!("*** Begin Patch\n{patch}\n*** End Patch");
        calls.push((apply_patch::work, json!({"input": patch})));
    }
    calls.push((write::work, json!({"path": "new/folder/file", "content": "x".repeat(600_000)})));
    calls.push((write::work, json!({"path": "new/folder/file", "content": "y".repeat(700_000)})));
    calls.push((write::work, json!({"path": "large", "content": "z".repeat(MAX_FILE as usize + 1)})));
    calls
}

fn tree(folder: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            let facts = entry.metadata().unwrap();
            let content = if facts.is_file() { std::fs::read(entry.path()).unwrap() } else { Vec::new() };
            let path = entry.path().strip_prefix(folder).unwrap().to_owned();
            found.push((path, facts.permissions().mode(), content));
            if facts.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn file_tools_do_and_say_the_same_wherever_the_workspace_is() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = fill(there.path());
    let (_child, client) = helper(there.path(), &place).await;
    let remote = RemoteFiles::new(Arc::new(client), Handle::current());
    let there_files = workspace(there.path(), remote.into());
    let here_files = workspace(here.path(), Root::open(&fill(here.path())).unwrap().into());
    for (work, arguments) in calls() {
        let run = |workspace: &Workspace| {
            let done = Arguments::new(&arguments).and_then(|arguments| work(workspace, &arguments));
            match done {
                Ok(output) => Ok(joined_text(&output.content)),
                Err(ToolError::ForModel(reason)) => Err(reason),
                Err(ToolError::Fatal(error)) => panic!("{error}"),
            }
        };
        let shown: String = arguments.to_string().chars().take(200).collect();
        assert_eq!(run(&there_files), run(&here_files), "{shown}");
    }
    let (there_tree, here_tree) = (tree(&place), tree(&here.path().join("place")));
    let names = |tree: &[(PathBuf, u32, Vec<u8>)]| {
        tree.iter().map(|(path, mode, _)| (path.clone(), *mode)).collect::<Vec<_>>()
    };
    assert_eq!(names(&there_tree), names(&here_tree));
    assert!(there_tree == here_tree, "the content is the same");
    for folder in [&here, &there] {
        assert_eq!(std::fs::read_to_string(folder.path().join("outside/secret")).unwrap(), "secret");
        assert_eq!(std::fs::read_dir(folder.path().join("outside")).unwrap().count(), 1);
    }
}

#[test]
fn a_gateway_that_may_have_been_replaced_writes_no_file_and_ends_the_turn() {
    let folder = tempfile::tempdir().unwrap();
    let place = fill(folder.path());
    let fence = WriteFence::new();
    let files = Root::open(&place).unwrap().fenced(fence.clone());
    let workspace = workspace(folder.path(), files.into());
    let before = tree(&place);
    fence.write_until(clock::boot_ms());
    let patch = "*** Begin Patch\n*** Delete File: script\n*** End Patch";
    let changes: [(FileToolFn, Value); 4] = [
        (write::work, json!({"path": "text", "content": "late"})),
        (write::work, json!({"path": "new/file", "content": "late"})),
        (edit::work, json!({"path": "text", "oldText": "two", "newText": "late"})),
        (apply_patch::work, json!({"input": patch})),
    ];
    let run = |work: FileToolFn, arguments: &Value| {
        Arguments::new(arguments).and_then(|arguments| work(&workspace, &arguments))
    };
    for (work, arguments) in changes {
        let done = run(work, &arguments);
        assert!(matches!(&done, Err(ToolError::Fatal(error)) if error.is::<CutOff>()), "{arguments}");
    }
    assert!(tree(&place) == before);
    assert!(run(read::work, &json!({"path": "text"})).is_ok());
}

//! The file tools on real workspaces, with everything planted there that an agent could plant.

use std::ffi::OsStr;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flock::config::model::{Autonomy, DockerSettings};
use flock::config::{Agent, CommandPolicy, Role, SandboxMode, SkillsMode};
use flock::id::TurnId;
use flock::provider::Block;
use flock::sandbox::workspace_files::Workspaces;
use flock::tool::{AgentLookup, CallContext, Tool, ToolError, files};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::{Mode, SFlag, mknod};
use serde_json::{Value, json};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03\x08\x06\0\0\0";

/// Calls that take longer have been blocked by what was planted.
const NOT_BLOCKED: Duration = Duration::from_secs(30);

/// A workspace with a secret beside it.
struct Bench {
    dir: tempfile::TempDir,
    tools: Vec<Arc<dyn Tool>>,
}

impl Bench {
    fn new() -> Self {
        Self::with(SandboxMode::All)
    }

    fn with(sandbox: SandboxMode) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("ws");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(dir.path().join("secret"), "the secret").unwrap();
        let agent = Agent {
            id: "coder".parse().unwrap(),
            role: Role::Worker,
            archetype: None,
            runtime: "native".to_owned(),
            on_host: false,
            model: None,
            fallbacks: Vec::new(),
            workspace,
            identity: dir.path().join("agents/coder/identity"),
            sandbox,
            autonomy: Autonomy::Supervised,
            effort: None,
            allow: vec![],
            profile: None,
            deny: vec![],
            network: flock::config::Network::None,
            egress: vec![],
            docker: DockerSettings::default(),
            policy: CommandPolicy::default(),
            persona: None,
            avatar: None,
            skills: SkillsMode::Compact,
            language: None,
            has_project: false,
            labels: Vec::new(),
        };
        let agents: AgentLookup = Arc::new(move |_| Some(agent.clone()));
        Self { dir, tools: files::all(&agents, &Workspaces::of_this_machine()) }
    }

    fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join("ws").join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.at(name), content).unwrap();
    }

    fn get(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    async fn blocks(&self, name: &str, arguments: Value) -> Result<Vec<Block>, String> {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let context = CallContext {
            agent: "coder".parse().unwrap(),
            session: "agent:coder:flock:main:me".parse().unwrap(),
            turn: TurnId::new(),
            cancel: Default::default(),
            progress: None,
        };
        let call = tokio::time::timeout(NOT_BLOCKED, tool.call(&context, &arguments)).await;
        match call.unwrap_or_else(|_| panic!("{name} {arguments} is blocked")) {
            Ok(output) => Ok(output.content),
            Err(ToolError::ForModel(reason)) => {
                // A path of the host may be in an answer only where the model had written it itself.
                let host = self.dir.path().to_str().unwrap();
                let known = arguments.to_string().contains(host);
                assert!(known || !reason.contains(host), "tells of the host: {reason}");
                Err(reason)
            }
            Err(ToolError::Fatal(error)) => panic!("fatal: {error}"),
        }
    }

    async fn call(&self, name: &str, arguments: Value) -> Result<String, String> {
        let blocks = self.blocks(name, arguments).await?;
        Ok(flock::provider::message::joined_text(&blocks))
    }

    async fn patch(&self, body: &str) -> Result<String, String> {
        let input = format!("*** Begin Patch\n{body}\n*** End Patch");
        self.call("apply_patch", json!({"input": input})).await
    }

    /// Tries everything with one path; nothing may succeed.
    async fn refuses(&self, path: &str) -> Vec<String> {
        let mut reasons = Vec::new();
        for (tool, arguments) in [
            ("read", json!({"path": path})),
            ("image", json!({"path": path})),
            ("write", json!({"path": path, "content": "x"})),
            ("edit", json!({"path": path, "oldText": "secret", "newText": "x"})),
            ("apply_patch", patch_of(&format!("*** Update File: {path}\n-the secret\n+x"))),
            ("apply_patch", patch_of(&format!("*** Add File: {path}\n+x"))),
            ("apply_patch", patch_of(&format!("*** Delete File: {path}"))),
            ("apply_patch", patch_of(&format!("*** Update File: plain\n*** Move to: {path}\n-plain\n+x"))),
        ] {
            match self.call(tool, arguments.clone()).await {
                Err(reason) => reasons.push(reason),
                Ok(text) => panic!("{tool} {arguments} went through: {text}"),
            }
        }
        assert_eq!(std::fs::read_to_string(self.dir.path().join("secret")).unwrap(), "the secret");
        reasons
    }

    /// Every name in the workspace that no test made.
    fn leftovers(&self) -> Vec<String> {
        std::fs::read_dir(self.at(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with(".flock"))
            .collect()
    }
}

fn patch_of(body: &str) -> Value {
    json!({"input": format!("*** Begin Patch\n{body}\n*** End Patch")})
}

#[tokio::test]
async fn a_file_is_written_read_edited_and_patched() {
    let bench = Bench::new();
    let wrote = bench.call("write", json!({"path": "/workspace/a/b.txt", "content": "one\ntwo\n"})).await;
    assert_eq!(wrote.unwrap(), "created /workspace/a/b.txt with 8 bytes");
    assert_eq!(bench.call("read", json!({"path": "a/b.txt"})).await.unwrap(), "one\ntwo\n");
    let edited = json!({"path": "a/b.txt", "oldText": "two", "newText": "2"});
    assert_eq!(
        bench.call("edit", edited).await.unwrap(),
        "replaced the text at line 2 of /workspace/a/b.txt"
    );
    let done = bench
        .patch(
            "*** Update File: a/b.txt\n*** Move to: c.txt\n@@\n one\n-2\n+drei\n*** Add File: d/e.txt\n+new",
        )
        .await
        .unwrap();
    assert_eq!(done, "done\nM /workspace/a/b.txt -> /workspace/c.txt\nA /workspace/d/e.txt");
    assert_eq!(bench.get("c.txt"), "one\ndrei\n");
    assert_eq!(bench.get("d/e.txt"), "new\n");
    assert!(!bench.at("a/b.txt").exists());
    assert!(bench.leftovers().is_empty());
}

#[tokio::test]
async fn what_is_written_belongs_to_the_sandbox() {
    let bench = Bench::new();
    bench.call("write", json!({"path": "new/deep/file", "content": "x"})).await.unwrap();
    bench.put("old", "1");
    std::fs::set_permissions(bench.at("old"), std::fs::Permissions::from_mode(0o755)).unwrap();
    bench.call("write", json!({"path": "old", "content": "2"})).await.unwrap();
    bench.patch("*** Update File: old\n*** Move to: moved\n-2\n+3").await.unwrap();
    let expected =
        flock::sandbox::workspace::sandbox_user(&bench.dir.path().join("agents/coder/identity")).unwrap().uid;
    assert_eq!(expected == nix::unistd::geteuid().as_raw(), !nix::unistd::geteuid().is_root());
    for name in ["new", "new/deep", "new/deep/file", "moved"] {
        assert_eq!(std::fs::metadata(bench.at(name)).unwrap().uid(), expected, "{name}");
    }
    let mode = std::fs::metadata(bench.at("moved")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755, "an executable stays one");

    let host = Bench::with(SandboxMode::Off);
    host.call("write", json!({"path": "file", "content": "x"})).await.unwrap();
    let owner = std::fs::metadata(host.at("file")).unwrap().uid();
    assert_eq!(owner, nix::unistd::geteuid().as_raw());
}

#[tokio::test]
async fn paths_out_of_the_workspace_are_refused() {
    let bench = Bench::new();
    bench.put("plain", "plain\n");
    let secret = bench.dir.path().join("secret");
    for path in [
        "../secret",
        "../../etc/passwd",
        "/etc/passwd",
        "/workspace/../secret",
        "a/../../secret",
        "/workspace/./../secret",
        "/proc/self/environ",
        "/workspacex",
        "..",
        "/",
    ] {
        for reason in bench.refuses(path).await {
            assert!(reason.contains("outside /workspace"), "{path}: {reason}");
        }
    }
    bench.refuses(secret.to_str().unwrap()).await;
    bench.refuses(&format!("{}x", "a/".repeat(3000))).await;
    bench.refuses(&"n".repeat(300)).await;
    bench.refuses("a\0b").await;
    bench.refuses("/workspace").await;
    assert_eq!(bench.get("plain"), "plain\n");
}

#[tokio::test]
async fn links_are_not_followed() {
    let bench = Bench::new();
    bench.put("plain", "plain\n");
    symlink("../secret", bench.at("relative")).unwrap();
    symlink(bench.dir.path().join("secret"), bench.at("absolute")).unwrap();
    symlink("..", bench.at("up")).unwrap();
    symlink(bench.dir.path(), bench.at("host")).unwrap();
    symlink("plain", bench.at("inner")).unwrap();
    symlink("nowhere", bench.at("dangling")).unwrap();
    symlink("loop", bench.at("loop")).unwrap();
    std::fs::create_dir(bench.at("d")).unwrap();
    symlink("../..", bench.at("d/up")).unwrap();
    for path in [
        "relative",
        "absolute",
        "up/secret",
        "host/secret",
        "inner",
        "dangling",
        "loop",
        "d/up/secret",
        "up/new",
    ] {
        for reason in bench.refuses(path).await {
            assert!(
                reason.contains("link")
                    || reason.contains("does not exist")
                    || reason.contains("not a folder"),
                "{path}: {reason}"
            );
        }
    }
    assert!(!bench.dir.path().join("new").exists());
    assert!(!bench.at("nowhere").exists());
    assert!(bench.at("relative").symlink_metadata().unwrap().file_type().is_symlink());
    assert_eq!(bench.get("plain"), "plain\n");
    assert!(bench.leftovers().is_empty());
}

#[tokio::test]
async fn what_is_no_file_is_refused_and_blocks_nothing() {
    let bench = Bench::new();
    bench.put("plain", "plain\n");
    nix::unistd::mkfifo(&bench.at("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.at("socket")).unwrap();
    std::fs::create_dir(bench.at("folder")).unwrap();
    let mut planted = vec!["fifo", "socket", "folder", "fifo/x", "plain/x"];
    // /dev/zero never ends and this one waits for keys; only root can make them.
    for (name, major, minor) in [("zero", 1, 5), ("tty", 5, 0)] {
        let device = nix::sys::stat::makedev(major, minor);
        if mknod(&bench.at(name), SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), device).is_ok() {
            planted.push(name);
        }
    }
    for path in planted {
        for reason in bench.refuses(path).await {
            assert!(
                reason.contains("/workspace/") && !reason.contains("system reported"),
                "{path}: {reason}"
            );
        }
    }
    assert!(bench.at("fifo").symlink_metadata().unwrap().file_type().is_fifo());
    assert_eq!(bench.get("plain"), "plain\n");
    assert!(bench.leftovers().is_empty());
}

/// A hard link can only be made to a file of the same mount, so to one the agent had already: writing
/// replaces the name and leaves the other one alone.
#[tokio::test]
async fn a_write_leaves_the_other_name_of_a_hard_link_alone() {
    let bench = Bench::new();
    std::fs::hard_link(bench.dir.path().join("secret"), bench.at("hard")).unwrap();
    bench.call("write", json!({"path": "hard", "content": "mine"})).await.unwrap();
    assert_eq!(bench.get("hard"), "mine");
    assert_eq!(std::fs::read_to_string(bench.dir.path().join("secret")).unwrap(), "the secret");
}

/// An agent swaps a folder for a link out of the workspace while the tools work below it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_at_the_wrong_moment_leads_nowhere() {
    let bench = Bench::new();
    let outside = bench.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "the secret").unwrap();
    std::fs::create_dir(bench.at("real")).unwrap();
    bench.put("real/file", "mine");
    std::fs::rename(bench.at("real"), bench.at("folder")).unwrap();
    symlink(&outside, bench.at("link")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, one, other) = (Arc::clone(&stop), bench.at("folder"), bench.at("link"));
        std::thread::spawn(move || {
            let mut swaps = 0u64;
            while !stop.load(Ordering::Relaxed) || swaps % 2 == 1 {
                let flags = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &one, AT_FDCWD, &other, flags).unwrap();
                swaps += 1;
            }
        })
    };
    let mut mine = 0;
    for _ in 0..500 {
        if let Ok(text) = bench.call("read", json!({"path": "folder/file"})).await {
            assert_eq!(text, "mine");
            mine += 1;
        }
        let _ = bench.call("write", json!({"path": "folder/file", "content": "mine"})).await;
        let _ = bench.call("write", json!({"path": "folder/new/file", "content": "mine"})).await;
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(mine > 0, "the folder was never seen");
    let names: Vec<_> =
        std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [OsStr::new("file")]);
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "the secret");
}

#[tokio::test]
async fn identity_files_are_the_owners() {
    let bench = Bench::new();
    bench.put("plain", "plain\n");
    let owners = bench.dir.path().join("agents/coder/identity");
    std::fs::create_dir_all(&owners).unwrap();
    for name in ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md"] {
        bench.put(name, "what an agent wrote");
        std::fs::write(owners.join(name), "the secret").unwrap();
        assert_eq!(bench.call("read", json!({"path": name})).await.unwrap(), "the secret");
        for (tool, arguments) in [
            ("write", json!({"path": format!("/workspace/./{name}"), "content": "x"})),
            ("edit", json!({"path": name, "oldText": "secret", "newText": "x"})),
            ("apply_patch", patch_of(&format!("*** Update File: {name}\n-the secret\n+x"))),
            ("apply_patch", patch_of(&format!("*** Delete File: {name}"))),
            ("apply_patch", patch_of(&format!("*** Update File: {name}\n*** Move to: y\n-the secret\n+x"))),
            ("apply_patch", patch_of(&format!("*** Update File: plain\n*** Move to: {name}\n-plain\n+x"))),
        ] {
            let reason = bench.call(tool, arguments.clone()).await.unwrap_err();
            assert!(reason.contains("only your owner"), "{tool} {arguments}: {reason}");
        }
        assert_eq!(std::fs::read_to_string(owners.join(name)).unwrap(), "the secret");
        assert_eq!(bench.get(name), "what an agent wrote");
    }
}

#[tokio::test]
async fn reading_is_bounded_and_says_what_is_missing() {
    let bench = Bench::new();
    let lines = (1..=5000).map(|n| format!("line {n}\n")).collect::<String>();
    bench.put("lines", lines);
    let text = bench.call("read", json!({"path": "lines"})).await.unwrap();
    assert!(text.starts_with("line 1\n"));
    assert!(text.ends_with("line 2000\n[lines 1 to 2000 of 5000; continue with offset 2001]"));
    let text = bench.call("read", json!({"path": "lines", "offset": 4999, "limit": 10})).await.unwrap();
    assert_eq!(text, "line 4999\nline 5000\n");
    let text = bench.call("read", json!({"path": "lines", "offset": 3, "limit": 1})).await.unwrap();
    assert_eq!(text, "line 3\n[lines 3 to 3 of 5000; continue with offset 4]");
    let reason = bench.call("read", json!({"path": "lines", "offset": 5001})).await.unwrap_err();
    assert!(reason.contains("has 5000 lines"), "{reason}");

    bench.put("wide", format!("{}\n", "y".repeat(999)).repeat(100));
    let text = bench.call("read", json!({"path": "wide"})).await.unwrap();
    assert!(text.len() < 52 * 1024 && text.ends_with("[lines 1 to 51 of 100; continue with offset 52]"));
    bench.put("one-line", "ñ".repeat(100_000));
    let text = bench.call("read", json!({"path": "one-line"})).await.unwrap();
    assert!(text.contains("[line 1 has 200000 bytes, 51200 are shown"), "{}", &text[text.len() - 200..]);

    bench.put("empty", "");
    assert_eq!(bench.call("read", json!({"path": "empty"})).await.unwrap(), "[the file is empty]");
    bench.put("latin", b"gr\xfc\xdfe\n");
    let text = bench.call("read", json!({"path": "latin"})).await.unwrap();
    assert!(text.starts_with("gr\u{fffd}\u{fffd}e\n") && text.contains("not valid UTF-8"));
    bench.put("binary", b"\x7fELF\0\0\0");
    let reason = bench.call("read", json!({"path": "binary"})).await.unwrap_err();
    assert_eq!(
        reason,
        "/workspace/binary is a binary file of 7 bytes: use exec with a program that reads it"
    );
    bench.put("picture", PNG);
    let reason = bench.call("read", json!({"path": "picture"})).await.unwrap_err();
    assert!(reason.contains("use image"), "{reason}");

    let sparse = std::fs::File::create(bench.at("huge")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let reason = bench.call("read", json!({"path": "huge"})).await.unwrap_err();
    assert!(reason.contains("has 1099511627776 bytes; at most"), "{reason}");
    let reason = bench.patch("*** Update File: huge\n-a\n+b").await.unwrap_err();
    assert!(reason.contains("at most") && reason.ends_with("Nothing was changed"), "{reason}");
    bench.patch("*** Delete File: huge\n*** Delete File: binary").await.unwrap();
    assert!(!bench.at("huge").exists() && !bench.at("binary").exists());
}

#[tokio::test]
async fn an_edit_needs_exactly_one_place() {
    let bench = Bench::new();
    bench.put("f", "a b a\n");
    let edit = |old: &str| json!({"path": "f", "oldText": old, "newText": "x"});
    let reason = bench.call("edit", edit("a")).await.unwrap_err();
    assert!(reason.contains("occurs 2 times"), "{reason}");
    let reason = bench.call("edit", edit("c")).await.unwrap_err();
    assert!(reason.contains("does not occur"), "{reason}");
    assert_eq!(bench.get("f"), "a b a\n");
    // The words other systems use for the same.
    let other = json!({"file_path": "f", "old_string": "b", "new_string": "c"});
    bench.call("edit", other).await.unwrap();
    assert_eq!(bench.get("f"), "a c a\n");
    bench.put("latin", b"\xfc");
    let reason =
        bench.call("edit", json!({"path": "latin", "oldText": "x", "newText": "y"})).await.unwrap_err();
    assert!(reason.contains("not a UTF-8 text file"), "{reason}");
    assert_eq!(std::fs::read(bench.at("latin")).unwrap(), b"\xfc");
}

#[tokio::test]
async fn a_patch_is_done_whole_or_not_at_all() {
    let bench = Bench::new();
    bench.put("a", "1\n2\n");
    bench.put("b", "1\n2\n");
    for (body, part) in [
        (
            "*** Update File: a\n-1\n+x\n*** Update File: b\n-9\n+x",
            "/workspace/b: hunk 1: these lines are not",
        ),
        ("*** Update File: a\n-1\n+x\n*** Update File: c\n-9\n+x", "/workspace/c does not exist"),
        ("*** Update File: a\n-1\n+x\n*** Delete File: c", "/workspace/c does not exist"),
        ("*** Update File: a\n-1\n+x\n*** Add File: b\n+x", "/workspace/b exists already"),
        (
            "*** Update File: a\n-1\n+x\n*** Update File: b\n*** Move to: a\n-1\n+x",
            "/workspace/a exists already",
        ),
        ("*** Update File: a\n-1\n+x\n*** Add File: ../x\n+x", "outside /workspace"),
        ("*** Update File: a\n-1\n+x\n*** Add File: b/c\n+x", "/workspace/b/c"),
        ("*** Update File: a\n-1\n+x\nnonsense\n", "begins with"),
        ("*** Delete File: a\n*** Update File: a\n-1\n+x", "/workspace/a does not exist"),
    ] {
        let reason = bench.patch(body).await.unwrap_err();
        assert!(reason.contains(part), "{body}: {reason}");
        assert!(reason.ends_with("Nothing was changed"), "{reason}");
        assert_eq!((bench.get("a"), bench.get("b")), ("1\n2\n".to_owned(), "1\n2\n".to_owned()), "{body}");
    }
    let twice =
        "*** Update File: a\n-1\n+x\n*** Update File: a\n-x\n+y\n*** Delete File: b\n*** Add File: b\n+new";
    bench.patch(twice).await.unwrap();
    assert_eq!((bench.get("a"), bench.get("b")), ("y\n2\n".to_owned(), "new\n".to_owned()));
}

#[tokio::test]
async fn an_image_is_known_by_its_bytes() {
    let bench = Bench::new();
    let mut whole = std::io::Cursor::new(Vec::new());
    image::RgbImage::new(2, 3).write_to(&mut whole, image::ImageFormat::Png).unwrap();
    bench.put("picture.txt", whole.into_inner());
    let blocks =
        bench.blocks("image", json!({"path": "picture.txt", "prompt": "count the cats"})).await.unwrap();
    let [Block::Text { text, .. }, Block::Image { media_type, data }] = &blocks[..] else {
        panic!("{blocks:?}");
    };
    assert!(text.starts_with("/workspace/picture.txt: image/png, 2x3 pixels"), "{text}");
    assert!(text.ends_with("look for: count the cats"));
    assert_eq!(media_type, "image/png");
    assert!(data.starts_with("iVBORw0KGgo"));

    bench.put("text.png", "not a picture");
    bench.put("cut.png", &PNG[..12]);
    let mut wide = PNG.to_vec();
    wide[16] = 1;
    bench.put("wide.png", wide);
    bench.put("heavy.png", [PNG, &vec![0; 4 * 1024 * 1024]].concat());
    for (name, part) in [
        ("text.png", "no PNG, JPEG, GIF or WebP"),
        ("cut.png", "damaged"),
        ("wide.png", "pixels"),
        ("heavy.png", "could not be decoded"),
        ("missing.png", "does not exist"),
    ] {
        let reason = bench.call("image", json!({"path": name})).await.unwrap_err();
        assert!(reason.contains(part), "{name}: {reason}");
    }
}

#[tokio::test]
async fn a_missing_or_swapped_workspace_is_said() {
    let bench = Bench::new();
    std::fs::remove_dir(bench.at("")).unwrap();
    let read = json!({"path": "x"});
    let reason = bench.call("read", read.clone()).await.unwrap_err();
    assert!(reason.contains("flock doctor"), "{reason}");
    symlink(bench.dir.path(), bench.dir.path().join("ws")).unwrap();
    assert!(bench.call("read", json!({"path": "secret"})).await.is_err());
}

#[test]
fn a_tool_pattern_that_says_nothing_is_reported() {
    let home = crate::support::home::TempHome::new().init();
    home.flock(["config", "validate"]).ok();
    home.flock(["config", "set", "tools.deny", r#"["exec", "Process", "group:filesystem"]"#]).ok();
    let run = home.flock(["config", "validate"]).fails(1);
    assert!(run.stderr.contains("\"Process\" is not a tool pattern"), "{run:#?}");
    assert!(
        run.stderr.contains("\"group:filesystem\" is not a tool group: use one of group:all"),
        "{run:#?}"
    );
    assert!(run.stderr.contains("(tools of orchestrator, sysadmin)"), "{run:#?}");
    assert!(!run.stderr.contains("\"exec\""), "{run:#?}");
}

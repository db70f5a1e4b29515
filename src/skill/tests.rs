use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository, RepositoryInitOptions, Signature};

use super::content::{MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, SkillFile};
use super::difference::{DifferenceLimits, FileChange, between};
use super::inspection::inspect;
use super::record::RECORD_FILE;
use super::*;
use crate::home::Home;
use crate::home::beneath::Root;

struct Place {
    dir: tempfile::TempDir,
    home: Home,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"), None);
        home.make_folders().unwrap();
        Self { dir, home }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Reads the folder as a source.
    fn read(&self, path: &str) -> Result<SkillContent, ImportError> {
        let origin = SkillOrigin::parse(self.at(path).to_str().unwrap()).unwrap();
        origin.read(&self.home, &|_| {}).map(|(content, _)| content)
    }

    fn of_git(&self, source: &str) -> Result<(SkillContent, RecordedOrigin), ImportError> {
        SkillOrigin::parse(source)?.read(&self.home, &|_| {})
    }

    /// Returns the origin of a repository of this place.
    fn git(&self, path: &str) -> String {
        format!("{}#{path}", self.at("repo.git").display())
    }
}

fn content(files: &[(&str, &str)]) -> SkillContent {
    let mut content = SkillContent::new("here");
    for (path, text) in files {
        let is_executable = path.ends_with(".sh");
        content
            .add((*path).to_owned(), SkillFile { bytes: text.as_bytes().to_vec(), is_executable })
            .unwrap();
    }
    content
}

fn record(content: &SkillContent) -> SkillRecord {
    SkillRecord {
        source: RecordedOrigin::Folder { path: "/x".to_owned() },
        hash: content.hash(),
        imported_at: 1,
        imported_by: "ann".to_owned(),
        updated_at: None,
        updated_by: None,
    }
}

/// An entry of a tree: its mode, its name, and its content or the files of a folder.
enum Node {
    File(u32, &'static str),
    Folder(Vec<(&'static str, Node)>),
    Commit,
}

/// Writes a tree byte for byte, with any names.
fn tree(git: &Repository, entries: &[(&str, Node)]) -> Oid {
    let odb = git.odb().unwrap();
    let mut bytes = Vec::new();
    for (name, node) in entries {
        let (mode, id) = match node {
            Node::File(mode, text) => (*mode, git.blob(text.as_bytes()).unwrap()),
            Node::Folder(entries) => (0o40_000, tree(git, entries)),
            Node::Commit => (0o160_000, Oid::from_str(&"1".repeat(40)).unwrap()),
        };
        bytes.extend(format!("{mode:o} {name}\0").as_bytes());
        bytes.extend(id.as_bytes());
    }
    odb.write(ObjectType::Tree, &bytes).unwrap()
}

/// Writes a commit with exactly these entries to the main branch of `repo.git`.
fn commit(place: &Place, entries: &[(&str, Node)]) -> Oid {
    let folder = place.at("repo.git");
    let mut options = RepositoryInitOptions::new();
    options.bare(true).initial_head("main");
    let git = Repository::init_opts(&folder, &options).unwrap();
    let tree = tree(&git, entries);
    let parent = git.refname_to_id("refs/heads/main").ok();
    // libgit2 would look into the tree, so the commit is written byte for byte too.
    let parent = parent.map(|id| format!("parent {id}\n")).unwrap_or_default();
    let who = "Ann <ann@example.org> 1700000000 +0000";
    let text = format!("tree {tree}\n{parent}author {who}\ncommitter {who}\n\nx\n");
    let id = git.odb().unwrap().write(ObjectType::Commit, text.as_bytes()).unwrap();
    git.reference("refs/heads/main", id, true, "x").unwrap();
    id
}

const TEXT: &str = "---\nname: pdf\ndescription: Reads PDFs\n---\nDo it.\n";

#[test]
fn a_folder_is_read_without_hidden_files() {
    let place = Place::new();
    place.put("pdf/SKILL.md", TEXT);
    let script = place.put("pdf/scripts/run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.put("pdf/.git/config", "x");
    place.put("pdf/scripts/.env", "KEY=1");
    symlink("/etc/passwd", place.at("pdf/.link")).unwrap();
    let found = place.read("pdf").unwrap();
    assert_eq!(found.files().keys().collect::<Vec<_>>(), ["SKILL.md", "scripts/run.sh"]);
    assert!(found.files()["scripts/run.sh"].is_executable && !found.files()["SKILL.md"].is_executable);
    assert_eq!(found.left_out(), [".git", ".link", "scripts/.env"]);
}

#[test]
fn links_devices_and_odd_names_are_refused_by_name() {
    type Make = fn(&Place);
    let cases: [(Make, &str); 8] = [
        (|place| symlink("/etc/passwd", place.at("s/notes")).unwrap(), "\"notes\" is a link"),
        (|place| symlink("/etc", place.at("s/folder")).unwrap(), "\"folder\" is a link"),
        (
            |place| nix::unistd::mkfifo(&place.at("s/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap(),
            "\"pipe\" is neither a file nor a folder",
        ),
        (|place| drop(place.put("s/a\u{202e}b", "x")), "has a name with characters"),
        (|place| drop(place.put("s/a\nb", "x")), "has a name with characters"),
        (|place| drop(place.put("s/a ", "x")), "has a name with characters"),
        (|place| drop(place.put("s/1/2/3/4/5/6/7/8/9", "x")), "is deeper than 8 folders"),
        (
            |place| drop(place.put(&format!("s/{}", "n".repeat(200)), "x")),
            "has a name of more than 128 bytes",
        ),
    ];
    for (make, told) in cases {
        let place = Place::new();
        place.put("s/SKILL.md", TEXT);
        make(&place);
        let error = place.read("s").unwrap_err().to_string();
        assert!(error.contains(told), "{told}: {error}");
        assert!(!error.contains('\n') && !error.contains('\u{202e}'), "{error:?}");
    }
}

#[test]
fn too_much_is_refused_before_it_is_read() {
    let place = Place::new();
    place.put("s/SKILL.md", TEXT);
    // The file has no content on the disk, only a size.
    let huge = std::fs::File::create(place.at("s/huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    assert!(place.read("s").unwrap_err().to_string().contains("\"huge\" has 1099511627776 bytes"));
    huge.set_len(MAX_FILE_BYTES).unwrap();
    assert!(place.read("s").is_ok());
    for n in 0..MAX_BYTES / MAX_FILE_BYTES {
        let file = std::fs::File::create(place.at(&format!("s/part-{n}"))).unwrap();
        file.set_len(MAX_FILE_BYTES).unwrap();
    }
    assert!(place.read("s").unwrap_err().to_string().contains("more than 32 MiB together"));
    let place = Place::new();
    place.put("s/SKILL.md", TEXT);
    for n in 0..MAX_FILES {
        place.put(&format!("s/{n}"), "");
    }
    assert!(place.read("s").unwrap_err().to_string().contains("more than 1000 files"));
    let place = Place::new();
    place.put("s/SKILL.md", "x".repeat((1 << 20) + 1));
    assert!(place.read("s").unwrap_err().to_string().contains("\"SKILL.md\" has 1048577 bytes"));
}

#[test]
fn a_folder_that_is_no_skill_names_those_below_it() {
    let place = Place::new();
    place.put("all/skills/pdf/SKILL.md", TEXT);
    place.put("all/README.md", "x");
    let error = place.read("all").unwrap_err().to_string();
    assert!(error.ends_with("all has no SKILL.md; these folders below it have one: skills/pdf"), "{error}");
    place.put("binary/SKILL.md", [0xff, 0xfe]);
    assert!(place.read("binary").unwrap_err().to_string().contains("is no text in UTF-8"));
    commit(
        &place,
        &[(
            "skills",
            Node::Folder(vec![("pdf", Node::Folder(vec![("SKILL.md", Node::File(0o100_644, TEXT))]))]),
        )],
    );
    let error = place.of_git(&place.git("")).unwrap_err().to_string();
    assert!(error.ends_with("these folders below it have one: skills/pdf"), "{error}");
}

#[test]
fn a_commit_of_a_repository_is_read() {
    let place = Place::new();
    let files = || {
        vec![
            (".hidden", Node::File(0o100_644, "x")),
            ("SKILL.md", Node::File(0o100_644, TEXT)),
            ("run.sh", Node::File(0o100_755, "#!/bin/sh\n")),
        ]
    };
    let first = commit(&place, &[(".claude", Node::Folder(vec![("pdf", Node::Folder(files()))]))]);
    let second = commit(&place, &[("other", Node::Folder(files()))]);
    let (found, source) = place.of_git(&place.git("other")).unwrap();
    assert_eq!(found.files().keys().collect::<Vec<_>>(), ["SKILL.md", "run.sh"]);
    assert!(found.files()["run.sh"].is_executable);
    assert_eq!(found.left_out(), [".hidden"]);
    let RecordedOrigin::Git { commit, pin, reference, .. } = &source else { panic!() };
    assert_eq!((commit, *pin, reference.as_str()), (&second.to_string(), PinKind::Branch, "HEAD"));
    // A commit that is no longer the tip, whole or shortened.
    for reference in [first.to_string(), first.to_string()[..10].to_owned()] {
        let (old, source) = place.of_git(&place.git(&format!(".claude/pdf@{reference}"))).unwrap();
        assert_eq!((old.hash(), source.commit()), (found.hash(), Some(&*first.to_string())));
        assert!(matches!(source, RecordedOrigin::Git { pin: PinKind::Commit, .. }));
    }
    assert!(matches!(place.of_git(&place.git("none")), Err(ImportError::NoFolder { .. })));
    assert!(place.of_git(&place.git("other@none")).is_err());
    assert!(!place.home.skill_fetches().join(std::process::id().to_string()).exists());
}

#[test]
fn hostile_trees_write_nothing_and_are_refused() {
    let skill = ("SKILL.md", Node::File(0o100_644, TEXT));
    let bad = || {
        vec![
            ("link", Node::File(0o120_000, "../../secrets")),
            ("sub", Node::Commit),
            ("a/b", Node::File(0o100_644, "x")),
            ("a\\b", Node::File(0o100_644, "x")),
            ("a\u{200b}", Node::File(0o100_644, "x")),
            ("SKILL.md", Node::File(0o100_644, "twice")),
        ]
    };
    let mut all = vec![skill];
    for entry in bad() {
        let place = Place::new();
        let name = entry.0;
        all.push(entry);
        commit(&place, &all);
        assert!(place.of_git(&place.git("")).is_err(), "{name}");
        all.pop();
    }
    // Names that lead elsewhere begin with a dot, and are left out like any hidden entry.
    let place = Place::new();
    commit(
        &place,
        &[
            ("..", Node::Folder(vec![("x", Node::File(0o100_644, "x"))])),
            ("SKILL.md", Node::File(0o100_644, TEXT)),
        ],
    );
    if let Ok((found, _)) = place.of_git(&place.git("")) {
        assert_eq!(found.files().keys().collect::<Vec<_>>(), ["SKILL.md"]);
    }
    // A link to a folder is no folder on the way.
    let place = Place::new();
    commit(&place, &[("skills", Node::File(0o120_000, "/etc"))]);
    assert!(matches!(place.of_git(&place.git("skills")), Err(ImportError::NoFolder { .. })));
}

#[test]
fn a_source_is_a_folder_or_a_path_in_a_repository() {
    let place = Place::new();
    let folder = place.put("a#b/SKILL.md", TEXT);
    let folder = folder.parent().unwrap().canonicalize().unwrap();
    assert_eq!(SkillOrigin::parse(folder.to_str().unwrap()).unwrap(), SkillOrigin::Folder(folder));
    let git = |text: &str| match SkillOrigin::parse(text) {
        Ok(SkillOrigin::Git(found)) => {
            (found.address.as_str().to_owned(), found.path.clone(), found.reference.clone())
        }
        other => panic!("{text}: {other:?}"),
    };
    let of = |address: &str, path: &str, reference: &str| {
        (address.to_owned(), path.to_owned(), reference.to_owned())
    };
    assert_eq!(git("https://a.org/x.git#skills/pdf"), of("https://a.org/x.git", "skills/pdf", "HEAD"));
    assert_eq!(git("https://a.org/x#/skills/pdf/@v1"), of("https://a.org/x", "skills/pdf", "v1"));
    assert_eq!(git("git@a.org:x/y.git#@feature/b"), of("git@a.org:x/y.git", "", "feature/b"));
    assert_eq!(git("ssh://git@a.org/x"), of("ssh://git@a.org/x", "", "HEAD"));
    for bad in [
        "",
        "/no/such/folder",
        "https://a.org/x#../secrets",
        "https://a.org/x#skills/../../y",
        "https://a.org/x#.git/hooks",
        "https://a.org/x#a//b",
        "https://a.org/x#a@",
        "https://a.org/x#a@-x",
        "https://a.org/x#a@b..c",
        "https://a.org/x#a@b:c",
        "https://a.org/x#a@+b\u{202e}",
        "https://ann:secret@a.org/x#a",
        "http://a.org/x#a",
        "git://a.org/x#a",
        "ftp://a.org/x#a",
        "--upload-pack=x#a",
    ] {
        let error = SkillOrigin::parse(bad).unwrap_err();
        assert!(!error.to_string().contains("secret@"), "{error}");
    }
    let name = |text: &str| SkillOrigin::parse(text).unwrap().name(None).map(|name| name.to_string());
    assert_eq!(name("https://a.org/x.git#skills/pdf").unwrap(), "pdf");
    assert_eq!(name("https://a.org/team/notes.git").unwrap(), "notes");
    assert_eq!(name("git@a.org:notes.git").unwrap(), "notes");
    let origin = SkillOrigin::parse("https://a.org/x").unwrap();
    assert_eq!(origin.name(Some("own")).unwrap().as_str(), "own");
    assert!(origin.name(Some("../x")).is_err() && origin.name(Some("a b")).is_err());
}

#[test]
fn the_hash_covers_paths_modes_and_contents() {
    use sha2::Digest as _;
    let base = content(&[("SKILL.md", TEXT), ("a/b", "x")]);
    assert_eq!(base.hash(), content(&[("a/b", "x"), ("SKILL.md", TEXT)]).hash());
    let mut seen = std::collections::BTreeSet::from([base.hash()]);
    for other in [
        content(&[("SKILL.md", TEXT)]),
        content(&[("SKILL.md", TEXT), ("a/b", "y")]),
        content(&[("SKILL.md", TEXT), ("a/c", "x")]),
        content(&[("SKILL.md", TEXT), ("a/b", "x"), ("c", "")]),
        content(&[("SKILL.md", TEXT), ("a/b.sh", "x")]),
    ] {
        assert!(seen.insert(other.hash()));
    }
    // The documented form, written out.
    let sha = |text: &str| crate::id::hex(&sha2::Sha256::digest(text.as_bytes()));
    let lines = format!("100644 {} SKILL.md\n100755 {} run.sh\n", sha(TEXT), sha("x"));
    assert_eq!(content(&[("run.sh", "x"), ("SKILL.md", TEXT)]).hash(), format!("sha256:{}", sha(&lines)));
}

#[test]
fn a_skill_is_added_replaced_and_removed_in_one_step() {
    let place = Place::new();
    let name = "pdf".parse().unwrap();
    let first = content(&[("SKILL.md", TEXT), ("a/b/run.sh", "x"), ("old", "o")]);
    let changes = SkillChanges::begin(&place.home).unwrap();
    assert!(matches!(SkillChanges::begin(&place.home), Err(ImportError::Home(_))), "one at a time");
    changes.add(&name, &first, &record(&first)).unwrap();
    let found = installed::find(&place.home, &name).unwrap();
    assert_eq!((found.state, found.content.unwrap().hash()), (SkillState::Intact, first.hash()));
    assert!(matches!(
        changes.add(&name, &first, &record(&first)),
        Err(ImportError::Exists { is_imported: true, .. })
    ));
    let mode =
        |path: &str| std::fs::metadata(place.home.skills().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("pdf/a/b/run.sh"), mode("pdf/SKILL.md")), (0o700, 0o600));
    let second = content(&[("SKILL.md", "new\n")]);
    changes.replace(&name, &second, &record(&second)).unwrap();
    let found = installed::find(&place.home, &name).unwrap();
    assert_eq!((found.state, found.content.unwrap().hash()), (SkillState::Intact, second.hash()));
    assert!(!place.home.skills().join("pdf/old").exists());
    assert_eq!(std::fs::read_dir(place.home.skills()).unwrap().count(), 1, "nothing else is left");
    changes.forget(&name).unwrap();
    assert_eq!(installed::find(&place.home, &name).unwrap().state, SkillState::Own);
    changes.remove(&name).unwrap();
    assert!(matches!(installed::find(&place.home, &name), Err(ImportError::Unknown { .. })));
    assert!(changes.replace(&name, &second, &record(&second)).is_err());
    assert_eq!(std::fs::read_dir(place.home.skills()).unwrap().count(), 0);
}

#[test]
fn every_change_of_an_imported_skill_is_noticed() {
    type Change = fn(&Path);
    let place = Place::new();
    let name = "pdf".parse().unwrap();
    let first = content(&[("SKILL.md", TEXT), ("run.sh", "x")]);
    SkillChanges::begin(&place.home).unwrap().add(&name, &first, &record(&first)).unwrap();
    let folder = place.home.skills().join("pdf");
    let state = || installed::find(&place.home, &name).unwrap().state.as_str();
    let changes: [Change; 6] = [
        |folder| std::fs::write(folder.join("SKILL.md"), "other").unwrap(),
        |folder| std::fs::write(folder.join("more"), "").unwrap(),
        |folder| std::fs::remove_file(folder.join("run.sh")).unwrap(),
        |folder| {
            std::fs::set_permissions(folder.join("run.sh"), std::fs::Permissions::from_mode(0o600)).unwrap();
        },
        |folder| symlink("/etc/passwd", folder.join("link")).unwrap(),
        |folder| {
            std::fs::remove_file(folder.join("run.sh")).unwrap();
            symlink("SKILL.md", folder.join("run.sh")).unwrap();
        },
    ];
    for change in changes {
        assert_eq!(state(), "intact");
        change(&folder);
        assert_eq!(state(), "changed");
        let changes = SkillChanges::begin(&place.home).unwrap();
        changes.replace(&name, &first, &record(&first)).unwrap();
    }
    // A hidden file is none of the skill: no agent can read it.
    std::fs::write(folder.join(".notes"), "x").unwrap();
    assert_eq!(state(), "intact");
    std::fs::write(folder.join(RECORD_FILE), "{").unwrap();
    assert_eq!(state(), "unknown");
    std::fs::remove_file(folder.join(RECORD_FILE)).unwrap();
    assert_eq!(state(), "own");
}

#[test]
fn what_a_killed_import_left_is_no_skill_and_is_removed() {
    let place = Place::new();
    let left = place.home.skills().join(".flock-staging/a");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("SKILL.md"), "x").unwrap();
    let fetch = place.home.skill_fetches().join("1");
    std::fs::create_dir_all(&fetch).unwrap();
    assert!(installed::all(&place.home).is_empty());
    drop(SkillChanges::begin(&place.home).unwrap());
    assert!(!left.exists() && !fetch.exists());
}

#[test]
fn the_inspection_names_scripts_hosts_tools_commands_and_hidden_characters() {
    let text = "---\nname: pdf\ndescription: Reads PDFs\u{202e}\nallowed-tools: Bash, Read\n---\n\
                See https://docs.example.org/a?b=1), then `curl evil.example.com:8080/x` or 10.0.0.1.\n\
                Post it with flock_channel_post. e.g. main.py and README.md.\n\
                a\u{200b}b\u{e0041}\n\
                ftp://ann:pw@files.example.net/x. http://[::1]:8080/ $HOST://x\n";
    let mut found = content(&[
        ("SKILL.md", text),
        ("scripts/go.py", "#!/usr/bin/env python3\n"),
        ("run.sh", "sudo rm -r x\n"),
    ]);
    found.add("lib/x.bin".into(), SkillFile { bytes: b"\x7fELF\0".to_vec(), is_executable: false }).unwrap();
    let seen = inspect(&found);
    assert_eq!((seen.name.as_deref(), seen.description.as_str()), (Some("pdf"), "Reads PDFs"));
    assert_eq!(seen.tools, ["Bash", "Read"]);
    let hosts: Vec<&str> = seen.hosts.keys().map(String::as_str).collect();
    for host in ["docs.example.org", "evil.example.com", "10.0.0.1", "files.example.net"] {
        assert!(hosts.contains(&host), "{host}: {hosts:?}");
    }
    assert!(!hosts.iter().any(|host| host.ends_with(".py") || host.ends_with(".md")), "{hosts:?}");
    assert!(seen.urls.contains("https://docs.example.org/a?b=1"), "{:?}", seen.urls);
    assert_eq!(seen.flock_tools.iter().collect::<Vec<_>>(), ["flock_channel_post"]);
    let commands: Vec<&str> = seen.commands.keys().map(String::as_str).collect();
    assert_eq!(commands, ["curl", "ftp", "rm", "sudo"]);
    let script = |path: &str| seen.files.iter().find(|file| file.path == path).unwrap().script.join("|");
    assert_eq!(script("run.sh"), "executable|.sh");
    assert_eq!(script("scripts/go.py"), "#!/usr/bin/env python3|.py");
    assert_eq!(script("lib/x.bin"), "a compiled program");
    assert_eq!(script("SKILL.md"), "");
    let hidden: BTreeMap<usize, Vec<String>> =
        seen.hidden.iter().map(|text| (text.line, text.characters.clone())).collect();
    assert_eq!(hidden[&3], ["U+202E"]);
    assert_eq!(hidden[&8], ["U+200B", "U+E0041"]);
    // Ordinary text of other scripts, emoji and Windows line ends are nothing hidden.
    let plain = content(&[("SKILL.md", "\u{feff}안녕 👩\u{200d}👩\u{200d}👧 می\u{200c}خواهم\r\n\tx\r\n")]);
    assert_eq!(inspect(&plain).hidden, []);
}

#[test]
fn the_lists_of_an_inspection_are_bounded() {
    let many: String =
        (0..5_000).map(|n| format!("https://h{n}.example.org/x flock_tool_{n} a\u{200b}\n")).collect();
    let seen = inspect(&content(&[("SKILL.md", &many)]));
    assert!(seen.is_cut);
    assert_eq!(
        (seen.hosts.len(), seen.urls.len(), seen.flock_tools.len(), seen.hidden.len()),
        (200, 200, 200, 200)
    );
}

#[test]
fn the_difference_shows_every_change_and_counts_what_it_leaves_out() {
    let before = content(&[("SKILL.md", "a\nb\nc\n"), ("gone", "x\n"), ("same", "s"), ("end", "a\n")]);
    let mut after =
        content(&[("SKILL.md", "a\nB\nc\n"), ("same", "s"), ("new.sh", "curl x\n"), ("end", "a\r\n")]);
    after.add("data".into(), SkillFile { bytes: vec![0, 1], is_executable: true }).unwrap();
    let found = between(&before, &after, DifferenceLimits::SHORT);
    let of = |path: &str| found.files.iter().find(|file| file.path == path).unwrap();
    assert_eq!(found.files.len(), 5, "{found:?}");
    assert!(of("SKILL.md").lines.iter().any(|line| line == "+B"), "{found:?}");
    assert!(of("SKILL.md").lines.iter().any(|line| line == "-b"), "{found:?}");
    assert_eq!((of("gone").change, of("new.sh").change), (FileChange::Removed, FileChange::Added));
    assert!(of("new.sh").notes.contains(&"it becomes executable".to_owned()));
    assert!(of("end").lines.iter().any(|line| line == "+a\r"), "a changed line end is shown: {found:?}");
    assert!(of("data").notes[1].starts_with("no text: nothing, then 2 bytes, sha256 "), "{found:?}");
    assert_eq!(found.left_out, 0);
    assert_eq!(between(&before, &before, DifferenceLimits::SHORT).files, []);

    let long: String = (0..10_000).map(|n| format!("{n}\n")).collect();
    let wide = "w".repeat(5_000);
    let after = content(&[("SKILL.md", &long), ("wide", &wide)]);
    let cut = between(&content(&[("SKILL.md", "")]), &after, DifferenceLimits::SHORT);
    let lines: usize = cut.files.iter().map(|file| file.lines.len()).sum();
    assert!(lines == 2_000 && cut.left_out > 8_000, "{lines} {}", cut.left_out);
    let full = between(&content(&[("SKILL.md", "")]), &after, DifferenceLimits::FULL);
    assert_eq!(full.left_out, 0);
    assert!(full.files[1].lines.iter().any(|line| line.len() > 5_000));
}

#[test]
fn a_record_is_read_back_and_a_hostile_one_is_checked() {
    let place = Place::new();
    let found = content(&[("SKILL.md", TEXT)]);
    let name = "pdf".parse().unwrap();
    let mut record = record(&found);
    record.source = RecordedOrigin::Git {
        repository: "https://a.org/x".to_owned(),
        path: "skills/pdf".to_owned(),
        reference: "main".to_owned(),
        pin: PinKind::Branch,
        commit: "1".repeat(40),
    };
    SkillChanges::begin(&place.home).unwrap().add(&name, &found, &record).unwrap();
    let read = installed::find(&place.home, &name).unwrap();
    assert_eq!(read.record.as_ref(), Some(&record));
    let of = |reference: Option<&str>| SkillOrigin::of_record(&name, &record, reference);
    assert!(matches!(of(Some("v2")), Ok(SkillOrigin::Git(found)) if found.reference == "v2"));
    assert!(of(Some("-x")).is_err() && of(Some("a..b")).is_err());
    for (repository, path) in [("--upload-pack=x", "a"), ("https://a.org/x", "../a"), ("ftp://a.org", "a")] {
        let hostile = RecordedOrigin::Git {
            repository: repository.to_owned(),
            path: path.to_owned(),
            reference: "main".to_owned(),
            pin: PinKind::Branch,
            commit: String::new(),
        };
        let record = SkillRecord { source: hostile, ..record.clone() };
        assert!(SkillOrigin::of_record(&name, &record, None).is_err(), "{repository}");
    }
    let root = Root::open(&place.home.skills().join("pdf")).unwrap();
    assert!(root.stat(Path::new(RECORD_FILE)).is_ok());
}

#[test]
fn a_checkout_is_read_like_a_repository() {
    let place = Place::new();
    let git = Repository::init(place.at("work")).unwrap();
    std::fs::write(place.at("work/SKILL.md"), TEXT).unwrap();
    let mut index = git.index().unwrap();
    index.add_path(Path::new("SKILL.md")).unwrap();
    let tree = git.find_tree(index.write_tree().unwrap()).unwrap();
    let who = Signature::now("Ann", "ann@example.org").unwrap();
    git.commit(Some("HEAD"), &who, &who, "x", &tree, &[]).unwrap();
    let (found, _) = place.of_git(&format!("{}#.", place.at("work").display())).unwrap();
    assert_eq!(found.hash(), content(&[("SKILL.md", TEXT)]).hash());
}

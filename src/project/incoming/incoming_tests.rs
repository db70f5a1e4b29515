//! Tests of pushes with real packs, good and hostile ones.

use std::io::Read;

use git2::{Oid, PackBuilder};

use super::pack_scan::tests::{pack, push_object, with_checksum};
use super::*;
use crate::project::testing::Sample;

fn ann() -> AgentId {
    "ann".parse().unwrap()
}

fn change(branch: &str, old: Option<Oid>, new: Option<Oid>) -> RefChange {
    RefChange { name: format!("refs/heads/{branch}"), old, new }
}

fn push(changes: Vec<RefChange>) -> Push {
    Push { agent: ann(), changes, is_atomic: false }
}

/// Sends this pack and returns the report.
fn sent(sample: &Sample, push: &Push, pack: &[u8]) -> PushReport {
    let mut pack = pack;
    let pack: &mut dyn Read = &mut pack;
    receive(sample.repository.folder(), push, Some(pack), &PushLimits::default()).unwrap()
}

/// Makes a pack of everything that a commit needs and `without` does not have.
fn packed(sample: &Sample, commit: Oid, without: Option<Oid>) -> Vec<u8> {
    let git = sample.repository.git();
    let mut builder: PackBuilder<'_> = git.packbuilder().unwrap();
    let mut walk = git.revwalk().unwrap();
    walk.push(commit).unwrap();
    if let Some(without) = without {
        walk.hide(without).unwrap();
    }
    builder.insert_walk(&mut walk).unwrap();
    let mut bytes = git2::Buf::new();
    builder.write_buf(&mut bytes).unwrap();
    bytes.to_vec()
}

/// A project with one commit, and another repository in which pushes are made.
fn stage() -> (Sample, Sample, Oid) {
    let (project, agent) = (Sample::new(), Sample::new());
    let base = [&project, &agent].map(|sample| sample.commit(&[], &[("a", "1\n")]));
    project.set("main", base[0]);
    assert_eq!(base[0], base[1]);
    (project, agent, base[0])
}

fn is_empty(sample: &Sample) -> bool {
    let packs = std::fs::read_dir(sample.repository.objects().join("pack")).unwrap().count();
    let incoming = std::fs::read_dir(sample.repository.folder().join("incoming"));
    packs == 0 && incoming.map_or(0, Iterator::count) == 0
}

#[test]
fn a_push_is_stored_and_moves_its_branch() {
    let (project, agent, base) = stage();
    let commit = agent.commit(&[base], &[("a", "2\n"), ("deep/link", "-> ../a")]);
    let report = sent(
        &project,
        &push(vec![change("flock/ann/work", None, Some(commit))]),
        &packed(&agent, commit, Some(base)),
    );
    assert_eq!(report.pack, Ok(()));
    assert_eq!(report.references, [("refs/heads/flock/ann/work".to_owned(), Ok(()))]);
    let opened = ProjectRepository::open(project.repository.folder()).unwrap();
    assert_eq!(opened.branch("flock/ann/work").unwrap(), Some(commit));
    assert!(opened.commit(commit).unwrap().tree().is_ok());
    assert_eq!(std::fs::read_dir(opened.folder().join("incoming")).unwrap().count(), 0);
    // Deleted without a pack, and again from where it no longer is.
    let delete = push(vec![change("flock/ann/work", Some(commit), None)]);
    let deleted = |()| receive(opened.folder(), &delete, None, &PushLimits::default()).unwrap();
    assert_eq!(deleted(()).references[0].1, Ok(()));
    assert!(deleted(()).references[0].1.as_ref().unwrap_err().contains("moved meanwhile"));
}

#[test]
fn an_empty_pack_makes_a_branch_of_a_commit_that_is_there() {
    let (project, _agent, base) = stage();
    let report = sent(&project, &push(vec![change("flock/ann/x", None, Some(base))]), &pack(&[]));
    assert_eq!((report.pack, report.references[0].1.clone()), (Ok(()), Ok(())));
    let missing = Oid::from_bytes(&[3; 20]).unwrap();
    let report = sent(&project, &push(vec![change("flock/ann/y", None, Some(missing))]), &pack(&[]));
    assert!(report.references[0].1.as_ref().unwrap_err().contains("missing"));
}

#[test]
fn other_references_are_refused_and_an_atomic_push_fails_whole() {
    let (project, agent, base) = stage();
    let commit = agent.commit(&[base], &[("a", "2\n")]);
    let bytes = packed(&agent, commit, Some(base));
    let changes = vec![
        change("flock/ann/work", None, Some(commit)),
        change("main", Some(base), Some(commit)),
        change("flock/bob/work", None, Some(commit)),
    ];
    let atomic = Push { is_atomic: true, ..push(changes.clone()) };
    let report = sent(&project, &atomic, &bytes);
    assert!(report.references.iter().all(|(_, result)| result.is_err()), "{report:?}");
    assert!(is_empty(&project), "its pack is not even read");
    let report = sent(&project, &push(changes), &bytes);
    let results: Vec<bool> = report.references.iter().map(|(_, result)| result.is_ok()).collect();
    assert_eq!(results, [true, false, false]);
    assert_eq!(project.repository.branch("main").unwrap(), Some(base));
    let alone = receive(
        project.repository.folder(),
        &push(vec![change("main", Some(base), None)]),
        None,
        &PushLimits::default(),
    );
    assert!(alone.unwrap().references[0].1.is_err());
}

#[test]
fn a_pack_without_all_of_its_objects_is_refused() {
    let (project, agent, base) = stage();
    let one = agent.commit(&[base], &[("a", "2\n")]);
    let two = agent.commit(&[one], &[("a", "3\n")]);
    let report = sent(
        &project,
        &push(vec![change("flock/ann/work", None, Some(two))]),
        &packed(&agent, two, Some(one)),
    );
    assert!(report.pack.is_err() && report.references[0].1.is_err(), "{report:?}");
    assert!(is_empty(&project));
    let opened = ProjectRepository::open(project.repository.folder()).unwrap();
    assert!(opened.commit(two).is_err(), "nothing of it is visible");
}

#[test]
fn limits_hold() {
    let (project, agent, base) = stage();
    let commit = agent.commit(&[base], &[("a", &"x".repeat(5000))]);
    let bytes = packed(&agent, commit, Some(base));
    let order = push(vec![change("flock/ann/work", None, Some(commit))]);
    for (limits, why) in [
        (PushLimits { pack: 50, ..PushLimits::default() }, "MiB"),
        (PushLimits { objects: 2, ..PushLimits::default() }, "objects"),
        (PushLimits { object: 4000, ..PushLimits::default() }, "a file of"),
        (PushLimits { unpacked: 5000, ..PushLimits::default() }, "unpacked"),
        (PushLimits { repository: 10, ..PushLimits::default() }, "GiB"),
        (PushLimits { time: Duration::ZERO, ..PushLimits::default() }, "took more than"),
    ] {
        let report = receive(project.repository.folder(), &order, Some(&mut &bytes[..]), &limits).unwrap();
        assert!(report.pack.as_ref().is_err_and(|told| told.contains(why)), "{why}: {report:?}");
        assert!(is_empty(&project));
    }
    let none = PushLimits { branches: 0, ..PushLimits::default() };
    let report = receive(project.repository.folder(), &order, Some(&mut &bytes[..]), &none).unwrap();
    assert!(report.references[0].1.as_ref().unwrap_err().contains("delete some"));
    assert_eq!(sent(&project, &order, &bytes).references[0].1, Ok(()));
}

/// A tree as bytes: mode, name, object.
fn tree(entries: &[(&str, &[u8], Oid)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend_from_slice(mode.as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(name);
        bytes.push(0);
        bytes.extend_from_slice(id.as_bytes());
    }
    bytes
}

fn id_of(kind: git2::ObjectType, bytes: &[u8]) -> Oid {
    Oid::hash_object(kind, bytes).unwrap()
}

const AUTHOR: &str = "ann <ann@flock> 1700000000 +0000";

fn commit_text(tree: Oid, parents: &[Oid]) -> Vec<u8> {
    let parents: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
    format!("tree {tree}\n{parents}author {AUTHOR}\ncommitter {AUTHOR}\n\nevil\n").into_bytes()
}

/// Pushes a commit with this root tree, and these objects besides, and returns the reason of the refusal.
fn refusal(tree_bytes: &[u8], others: &[(u8, &[u8])]) -> Result<(), String> {
    let (project, _agent, base) = stage();
    let tree = id_of(ObjectType::Tree, tree_bytes);
    let commit = commit_text(tree, &[base]);
    let mut objects: Vec<(u8, &[u8], &[u8])> = vec![(1, b"", &commit), (2, b"", tree_bytes)];
    objects.extend(others.iter().map(|(kind, bytes)| (*kind, &b""[..], *bytes)));
    let head = id_of(ObjectType::Commit, &commit);
    let report = sent(&project, &push(vec![change("flock/ann/x", None, Some(head))]), &pack(&objects));
    if report.pack.is_err() {
        assert!(is_empty(&project) && report.references[0].1.is_err());
        assert_eq!(project.repository.branch("flock/ann/x").unwrap(), None);
    }
    report.pack
}

#[test]
fn hostile_trees_are_refused() {
    let blob = b"text\n";
    let text = id_of(ObjectType::Blob, blob);
    let empty = id_of(ObjectType::Tree, b"");
    let with = |entries: &[(&str, &[u8], Oid)]| refusal(&tree(entries), &[(3, blob), (2, b"")]);
    assert_eq!(with(&[("100644", b"good", text)]), Ok(()));
    assert_eq!(with(&[("40000", b".github", empty), ("100755", b"run", text)]), Ok(()));
    for (entries, why) in [
        (vec![("40000", &b".git"[..], empty)], "git's own folder"),
        (vec![("40000", b".GiT", empty)], "git's own folder"),
        (vec![("40000", b"git~1", empty)], "git's own folder"),
        (vec![("100644", b".git ", text)], "git's own folder"),
        (vec![("40000", ".g\u{200c}it".as_bytes(), empty)], "git's own folder"),
        (vec![("100644", b"..", text)], "the one above"),
        (vec![("100644", b".", text)], "the folder itself"),
        (vec![("100644", b"", text)], ""),
        (vec![("100644", b"a/b", text)], "not the name of one file"),
        (vec![("100644", b"a", text), ("100644", b"a", text)], "twice"),
        (vec![("100644", b"a", text), ("100644", b"a.b", text), ("40000", b"a", empty)], "twice"),
        (vec![("100644", b"b", text), ("100644", b"a", text)], "not sorted"),
        (vec![("100666", b"a", text)], "mode"),
        (vec![("100664", b"a", text)], "mode"),
        (vec![("0100644", b"a", text)], "mode"),
        (vec![("040000", b"a", empty)], "mode"),
        (vec![("100644", b"a", empty)], "another kind"),
        (vec![("40000", b"a", text)], "another kind"),
        (vec![("100644", b"a", Oid::from_bytes(&[9; 20]).unwrap())], ""),
    ] {
        let told = with(&entries).unwrap_err();
        assert!(told.contains(why), "{entries:?}: {told}");
    }
    assert!(refusal(b"100644 broken", &[]).is_err());
    assert!(refusal(b"100644 broken\0short", &[]).is_err());
}

#[test]
fn hostile_links_and_submodules_are_refused() {
    let link = |target: &[u8]| {
        let id = id_of(ObjectType::Blob, target);
        refusal(&tree(&[("120000", b"link", id)]), &[(3, target)])
    };
    assert_eq!(link(b"other"), Ok(()));
    for (target, why) in
        [(&b"/etc/passwd"[..], "absolute"), (b"../x", "out of the project"), (b".git/config", "git's own")]
    {
        assert!(link(target).unwrap_err().contains(why));
    }
    let list = |name: &[u8], mode: &str, text: &[u8]| {
        let id = id_of(ObjectType::Blob, text);
        refusal(&tree(&[(mode, name, id)]), &[(3, text)])
    };
    let good = b"[submodule \"a\"]\n\tpath = a\n\turl = https://example.org/a\n";
    assert_eq!(list(b".gitmodules", "100644", good), Ok(()));
    let bad = b"[submodule \"a\"]\n\tpath = a\n\turl = -u./payload\n";
    for name in [&b".gitmodules"[..], b".GITMODULES", b"gitmod~1"] {
        assert!(list(name, "100644", bad).unwrap_err().contains("address"));
    }
    assert!(list(b".gitmodules", "120000", b"a").unwrap_err().contains("is a link"));
}

#[test]
fn a_few_trees_that_stand_for_millions_of_files_are_refused() {
    let names: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    let mut trees: Vec<Vec<u8>> = vec![Vec::new()];
    for _ in 0..10 {
        let below = id_of(ObjectType::Tree, trees.last().unwrap());
        let entries: Vec<_> = names.iter().map(|name| ("40000", name.as_bytes(), below)).collect();
        trees.push(tree(&entries));
    }
    let root = trees.pop().unwrap();
    let others: Vec<(u8, &[u8])> = trees.iter().map(|bytes| (2, bytes.as_slice())).collect();
    assert!(refusal(&root, &others).unwrap_err().contains("500000 files"));
    let mut trees: Vec<Vec<u8>> = vec![Vec::new()];
    for _ in 0..5_000 {
        let below = id_of(ObjectType::Tree, trees.last().unwrap());
        trees.push(tree(&[("40000", b"a", below)]));
    }
    let root = trees.pop().unwrap();
    let others: Vec<(u8, &[u8])> = trees.iter().map(|bytes| (2, bytes.as_slice())).collect();
    assert!(refusal(&root, &others).unwrap_err().contains("folders in each other"));
}

#[test]
fn what_the_owner_has_is_not_held_against_an_agent() {
    let (project, agent) = (Sample::new(), Sample::new());
    let files = [("abs", "-> /usr/bin/python3"), ("a", "1\n")];
    let base = [&project, &agent].map(|sample| sample.commit(&[], &files))[0];
    project.set("main", base);
    let commit = agent.commit(&[base], &[("abs", "-> /usr/bin/python3"), ("a", "2\n")]);
    let order = push(vec![change("flock/ann/work", None, Some(commit))]);
    assert_eq!(sent(&project, &order, &packed(&agent, commit, Some(base))).pack, Ok(()));
    let moved = agent.commit(&[base], &[("abs2", "-> /usr/bin/python3"), ("a", "2\n")]);
    let order = push(vec![change("flock/ann/x", None, Some(moved))]);
    assert!(sent(&project, &order, &packed(&agent, moved, Some(base))).pack.is_err());
}

#[test]
fn hostile_commits_are_refused() {
    let empty = id_of(ObjectType::Tree, b"");
    let with = |text: &str| {
        let (project, _agent, base) = stage();
        let text = text.replace("BASE", &base.to_string()).replace("TREE", &empty.to_string());
        let head = id_of(ObjectType::Commit, text.as_bytes());
        let bytes = pack(&[(1, b"", text.as_bytes()), (2, b"", b"")]);
        let report = sent(&project, &push(vec![change("flock/ann/x", None, Some(head))]), &bytes);
        report.pack.and(report.references[0].1.clone())
    };
    let people = format!("author {AUTHOR}\ncommitter {AUTHOR}\n");
    assert_eq!(with(&format!("tree TREE\nparent BASE\n{people}\nok\n")), Ok(()));
    for bad in [
        format!("tree BASE\n{people}\nx"),
        format!("tree TREE\nparent TREE\n{people}\nx"),
        format!("tree TREE\nparent {}\n{people}\nx", "1".repeat(40)),
        format!("parent BASE\n{people}\nx"),
        format!("tree TREE\nauthor {AUTHOR}\n\nx"),
        "tree TREE\nauthor a\ncommitter b\n\nx".to_owned(),
        format!("tree TREE\n{people}tree TREE\n\nx"),
        format!("tree TREE\n{people}x\0y\n\nx"),
        "tree TREE".to_owned(),
    ] {
        assert!(with(&bad).is_err(), "{bad}");
    }
}

#[test]
fn damaged_packs_and_bombs_are_refused() {
    let (project, agent, base) = stage();
    let commit = agent.commit(&[base], &[("a", "2\n")]);
    let good = packed(&agent, commit, Some(base));
    let order = push(vec![change("flock/ann/work", None, Some(commit))]);
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    let mut wrong_sum = good.clone();
    *wrong_sum.last_mut().unwrap() ^= 1;
    let mut bomb = b"PACK\0\0\0\x02\0\0\0\x01".to_vec();
    push_object(&mut bomb, 3, 200 << 20, b"", &[0; 1 << 20]);
    for bad in [&good[..good.len() - 25], &good[..5], b"", &flipped, &wrong_sum, &with_checksum(bomb)] {
        let report = sent(&project, &order, bad);
        assert!(report.pack.is_err() && is_empty(&project), "{report:?}");
    }
    struct Breaks;
    impl Read for Breaks {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::ConnectionReset.into())
        }
    }
    let report =
        receive(project.repository.folder(), &order, Some(&mut Breaks), &PushLimits::default()).unwrap();
    assert!(report.pack.is_err() && is_empty(&project));
    assert_eq!(sent(&project, &order, &good).references[0].1, Ok(()));
}

#[test]
fn a_killed_push_leaves_a_folder_that_the_next_start_removes() {
    let (project, _agent, _base) = stage();
    let folder = project.repository.folder().join("incoming");
    std::fs::create_dir_all(folder.join("0192-dead/objects/pack")).unwrap();
    std::fs::write(folder.join("0192-dead.lock"), "").unwrap();
    let live = Quarantine::new(project.repository.folder()).unwrap();
    project.repository.repair().unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "only the one in use and its lock");
    drop(live);
    assert!(is_empty(&project));
}

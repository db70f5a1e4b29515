//! Trees and receipts for the tests of this module.

use std::sync::Arc;

use git2::{ObjectType, Oid};

use super::document::{ChainPosition, Commit, FORMAT, Probe, Receipt, RequiredFile, Run};
use super::objects::ObjectMap;
use super::test_count;
use super::tree::Tree;
use super::{Checks, canonical};
use crate::sandbox::check::CheckSandbox;

/// A git object to put into a map.
pub(crate) enum Object<'a> {
    Blob(&'a [u8]),
    /// Entries as `(mode, name, id)`.
    Tree(&'a [(&'a str, &'a str, &'a str)]),
}

/// Puts an object into a map and returns its hash.
pub(crate) fn put(map: &mut ObjectMap, object: Object<'_>) -> String {
    let (kind, data) = match object {
        Object::Blob(data) => (ObjectType::Blob, data.to_vec()),
        Object::Tree(entries) => {
            let mut data = Vec::new();
            for (mode, name, id) in entries {
                data.extend(format!("{mode} {name}\0").into_bytes());
                data.extend(Oid::from_str(id).unwrap().as_bytes());
            }
            (ObjectType::Tree, data)
        }
    };
    let id = Oid::hash_object(kind, &data).unwrap().to_string();
    map.0.insert(id.clone(), data);
    id
}

/// Returns a tree of files as `(path, mode, text)`.
pub(crate) fn tree(files: &[(&str, &str, &str)]) -> Tree {
    let (map, root) = tree_objects(files);
    Tree::load(Arc::new(map), &root).unwrap()
}

/// Returns the objects of such a tree, and its hash.
pub(crate) fn tree_objects(files: &[(&str, &str, &str)]) -> (ObjectMap, String) {
    let mut map = ObjectMap::default();
    let root = folder(&mut map, files);
    (map, root)
}

fn folder(map: &mut ObjectMap, files: &[(&str, &str, &str)]) -> String {
    let mut entries: Vec<(String, String, String)> = Vec::new();
    let mut below: std::collections::BTreeMap<&str, Vec<(&str, &str, &str)>> =
        std::collections::BTreeMap::new();
    for (path, mode, text) in files {
        match path.split_once('/') {
            Some((name, rest)) => below.entry(name).or_default().push((rest, mode, text)),
            None => {
                let id = put(map, Object::Blob(text.as_bytes()));
                entries.push(((*mode).to_owned(), (*path).to_owned(), id));
            }
        }
    }
    for (name, files) in below {
        entries.push(("40000".to_owned(), name.to_owned(), folder(map, &files)));
    }
    entries.sort_by(|a, b| a.1.cmp(&b.1));
    let entries: Vec<_> =
        entries.iter().map(|(mode, name, id)| (mode.as_str(), name.as_str(), id.as_str())).collect();
    put(map, Object::Tree(&entries))
}

/// Returns a command that ended with this code and this output.
pub(crate) fn run(command: &str, exit: i32, output: &str) -> Run {
    Run {
        changed: Vec::new(),
        command: command.to_owned(),
        counts: test_count::count(output),
        end: "exited".to_owned(),
        exit: Some(exit),
        kept_sha256: canonical::hash(output.as_bytes()),
        output_bytes: output.len() as u64,
        output_sha256: canonical::hash(output.as_bytes()),
        took_ms: 5,
    }
}

/// Returns a receipt of checks that all succeeded on a tree.
pub(crate) fn receipt(checks: &Checks, tree: &Tree) -> Receipt {
    use crate::sandbox::check::TreeSource as _;
    let agent = crate::sandbox::testing::agent("coder", "/w".into());
    let sandbox = CheckSandbox::of(&agent, Vec::new());
    let runs: Vec<Run> =
        checks.commands.iter().map(|command| run(command, 0, "===== 3 passed in 0.1s =====")).collect();
    let commit = Commit { commit: "c".repeat(40), tree: tree.id().to_owned() };
    Receipt {
        at: 1_700_000_000_000,
        author: "coder".to_owned(),
        base: Commit { commit: "b".repeat(40), tree: "b".repeat(40) },
        base_runs: runs.clone(),
        branch: "flock/coder/t1".to_owned(),
        canaries: Vec::new(),
        chain: ChainPosition { hash: "0".repeat(64), row: 0 },
        check_files: Vec::new(),
        checks: checks.clone(),
        checks_hash: checks.hash().unwrap(),
        closure: Vec::new(),
        delivered: commit,
        delivered_sha256: tree.sha256().unwrap(),
        flock: "0.0.0".to_owned(),
        format: FORMAT,
        old_tests: Vec::new(),
        packages: Vec::new(),
        probe: Probe { at: 1, findings: Vec::new(), image: "sha256:abc".to_owned() },
        project: "web".to_owned(),
        required: checks
            .required
            .iter()
            .map(|path| RequiredFile { path: path.clone(), present: true })
            .collect(),
        runs,
        sandbox_hash: canonical::hash(&canonical::write("the sandbox", &sandbox).unwrap()),
        sandbox,
        setup: None,
        task: "t1".to_owned(),
    }
}

//! The files of `agent` do not import each other in a circle. A re-export counts as a use of the file that has the item.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, sources, verdict};

/// A module's path below `agent`.
type ModulePath = Vec<String>;

/// Circles that stay, each with its reason.
const NATURAL: [(&[&str], &str); 2] = [
    (
        &["transcript::lenient", "transcript::model"],
        "the lenient reader fills the records, and their deserialisation calls it",
    ),
    (
        &["transcript::hygiene::pictures", "transcript::hygiene::policy", "transcript::hygiene::target"],
        "a target carries the cache of pictures, which are prepared by the target's policy",
    ),
];

/// Test code in files of its own.
const FAKES: [&str; 2] = ["fake_providers", "generator"];

/// The modules of `agent` with their code.
fn modules() -> BTreeMap<ModulePath, String> {
    let path = |source: &Source| -> Option<ModulePath> {
        let below = source.path.strip_prefix("agent").ok()?.with_extension("");
        let mut path: ModulePath = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        path.pop_if(|last| last == "mod");
        (!path.iter().any(|part| FAKES.contains(&&**part))).then_some(path)
    };
    sources().into_iter().filter_map(|source| Some((path(&source)?, source.code))).collect()
}

/// Reads a path or a group of paths that begins at `text`, and returns the rest of the text.
fn read_paths<'t>(mut text: &'t str, mut path: Vec<String>, found: &mut Vec<Vec<String>>) -> &'t str {
    loop {
        if let Some(mut group) = text.strip_prefix('{') {
            loop {
                group = group.trim_start_matches([',', ' ', '\n']);
                if let Some(rest) = group.strip_prefix('}') {
                    return rest;
                }
                if group.is_empty() {
                    return group;
                }
                let rest = read_paths(group, path.clone(), found);
                // Another name for an item, or a star.
                group = &rest[rest.find([',', '}']).unwrap_or(rest.len())..];
            }
        }
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        if end > 0 {
            path.push(text[..end].to_owned());
        }
        match text[end..].strip_prefix("::") {
            Some(rest) if end > 0 => text = rest,
            _ => {
                found.push(path);
                return &text[end..];
            }
        }
    }
}

/// What the files of `agent` use of each other.
#[derive(Default)]
struct Uses {
    /// The item that a module passes on under a name.
    passed_on: BTreeMap<(ModulePath, String), ModulePath>,
    used: Vec<(ModulePath, ModulePath)>,
}

impl Uses {
    fn of(modules: &BTreeMap<ModulePath, String>) -> Self {
        let mut uses = Self::default();
        for (module, code) in modules {
            let mut body = String::new();
            let mut lines = code.lines();
            while let Some(line) = lines.next() {
                let trimmed = line.trim_start();
                let tree = trimmed.split_once("use ").filter(|(before, _)| {
                    before.is_empty() || (before.starts_with("pub") && !before.contains(['{', '=']))
                });
                let Some((before, first)) = tree else {
                    body.extend([line, "\n"]);
                    continue;
                };
                let mut tree = first.to_owned();
                while !tree.contains(';') {
                    tree.push_str(lines.next().unwrap_or(";"));
                }
                let mut found = Vec::new();
                read_paths(&tree, Vec::new(), &mut found);
                for path in found {
                    uses.note(modules, module, &path, !before.is_empty());
                }
            }
            for start in ["crate::agent::", "super::", "self::"] {
                for (at, _) in body.match_indices(start) {
                    let before = &body[..at];
                    // `pub(in crate::agent::x)` is no use, and the middle of a path no beginning.
                    if before.ends_with("(in ")
                        || before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
                    {
                        continue;
                    }
                    let mut found = Vec::new();
                    read_paths(&body[at..], Vec::new(), &mut found);
                    found.iter().for_each(|path| uses.note(modules, module, path, false));
                }
            }
        }
        uses
    }

    fn note(
        &mut self,
        modules: &BTreeMap<ModulePath, String>,
        module: &ModulePath,
        path: &[String],
        is_passed_on: bool,
    ) {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let mut base = module.clone();
        let rest = match &words[..] {
            ["crate", "agent", rest @ ..] => {
                base.clear();
                rest
            }
            ["self", rest @ ..] => rest,
            ["super", ..] => {
                let ups = words.iter().take_while(|word| **word == "super").count();
                base.truncate(base.len().saturating_sub(ups));
                &words[ups..]
            }
            [first, ..] if modules.contains_key(&[&base[..], &[(*first).to_owned()]].concat()) => &words[..],
            _ => return,
        };
        base.extend(rest.iter().map(|word| (*word).to_owned()));
        if let (true, Some(name)) = (is_passed_on, rest.last()) {
            self.passed_on.insert((module.clone(), (*name).to_owned()), base);
        } else {
            self.used.push((module.clone(), base));
        }
    }

    /// The module that has the item at this path.
    fn home(&self, modules: &BTreeMap<ModulePath, String>, path: &[String]) -> ModulePath {
        let mut path = path.to_vec();
        // Each round follows one re-export.
        for _ in 0..8 {
            let end = (0..=path.len()).rev().find(|end| modules.contains_key(&path[..*end]));
            let end = end.expect("the root is a module");
            let Some(name) = path.get(end) else { return path };
            match self.passed_on.get(&(path[..end].to_vec(), name.clone())) {
                Some(target) => path = [&target[..], &path[end + 1..]].concat(),
                None => return path[..end].to_vec(),
            }
        }
        path
    }
}

#[test]
fn no_circle_of_files_inside_agent() {
    let modules = modules();
    let uses = Uses::of(&modules);
    let mut edges: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
    for (from, path) in &uses.used {
        let to = uses.home(&modules, path);
        if to != *from {
            edges.entry(from.clone()).or_default().insert(to);
        }
    }
    assert!(edges.len() > 50, "the law must have read the imports; found {} files", edges.len());
    let reached = |start: &ModulePath| {
        let mut reached: BTreeSet<&ModulePath> = BTreeSet::new();
        let mut open: Vec<&ModulePath> = edges.get(start).into_iter().flatten().collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(edges.get(next).into_iter().flatten());
            }
        }
        reached
    };
    let reach: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        edges.keys().map(|module| (module, reached(module))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, reached) in &reach {
        if reached.contains(module) {
            let back = |other: &&&ModulePath| reach.get(**other).is_some_and(|back| back.contains(module));
            circles.insert(reached.iter().filter(back).map(|other| other.join("::")).collect());
        }
    }
    let known: BTreeSet<Vec<String>> =
        NATURAL.iter().map(|(files, _)| files.iter().map(|file| (*file).to_owned()).collect()).collect();
    let new = circles.difference(&known).map(|circle| format!("import each other: {}", circle.join(", ")));
    let gone = known.difference(&circles).map(|circle| format!("no circle any more: {}", circle.join(", ")));
    verdict("circles of files inside agent", new.chain(gone).collect());
}

#[test]
fn the_reader_of_paths_sees_groups_and_other_names() {
    let mut found = Vec::new();
    read_paths("super::{a::{self, B as C}, d};", Vec::new(), &mut found);
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["super::a::self", "super::a::B", "super::d"]);
}

//! A module imports only from lower layers, and modules of one layer do not import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, sources, verdict};

/// The layers, lowest first.
const LAYERS: [&[&str]; 7] = [
    &[
        "error",
        "env",
        "id",
        "json",
        "clean",
        "clock",
        "markdown",
        "process",
        "fault_point",
        "picture",
        "secret_text",
        "sync",
    ],
    &["store", "config", "generation", "home", "telemetry"],
    &["provider", "tool", "sandbox", "nix_store", "install", "supervise", "openclaw", "blob"],
    &["agent", "mcp", "runtime", "skill"],
    &["swarm", "project", "receipt", "checkpoint", "backup"],
    &["gateway", "bridge", "dashboard"],
    &["cli", "ui"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// The top module a file belongs to.
fn module(source: &Source) -> String {
    let first = source.path.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// The top modules a file names by `crate::…`, wherever it does so.
fn imports(code: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            // `use crate::{a::b, c}`: the first word of each part at the outermost level.
            let mut depth = 0usize;
            let mut part = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        found.insert(word(part.trim_start()));
                        part.clear();
                        continue;
                    }
                    _ => {}
                }
                part.push(c);
            }
            found.insert(word(part.trim_start()));
        } else {
            found.insert(word(rest));
        }
    }
    found.retain(|name| layer(name).is_some());
    found
}

#[test]
fn a_module_imports_only_from_lower_layers() {
    let mut wrong = Vec::new();
    for source in sources() {
        let from = module(&source);
        if from == "lib" || from == "main" {
            continue;
        }
        let Some(level) = layer(&from) else {
            wrong.push(format!("{}: the module {from} is in no layer", source.path.display()));
            continue;
        };
        for to in imports(&source.code) {
            if layer(&to).unwrap() > level {
                wrong.push(format!("{}: {from} (layer {level}) uses {to}", source.path.display()));
            }
        }
    }
    verdict("upward imports", wrong);
}

#[test]
fn no_circle_inside_a_layer() {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        let from = module(&source);
        let level = layer(&from);
        let same = imports(&source.code).into_iter().filter(|to| *to != from && layer(to) == level);
        edges.entry(from.clone()).or_default().extend(same);
    }
    let mut wrong = Vec::new();
    for start in edges.keys() {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&String> = edges[start].iter().collect();
        while let Some(next) = open.pop() {
            if next == start {
                wrong.push(format!("{start} reaches itself; it uses {:?}", edges[start]));
                break;
            }
            if reached.insert(next) {
                open.extend(edges.get(next).into_iter().flatten());
            }
        }
    }
    verdict("circles inside a layer", wrong);
}

#[test]
fn the_reader_of_imports_sees_groups_and_paths() {
    let code = "use crate::{home::{Home, lock}, id};\nlet x = crate::gateway::run();\nuse crate::nothing;";
    let found: Vec<String> = imports(code).into_iter().collect();
    assert_eq!(found, ["gateway", "home", "id"]);
}

//! The laws of the source: what may import what, and which calls belong to one place only.

mod actors;
mod circles;
mod compose;
mod databases;
mod dependencies;
mod hints;
mod layers;
mod openapi;
mod package;
pub(crate) mod people;
mod places;
mod programs;
mod promises;
mod routes;

use std::path::{Path, PathBuf};

/// A source file of the library: its path below `src`, and its text without comments, unit tests and the
/// content of string literals.
struct Source {
    path: PathBuf,
    code: String,
}

/// Every file of the library, except those that hold unit tests alone.
fn sources() -> Vec<Source> {
    texts().into_iter().map(|(path, text)| Source { path, code: code_of(&text) }).collect()
}

/// The path and the text of each of these files, up to the unit tests at its end.
fn texts() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() > 20, "the laws must have read the source; found {} files", files.len());
    files
        .into_iter()
        .filter(|path| {
            let stem = path.file_stem().unwrap().to_string_lossy();
            stem != "tests"
                && !stem.ends_with("_tests")
                && !path.components().any(|c| c.as_os_str() == "tests")
        })
        .map(|path| {
            let mut text = std::fs::read_to_string(&path).unwrap();
            // `mod tests;` may stand anywhere, and what follows it counts.
            let end = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
            text.truncate(end);
            (path.strip_prefix(&root).unwrap().to_owned(), text)
        })
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The code of a file: line comments are cut.
fn code_of(text: &str) -> String {
    text.lines()
        .map(|line| {
            let trimmed = line.trim_start();
            if trimmed.starts_with("//") { "" } else { line.split(" // ").next().unwrap_or_default() }
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Collects what is wrong and says all of it at once.
fn verdict(law: &str, mut found: Vec<String>) {
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{law}:\n  {}", found.join("\n  "));
}

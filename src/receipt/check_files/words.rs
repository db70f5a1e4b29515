//! The words of commands and scripts, and the paths that they may stand for. They are read generously: a path too many only means
//! that a person looks at a change.

use std::path::{Component, Path, PathBuf};

/// Returns the places that a word in a script of a folder may name. What stood before it in a variable is unknown.
pub(super) fn places(folder: &Path, word: &str) -> Vec<PathBuf> {
    let parts: Vec<&str> = word.split('/').filter(|part| !part.is_empty()).collect();
    let rests = (0..parts.len().min(6)).map(|start| parts[start..].join("/"));
    rests.flat_map(|rest| [relative(Path::new(&rest)), relative(&folder.join(&rest))]).flatten().collect()
}

/// Returns the files that the names of modules in a command may stand for, as in `-m unittest tests.test_a.Case.test_b`. A name
/// after `import` or `from` is what a text uses, and not what it runs.
pub(super) fn modules(command: &str) -> Vec<PathBuf> {
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c == '_' || c.is_alphanumeric());
    let words = words(command);
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |before| words[before].as_str());
        let parts: Vec<&str> = word.split('.').collect();
        let is_run = parts.len() > 1 || matches!(before, "-m" | "unittest" | "-v");
        if is_run && !matches!(before, "import" | "from") && parts.iter().all(|part| is_part(part)) {
            found.extend((1..=parts.len()).map(|end| PathBuf::from(parts[..end].join("/") + ".py")));
        }
    }
    found
}

/// Splits a command into the words that may be paths.
pub(super) fn words(command: &str) -> Vec<String> {
    let separators = |c: char| c.is_whitespace() || ";&|()<>`\"'$={},:".contains(c);
    command.split(separators).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns the values that a line of shell gives to the variable `PATH`, and to no other, such as `PYTHONPATH`.
pub(super) fn path_values(line: &str) -> impl Iterator<Item = &str> {
    const NAME: &str = "PATH=";
    let is_own = |at: usize| !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    line.match_indices(NAME).filter(move |(at, _)| is_own(*at)).map(|(at, _)| {
        let value = &line[at + NAME.len()..];
        match value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            Some(quote) => value[1..].split(quote).next().unwrap_or_default(),
            None => value.split([' ', '\t', ';', '&', '|', ')']).next().unwrap_or_default(),
        }
    })
}

/// Returns a path relative to the tree without `.` and `..`, or `None` if it leads out of it.
pub(super) fn relative(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    let path = path.strip_prefix("/workspace").unwrap_or(path);
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !clean.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!clean.as_os_str().is_empty()).then_some(clean)
}

//! Finds the changes of a branch that concern its own checks: test files, the configuration of test runners, programs and
//! scripts that a check runs, and text that could pass for a runner's result.
//!
//! It compares two trees and runs nothing. What it can't see is in docs/receipts.md: the delivered code runs inside its
//! tests, so a text that it makes up at run time looks as the runner's own.

mod names;
mod sections;
mod suspicious;

pub(super) use names::is_test_file;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::Checks;
use super::document::CheckFile;
use super::tree::{FileChange, Tree, changes};
use crate::sandbox::check::{TreeFileKind, TreeSource as _};

/// Returns the changes between two trees that concern the checks, sorted by path.
#[must_use]
pub fn changed(checks: &Checks, base: &Tree, delivered: &Tree) -> Vec<CheckFile> {
    if checks.commands.is_empty() {
        return Vec::new();
    }
    let named = Named::of(checks, base, delivered);
    let mut found: BTreeMap<PathBuf, CheckFile> = BTreeMap::new();
    for (path, change) in changes(base, delivered) {
        if let Some((reason, needs_person)) = judge(&path, change, &named, base, delivered) {
            let file =
                CheckFile { change: word(change).to_owned(), needs_person, path: shown(&path), reason };
            found.insert(path, file);
        }
    }
    // A link that the base had, too, is the owner's. Its target may still have been changed, which `Named` follows.
    for path in &named.links {
        let file = CheckFile {
            change: "link".to_owned(),
            needs_person: true,
            path: shown(path),
            reason: "is named by a check and is a symbolic link".to_owned(),
        };
        found.insert(path.clone(), file);
    }
    found.into_values().collect()
}

/// Returns `true` if a command names a test.
pub(super) fn names_tests(command: &str) -> bool {
    let is_test = |word: &String| {
        // What is in a folder of tests is one.
        names::is_test(&Path::new(word).join("x"))
            || names::is_test_file(Path::new(word))
            || modules(word).iter().any(|module| names::is_test(module))
    };
    words(command).iter().any(is_test)
}

/// Decides about one changed file. Returns the reason, and `true` if a person has to look at it.
fn judge(
    path: &Path,
    change: FileChange,
    named: &Named,
    base: &Tree,
    delivered: &Tree,
) -> Option<(String, bool)> {
    let is_added = change == FileChange::Added;
    let link = delivered.file(path).is_some_and(|file| file.kind == TreeFileKind::Link);
    if named.files.contains(path) {
        return Some(("is run or named by a check, and the branch changed it".to_owned(), true));
    }
    if named.declared.iter().any(|declared| path.starts_with(declared)) {
        return Some(("is declared as a file of the checks, and the branch changed it".to_owned(), true));
    }
    if let Some(reason) = names::program(path) {
        return Some((reason.to_owned(), true));
    }
    if names::runs_checks(path) {
        return Some((
            "is in a folder of scripts that run checks, and the branch changed it".to_owned(),
            true,
        ));
    }
    if is_added && names::is_python_module(path) && named.is_searched(path, delivered) {
        return Some(("takes the place of a module of Python".to_owned(), true));
    }
    if link && leads_out(path, delivered) {
        return Some(("is a symbolic link that leads out of the tree".to_owned(), true));
    }
    if names::is_configuration(path) {
        let (old, new) = (base.text(path), delivered.text(path));
        if link || sections::concerns_tests(path, old.as_deref(), new.as_deref()) {
            return Some(("decides which tests run, and the branch changed it".to_owned(), true));
        }
    }
    if names::is_test(path) {
        // A new test can only add to what is run. Everything else in a folder of tests, such as a fixture or a module
        // that tests import, can change what the others do.
        let is_new = is_added && !link && (names::is_test_file(path) || names::is_data(path));
        if !is_new && !(is_added && opens_a_folder(path, base, delivered)) {
            return Some(("belongs to the tests, and the branch changed it".to_owned(), true));
        }
    }
    let (old, new) = (base.text(path).unwrap_or_default(), delivered.text(path).unwrap_or_default());
    if let Some(reason) =
        suspicious::added(path, suspicious::Kind { is_test: names::is_test(path) }, &old, &new)
    {
        return Some((reason, true));
    }
    if names::is_python(path) && sections::has_python_tests(&old) {
        return Some(("has tests, and the branch changed it".to_owned(), true));
    }
    if named.has_doctests
        && sections::doctests(&old).iter().any(|line| !sections::doctests(&new).contains(line))
    {
        return Some(("has examples that are tests, and the branch changed them".to_owned(), true));
    }
    match names::is_rust(path).then(|| sections::inline_tests(&old, &new)).flatten() {
        Some(true) => return Some(("has tests that the branch changed".to_owned(), true)),
        Some(false) => return Some(("has new tests".to_owned(), false)),
        None => {}
    }
    names::is_test(path).then(|| ("is a new test".to_owned(), false))
}

/// Returns `true` if a link leads out of the tree.
fn leads_out(path: &Path, delivered: &Tree) -> bool {
    let target = delivered.file(path).and_then(|file| delivered.content(file).ok()).unwrap_or_default();
    let target = String::from_utf8_lossy(&target).into_owned();
    // A link to the folder of the tree itself is inside.
    let joined = path.parent().unwrap_or(Path::new("")).join(&target).join("x");
    Path::new(&target).is_absolute() || relative(&joined).is_none()
}

/// Returns `true` if a file is an empty `__init__.py` that makes a folder a package in which the base has nothing.
fn opens_a_folder(path: &Path, base: &Tree, delivered: &Tree) -> bool {
    let is_package = path.file_name().is_some_and(|name| name == "__init__.py");
    let folder = path.parent().unwrap_or(Path::new(""));
    let is_comment = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
    is_package && !base.has(folder) && delivered.text(path).is_some_and(|text| text.lines().all(is_comment))
}

/// The paths that the commands name.
struct Named {
    /// Files that a command runs or names.
    files: BTreeSet<PathBuf>,
    /// Paths that the owner declared as those of the checks.
    declared: Vec<PathBuf>,
    /// Links that a command names, and that the base does not have.
    links: BTreeSet<PathBuf>,
    /// `true` if a command runs the examples in texts as tests.
    has_doctests: bool,
}

impl Named {
    fn of(checks: &Checks, base: &Tree, delivered: &Tree) -> Self {
        let mut named = Self {
            files: BTreeSet::new(),
            declared: checks.files.iter().map(|path| PathBuf::from(path.trim_end_matches('/'))).collect(),
            links: BTreeSet::new(),
            has_doctests: checks.commands.iter().any(|command| command.contains("doctest")),
        };
        for word in checks.commands.iter().flat_map(|command| words(command)) {
            let Some(path) = relative(Path::new(&word)) else { continue };
            named.add(&path, base, delivered, 0);
            for module in modules(&word) {
                if base.file(&module).is_some() || delivered.file(&module).is_some() {
                    named.add(&module, base, delivered, 0);
                }
            }
        }
        let tools = ["make", "just", "npm", "tox", "nox", "task", "rake"];
        if checks
            .commands
            .iter()
            .flat_map(|command| words(command))
            .any(|word| tools.contains(&word.as_str()))
        {
            for name in
                ["Makefile", "makefile", "GNUmakefile", "justfile", "package.json", "tox.ini", "Rakefile"]
            {
                named.follow(Path::new(name), [base, delivered], 0);
            }
        }
        for path in named.files.clone() {
            named.follow(&path, [base, delivered], 0);
        }
        for path in named.declared.clone() {
            named.look_at_links(&path, base, delivered, 0);
        }
        named
    }

    /// Adds the scripts that a script of the checks runs. What a test runs is the code under test, so tests are not followed.
    fn follow(&mut self, path: &Path, trees: [&Tree; 2], depth: usize) {
        let is_test = names::is_test(path);
        let folder = path.parent().unwrap_or(Path::new(""));
        for tree in trees {
            let Some(text) = tree.text(path) else { continue };
            let is_script = depth == 0 && !names::is_python(path) || is_shell(path, &text);
            if is_test || !is_script || depth > 4 {
                continue;
            }
            for found in text.lines().flat_map(words).flat_map(|word| places(folder, &word)) {
                let is_shell =
                    trees.iter().any(|tree| tree.text(&found).is_some_and(|text| is_shell(&found, &text)));
                let is_near = found.parent() == Some(folder) || names::is_check_script(&found);
                if is_shell && is_near && self.files.insert(found.clone()) {
                    self.follow(&found, trees, depth + 1);
                }
            }
        }
    }

    /// Returns `true` if Python looks for modules in the folder of a file: it is no package, or a script there is run.
    fn is_searched(&self, path: &Path, delivered: &Tree) -> bool {
        let folder = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
        let is_package = path.file_name().is_some_and(|name| name == "__init__.py");
        let place = if is_package { folder(&folder(path)) } else { folder(path) };
        delivered.file(&place.join("__init__.py")).is_none()
            || self.files.iter().any(|file| names::is_python(file) && folder(file) == place)
    }

    fn add(&mut self, path: &Path, base: &Tree, delivered: &Tree, depth: usize) {
        self.look_at_links(path, base, delivered, depth);
        // A file that only one of the two trees has counts as well: the branch may have added or deleted it.
        if base.file(path).is_some() || delivered.file(path).is_some() {
            self.files.insert(path.to_owned());
        }
    }

    /// Follows a path through the links of the delivered tree. The files that they lead to are the checks' as well.
    fn look_at_links(&mut self, path: &Path, base: &Tree, delivered: &Tree, depth: usize) {
        for above in path.ancestors().filter(|above| !above.as_os_str().is_empty()) {
            let Some(file) = delivered.file(above).filter(|file| file.kind == TreeFileKind::Link) else {
                continue;
            };
            let target = String::from_utf8_lossy(&delivered.content(file).unwrap_or_default()).into_owned();
            let target = above.parent().unwrap_or(Path::new("")).join(target);
            let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
            let inside = relative(&target.join(rest));
            let is_new = base.file(above) != Some(file);
            if is_new || inside.is_none() || depth > 8 {
                self.links.insert(above.to_owned());
            }
            if let Some(inside) = inside.filter(|_| depth <= 8) {
                self.declared.push(inside.clone());
                self.add(&inside, base, delivered, depth + 1);
            }
        }
        // A test that a folder holds may be a link, too.
        for file in delivered.files().iter().filter(|file| file.path.starts_with(path)) {
            if file.kind == TreeFileKind::Link && base.file(&file.path) != Some(file) {
                self.links.insert(file.path.clone());
            }
        }
    }
}

/// Returns `true` if a file is a shell script.
fn is_shell(path: &Path, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let has_ending =
        path.extension().is_some_and(|ending| ending == "sh" || ending == "bash" || ending == "mk");
    has_ending || (first.starts_with("#!") && first.contains("sh"))
}

/// Returns the places that a word in a script of a folder may name. What stood before it in a variable is unknown.
fn places(folder: &Path, word: &str) -> Vec<PathBuf> {
    let parts: Vec<&str> = word.split('/').filter(|part| !part.is_empty()).collect();
    let rests = (0..parts.len().min(6)).map(|start| parts[start..].join("/"));
    rests.flat_map(|rest| [relative(Path::new(&rest)), relative(&folder.join(&rest))]).flatten().collect()
}

/// Returns the files that a word such as `tests.test_a.Case.test_b` may name.
fn modules(word: &str) -> Vec<PathBuf> {
    let parts: Vec<&str> = word.split('.').collect();
    let is_name = |part: &&str| !part.is_empty() && part.chars().all(|c| c == '_' || c.is_alphanumeric());
    if !parts.iter().all(|part| is_name(&part)) {
        return Vec::new();
    }
    (1..=parts.len()).map(|end| PathBuf::from(parts[..end].join("/") + ".py")).collect()
}

/// Splits a command into the words that may be paths.
fn words(command: &str) -> Vec<String> {
    let separators = |c: char| c.is_whitespace() || ";&|()<>`\"'$={},:".contains(c);
    command.split(separators).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns a path relative to the tree without `.` and `..`, or `None` if it leads out of it.
fn relative(path: &Path) -> Option<PathBuf> {
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

const fn word(change: FileChange) -> &'static str {
    match change {
        FileChange::Added => "added",
        FileChange::Deleted => "deleted",
        FileChange::Modified => "modified",
        FileChange::Kind => "kind",
    }
}

/// Returns a path as text. Characters that a terminal would act on are replaced.
fn shown(path: &Path) -> String {
    crate::clean::summary(&path.to_string_lossy(), 400)
}

#[cfg(test)]
#[path = "check_files_tests.rs"]
mod tests;

//! Finds the changes of a branch that concern its own checks: test files, the configuration of test runners, programs and
//! scripts that a check runs, and text that could pass for a runner's result.
//!
//! It compares two trees and runs nothing. What it can't see is in docs/receipts.md: the delivered code runs inside its
//! tests, so a text that it makes up at run time looks as the runner's own.

mod named;
mod names;
mod sections;
mod suspicious;
mod words;

pub(super) use names::{is_test, is_test_file};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::named::Named;
use self::words::{modules, relative, words};
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

/// Returns the paths that commands name.
pub(super) fn named(commands: &[String]) -> Vec<PathBuf> {
    let words = commands.iter().flat_map(|command| words(command));
    words.filter_map(|word| relative(Path::new(&word))).collect()
}

/// Returns the files of a tree that no check has a reason to change while it runs: those of the checks, and those that the
/// branch changed, because what was checked would be something else than what was delivered.
pub(super) fn watched(checks: &Checks, tree: &Tree, other: &Tree) -> Vec<PathBuf> {
    let named = named(&checks.commands);
    let declared =
        |path: &Path| checks.files.iter().any(|known| path.starts_with(known.trim_end_matches('/')));
    let is_of_checks = |path: &Path| {
        names::is_test(path)
            || declared(path)
            || names::runs_checks(path)
            || named.iter().any(|one| one == path)
    };
    let is_watched = |path: &Path| is_of_checks(path) || tree.file(path) != other.file(path);
    tree.files().iter().filter(|file| is_watched(&file.path)).map(|file| file.path.clone()).collect()
}

/// Returns `true` if a command names a test.
pub(super) fn names_tests(command: &str) -> bool {
    // What is in a folder of tests is one.
    let is_test =
        |word: &String| names::is_test(&Path::new(word).join("x")) || names::is_test_file(Path::new(word));
    words(command).iter().any(is_test) || modules(command).iter().any(|module| names::is_test(module))
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
    if is_added && named.hides_a_program(path) {
        return Some(("takes the place of a program that a check runs".to_owned(), true));
    }
    if change == FileChange::Deleted && named.imported.contains(path) {
        return Some(("is used by a test, and the branch deleted it".to_owned(), true));
    }
    if named.data.contains(path) {
        return Some(("is named by a test, and the branch changed it".to_owned(), true));
    }
    if named.sourced.contains(path) {
        return Some((
            "is read by a script of the checks into its own process, and the branch changed it".to_owned(),
            true,
        ));
    }
    if path.parent().is_some_and(|folder| named.search.contains(folder)) && is_added {
        return Some(("is new in a folder in which the checks look for programs".to_owned(), true));
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
    if is_added && named.shadows(path, base) {
        return Some(("takes the place of another module of the tree".to_owned(), true));
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
        if !(is_new || is_added && opens_a_folder(path, base, delivered)) {
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

/// Returns the path in the tree to which a link leads, or `None` if it leads out of it.
pub(super) fn link_target(path: &Path, tree: &Tree) -> Option<PathBuf> {
    let target = tree.content(tree.file(path)?).ok()?;
    let target = String::from_utf8_lossy(&target).into_owned();
    relative(&path.parent()?.join(target))
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

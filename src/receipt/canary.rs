//! Failing tests that flock puts into a tree, to see if a check would notice.
//!
//! Code that prints a runner's summary by itself and ends the process looks like a run that succeeded. It does so with any
//! tests. So flock adds a test that fails and runs the check again: if the check fails on the base with this test and
//! succeeds on the delivered tree with it, the delivered tree decides about the result, and not its tests.
//!
//! Code that keeps only some tests from failing is found out in the same run: tests that both trees have expect something
//! else in it ([`expectations`]). As many of them have to fail on the delivered tree as on the base.

mod expectations;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::check_files::{is_test, is_test_file};
use super::tree::Tree;
use crate::sandbox::check::{ExtraFile, TreeFileKind, TreeSource as _};

/// The result of one command with a failing test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryRun {
    pub command: String,
    /// Number of tests that failed on the delivered tree.
    pub failed: u64,
    /// Number of tests that failed on the base.
    pub failed_on_base: u64,
    /// `true` if the command failed on the delivered tree.
    pub fails: bool,
    /// The paths of the tests that had to fail.
    pub paths: Vec<String>,
}

impl CanaryRun {
    /// Returns `true` if the command noticed the failing tests as it did on the base.
    #[must_use]
    pub const fn is_noticed(&self) -> bool {
        self.fails && self.failed >= self.failed_on_base
    }
}

/// The files that make tests fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Canary {
    /// A new test that fails, if there are tests in a language in which flock can write one.
    pub added: Option<ExtraFile>,
    /// Tests that both trees have, with other expectations.
    pub turned: Vec<ExtraFile>,
}

impl Canary {
    /// Returns the files to try, one group after the other. The tests that were turned come first: nothing in the names of
    /// the files says that they are not those that the branch was delivered with.
    pub fn groups(&self) -> Vec<Vec<ExtraFile>> {
        let added = self.added.iter().cloned().collect();
        [self.turned.clone(), added].into_iter().filter(|group: &Vec<ExtraFile>| !group.is_empty()).collect()
    }
}

/// Limits on the tests that are turned.
const MAX_TURNED: usize = 300;
const MAX_TURNED_BYTES: usize = 8 << 20;

/// Returns the failing tests for two trees. `None` if there is no test in a language that flock knows. `named` are the
/// paths that the commands name.
#[must_use]
pub(super) fn canary(base: &Tree, delivered: &Tree, named: &[PathBuf]) -> Option<Canary> {
    let mark = format!("{:08x}", rand::random::<u32>());
    let mut canary = Canary { added: failing_test(base, delivered), turned: Vec::new() };
    let mut bytes = 0;
    for file in delivered.files().iter().filter(|file| is_same(base, delivered, &file.path)) {
        let Some(turn) = turn_of(&file.path, named) else { continue };
        let Some(text) = delivered.text(&file.path) else { continue };
        bytes += text.len();
        if canary.turned.len() == MAX_TURNED || bytes > MAX_TURNED_BYTES {
            break;
        }
        if let Some(text) = turn(&file.path, &text, &mark) {
            canary.turned.push(ExtraFile { path: file.path.clone(), content: text.into_bytes() });
        }
    }
    (canary.added.is_some() || !canary.turned.is_empty()).then_some(canary)
}

/// Turns the text of a test, if something in it can be turned. Its arguments are the path, the text and a random mark.
type Turn = fn(&Path, &str, &str) -> Option<String>;

/// Returns the way in which a file is turned. A script is turned only if a command names it: one that others read would end
/// them before anything was tested.
fn turn_of(path: &Path, named: &[PathBuf]) -> Option<Turn> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned()).unwrap_or_default();
    match ending.as_str() {
        "sh" | "bash" | "bats" | "pl" | "t" => (is_test(path) && named.iter().any(|one| one == path))
            .then_some(expectations::turned_script as Turn),
        // Also a helper of the tests may assert something.
        "py" => is_test(path).then_some(expectations::turned as Turn),
        _ => is_test_file(path).then_some(expectations::turned as Turn),
    }
}

/// Returns the Python tests that only the delivered tree has, without their content. Everything in them runs in the same
/// process as the tests that the base has: one of them could change the code under test for all others.
#[must_use]
pub(super) fn without_new_tests(base: &Tree, delivered: &Tree) -> Vec<ExtraFile> {
    let is_new = |path: &Path| {
        let is_python = path.extension().is_some_and(|ending| ending == "py");
        is_python && base.file(path).is_none() && is_test(path)
    };
    let files = delivered.files().iter();
    let new = files.filter(|file| {
        matches!(file.kind, TreeFileKind::File | TreeFileKind::Executable) && is_new(&file.path)
    });
    new.map(|file| ExtraFile { path: file.path.clone(), content: Vec::new() }).collect()
}

/// Returns `true` if both trees have the same file at a path.
fn is_same(base: &Tree, delivered: &Tree, path: &Path) -> bool {
    base.file(path).is_some() && base.file(path) == delivered.file(path)
}

/// Returns a failing test beside a test that both trees have, in the language of that test. `None` if there is no test in
/// a language that flock knows.
fn failing_test(base: &Tree, delivered: &Tree) -> Option<ExtraFile> {
    let beside = delivered.files().iter().find(|file| {
        let is_file = matches!(file.kind, TreeFileKind::File | TreeFileKind::Executable);
        is_file
            && is_same(base, delivered, &file.path)
            && is_test_file(&file.path)
            && content(&file.path, "").is_some()
    })?;
    let text = delivered.text(&beside.path).unwrap_or_default();
    // Nothing in the name or the text is the same twice, so that no code can wait for it.
    let mark = format!("{:08x}", rand::random::<u32>());
    let name = name(&beside.path, &mark)?;
    let path = beside.path.with_file_name(name);
    let content = content(&beside.path, &text)?.replace("MARK", &mark);
    (delivered.file(&path).is_none()).then(|| ExtraFile { path, content: content.into_bytes() })
}

/// Returns a name that the runner takes for a test, like that of the test beside it.
fn name(beside: &Path, mark: &str) -> Option<String> {
    let name = beside.file_name()?.to_str()?;
    let (stem, ending) = name.split_once('.')?;
    Some(match ending.rsplit('.').next()? {
        "py" if stem.ends_with("_test") => format!("m{mark}_test.py"),
        "py" => format!("test_m{mark}.py"),
        "go" => format!("m{mark}_test.go"),
        "rs" => format!("m{mark}.rs"),
        _ if stem.starts_with("test-") || stem == "test" => format!("test-m{mark}.{ending}"),
        _ => format!("m{mark}.{ending}"),
    })
}

/// Returns a failing test in the language of a file. `MARK` stands for random digits.
fn content(beside: &Path, text: &str) -> Option<String> {
    let ending = beside.extension()?.to_str()?;
    match ending {
        "py" => Some(
            "import unittest\n\n\nclass TestMARK(unittest.TestCase):\n    def test_MARK(self):\n        \
             self.assertEqual(\"MARK\", \"\")\n"
                .to_owned(),
        ),
        "go" => {
            // A test belongs to a package. Without one, as for the question if the language is known, any will do.
            let package = text.lines().find_map(|line| line.strip_prefix("package ")).unwrap_or("main");
            let package = package.split_whitespace().next().unwrap_or("main");
            Some(format!(
                "package {package}\n\nimport \"testing\"\n\nfunc TestMARK(t *testing.T) {{\n\tt.Fatal(\"MARK\")\n}}\n"
            ))
        }
        "rs" => {
            // Cargo finds a test by itself only directly in `tests/`.
            let is_found = beside.parent().and_then(Path::file_name).is_some_and(|name| name == "tests");
            is_found.then(|| "#[test]\nfn mMARK() {\n    assert_eq!(\"MARK\", \"\");\n}\n".to_owned())
        }
        "js" | "mjs" | "cjs" | "ts" | "mts" | "jsx" | "tsx" => {
            // The runners that need an import differ in it. The node module is there in all of them.
            let node = text.contains("node:test");
            let vitest = text.contains("vitest");
            Some(match (node, vitest) {
                (true, _) if text.contains("require(") => {
                    "const test = require('node:test');\ntest('MARK', () => { throw new Error('MARK'); });\n"
                        .to_owned()
                }
                (true, _) => {
                    "import test from 'node:test';\ntest('MARK', () => { throw new Error('MARK'); });\n"
                        .to_owned()
                }
                (_, true) => {
                    "import { test } from 'vitest';\ntest('MARK', () => { throw new Error('MARK'); });\n"
                        .to_owned()
                }
                _ => "it('MARK', () => { throw new Error('MARK'); });\n".to_owned(),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::testing;

    fn added(path: &str, text: &str) -> Option<(String, String)> {
        let tree = || testing::tree(&[(path, "100644", text)]);
        let extra = failing_test(&tree(), &tree())?;
        Some((extra.path.display().to_string(), String::from_utf8(extra.content).unwrap()))
    }

    #[test]
    fn a_failing_test_is_written_in_the_language_of_the_test_beside_it() {
        let cases = [
            ("tests/test_a.py", "", "tests/test_m", ".py"),
            ("a_test.py", "", "m", "_test.py"),
            ("pkg/a_test.go", "package calc\n", "pkg/m", "_test.go"),
            ("tests/all.rs", "", "tests/m", ".rs"),
            ("src/a.test.ts", "", "src/m", ".test.ts"),
            ("test-a.js", "", "test-m", ".js"),
        ];
        for (path, text, start, end) in cases {
            let (name, content) = added(path, text).unwrap();
            assert!(name.starts_with(start) && name.ends_with(end), "{path}: {name}");
            assert!(is_test_file(Path::new(&name)), "{name}");
            assert!(!content.contains("MARK"), "{content}");
            assert_ne!(added(path, text).unwrap().0, name, "no two are the same");
        }
        assert!(added("pkg/a_test.go", "package calc\n").unwrap().1.starts_with("package calc\n"));
        for path in ["README.md", "src/lib.rs", "a.bats", "tests/data.json"] {
            assert_eq!(added(path, ""), None, "{path}");
        }
    }

    #[test]
    fn a_test_that_only_one_tree_has_is_not_taken_for_the_language() {
        let base = testing::tree(&[("tests/test_a.py", "100644", "a")]);
        let delivered =
            testing::tree(&[("tests/test_a.py", "100644", "b"), ("tests/test_b.py", "100644", "c")]);
        assert_eq!(failing_test(&base, &delivered), None);
    }
}

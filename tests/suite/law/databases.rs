//! Nearly all tests are for both databases, and those that are not are listed in one place.

use std::path::Path;

use super::promises::tests_of;
use super::{collect, verdict};
use crate::support::database::only_on_sqlite;

/// The most tests that may be for SQLite only. Raise it only if flock itself promises something for a file alone.
const MOST: usize = 40;

/// The names of all tests of the suite, and of each file the module and the text.
fn suite() -> (Vec<String>, Vec<(String, String)>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite");
    let mut files = Vec::new();
    collect(&root, &mut files);
    let (mut tests, mut texts) = (Vec::new(), Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let path = file.strip_prefix(&root).unwrap().with_extension("");
        let path = path.to_str().unwrap();
        let module = format!("{}::", path.strip_suffix("/mod").unwrap_or(path).replace('/', "::"));
        tests.extend(tests_of(&text).into_iter().map(|name| format!("{module}{name}")));
        texts.push((module, text));
    }
    (tests, texts)
}

#[test]
fn tests_for_one_database_exist_and_are_few_and_say_why() {
    let (tests, _) = suite();
    assert!(tests.len() > 500, "the suite must have been read; found {} tests", tests.len());
    let listed: Vec<(&str, &str)> = only_on_sqlite().collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, reason) in &listed {
        let of_it =
            tests.iter().filter(|test| *test == name || name.ends_with("::") && test.starts_with(*name));
        let found = of_it.count();
        if found == 0 {
            wrong.push(format!("{name} does not exist"));
        }
        if !reason.contains(' ') {
            wrong.push(format!("{name} has no reason"));
        }
        count += found;
    }
    if !listed.is_sorted() {
        wrong.push("the list is not sorted".to_owned());
    }
    if count > MOST {
        wrong.push(format!("{count} tests are for SQLite only, and {MOST} may be"));
    }
    verdict("tests for one database", wrong);
}

#[test]
fn nobody_else_looks_into_the_file_of_a_database() {
    let words = ["rusqlite", "flock.db", ".back_up("];
    let (_, texts) = suite();
    let is_listed = |module: &str| only_on_sqlite().any(|(name, _)| name.starts_with(module));
    let wrong = texts.iter().filter(|(module, _)| {
        !module.starts_with("law::") && !module.starts_with("support::") && !is_listed(module)
    });
    let wrong = wrong.flat_map(|(module, text)| {
        let found = words.iter().filter(move |word| text.contains(**word));
        found.map(move |word| format!("{module} has {word}: use TempHome::database()"))
    });
    verdict("the file of a database in tests for both", wrong.collect());
}

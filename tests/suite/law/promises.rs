//! docs/guarantees.md names tests that exist.

use std::collections::BTreeSet;
use std::path::Path;

use super::{collect, verdict};

/// The functions of a file that are tests.
pub(super) fn tests_of(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn ")) {
            if is_test {
                found.insert(rest.split('(').next().unwrap_or_default().to_owned());
            }
            is_test = false;
        }
    }
    found
}

/// `true` for a check of the dashboard in a browser: `browser::PART::NAME` is a function in `browser_PART.mjs`.
fn is_browser_check(root: &Path, module: &str, name: &str) -> bool {
    let Some(part) = module.strip_prefix("browser::") else { return false };
    let script = std::fs::read_to_string(root.join(format!("standalone/browser_{part}.mjs")));
    script.is_ok_and(|text| text.contains(&format!("async function {name}(stage, ")))
}

#[test]
fn every_promise_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/guarantees.md")).unwrap();
    let mut wrong = Vec::new();
    let mut lines = 0;
    let mut in_promises = false;
    for line in page.lines() {
        if line.starts_with("| promise |") {
            in_promises = true;
            continue;
        }
        in_promises &= line.starts_with('|');
        if !in_promises || line.starts_with("|---") {
            continue;
        }
        lines += 1;
        let held_by = line.rsplit('|').nth(1).unwrap_or_default();
        let names: Vec<&str> = held_by.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            wrong.push(format!("no test is named: {line}"));
        }
        for name in names {
            let (module, test) = name.rsplit_once("::").unwrap_or_default();
            let path = module.replace("::", "/");
            let suite = root.join("tests/suite");
            let mut files = Vec::new();
            let folder = suite.join(&path);
            if folder.is_dir() {
                collect(&folder, &mut files);
            }
            files.extend([suite.join(format!("{path}.rs")), root.join("src").join(format!("{path}.rs"))]);
            let exists = files
                .iter()
                .filter_map(|file| std::fs::read_to_string(file).ok())
                .any(|text| tests_of(&text).contains(test));
            if !exists && !is_browser_check(root, module, test) {
                wrong.push(format!("{name} does not exist"));
            }
        }
    }
    assert!(lines > 20, "the page must have been read; found {lines} promises");
    verdict("promises without tests", wrong);
}

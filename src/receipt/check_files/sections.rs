//! The parts of a file that concern tests. A file such as `pyproject.toml` has others, which a branch may change freely.

use std::path::Path;

use serde_json::Value;

/// Returns `true` if the part of a configuration file that concerns tests differs between two texts. A file without such
/// parts of its own counts as a whole. `None` stands for a missing file.
pub(super) fn concerns_tests(path: &Path, old: Option<&str>, new: Option<&str>) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let part: fn(&str) -> Option<String> = match name.as_str() {
        "pyproject.toml" | "setup.cfg" | "tox.ini" => python,
        "cargo.toml" => cargo,
        "package.json" => package,
        _ => return true,
    };
    // A missing file has no such parts.
    match (part(old.unwrap_or_default()), part(new.unwrap_or_default())) {
        (Some(old), Some(new)) => old != new,
        _ => true,
    }
}

/// Returns the sections of a TOML or INI file whose header satisfies `wanted`, without white space at the ends of lines.
fn sections(text: &str, wanted: impl Fn(&str) -> bool) -> String {
    let mut is_wanted = false;
    let mut found = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            is_wanted = wanted(trimmed.trim_matches(['[', ']']).trim());
        }
        if is_wanted && !trimmed.is_empty() {
            found.push_str(line.trim_end());
            found.push('\n');
        }
    }
    found
}

fn python(text: &str) -> Option<String> {
    let wanted = |header: &str| {
        let words = [
            "pytest",
            "unittest",
            "tox",
            "testenv",
            "nox",
            "coverage",
            "hatch",
            "pdm.scripts",
            "poe",
            "taskipy",
        ];
        words.iter().any(|word| header.contains(word))
            || header == "options.entry_points"
            || header.contains("entry-points")
    };
    // The quotes of TOML can hide a header: `["tool"."pytest"]`. And a key with dots needs none: `tool.pytest = …`.
    let plain = text.replace(['"', '\''], "");
    let dotted =
        plain.lines().filter(|line| line.trim_start().starts_with("tool.") || line.contains("pytest11"));
    let dotted: Vec<&str> = dotted.collect();
    Some(sections(&plain, wanted) + &dotted.join("\n"))
}

fn cargo(text: &str) -> Option<String> {
    let wanted = |header: &str| {
        let free = ["dependencies", "dev-dependencies", "build-dependencies"];
        let is_free = |part: &str| free.contains(&part);
        // Features and versions of dependencies change often and decide nothing about tests by themselves.
        !(header.split('.').any(is_free) || header.starts_with("badges") || header.starts_with("lints"))
    };
    let sections = sections(&text.replace(['"', '\''], ""), wanted);
    let is_free = |line: &&str| {
        let key = line.split('=').next().unwrap_or_default().trim();
        [
            "version",
            "description",
            "license",
            "authors",
            "keywords",
            "categories",
            "repository",
            "readme",
            "homepage",
        ]
        .contains(&key)
    };
    Some(sections.lines().filter(|line| !is_free(line)).collect::<Vec<_>>().join("\n"))
}

fn package(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some(String::new());
    }
    let Value::Object(whole) = serde_json::from_str::<Value>(text).ok()? else { return None };
    let free = [
        "version",
        "description",
        "dependencies",
        "devDependencies",
        "peerDependencies",
        "optionalDependencies",
        "keywords",
        "author",
        "license",
        "repository",
        "bugs",
        "homepage",
        "files",
        "contributors",
    ];
    let mut rest =
        Value::Object(whole.into_iter().filter(|(key, _)| !free.contains(&key.as_str())).collect());
    rest.sort_all_objects();
    Some(rest.to_string())
}

/// Compares the tests inside two versions of a Rust file. Returns `Some(true)` if tests of the old version changed,
/// `Some(false)` if the file had none and has some now, and `None` otherwise.
pub(super) fn inline_tests(old: &str, new: &str) -> Option<bool> {
    let part = |text: &str| {
        let at = text.find("#[cfg(test)]").or_else(|| text.find("#[test]"))?;
        Some(text[at..].lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned())
    };
    match (part(old), part(new)) {
        (None, None) => None,
        (None, Some(_)) => Some(false),
        (Some(old), Some(new)) if old == new => None,
        (Some(_), _) => Some(true),
    }
}

/// Returns `true` if a Python file has tests, whatever its name.
pub(super) fn has_python_tests(text: &str) -> bool {
    let is_test = |line: &str| {
        (line.starts_with("class ") && line.contains("TestCase"))
            || line.starts_with("import unittest")
            || line.starts_with("from unittest import")
            || line.starts_with("import pytest")
            || line.starts_with("def test_")
    };
    text.lines().any(is_test)
}

/// Returns the lines of the examples in a text, and the line after each, which is the expected result.
pub(super) fn doctests(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_example = |at: usize| lines[at].starts_with(">>>") || lines[at].starts_with("...");
    (0..lines.len())
        .filter(|at| is_example(*at) || (*at > 0 && is_example(at - 1)))
        .map(|at| lines[at])
        .collect()
}

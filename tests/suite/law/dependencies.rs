//! What the build may depend on: crates.io alone, licences that a user of an MIT program can take, one crate
//! for a job, and nothing that no source file names.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{sources, verdict};

/// A licence expression is fine if one of its alternatives is made of these.
const LICENCES: [&str; 15] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    // Weak, per file; used unchanged.
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Second crates for a job that another one does here.
const UNWANTED: [&str; 7] =
    ["openssl", "native-tls", "aws-lc-rs", "chrono-tz", "sqlx", "async-std", "serde_yaml"];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn acceptable(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    expression.split(" OR ").any(|alternative| {
        alternative.trim_matches(['(', ')', ' ']).split(" AND ").all(|part| {
            let part = part.trim_matches(['(', ')', ' ']);
            part.split(" OR ").any(|name| LICENCES.contains(&name.trim_matches(['(', ')', ' '])))
        })
    })
}

#[test]
fn dependencies_come_from_the_registry_with_licences_that_fit() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "the dependencies must have been read");
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        if name == "flock" {
            continue;
        }
        let source = package["source"].as_str().unwrap_or("a path");
        if !source.starts_with("registry+") {
            wrong.push(format!("{name} comes from {source}"));
        }
        let licence = package["license"].as_str().unwrap_or("none stated");
        if !acceptable(licence) {
            wrong.push(format!("{name} has the licence {licence}"));
        }
    }
    verdict("sources and licences", wrong);
}

#[test]
fn no_second_crate_for_a_job_is_compiled_in() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--edges", "normal,build", "--prefix", "none"])
        .args(["--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| UNWANTED.contains(name))
        .map(str::to_owned)
        .collect();
    verdict("crates that are not wanted", wrong);
}

#[test]
fn every_dependency_is_used() {
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let code: String = sources().into_iter().map(|source| source.code).collect();
    let wrong = section
        .lines()
        .filter_map(|line| line.split([' ', '=']).next().filter(|name| !name.is_empty()))
        .filter(|name| !name.starts_with('#'))
        .filter(|name| {
            let name = name.replace('-', "_");
            !code.contains(&format!("{name}::"))
        })
        .map(str::to_owned)
        .collect();
    verdict("dependencies that no source names", wrong);
}

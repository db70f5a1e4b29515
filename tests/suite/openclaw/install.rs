//! `flock init --gateway openclaw`: cloned, built, tried, put in use.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::home::{Run, TempHome};
use crate::support::openclaw::{Era, Upstream};

/// Runs `init` for this repository and reference.
fn init(home: &TempHome, repository: &str, reference: &str) -> Run {
    let line = ["init", "--yes", "--no-images", "--model", "script/demo", "--gateway", "openclaw"];
    home.flock(line.into_iter().chain(["--repo", repository, "--ref", reference]))
}

/// The record of the version in use.
fn record(home: &TempHome) -> Value {
    serde_json::from_slice(&std::fs::read(current(home).join("flock-install.json")).unwrap()).unwrap()
}

/// The folder of the version in use.
fn current(home: &TempHome) -> PathBuf {
    home.file("openclaw").canonicalize().unwrap()
}

#[test]
fn a_branch_is_cloned_built_tried_and_put_in_use() {
    let upstream = Upstream::new(Era::Old);
    let home = TempHome::new();
    let told = init(&home, &upstream.path(), "main").ok();
    let name = format!("2026.2.9-{}", &upstream.head()[..12]);
    assert_eq!(current(&home), home.file("gateways/openclaw").join(&name));
    assert!(told.stdout.contains(&format!("2026.2.9 ({}, main)", &upstream.head()[..12])), "{told:?}");
    let record = record(&home);
    assert_eq!(record["commit"], upstream.head());
    assert_eq!((&record["reference"], &record["follows"]), (&"main".into(), &true.into()));
    assert_eq!(record["origin"], upstream.path());
    // Shallow: the clone has one commit of the two.
    upstream.release("2026.2.10");
    assert!(current(&home).join("dist/gateway.mjs").is_file());
    let log = std::fs::read_to_string(home.file("logs/build-openclaw.log")).unwrap();
    for line in ["$ npm install", "$ npm run build", "$ npm run ui:build", "$ node openclaw.mjs --version"] {
        assert!(log.contains(line), "{line} in {log}");
    }
    assert!(!home.file("gateways/openclaw/.staging").exists());
}

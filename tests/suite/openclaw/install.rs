//! `flock init --gateway openclaw`: cloned, built, tried, put in use.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::server;
use crate::support::home::{Run, TempHome, finish};
use crate::support::openclaw::{Era, Upstream};

/// The line that installs this reference of this repository.
pub fn line<'a>(repository: &'a str, reference: &'a str) -> Vec<&'a str> {
    let mut line = vec!["init", "--yes", "--no-images", "--model", "script/demo", "--gateway", "openclaw"];
    line.extend(["--repo", repository, "--ref", reference]);
    line
}

/// Runs `init` for this repository and reference.
pub fn init(home: &TempHome, repository: &str, reference: &str) -> Run {
    home.flock(line(repository, reference))
}

/// The record of the version in use.
pub fn record(home: &TempHome) -> Value {
    serde_json::from_slice(&std::fs::read(current(home).join("flock-install.json")).unwrap()).unwrap()
}

/// The folder of the version in use.
pub fn current(home: &TempHome) -> PathBuf {
    home.file("openclaw").canonicalize().unwrap()
}

/// All there is in the folder of versions.
pub fn folders(home: &TempHome) -> Vec<String> {
    let entries = std::fs::read_dir(home.file("gateways/openclaw")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn log(home: &TempHome) -> String {
    std::fs::read_to_string(home.file("logs/build-openclaw.log")).unwrap_or_default()
}

#[test]
fn a_branch_is_cloned_built_tried_and_put_in_use() {
    let upstream = Upstream::new(Era::Old);
    upstream.release("2026.2.10");
    let home = TempHome::new();
    let told = init(&home, &upstream.path(), "main").ok();
    let name = format!("2026.2.10-{}", &upstream.head()[..12]);
    assert_eq!(current(&home), home.file("gateways/openclaw").join(&name));
    assert!(told.stdout.contains(&format!("2026.2.10 ({}, main)", &upstream.head()[..12])), "{told:?}");
    let written = record(&home);
    assert_eq!(written["commit"], upstream.head());
    assert_eq!((&written["reference"], &written["follows"]), (&json!("main"), &json!(true)));
    assert_eq!(written["origin"], upstream.path());
    assert!(current(&home).join("dist/gateway.mjs").is_file());
    assert!(current(&home).join(".git/shallow").is_file(), "one commit is enough");
    let written = log(&home);
    for line in ["$ npm install", "$ npm run build", "$ npm run ui:build", "$ node openclaw.mjs --version"] {
        assert!(written.contains(line), "{line} in {written}");
    }
    assert_eq!(folders(&home), [name]);
    // Plain lines of what was done, in their order, and nothing else.
    let said: Vec<&str> = told.stderr.lines().filter(|line| line.ends_with(" ...")).collect();
    assert_eq!(said.first(), Some(&"asking OpenClaw's repository ..."));
    assert_eq!(said.last(), Some(&"trying the build ..."));

    // Again: it is there, so nothing is fetched or built.
    init(&home, &upstream.path(), "main").ok();
    assert_eq!(log(&home), written);
    // A native init says what is in use and leaves it.
    let told = home.flock(["init", "--yes", "--no-images", "--json"]).ok().json();
    assert_eq!(told["openclaw"]["commit"], upstream.head());
}

#[test]
fn a_tag_or_a_commit_is_taken_as_it_is_and_the_version_before_stays() {
    let upstream = Upstream::built(Era::Old);
    let first = upstream.head();
    let second = upstream.release("2026.2.10");
    // A newer commit of the same version: the commit tells them apart.
    let third = upstream.mend();
    let home = TempHome::new();
    init(&home, &upstream.url(), "v2026.2.9").ok();
    assert_eq!((&record(&home)["commit"], &record(&home)["follows"]), (&json!(first), &json!(false)));
    init(&home, &upstream.path(), &second[..10]).ok();
    assert_eq!((&record(&home)["commit"], &record(&home)["follows"]), (&json!(second), &json!(false)));
    let before = record(&home)["replaces"].clone();
    assert_eq!(before, format!("2026.2.9-{}", &first[..12]));
    init(&home, &upstream.path(), &third).ok();
    assert_eq!(record(&home)["version"], "2026.2.10");
    let kept = [&second, &third].map(|commit| format!("2026.2.10-{}", &commit[..12]));
    let mut kept = kept.to_vec();
    kept.push("tags.json".to_owned());
    kept.sort();
    assert_eq!(folders(&home), kept, "only the one before stays");
    // HEAD is the branch that the repository says is its main one.
    init(&home, &upstream.path(), "HEAD").ok();
    assert_eq!((&record(&home)["commit"], &record(&home)["follows"]), (&json!(third), &json!(true)));
}

#[test]
fn its_port_is_chosen_when_it_is_added_and_stays() {
    let upstream = Upstream::built(Era::Old);
    let home = TempHome::new().init();
    assert!(home.config()["gateway"]["port"].is_null(), "flock's own gateway needs none");
    init(&home, &upstream.path(), "main").ok();
    let port = home.config()["gateway"]["port"].as_u64().unwrap();
    let _holder = std::net::TcpListener::bind(("127.0.0.1", u16::try_from(port).unwrap()));
    upstream.release("2026.2.10");
    init(&home, &upstream.path(), "main").ok();
    assert_eq!(home.config()["gateway"]["port"], port, "also where somebody has it now");
    // One that a person set.
    home.flock(["config", "set", "gateway.port", "18789"]).ok();
    init(&home, &upstream.path(), "main").ok();
    assert_eq!(home.config()["gateway"]["port"], 18789);
}

#[test]
fn what_is_published_built_is_not_built() {
    let upstream = Upstream::built(Era::New);
    let home = TempHome::new();
    init(&home, &upstream.path(), "main").ok();
    assert_eq!(record(&home)["commit"], upstream.head());
    let written = log(&home);
    assert!(!written.contains("npm"), "{written}");
}

#[test]
fn a_corepack_that_gets_nothing_is_passed_over() {
    use std::os::unix::fs::PermissionsExt as _;
    if which::which("pnpm").is_ok() {
        eprintln!("not run: the pnpm that is installed here would be used");
        return;
    }
    let upstream = Upstream::new(Era::Old);
    upstream.package(|package| package["packageManager"] = "pnpm@10.23.0".into());
    upstream.commit("Be built by pnpm");
    let home = TempHome::new();
    let programs = home.outside().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let program = |name: &str, text: &str| {
        let file = programs.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        file
    };
    let real = |name: &str| which::which(name).unwrap().display().to_string();
    let node = program("node", &format!("exec {} \"$@\"", real("node")));
    program("corepack", "echo No compatible signature found >&2; exit 1");
    // What npm would run as `npm exec --yes -- pnpm@10.23.0 …`, done by npm itself.
    program(
        "npm",
        &format!(
            "[ \"$1 $2 $3 $4\" = 'exec --yes -- pnpm@10.23.0' ] || exit 9; shift 4; exec {} \"$@\"",
            real("npm")
        ),
    );
    finish(home.command().args(line(&upstream.path(), "main")).env("FLOCK_NODE", node)).ok();
    let written = log(&home);
    for line in
        ["$ corepack pnpm --version", "No compatible signature found", "$ pnpm install", "$ pnpm run build"]
    {
        assert!(written.contains(line), "{line} in {written}");
    }
}

#[test]
fn a_build_sees_its_own_environment_and_no_secret() {
    let upstream = Upstream::new(Era::Old);
    let home = TempHome::new();
    let mut command = home.command();
    command
        .args(line(&upstream.path(), "main"))
        .env("ANTHROPIC_API_KEY", "sk-secret")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("GITHUB_TOKEN", "secret")
        .env("npm_config__authToken", "secret")
        .env("npm_config_//registry.npmjs.org/:_authToken", "secret")
        .env("npm_config_fund", "false");
    finish(&mut command).ok();
    let noted = std::fs::read(current(&home).join("dist/build.json")).unwrap();
    let noted: Value = serde_json::from_slice(&noted).unwrap();
    let names: Vec<&str> =
        noted["env"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.contains(&"CI") && names.contains(&"npm_config_fund"), "{names:?}");
    let leaked: Vec<&&str> = names
        .iter()
        .filter(|name| {
            name.starts_with("FLOCK")
                || name.contains("KEY")
                || name.contains("TOKEN")
                || name.contains("_auth")
        })
        .collect();
    assert!(leaked.is_empty(), "{leaked:?}");
}

#[test]
fn a_node_that_does_not_fit_is_refused_before_anything_is_built() {
    let upstream = Upstream::new(Era::Old);
    upstream.package(|package| package["engines"]["node"] = ">=24.16 <25 || >=99.1".into());
    upstream.commit("Want another Node");
    let home = TempHome::new();
    let told = init(&home, &upstream.path(), "main").fails(1);
    assert!(told.stderr.contains(">=24.16 <25 || >=99.1") && told.stderr.contains("FLOCK_NODE"), "{told:?}");
    assert_eq!(log(&home), "");
    assert!(!home.file("openclaw").exists());
    // One that is named and is none.
    let before = upstream.repository().revparse_single("HEAD~1").unwrap().id().to_string();
    upstream.tag("old", &before);
    let told =
        finish(home.command().args(line(&upstream.path(), "old")).env("FLOCK_NODE", "/bin/true")).fails(1);
    assert!(told.stderr.contains("/bin/true does not say its version"), "{told:?}");
    home.flock(["config", "set", "plugins.entries.flock.config.openclaw.node", "/bin/false"]).ok();
    let told = init(&home, &upstream.path(), "old").fails(1);
    assert!(told.stderr.contains("/bin/false does not say its version"), "{told:?}");
}

#[test]
fn the_configuration_says_where_to_clone_from_and_a_wrong_word_is_named() {
    let upstream = Upstream::built(Era::Old);
    let home = TempHome::new().init();
    let own = "plugins.entries.flock.config.openclaw";
    home.flock(["config", "set", &format!("{own}.repo"), &upstream.path()]).ok();
    home.flock(["config", "set", &format!("{own}.ref"), "v2026.2.9"]).ok();
    home.flock(["init", "--yes", "--no-images", "--gateway", "openclaw"]).ok();
    assert_eq!(record(&home)["reference"], "v2026.2.9");
    let told = home.flock(["config", "set", &format!("{own}.branch"), "main"]).fails(2);
    assert!(told.stderr.contains("openclaw.branch"), "{told:?}");
}

#[test]
fn it_is_cloned_over_http_and_over_ssh() {
    let upstream = Upstream::built(Era::Old);
    upstream.release("2026.2.10");
    let home = TempHome::new();
    let server = server::GitHttp::start(&upstream.root());
    init(&home, &server.url(), "main").ok();
    assert_eq!(record(&home)["commit"], upstream.head());
    assert!(current(&home).join(".git/shallow").is_file());
    let told = init(&home, &server.wrong_url(), "main").fails(1);
    assert!(told.stderr.contains("404"), "{told:?}");

    // What ssh would run on the other machine, run here.
    let programs = home.outside().join("bin");
    server::stand_in_for_ssh(&programs);
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let next = upstream.release("2026.2.11");
    let url = format!("git@example.org:{}", upstream.path());
    finish(home.command().args(line(&url, "main")).env("PATH", path)).ok();
    assert_eq!(record(&home)["commit"], next);
    let asked = std::fs::read_to_string(programs.join("asked")).unwrap();
    assert!(
        asked.contains("BatchMode=yes") && asked.contains("-- git@example.org git-upload-pack '/"),
        "{asked}"
    );
}

#[test]
fn a_repository_that_is_none_is_refused_and_no_password_is_shown() {
    let home = TempHome::new().init();
    let told = init(&home, "https://ann:hunter2@example.org/openclaw.git", "main").fails(2);
    assert!(!told.stderr.contains("hunter2"), "{told:?}");
    init(&home, "--upload-pack=touch x", "main").fails(2);
    init(&home, "/no/such/folder", "main").fails(2);
    init(&home, "ftp://example.org/x", "main").fails(2);
    for open in ["http://example.org/openclaw.git", "git://example.org/openclaw.git"] {
        let told = init(&home, open, "main").fails(2);
        assert!(told.stderr.contains("not encrypted") && told.stderr.contains("https or ssh"), "{told:?}");
    }
    let empty = home.outside().join("empty");
    std::fs::create_dir(&empty).unwrap();
    init(&home, &empty.display().to_string(), "main").fails(1);
    let upstream = Upstream::new(Era::Old);
    let told = init(&home, &upstream.path(), "no-such-branch").fails(1);
    assert!(told.stderr.contains("no branch, tag or commit no-such-branch"), "{told:?}");
    std::fs::remove_file(upstream.root().join("openclaw.mjs")).unwrap();
    upstream.commit("Be something else");
    let told = init(&home, &upstream.path(), "main").fails(1);
    assert!(told.stderr.contains("it has no openclaw.mjs"), "{told:?}");
    assert!(!home.file("openclaw").exists());
}

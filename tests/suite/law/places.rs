//! Calls that belong to one place: SQL to the store, the terminal to `ui`, the environment to `env.rs`, the
//! workspace to the safe opener.

use std::path::Path;
use std::process::Command;

use super::{Source, sources, verdict};

pub(super) fn below(source: &Source, folders: &[&str]) -> bool {
    folders.iter().any(|folder| source.path.starts_with(folder))
}

fn lines_with<'s>(source: &'s Source, words: &'s [&'s str]) -> impl Iterator<Item = String> + 's {
    source.code.lines().filter_map(move |line| {
        let word = words.iter().find(|word| line.contains(**word))?;
        Some(format!("{}: {word}: {}", source.path.display(), line.trim()))
    })
}

fn check(law: &str, words: &[&str], applies: impl Fn(&Source) -> bool) {
    let wrong =
        sources().iter().filter(|source| applies(source)).flat_map(|s| lines_with(s, words)).collect();
    verdict(law, wrong);
}

#[test]
fn sql_is_in_the_store() {
    let words = ["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "CREATE TABLE", "PRAGMA "];
    check("SQL outside store/", &words, |source| !below(source, &["store"]));
}

#[test]
fn sqlite_is_behind_the_seam_of_the_store() {
    let words = ["rusqlite", "PRAGMA ", "pragma_", "sqlite_schema"];
    check("SQLite's own outside store/sql/ and store/sqlite/", &words, |source| {
        !below(source, &["store/sql", "store/sqlite"])
    });
}

#[test]
fn postgresql_is_behind_the_seam_of_the_store() {
    let words = ["tokio_postgres", "pg_advisory", "pg_catalog"];
    check("PostgreSQL's own outside store/sql/ and store/postgres/", &words, |source| {
        !below(source, &["store/sql", "store/postgres"])
    });
}

#[test]
fn sql_of_the_subjects_is_for_two_databases() {
    // CONTRIBUTING.md says what stands in their place.
    let words = [
        " GLOB ",
        "INSERT OR ",
        "REPLACE INTO",
        "UPDATE OR ",
        "ifnull(",
        "INDEXED BY",
        "ON CONFLICT DO UPDATE",
        " IS ?",
        "unixepoch(",
        "strftime(",
        "group_concat(",
        "json_extract(",
        "LIMIT -1",
        "last_insert_rowid",
    ];
    check("SQL that PostgreSQL does not know", &words, |source| {
        below(source, &["store"]) && !below(source, &["store/sqlite", "store/postgres", "store/sql"])
    });
}

#[test]
fn the_terminal_is_in_ui() {
    let words = ["println!", "eprintln!", "print!(", "eprint!(", "io::stdout()", "io::stderr()"];
    let wrong = sources()
        .iter()
        // The program inside a sandbox speaks frames over its streams; it is no part of the library. A
        // supervisor's standard output is a pipe to the `start` that waits for it.
        .filter(|source| !below(source, &["ui", "main.rs", "sandbox/helper/program", "supervise/launch.rs"]))
        .flat_map(|source| lines_with(source, &words).collect::<Vec<_>>())
        .filter(|line| !line.ends_with(".is_terminal()"))
        .collect();
    verdict("terminal outside ui/", wrong);
}

#[test]
fn the_environment_is_in_env() {
    let words = ["env::var(", "env::var_os(", "env::vars"];
    check("environment outside env.rs", &words, |source| {
        !below(source, &["env.rs", "sandbox/helper/program"])
    });
}

#[test]
fn raw_output_is_logged_under_its_own_targets() {
    // `ui/log.rs` closes the targets of these two. Any other event of this level is in a log with `FLOCK_LOG=trace`.
    check("an event for raw output under another target", &["trace!("], |source| {
        !below(source, &["provider/stream.rs", "runtime/program/output_reader.rs"])
    });
}

#[test]
fn what_an_agent_can_write_is_opened_safely() {
    let words = [
        "std::fs",
        "fs_err",
        "tokio::fs",
        "File::open",
        "File::create",
        "OpenOptions",
        "read_link",
        "canonicalize",
    ];
    check("an open that does not go through home::beneath", &words, |source| {
        below(source, &["tool", "agent/prompt", "agent/prompt.rs", "agent/compaction", "skill", "swarm"])
    });
}

#[test]
fn nothing_ends_the_process_but_main() {
    check("exits", &["process::exit", "process::abort"], |source| {
        !below(source, &["main.rs", "sandbox/helper/program"])
    });
}

#[test]
fn files_are_named_by_what_they_hold() {
    const BANNED: [&str; 8] = ["utils", "util", "common", "helpers", "misc", "manager", "core", "types"];
    let named = |source: &Source| {
        let stem = source.path.file_stem().unwrap().to_string_lossy().into_owned();
        let folder = source.path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
        BANNED.contains(&stem.as_str()) || folder.is_some_and(|folder| BANNED.contains(&&*folder))
    };
    let wrong = sources().iter().filter(|s| named(s)).map(|s| s.path.display().to_string()).collect();
    verdict("names that say nothing", wrong);
}

#[test]
fn scripts_parse_and_are_executable() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for folder in ["standalone", ".ci"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if !text.starts_with("#!/usr/bin/env bash") {
                continue;
            }
            let checked = Command::new("bash").arg("-n").arg(&path).output().unwrap();
            if !checked.status.success() {
                wrong.push(format!("{}: {}", path.display(), String::from_utf8_lossy(&checked.stderr)));
            }
            if std::fs::metadata(&path).unwrap().permissions().mode() & 0o111 == 0 {
                wrong.push(format!("{} is not executable", path.display()));
            }
        }
    }
    verdict("scripts", wrong);
}

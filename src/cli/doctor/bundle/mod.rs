//! `flock doctor --bundle`: a file with what a bug report needs, without keys and without anybody's words.

mod facts;
mod files;
mod redact;

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::super::{Context, Exit, Failure, status};
use super::check::Check;
use crate::cli::database;
use crate::config::file::{self, CAP};
use crate::error::{Kind, chain};
use crate::home::{Home, atomic};
use crate::store::integrity::{self, CheckDepth};
use crate::store::{self, Reader, backups, row_counts};
use crate::supervise::SUPERVISOR;
use crate::supervise::log_follower::LogFollower;
use crate::supervise::unit::GATEWAY;
use redact::Redactor;

/// Number of lines that are taken from the end of a log.
const MAX_LOG_LINES: usize = 1000;
/// Longest part of a log line in bytes that is kept.
const MAX_LINE_BYTES: usize = 4000;
/// Time limit for checking the database.
const DATABASE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// A list for the reader of what a bundle never contains.
const LEFT_OUT: [&str; 5] = [
    "keys, tokens and passwords: of secrets/, of the configuration, of the environment",
    "transcripts, messages, requests and vaults: only their numbers and sizes",
    "names and contents of files in workspaces, vaults, skills, scripts and archetypes",
    "values of variables in agents' sandboxes",
    "OpenClaw's own log, state and configuration",
];

/// One file of the bundle.
struct Part {
    name: &'static str,
    /// A short description for the reader.
    about: String,
    text: String,
}

/// Checks that the file may be written.
///
/// # Errors
///
/// Returns an error if the file exists and `replaces` is `false`.
pub(crate) fn check(file: &Path, replaces: bool) -> Result<(), Failure> {
    if replaces || fs_err::symlink_metadata(file).is_err() {
        return Ok(());
    }
    let text = format!("{} exists already", file.display());
    Err(Failure::new(Kind::Conflict, text).hint(format!("flock doctor --bundle {} --force", file.display())))
}

/// Writes the bundle and lists its contents.
///
/// # Errors
///
/// Returns an error if the file can't be written. Something that can't be examined is no error: the bundle reports it.
pub(crate) fn write(
    file: &Path,
    replaces: bool,
    checks: &[Check],
    home: &Home,
    context: &Context,
) -> Result<Exit, Failure> {
    let progress = context.printer.progress("collecting what a report needs");
    let mut parts = context.block_on(async { Ok(Box::pin(collect(checks, home)).await) })?;
    let redactor = Redactor::new(home);
    // Every part goes through the redactor, also the parts that should hold no secret.
    parts.iter_mut().for_each(|part| part.text = redactor.text(&part.text));
    parts.insert(0, readme(&parts));
    let bytes = pack(&parts).map_err(|error| Failure::with_cause("failed to pack the bundle", &error))?;
    if replaces {
        atomic::write(file, &bytes, 0o600)?;
    } else if !atomic::write_new(file, &bytes, 0o600)? {
        // The file may have been created since the first check, so writing refuses an existing one again.
        check(file, false)?;
    }
    drop(progress);
    report(file, &parts, bytes.len(), context);
    Ok(Exit::Done)
}

fn report(file: &Path, parts: &[Part], size: usize, context: &Context) {
    if context.printer.is_json() {
        let parts: Vec<Value> = parts
            .iter()
            .map(|part| json!({"name": part.name, "about": part.about, "bytes": part.text.len()}))
            .collect();
        context.printer.json(&json!({"bundle": file, "bytes": size, "parts": parts, "leftOut": LEFT_OUT}));
        return;
    }
    context.printer.line(format!("{}: {size} bytes, for you alone to read (0600)", file.display()).as_str());
    for part in parts {
        context.printer.line(format!("  {:<22} {}", part.name, part.about).as_str());
    }
    context.printer.line("left out:");
    for what in LEFT_OUT {
        context.printer.line(format!("  {what}").as_str());
    }
    context.printer.say("look through it before you send it to anybody: tar -xOzf FILE | less");
}

async fn collect(checks: &[Check], home: &Home) -> Vec<Part> {
    let mut parts = vec![
        part("version.json", "version and commit", &facts::version()),
        part("doctor.json", "the checks of flock doctor", &json!({"checks": checks})),
    ];
    let mut status = status::report(home).await;
    // Topics, titles and summaries are words of people and agents, and a bundle holds none.
    redact::words(&mut status);
    parts.push(part("status.json", "the report of flock status", &status));
    parts.push(configuration(home));
    parts.push(log(home, GATEWAY, "gateway.log"));
    parts.push(log(home, SUPERVISOR, "supervisor.log"));
    parts.push(part("engine.json", "the Docker engine", &facts::engine().await));
    parts.push(part("system.json", "kernel, memory and limits of this machine", &facts::system()));
    parts.push(part("database.json", "size, rows and integrity of the database", &database(home)));
    parts.push(part("audit.json", "the integrity of the audit", &audit(home)));
    parts.push(Part {
        name: "files.txt",
        about: "sizes and modes of the home's files".to_owned(),
        text: files::listing(home),
    });
    parts
}

fn part(name: &'static str, about: &str, value: &Value) -> Part {
    let mut value = value.clone();
    redact::settings(&mut value);
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    Part { name, about: about.to_owned(), text }
}

/// Returns the configuration without its secrets. A file that is not JSON is left out, because nothing tells which part
/// of it is a key.
fn configuration(home: &Home) -> Part {
    match file::read_document(home) {
        Ok((_, document)) => part("config.json", "the configuration without keys and tokens", &document),
        Err(error) => {
            // The size helps to recognise an empty or truncated file.
            let size = atomic::read(&home.config(), CAP).ok().flatten().map(|bytes| bytes.len());
            let why = json!({"problem": chain(&error), "bytes": size});
            part("config.json", "the reason why the configuration is left out", &why)
        }
    }
}

fn log(home: &Home, name: &str, file: &'static str) -> Part {
    let path = home.log(name);
    match LogFollower::at_end(&path, MAX_LOG_LINES) {
        Ok((_, lines)) => {
            let cut = |line: &String| crate::tool::safe_text::start(line, MAX_LINE_BYTES).to_owned();
            // A single line may hold the raw output of a provider or a program, so its length is limited.
            let text = lines.iter().map(cut).collect::<Vec<_>>().join("\n");
            Part { name: file, about: format!("the last {} lines of the {name}'s log", lines.len()), text }
        }
        Err(error) => Part {
            name: file,
            about: format!("the reason why the {name}'s log is left out"),
            text: format!("{}: {error}", path.display()),
        },
    }
}

fn database(home: &Home) -> Value {
    match store::server_address(home) {
        Ok(None) => {}
        Ok(Some(place)) => {
            let problem = Reader::open(home).err().map(|error| chain(&error));
            return json!({"server": place, "problem": problem});
        }
        Err(error) => return json!({"problem": chain(&error)}),
    }
    let path = home.database();
    let list: Vec<Value> = backups(home)
        .iter()
        .map(|backup| {
            let size = fs_err::metadata(&backup.path).map(|meta| meta.len()).ok();
            json!({"file": backup.path.file_name().map(|name| name.to_string_lossy()), "at": backup.at, "bytes": size})
        })
        .collect();
    let Ok(meta) = fs_err::metadata(&path) else {
        return json!({"there": false, "backups": list});
    };
    // A deep check can take minutes on a large database, so it is limited here.
    let check = match integrity::check(&path, CheckDepth::Quick(DATABASE_TIMEOUT)) {
        Ok(checked) => json!({"whole": checked.is_whole(), "found": checked}),
        Err(error) => json!({"whole": null, "problem": chain(&error)}),
    };
    let counts = match row_counts::census(&path) {
        Ok(census) => json!(census),
        Err(error) => json!({"problem": chain(&error)}),
    };
    json!({"there": true, "bytes": meta.len(), "check": check, "counts": counts, "backups": list})
}

fn audit(home: &Home) -> Value {
    match database::read(home, async |reader| reader.audit().verify().await) {
        // Whether the audit is complete is known only after all its rows were read, which is done here.
        Ok(Some(verified)) => json!({
            "valid": verified.broken.is_none(),
            "rows": verified.rows,
            "last": verified.last,
            "broken": verified.broken,
        }),
        Ok(None) => json!({"rows": 0}),
        Err(error) => json!({"valid": null, "problem": chain(&error)}),
    }
}

fn readme(parts: &[Part]) -> Part {
    let mut text = format!("A report about flock {}.\n\nIn it:\n", env!("FLOCK_VERSION"));
    for part in parts {
        let _ = writeln!(text, "- {}: {}", part.name, part.about);
    }
    text.push_str("\nLeft out:\n");
    for what in LEFT_OUT {
        let _ = writeln!(text, "- {what}");
    }
    let _ = write!(
        text,
        "\n{0:?} stands for a key, or for a text that looks like one. A key of fewer than {1} characters can't be told\n\
         from other words, so it was removed only where the configuration says that it is a key. {0:?} also stands\n\
         for topics, titles and summaries. secret:NAME and env:NAME name a key in the configuration and hold none.\n",
        redact::REPLACEMENT,
        redact::SHORTEST,
    );
    Part { name: "README.txt", about: "this list".to_owned(), text }
}

fn pack(parts: &[Part]) -> std::io::Result<Vec<u8>> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut archive = tar::Builder::new(encoder);
    let now = u64::try_from(crate::clock::unix_ms() / 1000).unwrap_or_default();
    for part in parts {
        let mut header = tar::Header::new_gnu();
        header.set_size(part.text.len() as u64);
        // Everything in the bundle is private to its owner, also after unpacking.
        header.set_mode(0o600);
        header.set_mtime(now);
        archive.append_data(&mut header, format!("flock-report/{}", part.name), part.text.as_bytes())?;
    }
    archive.into_inner()?.finish()
}

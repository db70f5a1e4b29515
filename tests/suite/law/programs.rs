//! What is particular about an agent program is in its own folder: elsewhere nothing that is the program's, by its own
//! word, stands. So one more program is one more folder, and its line in the list.

use std::path::Path;

use flock::runtime::program::{PROGRAMS, Program};
use flock::sandbox::mount;

use super::places::below;
use super::{Source, sources, verdict};

/// The only list of programs.
const LIST: &str = "runtime/program/mod.rs";
/// What mounts are judged by is in a layer that can't ask programs for their logins: it has them, and has to.
const MOUNTS: &str = "sandbox/mount.rs";

/// Where vendors' models are told apart by their names, which programs bear too, and are asked in their ways.
const OF_VENDORS: [&str; 2] = ["provider", "agent/transcript/hygiene"];
/// Words of vendors with a program's name in them: wire formats as OpenClaw's configuration calls them, a variable, and
/// providers as OpenTelemetry's conventions call them.
/// Names of models have a `/` before them.
const VENDORS: [&str; 9] = [
    "OpenAiCodexResponses",
    "openai-codex-responses",
    "openai-codex",
    "gcp.gemini",
    "GoogleGeminiCli",
    "google-gemini-cli",
    "GEMINI_API_KEY",
    "GEMINI_MODEL",
    "GOOGLE_GEMINI_BASE_URL",
];

/// A field of flock's own transcripts.
const OURS: (&str, &str) = ("agent/transcript", "\"callId\"");

fn is_of(source: &Source, program: &dyn Program) -> bool {
    let own = Path::new("runtime/program").join(program.name());
    source.path.starts_with(&own) || source.path == own.with_extension("rs")
}

/// What a program is called, as a part of any word.
fn names(program: &dyn Program) -> Vec<String> {
    let facts = program.facts();
    let all = [facts.name, facts.title, facts.command, facts.package];
    all.map(str::to_lowercase).to_vec()
}

/// What else is its own, as a whole string.
fn belongings(program: &dyn Program) -> Vec<String> {
    let shared = [".local/bin"];
    let facts = program.facts();
    let lists = [facts.variables, facts.headers, facts.logins, facts.places].concat();
    let all = lists.into_iter().chain(facts.call_id).filter(|one| !shared.contains(one));
    all.map(|one| format!("{one:?}")).collect()
}

/// A line without the words of vendors, in small letters.
fn without_vendors(line: &str) -> String {
    let line = VENDORS.iter().fold(line.to_owned(), |line, word| line.replace(word, ""));
    let mut left = String::new();
    for (at, part) in line.split('/').enumerate() {
        // What follows a slash is a model's name, up to its end.
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || "-._:".contains(c));
        left.push_str(if at == 0 { part } else { part.find(is_end).map_or("", |end| &part[end..]) });
    }
    left.to_lowercase()
}

#[test]
fn what_is_a_programs_own_is_in_its_folder() {
    let sources = sources();
    let mut wrong = Vec::new();
    for program in PROGRAMS {
        let (names, belongings) = (names(program), belongings(program));
        assert!(sources.iter().any(|source| is_of(source, program)), "{} has no folder", program.name());
        // What programs know of each other is theirs.
        let is_elsewhere = |source: &&Source| {
            !PROGRAMS.iter().any(|program| is_of(source, *program)) && !below(source, &OF_VENDORS)
        };
        for source in sources.iter().filter(is_elsewhere) {
            for line in source.code.lines() {
                let mut say = |what: &str| {
                    wrong.push(format!("{}: {what}: {}", source.path.display(), line.trim()));
                };
                let is_login = source.path == Path::new(MOUNTS)
                    && program.facts().logins.iter().any(|login| line.trim() == format!("{login:?},"));
                if is_login {
                    continue;
                }
                let is_ours = |one: &str| one == OURS.1 && source.path.starts_with(OURS.0);
                let is_there = |one: &&String| line.contains(*one) && !is_ours(one);
                belongings.iter().filter(is_there).for_each(|one| say(one));
                if source.path == Path::new(LIST) {
                    continue;
                }
                let line = without_vendors(line);
                names.iter().filter(|name| line.contains(*name)).for_each(|name| say(name));
            }
        }
    }
    verdict("a program outside its folder", wrong);
}

#[test]
fn no_login_of_a_program_is_mounted() {
    for program in PROGRAMS {
        for login in program.facts().logins {
            let kept = Path::new("/srv/people/ann").join(login);
            assert!(mount::denied(&kept).is_some(), "{}: add {login:?} to {MOUNTS}", program.name());
        }
    }
}

#[test]
fn the_words_of_vendors_hide_no_program() {
    for (line, left) in [
        (r#"m == "anthropic/claude-opus-4-5""#, r#"m == "anthropic""#),
        (r#"other => "openai-codex-responses","#, r#"other => "","#),
        (r#"if cli == "codex" {"#, r#"if cli == "codex" {"#),
        (r#""x/y", "Claude Code""#, r#""x", "claude code""#),
    ] {
        assert_eq!(without_vendors(line), left);
    }
}

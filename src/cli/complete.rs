//! What may stand at a place of a command line: agents, channels, sessions, configuration paths, as they are in the
//! home. The completion scripts ask for it by `flock --version --complete INDEX -- WORDS`.
//!
//! The first argument is there for util-linux's program of the same name, which may come first on PATH: it prints its
//! version and ends, where a verb of ours would be a file that it locks.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, Command};

use super::config::path::Path;
use crate::agent::prompt::archetype;
use crate::config::{self, Config, parse};
use crate::home::Home;
use crate::id::{AgentId, ChannelId, Party, SessionKey};
use crate::store::{ChannelState, ClientToken, Reader};
use crate::ui::{Options, Printer};

/// The arguments that ask for completion, before the index.
const ASK: [&str; 2] = ["--version", "--complete"];

/// Most values of one answer.
const MOST: u32 = 200;

/// Answers where the arguments ask for completion; says whether they did.
pub fn answer(args: &[OsString], command: impl FnOnce() -> Command) -> bool {
    let [_, version, complete, index, dashes, words @ ..] = args else { return false };
    if *version != ASK[0] || *complete != ASK[1] || dashes != "--" {
        return false;
    }
    let printer = Printer::new(Options::default());
    let Some(index) = index.to_str().and_then(|index| index.parse().ok()) else { return true };
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    for (value, help) in candidates(&words, index, command()) {
        // A tab tells an answer of this program from one of the other.
        printer.raw(format!("{value}\t{help}\n").as_bytes());
    }
    true
}

/// The values that fit at `index`, each with a word about it.
fn candidates(words: &[&str], index: usize, mut command: Command) -> Vec<(String, String)> {
    command.build();
    let Some(place) = Place::find(words, index, &command) else { return Vec::new() };
    let mut found = values(&place);
    if let Some(comma) = place.arg.get_value_delimiter() {
        found = next_of_list(place.typed, comma, found);
    }
    found.retain(|(value, _)| value.starts_with(place.typed) && !value.contains(['\t', '\n']));
    found
}

/// A place where a value stands.
struct Place<'a> {
    /// What it is the value of.
    arg: &'a Arg,
    /// The verbs before it.
    verbs: Vec<&'a str>,
    /// What is there of it.
    typed: &'a str,
    /// The home that the line names.
    home: Option<PathBuf>,
}

impl<'a> Place<'a> {
    fn find(words: &[&'a str], index: usize, root: &'a Command) -> Option<Self> {
        let typed = words.get(index).copied().unwrap_or_default();
        let (mut command, mut verbs, mut home) = (root, Vec::new(), None);
        let (mut positional, mut pending, mut is_over): (usize, Option<&Arg>, bool) = (0, None, false);
        for word in words.get(1..index)? {
            if let Some(option) = pending.take() {
                if option.get_id() == "home" {
                    home = Some(PathBuf::from(word));
                }
            } else if *word == "--" && !is_over {
                is_over = true;
            } else if let Some(option) = option(command, word).filter(|_| !is_over) {
                pending = Some(option).filter(|option| !word.contains('=') && takes_value(option));
                if let (Some(("--home", folder)), true) = (word.split_once('='), pending.is_none()) {
                    home = Some(PathBuf::from(folder));
                }
            } else if !is_over && word.starts_with('-') && word.len() > 1 {
                // Not ours; what follows is nobody's to guess.
                return None;
            } else if let Some(verb) = command.find_subcommand(word).filter(|_| positional == 0) {
                verbs.push(verb.get_name());
                command = verb;
            } else {
                positional += 1;
            }
        }
        let arg = match pending {
            Some(option) => option,
            None if typed.starts_with('-') && !is_over => return None,
            None if command.has_subcommands() => return None,
            None => {
                let all: Vec<&Arg> = command.get_positionals().collect();
                let last = all.last().copied().filter(|last| is_list(last));
                all.get(positional).copied().or(last)?
            }
        };
        Some(Self { arg, verbs, typed, home })
    }
}

/// The option that a word is, of those that hold here.
fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
        let long = long.split('=').next().unwrap_or(long);
        return command.get_arguments().find(|arg| arg.get_long() == Some(long));
    }
    let short = word.strip_prefix('-')?.chars().last()?;
    command.get_arguments().find(|arg| arg.get_short() == Some(short))
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn is_list(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|number| number.max_values() > 1)
        || matches!(arg.get_action(), clap::ArgAction::Append)
}

/// All values of a place, whatever was typed of them.
fn values(place: &Place<'_>) -> Vec<(String, String)> {
    let possible = place.arg.get_possible_values();
    if !possible.is_empty() && takes_value(place.arg) {
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        return shown.map(|value| (value.get_name().to_owned(), help(value.get_help()))).collect();
    }
    let Ok(home) = Home::locate(place.home.as_deref()) else { return Vec::new() };
    of_home(place, &home).unwrap_or_default()
}

fn help(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default().replace(['\n', '\t'], " ")
}

/// The values of a place that the home knows; `None` where it does not.
fn of_home(place: &Place<'_>, home: &Home) -> Option<Vec<(String, String)>> {
    let parser = place.arg.get_value_parser();
    let id = place.arg.get_id().as_str();
    let verb = place.verbs.first().copied().unwrap_or_default();
    if is::<Path>(parser) {
        return paths(home, place.verbs.last() == Some(&"set"));
    }
    if is::<ChannelId>(parser) && place.verbs.last() != Some(&"create") {
        return channels(home, place.verbs.last() == Some(&"reopen"));
    }
    if is::<SessionKey>(parser) {
        return sessions(home);
    }
    match (verb, id) {
        ("session", "session") => return Some([agents(home)?, sessions(home)?].concat()),
        ("approvals", "id") => return requests(home),
        ("token", "name") if place.verbs.last() == Some(&"revoke") => return tokens(home),
        ("token", "agents") => return agents(home),
        ("add" | "edit", "archetype") => {
            let names = archetype::names(&home.archetypes());
            return Some(names.into_iter().map(|name| (name, String::new())).collect());
        }
        _ => {}
    }
    let names_agent = is::<AgentId>(parser)
        || is::<Party>(parser)
        || matches!((verb, id), ("remove" | "edit", "id") | ("rename", "old"));
    if names_agent { agents(home) } else { None }
}

fn is<T: 'static>(parser: &ValueParser) -> bool {
    parser.type_id() == std::any::TypeId::of::<T>()
}

fn config(home: &Home) -> Option<Config> {
    config::read(home).ok()
}

fn agents(home: &Home) -> Option<Vec<(String, String)>> {
    let agents = config(home)?.agents;
    Some(agents.iter().map(|agent| (agent.id.to_string(), agent.role.as_str().to_owned())).collect())
}

fn channels(home: &Home, archived: bool) -> Option<Vec<(String, String)>> {
    let all = Reader::open(home).ok()??.channels(None, None).ok()?;
    let fits = all.into_iter().filter(|channel| (channel.state == ChannelState::Archived) == archived);
    Some(fits.map(|channel| (channel.id.to_string(), plain(&channel.topic))).collect())
}

fn sessions(home: &Home) -> Option<Vec<(String, String)>> {
    let all = Reader::open(home).ok()??.sessions(None, MOST).ok()?;
    Some(all.into_iter().map(|session| (session.key.to_string(), String::new())).collect())
}

fn requests(home: &Home) -> Option<Vec<(String, String)>> {
    let all = Reader::open(home).ok()??.requests(true, MOST).ok()?;
    Some(all.into_iter().map(|row| (row.id, format!("{} of {}", row.kind, row.agent))).collect())
}

fn tokens(home: &Home) -> Option<Vec<(String, String)>> {
    let mut all = Reader::open(home).ok()??.tokens().ok()?;
    all.retain(|token| token.revoked_at.is_none());
    let rights =
        |token: &ClientToken| token.rights.iter().map(|right| right.as_str()).collect::<Vec<_>>().join(",");
    Some(all.iter().map(|token| (token.name.clone(), rights(token))).collect())
}

/// The values with the items before them that were typed already, which are not offered again.
fn next_of_list(typed: &str, comma: char, values: Vec<(String, String)>) -> Vec<(String, String)> {
    let Some(at) = typed.rfind(comma) else { return values };
    let (before, begin) = (&typed[..=at], &typed[..at]);
    let is_new = |value: &str| !begin.split(comma).any(|item| item == value);
    let values = values.into_iter().filter(|(value, _)| is_new(value));
    values.map(|(value, help)| (format!("{before}{value}"), help)).collect()
}

fn plain(text: &str) -> String {
    crate::clean::label(text, 60)
}

/// The places of the configuration: what is there, and to set, also what may be below flock's own block.
fn paths(home: &Home, to_set: bool) -> Option<Vec<(String, String)>> {
    let (_, document) = config::file::read_document(home).ok()?;
    let mut found = Vec::new();
    below(&document, String::new(), &mut found);
    if to_set {
        found.extend(
            parse::keys(&document, home)
                .unwrap_or_default()
                .into_iter()
                .filter(|key| key.starts_with(&parse::PLUGIN.join(".")) && !key.contains('[')),
        );
    }
    found.sort();
    found.dedup();
    Some(found.into_iter().map(|path| (path, String::new())).collect())
}

fn below(value: &serde_json::Value, at: String, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(entries) => {
            for (name, value) in entries {
                let name = if name.contains(['.', '[']) { format!("[{name:?}]") } else { name.clone() };
                let dot = if at.is_empty() || name.starts_with('[') { "" } else { "." };
                below(value, format!("{at}{dot}{name}"), found);
            }
        }
        serde_json::Value::Array(items) if items.iter().all(|item| item["id"].is_string()) => {
            for item in items {
                below(item, format!("{at}[{}]", item["id"].as_str().unwrap_or_default()), found);
            }
        }
        _ => {}
    }
    if !at.is_empty() {
        found.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: &str) -> Option<(String, Vec<String>, String)> {
        let mut command = crate::cli::command();
        command.build();
        let words: Vec<&str> = line.split(' ').collect();
        let found = Place::find(&words, words.len() - 1, &command)?;
        let verbs = found.verbs.iter().map(ToString::to_string).collect();
        Some((found.arg.get_id().to_string(), verbs, found.typed.to_owned()))
    }

    #[test]
    fn the_place_of_a_value_is_found() {
        let is = |line: &str, id: &str, typed: &str| {
            let (found, _, there) = place(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((found.as_str(), there.as_str()), (id, typed), "{line}");
        };
        is("flock chat ", "agent", "");
        is("flock chat co", "agent", "co");
        is("flock -q chat --session k co", "agent", "co");
        is("flock chat coder ", "text", "");
        is("flock chat --session agent", "session", "agent");
        is("flock --home /x channel post dev", "id", "dev");
        is("flock config set agents.l", "path", "agents.l");
        is("flock add x --archetype ", "archetype", "");
        is("flock edit co", "id", "co");
        for none in ["flock ", "flock ch", "flock channel ", "flock chat --", "flock -n /x ", "flock /x co"] {
            assert!(place(none).is_none(), "{none}");
        }
    }

    #[test]
    fn the_next_item_of_a_list_is_offered() {
        let found = |typed: &str| {
            let words = ["flock", "token", "add", "ci", "--rights", typed];
            let found = candidates(&words, 5, crate::cli::command());
            found.into_iter().map(|(value, _)| value).collect::<Vec<_>>()
        };
        assert_eq!(found(""), ["chat", "a2a", "read", "approve"]);
        assert_eq!(found("chat,"), ["chat,a2a", "chat,read", "chat,approve"]);
        assert_eq!(found("chat,re"), ["chat,read"]);
    }

    #[test]
    fn only_those_arguments_ask() {
        let ask = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            answer(&args, crate::cli::command)
        };
        for other in [&["flock"][..], &["flock", "--version"], &["flock", "--version", "--complete", "1"]] {
            assert!(!ask(other), "{other:?}");
        }
        assert!(ask(&["flock", "--version", "--complete", "x", "--", "flock"]));
    }
}

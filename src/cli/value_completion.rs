//! Completion of values on the command line: agents, channels, people, sessions and configuration paths of the home.
//!
//! The completion scripts call `flock --version --complete INDEX -- WORDS`. The first argument protects against
//! util-linux's program of the same name, which may come first on PATH: with `--version` it prints its version and
//! ends, whereas it would take a verb of flock for a file to lock.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, Command};

use crate::agent::prompt::archetype;
use crate::cli::database;
use crate::config::path::ConfigPath;
use crate::config::{self, Config, parse};
use crate::generation::{self, Generation};
use crate::home::Home;
use crate::id::{
    AgentId, ChannelId, EngineName, HookName, McpServerName, Party, ProjectName, ScheduleName, SessionKey,
};
use crate::skill::{InstalledSkill, installed};
use crate::store::{ChannelState, ClientToken, Person, ReceiptFilter, StoredReceipt, SubmissionFilter};
use crate::ui::{OutputOptions, Printer};

/// The arguments that ask for completion. The index follows them.
const REQUEST_ARGS: [&str; 2] = ["--version", "--complete"];

/// Largest number of values in one answer.
const MAX_VALUES: u32 = 200;

/// Answers a completion request. Returns `true` if the arguments were one.
pub(crate) fn answer(args: &[OsString], command: impl FnOnce() -> Command) -> bool {
    let [_, version, complete, index, dashes, words @ ..] = args else { return false };
    if *version != REQUEST_ARGS[0] || *complete != REQUEST_ARGS[1] || dashes != "--" {
        return false;
    }
    let printer = Printer::new(OutputOptions::default());
    // Every malformed request ends without output. A completion must not print an error into the command line.
    let Some(index) = index.to_str().and_then(|index| index.parse().ok()) else { return true };
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    for (value, help) in candidates(&words, index, command()) {
        // The tab marks an answer of this program. util-linux's `flock` never prints one.
        printer.raw(format!("{value}\t{help}\n").as_bytes());
    }
    true
}

/// Returns the values that fit at `index`, each with a short description.
fn candidates(words: &[&str], index: usize, mut command: Command) -> Vec<(String, String)> {
    // `build` adds the global options to all verbs, which `ValuePosition::find` needs.
    command.build();
    let Some(place) = ValuePosition::find(words, index, &command) else { return Vec::new() };
    let mut found = values(&place);
    if let Some(comma) = place.arg.get_value_delimiter() {
        found = complete_list_item(place.typed, comma, found);
    }
    // A tab or a newline in a value would break the format of the answer.
    found.retain(|(value, _)| value.starts_with(place.typed) && !value.contains(['\t', '\n']));
    found
}

/// A position on the command line where a value is expected.
struct ValuePosition<'a> {
    /// The argument that takes the value.
    arg: &'a Arg,
    /// The verbs before the position.
    verbs: Vec<&'a str>,
    /// The part of the value that is already typed.
    typed: &'a str,
    /// The home that the command line names with `--home`.
    home: Option<PathBuf>,
}

impl<'a> ValuePosition<'a> {
    fn find(words: &[&'a str], index: usize, root: &'a Command) -> Option<Self> {
        let typed = words.get(index).copied().unwrap_or_default();
        let (mut command, mut verbs, mut home) = (root, Vec::new(), None);
        let (mut positional, mut pending, mut is_over): (usize, Option<&Arg>, bool) = (0, None, false);
        for word in words.get(1..index)? {
            // The word before this one was an option that takes a value, so this word is the value.
            if let Some(option) = pending.take() {
                if option.get_id() == "home" {
                    home = Some(PathBuf::from(word));
                }
            } else if *word == "--" && !is_over {
                is_over = true;
            } else if let Some(option) = option(command, word).filter(|_| !is_over) {
                // `--option=value` has its value in the same word.
                pending = Some(option).filter(|option| !word.contains('=') && takes_value(option));
                if let (Some(("--home", folder)), true) = (word.split_once('='), pending.is_none()) {
                    home = Some(PathBuf::from(folder));
                }
            } else if !is_over && word.starts_with('-') && word.len() > 1 {
                // The option is unknown, so the meaning of the words after it is unknown too.
                return None;
            } else if let Some(verb) = command.find_subcommand(word).filter(|_| positional == 0) {
                // A verb can only stand before the first positional value.
                verbs.push(verb.get_name());
                command = verb;
            } else {
                positional += 1;
            }
        }
        let arg = match pending {
            Some(option) => option,
            None if typed.starts_with('-') && !is_over => return None,
            // `race` has values of its own besides its verbs.
            None if command.has_subcommands() && command.get_positionals().next().is_none() => return None,
            None => {
                let all: Vec<&Arg> = command.get_positionals().collect();
                // An argument that takes several values also takes those after its first.
                let last = all.last().copied().filter(|last| is_list(last));
                all.get(positional).copied().or(last)?
            }
        };
        Some(Self { arg, verbs, typed, home })
    }
}

/// Returns the option of this command that a word names.
fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
        let long = long.split('=').next().unwrap_or(long);
        return command.get_arguments().find(|arg| arg.get_long() == Some(long));
    }
    // In a group of short options such as `-vq` only the last one can take a value.
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

/// Returns all values that the position can take, without looking at what is already typed.
fn values(place: &ValuePosition<'_>) -> Vec<(String, String)> {
    let possible = place.arg.get_possible_values();
    if !possible.is_empty() && takes_value(place.arg) {
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        return shown.map(|value| (value.get_name().to_owned(), help(value.get_help()))).collect();
    }
    let Ok(home) = Home::locate(place.home.as_deref()) else { return Vec::new() };
    home_values(place, &home).unwrap_or_default()
}

fn help(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default().replace(['\n', '\t'], " ")
}

/// Returns the values that the home knows for this position, or `None` if it knows none.
fn home_values(place: &ValuePosition<'_>, home: &Home) -> Option<Vec<(String, String)>> {
    // The type of the parsed value tells what is wanted, so most new options need no line here.
    let parser = place.arg.get_value_parser();
    let id = place.arg.get_id().as_str();
    let verb = place.verbs.first().copied().unwrap_or_default();
    if is::<ConfigPath>(parser) {
        return config_paths(home, place.verbs.last() == Some(&"set"));
    }
    // The id of a new channel can't be completed.
    if is::<ChannelId>(parser) && place.verbs.last() != Some(&"create") {
        return channels(home, place.verbs.last() == Some(&"reopen"));
    }
    if is::<SessionKey>(parser) {
        return sessions(home);
    }
    // The name of a new project can't be completed.
    if is::<ProjectName>(parser) && place.verbs.last() != Some(&"add") {
        return projects(home);
    }
    // The name of a new server can't be completed.
    if is::<McpServerName>(parser) && place.verbs.last() != Some(&"add") {
        return mcp_servers(home);
    }
    // The name of a new engine can't be completed.
    if is::<EngineName>(parser) && place.verbs.last() != Some(&"add") {
        return engines(home);
    }
    // The name of a new schedule can't be completed.
    if is::<ScheduleName>(parser) && place.verbs.last() != Some(&"add") {
        return schedules(home);
    }
    // The name of a new webhook can't be completed.
    if is::<HookName>(parser) && place.verbs.last() != Some(&"add") {
        return hooks(home);
    }
    match (verb, id) {
        ("session", "session") => {
            return Some([agents(home)?, sessions(home).unwrap_or_default()].concat());
        }
        ("approvals", "id") => return requests(home),
        ("receipt", "id") => return receipts(home),
        ("race", "race") => return races(home),
        ("fork", "source") | ("schedule", "to") => {
            return Some([agents(home)?, channels(home, false).unwrap_or_default()].concat());
        }
        ("skill", "skill") => return skills(home),
        ("token", "name") if place.verbs.last() == Some(&"revoke") => return tokens(home),
        ("token", "agents") => return agents(home),
        ("person", "name") => match place.verbs.last() {
            // The name of a new person can't be completed.
            Some(&"add") => return None,
            // Several accounts may belong to somebody who came from another platform, too.
            Some(&"link") => return Some([people(home)?, platform_people(home)?].concat()),
            _ => return people(home),
        },
        // People of the home keep their names.
        ("person", "from") => return platform_people(home),
        ("project", "number" | "show") => return submissions(home),
        ("rollback" | "generations", "generation") => return generations(home),
        ("add" | "edit", "archetype") => {
            return Some(undescribed(archetype::names(&home.archetypes())));
        }
        _ => {}
    }
    // Some verbs take the agent's id as plain text, to give their own error for an invalid one.
    let names_agent = is::<AgentId>(parser)
        || is::<Party>(parser)
        || matches!((verb, id), ("remove" | "edit", "id") | ("rename", "old"));
    if names_agent { agents(home) } else { None }
}

/// Returns the numbers of the generations, the newest first, with what they changed.
fn generations(home: &Home) -> Option<Vec<(String, String)>> {
    let all = generation::log::all(home).ok()?.into_iter().rev().filter_map(Result::ok);
    let described = |found: Generation| (found.number.to_string(), help_text(&found));
    Some(all.take(MAX_VALUES as usize).map(described).collect())
}

fn help_text(generation: &Generation) -> String {
    crate::clean::summary(generation.what.first().unwrap_or(&generation.why), 60)
}

fn undescribed(values: Vec<String>) -> Vec<(String, String)> {
    values.into_iter().map(|value| (value, String::new())).collect()
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

fn projects(home: &Home) -> Option<Vec<(String, String)>> {
    let projects = config(home)?.projects;
    Some(projects.into_iter().map(|project| (project.name.to_string(), description(&project.repo))).collect())
}

fn mcp_servers(home: &Home) -> Option<Vec<(String, String)>> {
    let servers = config(home)?.mcp_servers;
    Some(servers.into_iter().map(|one| (one.name.to_string(), description(&one.place()))).collect())
}

fn engines(home: &Home) -> Option<Vec<(String, String)>> {
    let others = config(home)?.engines.into_iter().filter(|engine| !engine.name.is_local());
    let described = others.map(|engine| (engine.name.to_string(), engine.address.unwrap_or_default()));
    let local = (EngineName::local().to_string(), "the machine's own engine".to_owned());
    Some(std::iter::once(local).chain(described).collect())
}

fn skills(home: &Home) -> Option<Vec<(String, String)>> {
    let skills = installed::all(home);
    let described = |skill: &InstalledSkill| (skill.name.to_string(), skill.state.as_str().to_owned());
    Some(skills.iter().map(described).collect())
}

fn schedules(home: &Home) -> Option<Vec<(String, String)>> {
    let all = database::read_typing(home, async |reader| reader.schedules().list().await).ok()??;
    Some(all.iter().map(|one| (one.name.to_string(), description(&one.text))).collect())
}

fn hooks(home: &Home) -> Option<Vec<(String, String)>> {
    let all = database::read_typing(home, async |reader| reader.hooks().list().await).ok()??;
    Some(all.iter().map(|one| (one.name.to_string(), format!("#{}", one.channel))).collect())
}

/// Returns the submissions that are on their way.
fn submissions(home: &Home) -> Option<Vec<(String, String)>> {
    let filter = SubmissionFilter { is_open: true, ..SubmissionFilter::default() };
    let read =
        database::read_typing(home, async |reader| reader.submissions().list(&filter, MAX_VALUES).await);
    let all = read.ok()??;
    Some(all.into_iter().map(|one| (one.id.to_string(), description(&one.title))).collect())
}

fn races(home: &Home) -> Option<Vec<(String, String)>> {
    let all = database::read_typing(home, async |reader| reader.races().list(MAX_VALUES).await).ok()??;
    Some(all.into_iter().map(|race| (race.id.to_string(), description(&race.task))).collect())
}

fn channels(home: &Home, archived: bool) -> Option<Vec<(String, String)>> {
    let all = database::read_typing(home, async |reader| reader.channels().list(None, None).await).ok()??;
    let fits = all.into_iter().filter(|channel| (channel.state == ChannelState::Archived) == archived);
    Some(fits.map(|channel| (channel.id.to_string(), description(&channel.topic))).collect())
}

fn sessions(home: &Home) -> Option<Vec<(String, String)>> {
    let all =
        database::read_typing(home, async |reader| reader.sessions().list(None, MAX_VALUES).await).ok()??;
    Some(all.into_iter().map(|session| (session.key.to_string(), String::new())).collect())
}

fn requests(home: &Home) -> Option<Vec<(String, String)>> {
    let all =
        database::read_typing(home, async |reader| reader.requests().list(true, MAX_VALUES).await).ok()??;
    Some(all.into_iter().map(|row| (row.id, format!("{} of {}", row.kind, row.agent))).collect())
}

fn receipts(home: &Home) -> Option<Vec<(String, String)>> {
    let filter = ReceiptFilter::default();
    let all = database::read_typing(home, async |reader| reader.receipts().list(&filter, MAX_VALUES).await)
        .ok()??;
    let described = |one: &StoredReceipt| format!("{} of {}", one.branch, one.author);
    // Twelve digits tell receipts apart, and fit into a line.
    Some(all.iter().map(|one| (one.id.chars().take(12).collect(), description(&described(one)))).collect())
}

fn tokens(home: &Home) -> Option<Vec<(String, String)>> {
    let mut all = database::read_typing(home, async |reader| reader.tokens().list().await).ok()??;
    all.retain(|token| token.revoked_at.is_none());
    let rights =
        |token: &ClientToken| token.rights.iter().map(|right| right.as_str()).collect::<Vec<_>>().join(",");
    Some(all.iter().map(|token| (token.name.clone(), rights(token))).collect())
}

/// Returns the people of the home who were not removed.
fn people(home: &Home) -> Option<Vec<(String, String)>> {
    let mut all = database::read_typing(home, async |reader| reader.people().list().await).ok()??;
    all.retain(Person::is_active);
    Some(all.into_iter().map(|person| (person.name, person.role.as_str().to_owned())).collect())
}

/// Returns the people who are known only by their accounts on other platforms, each with the first of these.
fn platform_people(home: &Home) -> Option<Vec<(String, String)>> {
    let of_home = people(home)?;
    let all = database::read_typing(home, async |reader| reader.accounts().list().await).ok()??;
    let mut found = BTreeMap::new();
    for account in all {
        let Party::Human(name) = account.person else { continue };
        if !of_home.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            let described = format!("{} on {}", account.username, account.platform);
            found.entry(name).or_insert_with(|| description(&described));
        }
    }
    Some(found.into_iter().collect())
}

/// Completes the next item of a list: puts the typed items before each value and drops the values already typed.
fn complete_list_item(typed: &str, comma: char, values: Vec<(String, String)>) -> Vec<(String, String)> {
    let Some(at) = typed.rfind(comma) else { return values };
    let (before, begin) = (&typed[..=at], &typed[..at]);
    let is_new = |value: &str| !begin.split(comma).any(|item| item == value);
    let values = values.into_iter().filter(|(value, _)| is_new(value));
    values.map(|(value, help)| (format!("{before}{value}"), help)).collect()
}

fn description(text: &str) -> String {
    crate::clean::label(text, 60)
}

/// Returns the paths in the configuration. For `set` it adds the keys that may stand in flock's own block.
fn config_paths(home: &Home, to_set: bool) -> Option<Vec<(String, String)>> {
    let (_, document) = config::file::read_document(home).ok()?;
    let mut found = Vec::new();
    collect_paths(&document, String::new(), &mut found);
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
    Some(undescribed(found))
}

fn collect_paths(value: &serde_json::Value, at: String, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(entries) => {
            for (name, value) in entries {
                // A key that contains a dot or a bracket has to be quoted to be one step of the path.
                let name = if name.contains(['.', '[']) { format!("[{name:?}]") } else { name.clone() };
                let dot = if at.is_empty() || name.starts_with('[') { "" } else { "." };
                collect_paths(value, format!("{at}{dot}{name}"), found);
            }
        }
        // Entries with ids are named by their id, because a number changes when an entry before it is removed.
        serde_json::Value::Array(items) if items.iter().all(|item| item["id"].is_string()) => {
            for item in items {
                collect_paths(item, format!("{at}[{}]", item["id"].as_str().unwrap_or_default()), found);
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
    use crate::store::testing::{add_account, add_person, person};
    use crate::store::{AuditEntry, Level, PersonRole, Store};

    fn place(line: &str) -> Option<(String, Vec<String>, String)> {
        let mut command = crate::cli::command();
        command.build();
        let words: Vec<&str> = line.split(' ').collect();
        let found = ValuePosition::find(&words, words.len() - 1, &command)?;
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

    #[tokio::test]
    async fn people_are_offered_where_their_names_fit() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let offered = |line: &str| {
            let mut command = crate::cli::command();
            command.build();
            let words: Vec<&str> = line.split(' ').collect();
            let place = ValuePosition::find(&words, words.len() - 1, &command).unwrap();
            home_values(&place, &home).unwrap_or_default()
        };
        assert!(offered("flock person show ").is_empty(), "there is no database yet");
        let store = Store::open(&home).unwrap();
        for name in ["bea", "cid"] {
            add_person(&store, person(name, PersonRole::Member), 1).await;
        }
        let entry =
            AuditEntry::new("human:owner", "person.remove", "human:cid", Level::Yellow, String::new());
        assert!(store.people().remove("cid".to_owned(), entry, 2).await.unwrap());
        add_account(&store, "matrix", "@max:x", &Party::human("max"), None).await;
        add_account(&store, "slack", "U1", &Party::human("max"), Some("human:owner")).await;
        add_account(&store, "slack", "U2", &Party::human("bea"), Some("human:owner")).await;
        let [bea, max] = [("bea", "member"), ("max", "x on matrix")]
            .map(|(name, help)| (name.to_owned(), help.to_owned()));
        for verb in ["show", "set", "token", "remove", "rm"] {
            assert_eq!(offered(&format!("flock person {verb} ")), std::slice::from_ref(&bea), "{verb}");
        }
        assert_eq!(offered("flock person link "), [bea, max.clone()]);
        assert_eq!(offered("flock person rename "), [max]);
        for new in ["flock person add ", "flock person rename max ", "flock person add dan --budget-usd "] {
            assert!(offered(new).is_empty(), "{new}");
        }
    }

    #[test]
    fn other_arguments_are_no_completion_request() {
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

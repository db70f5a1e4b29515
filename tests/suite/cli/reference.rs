//! What is generated from the command line's definition is checked in and must be current:
//! `FLOCK_UPDATE=1 cargo test` rewrites it.

use std::fmt::Write as _;
use std::path::Path;

use flock::cli::completions::{Shell, script};

#[test]
fn completions_are_current() {
    for (shell, file) in [(Shell::Bash, "flock.bash"), (Shell::Zsh, "_flock"), (Shell::Fish, "flock.fish")] {
        compare(&format!("completions/{file}"), &script(shell));
    }
}

#[test]
fn the_reference_is_current() {
    let mut command = flock::cli::command();
    command.build();
    let mut text = String::from(
        "# The command line\n\nGenerated from the program; `FLOCK_UPDATE=1 cargo test --test suite reference` \
         rewrites it. Exit codes are in [exit-codes.md](exit-codes.md), the output of `--json` in \
         [json.md](json.md).\n\n## Global options\n\nEvery verb takes them.\n\n",
    );
    for option in command.get_arguments().filter(|option| option.is_global_set()) {
        option_line(&mut text, option);
    }
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help" && !verb.is_hide_set()) {
        describe(&mut text, verb, 2);
    }
    let doubled = text.lines().find(|line| line.starts_with("- ") && line.replace("...", "").contains(".."));
    assert_eq!(doubled, None, "a sentence ends twice");
    compare("docs/cli.md", &text);
}

#[test]
fn manual_pages_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("man");
    let mut command = flock::cli::command().version(env!("CARGO_PKG_VERSION")).disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    manual_pages(&command, "flock", &mut pages);
    if std::env::var_os("FLOCK_UPDATE").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
    }
    for (name, text) in &pages {
        compare(&format!("man/{name}"), text);
    }
    let known: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name.as_str()), "man/{name} is of no verb: delete it");
    }
}

/// Collects the manual page of a command, and those of its visible subcommands.
fn manual_pages(command: &clap::Command, name: &str, pages: &mut Vec<(String, String)>) {
    let mut text = Vec::new();
    let shown = command.clone().name(name.to_owned()).display_name(name.replace('-', " "));
    clap_mangen::Man::new(shown).title(name.to_owned()).manual("flock").render(&mut text).unwrap();
    pages.push((format!("{name}.1"), String::from_utf8(text).unwrap()));
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help" && !verb.is_hide_set()) {
        manual_pages(verb, &format!("{name}-{}", verb.get_name()), pages);
    }
}

#[test]
fn environment_variables_are_documented() {
    let mut text = String::from(
        "# Environment variables\n\nflock reads these variables, and those that the configuration names as the \
         source of a key (`env:NAME`). An empty variable counts as unset. A switch is on with any value except \
         `0` and `false`.\n\nGenerated from the program; `FLOCK_UPDATE=1 cargo test --test suite reference` \
         rewrites it.\n\n| variable | what it does |\n|---|---|\n",
    );
    for var in flock::env::ALL {
        writeln!(text, "| `{}` | {} |", var.name, var.doc).unwrap();
    }
    compare("docs/environment.md", &text);
}

fn describe(text: &mut String, command: &clap::Command, level: usize) {
    let mut command = command.clone();
    let name = command.get_bin_name().unwrap_or_default().to_owned();
    writeln!(text, "\n{} {name}\n", "#".repeat(level)).unwrap();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    writeln!(text, "{}.\n", about.unwrap_or_default().trim_end_matches('.')).unwrap();
    let usage = command.render_usage().to_string();
    writeln!(text, "```\n{}\n```\n", usage.trim_start_matches("Usage: ").trim()).unwrap();
    let aliases: Vec<_> = command.get_visible_aliases().collect();
    if !aliases.is_empty() {
        writeln!(text, "Also: `{}`.\n", aliases.join("`, `")).unwrap();
    }
    for option in command.get_arguments() {
        if !option.is_global_set() && !option.is_hide_set() && option.get_id() != "help" {
            option_line(text, option);
        }
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    if let Some(after) = after {
        writeln!(text, "\n```text\n{after}\n```").unwrap();
    }
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help" && !verb.is_hide_set()) {
        describe(text, verb, level + 1);
    }
}

fn option_line(text: &mut String, option: &clap::Arg) {
    let mut names = Vec::new();
    if let Some(short) = option.get_short() {
        names.push(format!("-{short}"));
    }
    if let Some(long) = option.get_long() {
        names.push(format!("--{long}"));
    }
    let values: Vec<_> =
        option.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let mut shown = names.join(", ");
    if option.get_action().takes_values() && !values.is_empty() {
        let value = if names.is_empty() { values.join(" ") } else { format!(" {}", values.join(" ")) };
        shown.push_str(&value);
    }
    let help = option.get_long_help().or(option.get_help()).map(ToString::to_string).unwrap_or_default();
    // What follows ends the sentence.
    let paragraphs: Vec<&str> =
        help.split("\n\n").map(|part| part.trim_end().trim_end_matches('.')).collect();
    write!(text, "- `{shown}`: {}", paragraphs.join(". ").replace('\n', " ")).unwrap();
    let possible: Vec<_> = option
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    if option.get_action().takes_values() && !possible.is_empty() {
        write!(text, ". One of `{}`", possible.join("`, `")).unwrap();
    }
    let defaults: Vec<_> = option.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if option.get_action().takes_values() && !defaults.is_empty() {
        write!(text, ". Default `{}`", defaults.join(" ")).unwrap();
    }
    text.push_str(".\n");
}

#[track_caller]
fn compare(file: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("FLOCK_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, wanted).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{file} is not current: run FLOCK_UPDATE=1 cargo test --test suite reference");
}

#[test]
fn every_exit_code_is_documented() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/exit-codes.md")).unwrap();
    for kind in flock::error::Kind::ALL {
        let row = format!("| {} | `{}` |", kind.exit_code(), kind.code());
        assert!(page.contains(&row), "{row}");
    }
}

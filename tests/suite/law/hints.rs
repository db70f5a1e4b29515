//! Each command of flock's that a message, a hint or the documentation names is one that the command line has.

use std::path::Path;

use clap::Command;
use clap::error::ErrorKind;

use super::{texts, verdict};

/// Words after which a text that begins with `flock` is a sentence about flock and no command.
const SENTENCES: [&str; 15] = [
    "builds", "can't", "decides", "did", "does", "is", "itself", "mounts", "needs", "never", "runs", "sends",
    "sets", "starts", "was",
];

/// What may stand behind a command in a sentence.
const ENDS: [char; 8] = [',', ';', ':', '.', ')', '"', '\'', '|'];

fn command_line() -> Command {
    let mut command = flock::cli::command();
    command.build();
    command
}

/// Returns the string literals of Rust code, with their escapes resolved.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let before = &rest[..at];
        rest = &rest[at..];
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with('/') {
            1
        } else if rest.starts_with('\'') {
            character(rest)
        } else {
            let prefix = before.trim_end_matches('#');
            let (text, length) =
                if prefix.ends_with('r') { raw(rest, before.len() - prefix.len()) } else { quoted(rest) };
            found.push(text);
            length
        };
        rest = &rest[skipped..];
    }
    found
}

/// Returns the length of the character literal at the beginning of a text. Of a lifetime it is the apostrophe's.
fn character(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        // `'\''` has an apostrophe in its middle.
        (Some((_, '\\')), Some(_)) => text[3..].find('\'').map_or(text.len(), |at| at + 4),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// Returns the content of a raw string literal, which ends with so many hashes, and its length.
fn raw(text: &str, hashes: usize) -> (String, usize) {
    let close = format!("\"{}", "#".repeat(hashes));
    let end = text[1..].find(&close).unwrap();
    (text[1..=end].to_owned(), 1 + end + close.len())
}

/// Returns the content of a string literal and its length.
fn quoted(text: &str) -> (String, usize) {
    let mut content = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = letters.next() {
        match c {
            '"' => return (content, at + 1),
            '\\' => match letters.next() {
                // The literal goes on at the next line's first word.
                Some((_, '\n')) => while letters.next_if(|(_, c)| c.is_whitespace()).is_some() {},
                Some((_, 'n')) => content.push('\n'),
                Some((_, c)) => content.push(c),
                None => {}
            },
            c => content.push(c),
        }
    }
    (content, text.len())
}

/// Returns what follows each `flock` in a text, up to the end of the line or a backtick, if a word of small letters
/// does.
fn after_flock(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("flock ").filter_map(move |(at, name)| {
        let is_inside = |c: char| c.is_alphanumeric() || "_-./".contains(c);
        let rest = text[at + name.len()..].split(['\n', '`']).next().unwrap_or_default();
        (!text[..at].ends_with(is_inside) && rest.starts_with(|c: char| c.is_ascii_lowercase()))
            .then_some(rest)
    })
}

fn is_verb(root: &Command, word: &str) -> bool {
    root.find_subcommand(word).is_some()
}

/// Returns what is wrong with the verbs and options of a command. It may stand in a sentence, so that its end is not
/// known.
fn wrong(root: &Command, words: &str) -> Option<String> {
    let mut at = root;
    let mut other = None;
    for word in words.split(' ') {
        let bare = word.trim_end_matches(ENDS);
        // In `session show|reset` each alternative has to be one.
        let verbs: Option<Vec<_>> = bare.split('|').map(|one| at.find_subcommand(one)).collect();
        if let Some(verb) = verbs.and_then(|verbs| verbs.last().copied()).filter(|_| other.is_none()) {
            at = verb;
        } else if let Some(option) = bare.strip_prefix("--").filter(|option| !option.is_empty()) {
            let name = option.split('=').next();
            if !at.get_arguments().any(|known| known.get_long() == name) {
                return Some(format!("{} has no {bare}", at.get_name()));
            }
        } else {
            other.get_or_insert(bare);
        }
        if bare != word {
            break;
        }
    }
    let other = other.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))?;
    at.is_subcommand_required_set().then(|| format!("{} has no {other}", at.get_name()))
}

/// Returns how clap refuses a text that is one command, or several joined by `&&`.
fn refused(text: &str) -> Option<String> {
    let mut line = text.to_owned();
    while let Some((begin, (_, end))) =
        line.split_once('{').and_then(|(begin, rest)| Some((begin, rest.split_once('}')?)))
    {
        line = format!("{begin}x{end}");
    }
    // Something is written there in place of a name, so that it is no valid one.
    let is_pattern = line != text || text.contains(|c: char| c.is_ascii_uppercase());
    line.split(" && ").filter(|part| part.starts_with("flock ")).find_map(|part| {
        let words = part.split(' ').map(|word| word.trim_matches('\''));
        match flock::cli::command().try_get_matches_from(words).map_err(|error| error.kind()) {
            Ok(_) | Err(ErrorKind::DisplayHelp) => None,
            Err(ErrorKind::InvalidValue | ErrorKind::ValueValidation) if is_pattern => None,
            Err(kind) => Some(format!("{kind:?}")),
        }
    })
}

/// Adds what is wrong with the commands in a text.
fn check(root: &Command, text: &str, is_code: bool, say: &mut dyn FnMut(String)) {
    for words in after_flock(text) {
        let first = words.split(' ').next().unwrap_or_default().trim_end_matches(ENDS);
        if is_verb(root, first) {
            wrong(root, words).into_iter().for_each(|why| say(format!("{why}: flock {words}")));
        } else if text.contains(&format!("`flock {words}"))
            || (is_code && text.starts_with("flock ") && !SENTENCES.contains(&first))
        {
            say(format!("there is no {first}: flock {words}"));
        }
    }
    let is_sentence = ["`", ", ", "; ", "\n"].iter().any(|sign| text.contains(sign));
    let first = text.strip_prefix("flock ").and_then(|words| words.split(' ').next());
    if is_code && !is_sentence && first.is_some_and(|first| is_verb(root, first)) {
        refused(text).into_iter().for_each(|why| say(format!("{why}: {text}")));
    }
}

fn complaints(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    check(&command_line(), text, true, &mut |why| found.push(why));
    found
}

#[test]
fn every_command_that_is_named_exists() {
    let root = command_line();
    let mut seen = 0;
    let mut found = Vec::new();
    for (path, code) in texts() {
        for text in literals(&code) {
            seen += usize::from(text.starts_with("flock "));
            check(&root, &text, true, &mut |why| found.push(format!("{}: {why}", path.display())));
        }
    }
    assert!(seen > 100, "the literals must have been read; found {seen} hints");
    verdict("commands in messages that are none", found);
}

#[test]
fn every_command_in_the_documentation_exists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![folder.join("README.md"), folder.join("CONTRIBUTING.md")];
    pages.extend(std::fs::read_dir(folder.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    let root = command_line();
    let mut found = Vec::new();
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        check(&root, &text, false, &mut |why| found.push(format!("{}: {why}", page.display())));
    }
    assert!(pages.len() > 20, "the pages must have been read; found {}", pages.len());
    verdict("commands in the documentation that are none", found);
}

#[test]
fn a_command_that_is_none_is_found() {
    for text in [
        "flock doctor",
        "flock config set {at}.runtime {name} && flock config set {at}.onHost true",
        "flock channel post {} TEXT",
        "flock logs {}",
        "flock add --help",
        "flock restart; {agent} is finished by itself then",
        "say it with `flock channel create ID --topic TOPIC`, then go on",
        "the next flock update takes it",
        "flock is set up",
        "it runs as long as flock does",
    ] {
        assert_eq!(complaints(text), [""; 0], "{text}");
    }
    for text in [
        "flock nix status",
        "flock doktor",
        "flock config set",
        "flock update --self again",
        "flock logs gatway",
        "run `flock channel make x`",
        "run `flock doktor`",
        "they are shown by flock list --every, and more",
        "flock stop && flock approvals show",
    ] {
        assert!(!complaints(text).is_empty(), "{text}");
    }
}

#[test]
fn the_reader_of_literals_sees_what_the_compiler_sees() {
    let code = r##"
        // "no" 'literal'
        let a: &'static str = "one \
            two"; // "no"
        let b = ['"', '\'', '\\', 'é']; let c = r"a\n" ; let d = r#"b"c"#;
        call::<'_>("x\n\"y\"", 4 / 2, b"z");
    "##;
    assert_eq!(literals(code), ["one two", "a\\n", "b\"c", "x\n\"y\"", "z"]);
}

//! Removal of keys from a text: known keys in every form in which programs write them, and words that look like keys.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::config::file;
use crate::config::secret::{self, is_reference};
use crate::env;
use crate::home::{Home, atomic};
use crate::provider::placeholder;
use crate::secret_text::KEY_PREFIXES;

/// The text that replaces a key.
pub(crate) const REPLACEMENT: &str = "[removed]";

/// Length in characters of the shortest key that is searched for everywhere.
pub(crate) const SHORTEST: usize = 6;

/// Largest file in bytes that is read as a secret.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// Words in the names of settings and variables that hold keys.
const SECRET_NAMES: [&str; 10] = [
    "apikey",
    "api_key",
    "token",
    "password",
    "passwd",
    "secret",
    "credential",
    "authorization",
    "privatekey",
    "private_key",
];

/// Removes keys from texts.
pub(crate) struct Redactor {
    /// Every form of every key, the longest first, because one form may be part of another.
    forms: Vec<String>,
}

impl Redactor {
    /// Collects the keys from the home's secrets, its configuration and the environment.
    pub(crate) fn new(home: &Home) -> Self {
        let mut keys = Vec::new();
        for entry in fs_err::read_dir(home.secrets()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let named = name.to_str().filter(|name| secret::is_name(name));
            if named.is_some()
                && let Ok(Some(bytes)) = atomic::read(&entry.path(), MAX_SECRET_BYTES)
            {
                keys.extend(keys_in_file(&String::from_utf8_lossy(&bytes)));
            }
        }
        if let Ok((_, document)) = file::read_document(home) {
            collect_keys(&document, false, &mut keys);
        }
        for (name, value) in env::inherited() {
            // `_KEY` counts only at the end of a variable's name: in settings, "key" has many other meanings.
            if let (Some(name), Some(value)) = (name.to_str(), value.to_str())
                && (is_secret_name(name) || name.to_ascii_uppercase().ends_with("_KEY"))
            {
                keys.push(value.trim().to_owned());
            }
        }
        Self::of(&keys)
    }

    fn of(keys: &[String]) -> Self {
        // A very short key would remove ordinary words everywhere, and a placeholder is not secret.
        let is_key = |key: &&String| key.chars().count() >= SHORTEST && !placeholder::is_filler_text(key);
        let mut forms: Vec<String> = keys.iter().filter(is_key).flat_map(|key| forms_of(key)).collect();
        forms.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        forms.dedup();
        Self { forms }
    }

    /// Returns the text without keys.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for form in &self.forms {
            if text.contains(form.as_str()) {
                text = text.replace(form.as_str(), REPLACEMENT);
            }
        }
        remove_likely_keys(&text)
    }
}

/// Returns the possible keys in a secret's file: the whole text, each line, and the strings in it if it is JSON.
fn keys_in_file(text: &str) -> Vec<String> {
    let mut keys = vec![text.trim().to_owned()];
    keys.extend(text.lines().map(|line| line.trim().to_owned()));
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        collect_keys(&value, true, &mut keys);
    }
    // The file may hold an id and a key, separated by a colon.
    keys.extend(text.trim().split(':').map(str::to_owned));
    keys
}

/// Collects the strings of settings whose names say that they are secret. With `all` it collects every string.
fn collect_keys(value: &Value, all: bool, keys: &mut Vec<String>) {
    match value {
        Value::String(text) if all && !is_reference(text) => keys.push(text.trim().to_owned()),
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, all, keys)),
        Value::Object(entries) => {
            for (name, value) in entries {
                collect_keys(value, all || is_secret_name(name) || is_private(name), keys);
            }
        }
        _ => {}
    }
}

/// Blanks the values that are secret by their name, and the variables of sandboxes.
pub(crate) fn settings(value: &mut Value) {
    blank(value, false);
}

fn blank(value: &mut Value, all: bool) {
    match value {
        Value::String(text) if all && !is_reference(text) => *text = REPLACEMENT.to_owned(),
        Value::Number(_) if all => *value = Value::from(REPLACEMENT),
        Value::Array(items) => items.iter_mut().for_each(|item| blank(item, all)),
        Value::Object(entries) => {
            for (name, value) in entries {
                let is_secret = is_secret_name(name) && !value.is_number();
                blank(value, all || is_secret || is_private(name));
            }
        }
        _ => {}
    }
}

/// Blanks the text of agents and people in a report.
pub(crate) fn words(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(words),
        Value::Object(entries) => {
            for (name, value) in entries {
                let is_said = ["topic", "title", "text", "summary"].contains(&name.as_str());
                match value {
                    Value::String(text) if is_said => *text = REPLACEMENT.to_owned(),
                    // The reason for sleeping is in the words of the agent.
                    Value::Object(asleep) if name == "asleep" => {
                        asleep.insert("reason".to_owned(), Value::from(REPLACEMENT));
                    }
                    value => words(value),
                }
            }
        }
        _ => {}
    }
}

/// Returns `true` if a setting or variable of this name holds a key.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    // A number of tokens, as in `maxTokens`, is not a secret.
    let counts = name.ends_with("tokens") || name.contains("max");
    !counts && SECRET_NAMES.iter().any(|word| name.contains(word))
}

/// Returns `true` if any value below a setting of this name may be a key.
fn is_private(name: &str) -> bool {
    matches!(name, "env" | "headers")
}

/// Returns the forms of a key: plain, escaped for JSON, percent-encoded, in hex, and inside a text encoded as base64.
fn forms_of(key: &str) -> Vec<String> {
    let json = Value::from(key).to_string();
    let mut forms = vec![key.to_owned(), json[1..json.len() - 1].to_owned()];
    for upper in [true, false] {
        forms.push(percent_encode(key, upper));
        let hex = |byte: u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        forms.push(key.bytes().map(hex).collect());
    }
    // Base64 encodes three bytes at a time, so the same key has a different form for each of three offsets.
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(key.as_bytes());
        // The first and last characters also depend on the bytes beside the key, so they are cut off.
        let first = [0, 2, 3][before];
        let last = usize::from(bytes.len() % 3 != 0);
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let text = engine.encode(&bytes);
            forms.extend(text.get(first..text.len() - last).map(str::to_owned));
        }
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms
}

fn percent_encode(text: &str, upper: bool) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte if upper => format!("%{byte:02X}"),
        byte => format!("%{byte:02x}"),
    };
    text.bytes().map(encode).collect()
}

/// Removes words that look like keys although no setting says that they are.
fn remove_likely_keys(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.find(is_part) {
        let (before, from) = rest.split_at(first);
        result.push_str(before);
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        if announces_key(&result)
            && word.len() >= SHORTEST
            && !is_letters_only(word)
            && !is_reference_to(word, after)
        {
            result.push_str(REPLACEMENT);
        } else {
            result.push_str(&replace_key(word));
        }
        rest = after;
    }
    result.push_str(rest);
    remove_logins(&result)
}

const fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | '+' | '=' | '%')
}

/// Returns `true` if the text before a word announces a key: `Authorization: Bearer `, `api_key=`, `"token": "`.
fn announces_key(before: &str) -> bool {
    let tail = before.trim_end_matches([' ', '"', '\'', '\\', ':', '/']);
    let is_apart = tail.len() < before.len();
    let start =
        tail.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).map_or(0, |at| at + 1);
    let word = tail.get(start..).unwrap_or_default().to_ascii_lowercase().replace('-', "_");
    is_apart
        && (matches!(
            word.as_str(),
            "bearer" | "basic" | "token" | "api_key" | "apikey" | "password" | "x_api_key"
        ))
}

/// Returns `true` for a word of letters alone, as in `token: missing`. It is no key.
fn is_letters_only(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphabetic() || c == '.' || c == '-') || word == REPLACEMENT
}

fn is_reference_to(word: &str, after: &str) -> bool {
    matches!(word, "secret" | "env") && after.starts_with(':')
}

/// Returns the word, with the part that looks like a key replaced.
fn replace_key(word: &str) -> String {
    if let Some((name, value)) = word.split_once('=')
        && is_secret_name(name)
        && value.len() >= SHORTEST
    {
        return format!("{name}={REPLACEMENT}");
    }
    for prefix in KEY_PREFIXES {
        for (at, _) in word.match_indices(prefix) {
            // A prefix inside a longer word is an accident, as the "sk-" in "task-list".
            let is_begin = at == 0 || !word.as_bytes()[at - 1].is_ascii_alphanumeric();
            let key = &word[at + prefix.len()..];
            if is_begin && key.len() >= 12 && key.bytes().any(|byte| byte.is_ascii_digit()) {
                return format!("{}{REPLACEMENT}", &word[..at]);
            }
        }
    }
    if looks_random(word) { REPLACEMENT.to_owned() } else { word.to_owned() }
}

/// Returns `true` if a word is as long and as mixed as only keys and base64 digests are.
///
/// Commits, ids and digests in hex do not match, because they have no upper case letters. A report needs them.
fn looks_random(word: &str) -> bool {
    // The longest part decides: names and paths have dots and equal signs between short words.
    let longest = word.split(['.', '=', '%', '~']).max_by_key(|part| part.len()).unwrap_or_default();
    let has = |is: fn(&u8) -> bool| longest.as_bytes().iter().any(is);
    let changes =
        longest.as_bytes().windows(2).filter(|pair| char_class(pair[0]) != char_class(pair[1])).count();
    longest.len() >= 24
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
        && changes >= longest.len() / 4
}

const fn char_class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    }
}

/// Removes the login from URLs such as `https://user:password@host`.
fn remove_logins(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        result.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '?' | '#'))
            .unwrap_or(after.len());
        // A password may itself contain an `@`, so the last one ends the login.
        rest = match after[..end].rfind('@') {
            Some(login) => {
                result.push_str(REPLACEMENT);
                &after[login..]
            }
            None => after,
        };
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = "hunter2/+ \"7f3a91c0de";

    #[test]
    fn a_known_key_is_removed_in_every_form() {
        let redactor = Redactor::of(&[KEY.to_owned()]);
        for before in ["", "a", "ab", "abc", "user:"] {
            for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
                let encoded = engine.encode(format!("{before}{KEY}!"));
                let left = redactor.text(&format!("x {encoded} y"));
                assert!(
                    left.contains(REPLACEMENT) && left.starts_with("x ") && left.ends_with(" y"),
                    "{left}"
                );
            }
        }
        for form in forms_of(KEY) {
            assert!(!redactor.text(&format!("<{form}>")).contains(&form), "{form}");
        }
    }

    #[test]
    fn likely_keys_are_removed_and_ids_kept() {
        let redactor = Redactor::of(&[]);
        for (text, left) in [
            ("Incorrect API key provided: sk-proj-4f9aQz81LmXw22", "Incorrect API key provided: [removed]"),
            ("flock-sbx-sk-live-0123456789ab-1a2b3c4d is up", "flock-sbx-[removed] is up"),
            ("Authorization: Bearer abc123def", "Authorization: Bearer [removed]"),
            ("x-api-key=abcdef123", "x-api-key=[removed]"),
            ("https://ann:pw1@proxy.example:8080/x", "https://[removed]@proxy.example:8080/x"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.x", "jwt [removed]"),
            ("Zm9vYmFyMTIzNDU2Nzg5MEFCQ0RFRg==", "[removed]"),
        ] {
            assert_eq!(redactor.text(text), left);
        }
        for text in [
            "commit 48a7a58f0c1e9b2d3a4f5b6c7d8e9f0a1b2c3d4e",
            "turn 018f3c1e-7b2a-7c3d-9e4f-0123456789ab",
            "2026-11-23T08:15:00.123456Z  INFO flock::gateway::serve: it listens port=3779",
            "the token is missing; tokens=18844",
            "agents.list[0].model.primary is \"anthropic/claude-opus-4-5-20260101\"",
            "\"apiKey\": \"secret:openai\"",
            "task-queue-of-coder-1234567890",
        ] {
            assert_eq!(redactor.text(text), text);
        }
    }

    #[test]
    fn settings_that_hold_keys_are_blank_and_others_stay() {
        let mut document = json!({
            "gateway": {"auth": {"token": "tok"}, "port": 3779},
            "models": {"providers": {"x": {"apiKey": "k", "headers": {"x-team": "blue"}}, "y": {"apiKey": "env:Y"}}},
            "sandbox": {"docker": {"env": {"PATH": "/bin", "MY": 1}, "memory": "2g"}},
            "budgets": {"day": {"tokens": 5}, "maxTokens": "10"},
        });
        settings(&mut document);
        assert_eq!(
            document,
            json!({
                "gateway": {"auth": {"token": REPLACEMENT}, "port": 3779},
                "models": {"providers": {"x": {"apiKey": REPLACEMENT, "headers": {"x-team": REPLACEMENT}}, "y": {"apiKey": "env:Y"}}},
                "sandbox": {"docker": {"env": {"PATH": REPLACEMENT, "MY": REPLACEMENT}, "memory": "2g"}},
                "budgets": {"day": {"tokens": 5}, "maxTokens": "10"},
            })
        );
    }

    #[test]
    fn texts_of_agents_are_blanked() {
        let mut status =
            json!({"agents": [{"asleep": {"since": 1, "reason": "tired"}}], "team": {"topic": "x"}});
        words(&mut status);
        assert_eq!(
            status,
            json!({"agents": [{"asleep": {"since": 1, "reason": REPLACEMENT}}], "team": {"topic": REPLACEMENT}})
        );
    }
}

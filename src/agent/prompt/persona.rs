//! A persona in AIEOS form: a document from elsewhere that describes an agent. A JSON document is converted to lines,
//! in the order of its descriptive parts; Markdown is used as it is.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::files::{MAX_CHARS, cut};
use crate::clean;
use crate::config::Agent;
use crate::home::Home;
use crate::home::beneath::{Root, real};

/// The largest document that is read, in bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// The parts of a document that are used, in this order. The others are for machines: the origin, addresses and
/// payment.
const SECTIONS: [(&str, &str); 8] = [
    ("identity", "Identity"),
    ("psychology", "Psychology"),
    ("linguistics", "Linguistics"),
    ("motivations", "Motivations"),
    ("capabilities", "Capabilities"),
    ("physicality", "Physicality"),
    ("history", "History"),
    ("interests", "Interests"),
];

/// Keys of the identity part that some documents have at the top level.
const IDENTITY_KEYS: [&str; 4] = ["names", "bio", "origin", "residence"];

/// Settings of other programs, for voices and pictures, which are ignored.
const IGNORED_KEYS: [&str; 2] = ["tts_config", "image_prompts"];

/// The deepest level of a document that is read.
const MAX_DEPTH: usize = 6;

/// A persona as a prompt shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persona {
    /// The file's name.
    pub name: String,
    /// `true` if the agent could have written the file.
    pub by_agents: bool,
    /// The persona's text, or the reason why it is left out.
    pub text: String,
}

/// Reads the persona that the configuration names, if there is one. If it can't be used, its text gives the reason.
#[must_use]
pub(super) fn read(home: &Home, agent: &Agent) -> Option<Persona> {
    let path = agent.persona.as_deref()?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    // The folder is opened first and the file below it, so that no link can lead elsewhere.
    let PersonaLocation { folder, file, by_agents } = locate(home.root(), agent, path);
    let text = match Root::open(&folder).and_then(|root| root.read(&file, MAX_BYTES)) {
        Ok(bytes) => document_text(&String::from_utf8_lossy(&bytes)),
        Err(error) => Err(format!("it can't be read: {error}")),
    };
    let text = text.unwrap_or_else(|reason| format!("[the persona is left out: {reason}]"));
    Some(Persona { name, by_agents, text })
}

/// The location of a persona's file.
struct PersonaLocation {
    /// The folder that the file is opened from. Below it, no part of the path can be a link.
    folder: PathBuf,
    file: PathBuf,
    by_agents: bool,
}

/// Finds the location of a persona and decides if the owner wrote it.
///
/// The owner's files are those in the agent's identity folder, and those outside of everything that agents can write:
/// the home with its workspaces and vaults, and a workspace elsewhere. A path counts as the place to which its links
/// lead.
fn locate(home: &Path, agent: &Agent, path: &Path) -> PersonaLocation {
    if path.is_relative() {
        return PersonaLocation { folder: agent.identity.clone(), file: path.to_owned(), by_agents: false };
    }
    let parent = path.parent().map_or_else(|| path.to_owned(), real);
    let file = path.file_name().map_or_else(|| path.to_owned(), PathBuf::from);
    // The literal path is tried first: a link below one of these folders leads out of it and is not followed.
    for (path, is_real) in [(path.to_owned(), false), (parent.join(&file), true)] {
        for (folder, by_agents) in [(&*agent.identity, false), (&*agent.workspace, true), (home, true)] {
            // Both sides have to be resolved in the second round, because a home may be reached through a link.
            let folder = if is_real { real(folder) } else { folder.to_owned() };
            if let Ok(inside) = path.strip_prefix(&folder) {
                return PersonaLocation { file: inside.to_owned(), folder, by_agents };
            }
        }
    }
    PersonaLocation { folder: parent, file, by_agents: false }
}

/// Returns the text of a document, or the reason why it can't be used.
fn document_text(text: &str) -> Result<String, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    // A text that does not begin like JSON is taken for Markdown.
    if !text.starts_with(['{', '[']) {
        return Ok(cut(text, "the persona is longer,"));
    }
    let document: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON ({error})"))?;
    let Value::Object(document) = document else { return Err("it must be one JSON object".to_owned()) };
    let mut parts = Vec::new();
    for (key, title) in SECTIONS {
        let mut part = document.get(key).cloned().unwrap_or(Value::Null);
        if key == "identity" {
            copy_identity_keys(&mut part, &document);
        }
        let mut lines = Vec::new();
        append_value(&part, &mut Vec::new(), &mut lines);
        if !lines.is_empty() {
            parts.push(format!("**{title}**\n{}", lines.join("\n")));
        }
    }
    if parts.is_empty() {
        let names: Vec<&str> = SECTIONS.iter().map(|(key, _)| *key).collect();
        return Err(format!("it has none of the parts of an AIEOS document: {}", names.join(", ")));
    }
    Ok(cut(&parts.join("\n\n"), "the persona is longer,"))
}

/// Copies the identity's keys from the document's top level into the identity.
fn copy_identity_keys(identity: &mut Value, document: &Map<String, Value>) {
    if identity.is_null() {
        *identity = Value::Object(Map::new());
    }
    let Some(identity) = identity.as_object_mut() else { return };
    for key in IDENTITY_KEYS {
        if let Some(value) = document.get(key).filter(|_| !identity.contains_key(key)) {
            identity.insert(key.to_owned(), value.clone());
        }
    }
}

/// Adds a line for each value, or one for all plain values of an object, with the path of keys that leads to it.
fn append_value(value: &Value, path: &mut Vec<String>, lines: &mut Vec<String>) {
    if path.len() > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(entries) => {
            let known = || {
                // Keys with an `@` are for JSON-LD and describe the format, not the agent.
                entries
                    .iter()
                    .filter(|(key, _)| !key.starts_with('@') && !IGNORED_KEYS.contains(&key.as_str()))
            };
            let plain: Vec<String> = known()
                .filter_map(|(key, value)| Some(format!("{} {}", key_label(key), scalar(value)?)))
                .collect();
            line(path, &plain.join("; "), lines);
            for (key, value) in known().filter(|(_, value)| scalar(value).is_none()) {
                path.push(key_label(key));
                append_value(value, path, lines);
                path.pop();
            }
        }
        Value::Array(items) => {
            let plain: Vec<String> = items.iter().filter_map(scalar).collect();
            line(path, &plain.join(", "), lines);
            // Nested values follow after the plain ones, so that each line stays readable.
            items
                .iter()
                .filter(|item| scalar(item).is_none())
                .for_each(|item| append_value(item, path, lines));
        }
        _ => line(path, &scalar(value).unwrap_or_default(), lines),
    }
}

fn line(path: &[String], text: &str, lines: &mut Vec<String>) {
    if text.is_empty() {
        return;
    }
    lines.push(if path.is_empty() { format!("- {text}") } else { format!("- {}: {text}", path.join(", ")) });
}

/// Returns a value that fits on a line, or `None` for null and for a value that contains others.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(clean::label(text, MAX_CHARS)),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) => Some("no".to_owned()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn key_label(key: &str) -> String {
    clean::label(key, 60).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_converted_in_section_order() {
        let document = json!({
            "@context": {"aieos": "https://aieos.org/schema/v1#"},
            "metadata": {"instance_id": "x", "signature": "not for a model"},
            "motivations": {"core_drive": "to help", "goals": {"short_term": ["learn", "rest"]}},
            "psychology": {
                "@type": "aieos:EntityPsychology",
                "neural_matrix": {"creativity": 0.5, "logic": 0.9},
                "traits": {"ocean": {"openness": 0.8}, "mbti": "INTJ"},
            },
            "linguistics": {"voice": {"tts_config": {"provider": "x"}}, "text_style": {"slang_usage": false}},
            "identity": {"names": {"first": "Nova", "last": null}, "bio": "line\none"},
            "capabilities": {"skills": [{"name": "plan", "priority": 1}]},
        });
        assert_eq!(
            document_text(&document.to_string()).unwrap(),
            "**Identity**\n- bio line one\n- names: first Nova\n\n\
             **Psychology**\n- neural matrix: creativity 0.5; logic 0.9\n- traits: mbti INTJ\n- traits, ocean: openness 0.8\n\n\
             **Linguistics**\n- text style: slang usage no\n\n\
             **Motivations**\n- core drive to help\n- goals, short term: learn, rest\n\n\
             **Capabilities**\n- skills: name plan; priority 1"
        );
        let flat = json!({"names": {"display": "Nova"}, "bio": "calm"});
        assert_eq!(
            document_text(&flat.to_string()).unwrap(),
            "**Identity**\n- bio calm\n- names: display Nova"
        );
        assert_eq!(document_text("# Nova\n\nCalm.").unwrap(), "# Nova\n\nCalm.");
    }

    #[test]
    fn an_unusable_document_gives_the_reason() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        for (text, why) in [
            ("", "empty"),
            ("{\"identity\": ", "not JSON"),
            ("[1]", "one JSON object"),
            ("{\"metadata\": {}}", "none of the parts"),
            ("{\"identity\": null, \"psychology\": 0}x", "not JSON"),
            (&deep, "not JSON"),
        ] {
            let reason = document_text(text).unwrap_err();
            assert!(reason.contains(why) && reason.len() < 300, "{reason}");
        }
        let nested = (0..50).fold(json!("end"), |inner, _| json!({"a": inner}));
        assert!(
            document_text(&json!({"identity": {"x": "y", "nested": nested}}).to_string())
                .unwrap()
                .contains("x y")
        );
        let long = document_text(&json!({"identity": {"bio": "é".repeat(90_000)}}).to_string()).unwrap();
        assert!(
            long.contains("[cut: the persona") && long.chars().count() < MAX_CHARS + 200,
            "{}",
            long.len()
        );
    }
}

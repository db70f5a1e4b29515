//! Parses the front matter of a Markdown file: the few forms of YAML that skills use. Other forms are ignored.

use serde::Serialize;

use crate::clean;

/// The most tools of one file, and the most characters of a name.
const MAX_TOOLS: usize = 20;
const MAX_NAME_CHARS: usize = 64;
/// The most arguments of a skill, and the most characters of what is said about one.
const MAX_ARGUMENTS: usize = 16;
const MAX_HINT_CHARS: usize = 300;

/// An argument that a skill takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SkillArgument {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) required: bool,
}

/// The front matter of a file, and the text after it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontMatter<'t> {
    /// The name that the file itself gives, which need not be a valid one.
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    /// Tools as name and kind. The kind may be empty.
    pub(crate) tools: Vec<(String, String)>,
    /// The declared arguments, in the order of their positions.
    pub(crate) arguments: Vec<SkillArgument>,
    /// The form of the arguments, for people.
    pub(crate) argument_hint: Option<String>,
    pub(crate) body: &'t str,
}

impl<'t> FrontMatter<'t> {
    /// Splits a file. Without front matter, all of it is the body.
    pub(crate) fn parse(text: &'t str) -> Self {
        // Some editors put a byte order mark at the beginning of a file.
        let text = text.trim_start_matches('\u{feff}');
        let Some((matter, body)) = split(text) else { return Self { body: text, ..Self::default() } };
        let mut front = Self { body, ..Self::default() };
        let mut lines = matter.lines().peekable();
        while let Some(line) = lines.next() {
            // Lines that are indented or begin with a dash belong to the key above them.
            let Some((key, value)) =
                line.split_once(':').filter(|_| !line.starts_with([' ', '\t', '-', '#']))
            else {
                continue;
            };
            let mut below = Vec::new();
            while let Some(next) =
                lines.next_if(|next| next.trim().is_empty() || next.starts_with([' ', '\t', '-']))
            {
                below.push(next.trim());
            }
            match key.trim() {
                "name" => front.name = Some(scalar_text(value, &below)).filter(|text| !text.is_empty()),
                "description" => {
                    front.description = Some(scalar_text(value, &below)).filter(|text| !text.is_empty());
                }
                "tools" | "allowed-tools" => front.tools = tools(value, &below),
                "arguments" => front.arguments = arguments(value, &below),
                "argument-hint" => front.argument_hint = hint(&scalar_text(value, &below)),
                _ => {}
            }
        }
        front
    }
}

fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n')?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// Returns a text that is on the key's line or on the lines below it.
fn scalar_text(value: &str, below: &[&str]) -> String {
    let value = value.trim();
    // `>` and `|` announce a text on the lines below. Both forms are joined with blanks.
    let first = if value.starts_with(['>', '|']) { "" } else { value };
    let lines = std::iter::once(first).chain(below.iter().copied()).filter(|line| !line.is_empty());
    unquoted(&lines.collect::<Vec<_>>().join(" ")).to_owned()
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |mark| text.strip_prefix(mark)?.strip_suffix(mark);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

/// Returns the tools in one of three forms: `[a, b]` or `a, b` on the key's line, a list of names below it, or a list
/// of objects with `name:` and `kind:`.
fn tools(value: &str, below: &[&str]) -> Vec<(String, String)> {
    let value = value.trim().trim_start_matches('[').trim_end_matches(']');
    let mut found: Vec<(String, String)> = Vec::new();
    for name in value.split(',') {
        found.push((tool_name(name), String::new()));
    }
    for line in below {
        let (item, begins) = line.strip_prefix('-').map_or((*line, false), |item| (item.trim(), true));
        match item.split_once(':') {
            Some((key, value)) => {
                if begins || found.is_empty() {
                    found.push(Default::default());
                }
                let Some(last) = found.last_mut() else { continue };
                match key.trim() {
                    "name" => last.0 = tool_name(value),
                    "kind" | "type" => last.1 = tool_name(value),
                    _ => {}
                }
            }
            None if begins => found.push((tool_name(item), String::new())),
            None => {}
        }
    }
    // A key without a value leaves an empty name.
    found.retain(|(name, _)| !name.is_empty());
    found.truncate(MAX_TOOLS);
    found
}

fn tool_name(text: &str) -> String {
    clean::label(unquoted(text), MAX_NAME_CHARS)
}

/// Returns the arguments in one of these forms: names on the key's line, separated by blanks or commas, with brackets or
/// without; a list of names below it; or a list of objects with `name:`, `description:` and `required:`.
fn arguments(value: &str, below: &[&str]) -> Vec<SkillArgument> {
    let mut found: Vec<SkillArgument> = Vec::new();
    if value.trim().is_empty() {
        listed_arguments(below, &mut found);
    } else {
        let text = scalar_text(value, below);
        let names = text.trim_start_matches('[').trim_end_matches(']');
        found.extend(names.split([' ', '\t', ',']).map(argument));
    }
    // Only the first of two arguments with one name could be meant by it.
    let mut known = std::collections::BTreeSet::new();
    found.retain(|argument| is_argument_name(&argument.name) && known.insert(argument.name.clone()));
    found.truncate(MAX_ARGUMENTS);
    found
}

/// Reads the arguments on the lines below the key.
fn listed_arguments(below: &[&str], found: &mut Vec<SkillArgument>) {
    for line in below {
        let (item, begins) = line.strip_prefix('-').map_or((*line, false), |item| (item.trim(), true));
        match item.split_once(':') {
            Some((key, value)) => {
                if begins {
                    found.push(argument(""));
                }
                let Some(last) = found.last_mut() else { continue };
                match key.trim() {
                    "name" => last.name = unquoted(value).to_owned(),
                    "description" => last.description = hint(unquoted(value)),
                    "required" => last.required = !unquoted(value).eq_ignore_ascii_case("false"),
                    _ => {}
                }
            }
            None if begins => found.push(argument(item)),
            None => {}
        }
    }
}

fn argument(name: &str) -> SkillArgument {
    SkillArgument { name: unquoted(name).to_owned(), description: None, required: true }
}

/// Returns `true` for a name that a placeholder can have. A number and `ARGUMENTS` stand for something else there.
fn is_argument_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    !name.is_empty()
        && name.chars().count() <= MAX_NAME_CHARS
        && name.chars().all(is_plain)
        && !name.bytes().all(|byte| byte.is_ascii_digit())
        && name != "ARGUMENTS"
}

fn hint(text: &str) -> Option<String> {
    Some(clean::label(text, MAX_HINT_CHARS)).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_and_tools_are_read_in_every_supported_form() {
        let tool = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
        for (matter, description, tools) in [
            ("name: deploy\ndescription: Release safely", Some("Release safely"), vec![]),
            ("description: \"quoted: yes\"\nlicense: MIT", Some("quoted: yes"), vec![]),
            ("description: >-\n  on two\n  lines\nname: x", Some("on two lines"), vec![]),
            ("description:\ntools: [read, 'exec']", None, vec![tool("read", ""), tool("exec", "")]),
            ("allowed-tools: Bash, Read", None, vec![tool("Bash", ""), tool("Read", "")]),
            ("tools:\n- read\n- write", None, vec![tool("read", ""), tool("write", "")]),
            (
                "tools:\n  - name: checklist\n    kind: shell\n    command: rm -rf /\n  - kind: http\n    name: ping",
                None,
                vec![tool("checklist", "shell"), tool("ping", "http")],
            ),
            ("# description: no\n  description: deeper\n- description: item", None, vec![]),
        ] {
            let text = format!("---\n{matter}\n---\n# Body\n");
            let front = FrontMatter::parse(&text);
            assert_eq!(
                (front.description.as_deref(), front.tools, front.body),
                (description, tools, "# Body\n"),
                "{matter}"
            );
        }
    }

    #[test]
    fn arguments_are_read_in_every_supported_form() {
        let argument = |name: &str, description: Option<&str>, required| SkillArgument {
            name: name.to_owned(),
            description: description.map(str::to_owned),
            required,
        };
        let (issue, branch) = (argument("issue", None, true), argument("branch", None, true));
        for matter in [
            "arguments: [issue, branch]",
            "arguments: ['issue', \"branch\"]",
            "arguments: issue branch",
            "arguments: \"issue  branch\"",
            "arguments: issue, branch",
            "arguments:\n- issue\n- branch",
            "arguments:\n  - issue\n  - 'branch'",
            "arguments: >\n  issue\n  branch",
            "arguments: [issue,\n  branch]",
            "arguments: issue 1 branch ARGUMENTS issue a$b",
        ] {
            let text = format!("---\n{matter}\n---\n# Body\n");
            assert_eq!(FrontMatter::parse(&text).arguments, [issue.clone(), branch.clone()], "{matter}");
        }
        let objects = "---\narguments:\n  - name: issue\n    description: The number: of it\n  - required: false\n    name: branch\n  - last\nargument-hint: [issue] [branch]\n---\n";
        let front = FrontMatter::parse(objects);
        let issue = argument("issue", Some("The number: of it"), true);
        assert_eq!(front.arguments, [issue, argument("branch", None, false), argument("last", None, true)]);
        assert_eq!(front.argument_hint.as_deref(), Some("[issue] [branch]"));
        for nothing in ["arguments:", "arguments: []", "arguments:\n- \n- $\n- name:", "argument-hint: ''"] {
            let text = format!("---\n{nothing}\n---\n");
            let front = FrontMatter::parse(&text);
            assert_eq!((front.arguments, front.argument_hint), (vec![], None), "{nothing}");
        }
        let many: String = (0..100).map(|n| format!("a{n} ")).collect();
        let many = format!("---\narguments: {many}\n---\n");
        assert_eq!(FrontMatter::parse(&many).arguments.len(), MAX_ARGUMENTS);
    }

    #[test]
    fn text_without_front_matter_is_all_body() {
        for text in ["# Title\n---\nname: x\n---\n", "", "---", "---\nname: x\n", "--- a\n---\n"] {
            assert_eq!(
                FrontMatter::parse(text),
                FrontMatter { body: text, ..FrontMatter::default() },
                "{text:?}"
            );
        }
        let many = format!("---\ntools: [{}]\n---\n", "a,".repeat(1000));
        assert_eq!(FrontMatter::parse(&many).tools.len(), MAX_TOOLS);
    }
}

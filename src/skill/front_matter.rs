//! Parses the front matter of a Markdown file: the few forms of YAML that skills use. Other forms are ignored.

/// The most tools of one file, and the most characters of a name.
const MAX_TOOLS: usize = 20;
const MAX_NAME_CHARS: usize = 64;

/// The front matter of a file, and the text after it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontMatter<'t> {
    /// The name that the file itself gives, which need not be a valid one.
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    /// Tools as name and kind. The kind may be empty.
    pub(crate) tools: Vec<(String, String)>,
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
    crate::clean::label(unquoted(text), MAX_NAME_CHARS)
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

//! Files that agents show: a link in a post that leads to a file of the author's workspace is sent with the post.

use std::fmt::Write as _;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::message::OutgoingFile;
use crate::config::Agent;
use crate::sandbox::workspace_files::Workspaces;
use crate::swarm::message_file::local_links;

/// Largest number of files of one post.
const MAX_FILES: usize = 5;
/// Largest size of a file that is sent, in bytes, below the platform's own limit.
const MAX_FILE: usize = 8 << 20;

/// Returns the files of the workspace that a post links, as they are now. Those that can't be read, or are larger than
/// `most` bytes, are left out: the link stays in the text.
pub(super) fn linked_files(
    ways: &Workspaces,
    agent: &Agent,
    markdown: &str,
    most: usize,
) -> Vec<OutgoingFile> {
    let links = local_links(markdown);
    if links.is_empty() {
        return Vec::new();
    }
    let Ok(root) = ways.open(&agent.id, &agent.workspace) else { return Vec::new() };
    let cap = most.min(MAX_FILE) as u64;
    let read = links.into_iter().take(MAX_FILES).filter_map(|path| {
        let content = root.read(&path, cap).ok()?;
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(OutgoingFile { name, content })
    });
    read.collect()
}

/// Takes blocks of code that would fill several messages out of a text. Returns the text, which names them instead, and
/// the files. `fits` tells if a text is within one message.
pub(super) fn long_code(markdown: &str, fits: impl Fn(&str) -> bool) -> (String, Vec<OutgoingFile>) {
    let mut files = Vec::new();
    let mut text = String::new();
    let mut copied = 0;
    let mut block: Option<(std::ops::Range<usize>, String)> = None;
    let mut code = String::new();
    for (event, range) in Parser::new_ext(markdown, Options::empty()).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                block = Some((range, info.to_string()));
                code.clear();
            }
            Event::Text(piece) if block.is_some() => code.push_str(&piece),
            Event::End(TagEnd::CodeBlock) => {
                let Some((place, info)) = block.take() else { continue };
                let third = code.floor_char_boundary(code.len() / 3);
                if files.len() >= MAX_FILES || fits(&code[..third]) {
                    continue;
                }
                let name = format!("code-{}.{}", files.len() + 1, extension(&info));
                text.push_str(&markdown[copied..place.start]);
                let _ = writeln!(text, "({} lines in {name})", code.lines().count());
                copied = place.end;
                files.push(OutgoingFile { name, content: std::mem::take(&mut code).into_bytes() });
            }
            _ => {}
        }
    }
    text.push_str(&markdown[copied..]);
    (text, files)
}

/// Returns the end of a file's name for a language: a known one, or the language itself if it is short and plain.
fn extension(info: &str) -> String {
    let language = info.split([' ', ',', '{']).next().unwrap_or_default().to_ascii_lowercase();
    let known = match language.as_str() {
        "python" => "py",
        "rust" => "rs",
        "javascript" => "js",
        "typescript" => "ts",
        "shell" | "bash" | "console" => "sh",
        "markdown" => "md",
        "yaml" => "yml",
        plain if (1..=5).contains(&plain.len()) && plain.chars().all(|c| c.is_ascii_alphanumeric()) => plain,
        _ => "txt",
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_code_becomes_a_file_and_short_code_stays() {
        let long = "x = 1\n".repeat(100);
        let text = format!("before\n\n```python\n{long}```\n\n```sh\nls\n```\nafter");
        let (text, files) = long_code(&text, |text| text.len() <= 100);
        assert_eq!(text, "before\n\n(100 lines in code-1.py)\n\n\n```sh\nls\n```\nafter");
        assert_eq!(files, [OutgoingFile { name: "code-1.py".to_owned(), content: long.into_bytes() }]);
        assert_eq!(long_code("```\na\n```", |_| true), ("```\na\n```".to_owned(), Vec::new()));
    }

    #[test]
    fn a_language_becomes_the_end_of_a_name() {
        for (info, end) in [("rust,ignore", "rs"), ("", "txt"), ("c", "c"), ("../x", "txt"), ("Python", "py")]
        {
            assert_eq!(extension(info), end, "{info:?}");
        }
    }
}

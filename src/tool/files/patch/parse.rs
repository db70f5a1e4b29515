//! Parses a patch.
//!
//! It accepts sloppy but clear input: spaces around markers, a missing first `@@`, an empty line as an empty context
//! line. Everything else is an error, and every error names the line.

use super::{FileOperation, Hunk, HunkLine};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const UPDATE: &str = "*** Update File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

struct PatchLines<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> PatchLines<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    /// Returns an error about the line that was read last.
    fn error(&self, message: &str) -> String {
        format!("line {}: {message}", self.at)
    }
}

/// Parses the operations of a patch in their order. There is at least one.
pub(in crate::tool::files) fn parse(text: &str) -> Result<Vec<FileOperation>, String> {
    let mut lines = PatchLines { lines: patch_lines(text)?, at: 0 };
    let mut operations = Vec::new();
    while let Some(line) = lines.next() {
        let line = line.trim();
        // Some models write an environment id, which has no meaning here.
        if line == BEGIN || line.is_empty() || line.starts_with("*** Environment ID:") {
            continue;
        }
        // Text after the end marker is ignored.
        if line == END {
            break;
        }
        if let Some(path) = line.strip_prefix(ADD) {
            operations.push(FileOperation::Add { path: name(&lines, path)?, content: content(&mut lines)? });
        } else if let Some(path) = line.strip_prefix(DELETE) {
            operations.push(FileOperation::Delete { path: name(&lines, path)? });
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            let path = name(&lines, path)?;
            operations.push(parse_update(&mut lines, path)?);
        } else {
            return Err(lines.error(
                "expected `*** Add File: …`, `*** Update File: …`, `*** Delete File: …` or `*** End Patch`",
            ));
        }
    }
    if operations.is_empty() {
        return Err("the patch changes no file".to_owned());
    }
    Ok(operations)
}

/// Returns the lines from the begin marker on. A here-document or a code fence around the patch is dropped.
fn patch_lines(text: &str) -> Result<Vec<&str>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|line| !line.trim().is_empty()).unwrap_or(0);
    let first = lines.get(begin).map_or("", |line| line.trim());
    let wrapped = first.starts_with("<<") || first.starts_with("```") || first.starts_with("apply_patch");
    let begin = if wrapped { begin + 1 } else { begin };
    if lines.get(begin).is_none_or(|line| line.trim() != BEGIN) {
        return Err(format!("the patch must begin with `{BEGIN}`"));
    }
    // A patch without its end was probably cut off. It must not be applied in part.
    if !lines.iter().any(|line| line.trim_end() == END) {
        return Err(format!("the patch must end with `{END}`; perhaps it was cut off"));
    }
    // The lines before the patch are blanked, not removed, so that line numbers still match the text.
    Ok(lines.into_iter().enumerate().map(|(at, line)| if at < begin { "" } else { line }).collect())
}

fn name(lines: &PatchLines<'_>, path: &str) -> Result<String, String> {
    let path = path.trim();
    if path.is_empty() {
        return Err(lines.error("the file's name is missing"));
    }
    Ok(path.to_owned())
}

/// Returns `true` if a line begins a new section. Content lines always begin with `+`, `-` or a space, so a line that
/// begins with the stars is never content.
fn is_marker(line: &str) -> bool {
    line.starts_with("*** ") && line.trim_end() != END_OF_FILE
}

fn content(lines: &mut PatchLines<'_>) -> Result<String, String> {
    let mut text = String::new();
    while let Some(line) = lines.peek() {
        if is_marker(line) {
            break;
        }
        lines.at += 1;
        match line.strip_prefix('+') {
            Some(rest) => text.push_str(rest),
            // An empty line that lost its `+`.
            None if line.trim().is_empty() => {}
            None => return Err(lines.error("each line of a new file begins with `+`")),
        }
        text.push('\n');
    }
    Ok(text)
}

fn parse_update(lines: &mut PatchLines<'_>, path: String) -> Result<FileOperation, String> {
    let mut to = None;
    if let Some(target) = lines.peek().and_then(|line| line.trim().strip_prefix(MOVE)) {
        lines.at += 1;
        to = Some(name(lines, target)?);
    }
    let mut hunks = Vec::new();
    while lines.peek().is_some_and(|line| !is_marker(line)) {
        // An empty line between two hunks has no meaning.
        if !hunks.is_empty() && lines.peek().is_some_and(|line| line.trim().is_empty()) {
            lines.at += 1;
            continue;
        }
        hunks.push(hunk(lines)?);
    }
    // A file can be moved without a change.
    if hunks.is_empty() && to.is_none() {
        return Err(lines.error("the file to update has no hunk"));
    }
    Ok(FileOperation::Update { path, to, hunks })
}

fn hunk(lines: &mut PatchLines<'_>) -> Result<Hunk, String> {
    let mut hunk = Hunk::default();
    // Several headers in a row narrow the place down.
    while let Some(header) = lines.peek().and_then(header) {
        lines.at += 1;
        if !header.is_empty() {
            hunk.headers.push(header.to_owned());
        }
    }
    while let Some(line) = lines.peek() {
        if line.trim_end() == END_OF_FILE {
            lines.at += 1;
            hunk.at_end = true;
            break;
        }
        if is_marker(line) || header(line).is_some() {
            break;
        }
        lines.at += 1;
        let mut chars = line.chars();
        hunk.lines.push(match chars.next() {
            Some('+') => HunkLine::Added(chars.as_str().to_owned()),
            Some('-') => HunkLine::Removed(chars.as_str().to_owned()),
            Some(' ') => HunkLine::Context(chars.as_str().to_owned()),
            None => HunkLine::Context(String::new()),
            Some(_) => {
                return Err(lines.error(
                    "each line of a hunk begins with `+`, `-` or a space; a new hunk begins with `@@`",
                ));
            }
        });
    }
    // Empty lines before the next marker are the model's layout, not part of the file.
    let mut back = lines.at;
    while !hunk.at_end
        && hunk.lines.len() > 1
        && lines.lines.get(back - 1).is_some_and(|line| line.is_empty())
    {
        hunk.lines.pop();
        back -= 1;
    }
    if hunk.lines.is_empty() {
        return Err(lines.error("the hunk has no lines"));
    }
    if !hunk.lines.iter().any(|line| !matches!(line, HunkLine::Context(_))) {
        return Err(lines.error("the hunk changes nothing"));
    }
    Ok(hunk)
}

/// Returns the text after `@@`. The line numbers of a unified diff are skipped, because models get them wrong.
fn header(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("@@")?;
    let rest = match rest.trim_start().strip_prefix('-') {
        Some(numbers) if numbers.contains("@@") => numbers.split_once("@@").map_or("", |(_, after)| after),
        _ => rest,
    };
    let rest = rest.strip_prefix(' ').unwrap_or(rest).trim_end();
    Some(rest.strip_suffix("@@").unwrap_or(rest).trim_end())
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;

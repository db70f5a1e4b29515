//! The files that can be found: an agent's memory and findings, and vaults. Agents write them, so all are opened below
//! their folder and read within limits.

use std::ops::Range;
use std::path::Path;

use crate::agent::compaction::findings;
use crate::home::beneath::{BeneathError, DirEntry, FileKind};
use crate::home::walk::WalkLimits;
use crate::id::FolderName;
use crate::store::{NewEntry, SourceKind};
use crate::swarm::vault::{MAX_ENTRIES, Vaults};
use crate::tool::safe_text;

use super::corpus::AgentFiles;
use super::words;

/// The most bytes of a file that are searched. What comes after them is not found.
const MAX_FILE: usize = 1024 * 1024;
/// The limits of a walk through an agent's own files.
const OWN_LIMITS: WalkLimits = WalkLimits { depth: 8, entries: 5_000 };
/// The most lines and bytes of a part of a file.
const MAX_LINES: usize = 40;
const MAX_PART: usize = 2_000;
/// The file and the folder of an agent's memory.
pub(super) const MEMORY_FILE: &str = "MEMORY.md";
pub(super) const MEMORY_FOLDER: &str = "memory";

/// A folder with files that can be found.
#[derive(Clone, Copy, Debug)]
pub(super) enum FileStore<'a> {
    /// The memory or the findings in an agent's workspace.
    Workspace(&'a AgentFiles, SourceKind),
    Vault(&'a Vaults, &'a FolderName),
}

impl FileStore<'_> {
    /// Returns the regular files, each with its stamp. A folder that can't be read has none. `None` if it is on another
    /// machine and can't be looked at.
    pub(super) fn list(&self) -> Option<Vec<(String, String)>> {
        let entries = match self {
            Self::Workspace(agent, kind) => own_files(agent, *kind)?,
            Self::Vault(vaults, name) => vaults.entries(name, usize::MAX, MAX_ENTRIES).unwrap_or_default().0,
        };
        let files = entries.iter().filter(|entry| entry.kind == FileKind::File);
        // A name that is no text can't be shown or asked for, so its file is not found.
        Some(files.filter_map(|file| Some((file.path.to_str()?.to_owned(), stamp(file)))).collect())
    }

    /// Returns the text of a file, or `None` if it is gone or is no text.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        self.read(path).map(|(text, _)| text)
    }

    /// Returns the text of a file as [`FileStore::text`] does, and whether it is all of it.
    pub(super) fn read(&self, path: &str) -> Option<(String, bool)> {
        match self {
            Self::Workspace(agent, _) => {
                let workspace = agent.ways.open(&agent.id, &agent.workspace).ok()?;
                let (bytes, size) = workspace.beginning(Path::new(path), MAX_FILE as u64).ok()?;
                if bytes.contains(&0) {
                    return None;
                }
                Some((String::from_utf8_lossy(&bytes).into_owned(), size <= MAX_FILE as u64))
            }
            Self::Vault(vaults, name) => {
                let (_, text) = vaults.read(name, path).ok()?;
                let start = safe_text::start(&text, MAX_FILE);
                Some((start.to_owned(), start.len() == text.len()))
            }
        }
    }
}

fn own_files(agent: &AgentFiles, kind: SourceKind) -> Option<Vec<DirEntry>> {
    let is_far = |error: &BeneathError| {
        matches!(error, BeneathError::Elsewhere { .. } | BeneathError::Unreachable { .. })
    };
    let workspace = match agent.ways.open(&agent.id, &agent.workspace).map_err(BeneathError::from) {
        Ok(workspace) => workspace,
        Err(error) if is_far(&error) => return None,
        Err(_) => return Some(Vec::new()),
    };
    let below = |folder: &str| match workspace.walk(Path::new(folder), OWN_LIMITS) {
        Err(error) if is_far(&error) => None,
        found => Some(found.unwrap_or_default().entries),
    };
    if kind == SourceKind::Findings {
        return below(findings::FOLDER);
    }
    let mut files = below(MEMORY_FOLDER)?;
    match workspace.stat(Path::new(MEMORY_FILE)) {
        Err(error) if is_far(&error) => return None,
        found => files.extend(found),
    }
    Some(files)
}

fn stamp(file: &DirEntry) -> String {
    format!("{} {} {} {}", file.inode, file.size, file.modified_ms, file.changed_ns)
}

/// Returns the entries of a file: one for each of its parts. Each also has the words of the file's name and of the
/// headings above it, which often say what the part is about.
pub(super) fn entries(path: &str, text: &str) -> Vec<NewEntry> {
    let lines: Vec<&str> = text.lines().collect();
    let mut headings: Vec<(usize, &str)> = Vec::new();
    let mut found = Vec::new();
    for part in parts(&lines) {
        if let Some(level) = heading(lines[part.start]) {
            headings.retain(|(above, _)| *above < level);
            headings.push((level, lines[part.start]));
        }
        let body = lines[part.clone()].join("\n");
        if body.trim().is_empty() {
            continue;
        }
        let above = headings.iter().map(|(_, text)| *text).filter(|text| *text != lines[part.start]);
        let about = above.fold(path.to_owned(), |about, text| about + "\n" + text);
        found.push(NewEntry {
            place: number(part.start + 1),
            length: number(part.len()),
            words: words::indexed(&format!("{about}\n{body}")),
        });
    }
    found
}

/// Returns these lines of a text, counted from 1.
pub(super) fn lines(text: &str, first: i64, count: i64) -> String {
    let (first, count) = (usize::try_from(first).unwrap_or(1), usize::try_from(count).unwrap_or(0));
    text.lines().skip(first.saturating_sub(1)).take(count).collect::<Vec<_>>().join("\n")
}

/// Divides lines into parts. A heading begins a part, and a long part is divided, at a blank line if there is one in
/// its second half.
fn parts(lines: &[&str]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < lines.len() {
        let mut size = 0;
        let mut end = start;
        while end < lines.len() && end - start < MAX_LINES && (size < MAX_PART || end == start) {
            if end > start && heading(lines[end]).is_some() {
                break;
            }
            size += lines[end].len() + 1;
            end += 1;
        }
        let is_cut = end < lines.len() && heading(lines[end]).is_none();
        let half = start + (end - start) / 2;
        let blank = (half.max(start + 1)..end).rev().find(|at| lines[*at].trim().is_empty());
        end = blank.filter(|_| is_cut).map_or(end, |at| at + 1);
        parts.push(start..end);
        start = end;
    }
    parts
}

/// Returns the level of a heading in Markdown; `None` for any other line.
fn heading(line: &str) -> Option<usize> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    ((1..=6).contains(&level) && line[level..].starts_with(' ')).then_some(level)
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_divided_at_headings_and_knows_what_stands_above() {
        let text = "# Tokens\nintro\n\n## Rotate\nrun it\n\n## Revoke\nend it\n# Other\nx\n";
        let found = entries("memory/keys.md", text);
        let places: Vec<_> = found.iter().map(|entry| (entry.place, entry.length)).collect();
        assert_eq!(places, [(1, 3), (4, 3), (7, 2), (9, 2)]);
        assert!(found[2].words.contains("Tokens") && found[2].words.contains("keys"));
        assert!(!found[2].words.contains("Rotate") && !found[3].words.contains("Tokens"));
        assert_eq!(lines(text, 4, 2), "## Rotate\nrun it");
    }

    #[test]
    fn long_parts_are_divided_and_no_line_is_lost() {
        let text: Vec<String> = (0..1000)
            .map(|n| if n % 7 == 0 { String::new() } else { format!("line {n} {}", "x".repeat(n % 200)) })
            .collect();
        let lines: Vec<&str> = text.iter().map(String::as_str).collect();
        let parts = parts(&lines);
        assert_eq!(parts.first().unwrap().start, 0);
        assert_eq!(parts.last().unwrap().end, lines.len());
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(parts.iter().all(|part| !part.is_empty() && part.len() <= MAX_LINES));
        assert!(entries("x", &"y".repeat(100_000)).len() == 1, "a single line is not divided");
    }
}

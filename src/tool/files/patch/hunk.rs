//! Applies the hunks of a patch to a text.

use super::{Hunk, HunkLine};

/// Maximum number of line comparisons for a patch. In a repetitive file, a search may compare every line of the file
/// with every line of the patch.
const MAX_COMPARISONS: usize = 200_000_000;

/// Applies hunks in order, each one after the place of the previous one.
///
/// Lines that stay are kept as they are in the file, even if the patch has other white space in them. The style of line
/// endings is kept too, and so is a missing one at the end.
pub(in crate::tool::files) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    let breaks = text.matches('\n').count();
    // Only a file with CRLF at the end of every line counts as a CRLF file.
    let end = if breaks > 0 && text.matches("\r\n").count() == breaks { "\r\n" } else { "\n" };
    let ends = text.is_empty() || text.ends_with('\n');
    let mut lines: Vec<&str> = text.split(end).collect();
    if ends {
        // The text after the last line ending is empty and no line.
        lines.pop();
    }
    let wanted: usize = hunks.iter().map(|hunk| hunk.lines.len() + hunk.headers.len()).sum();
    // Checked before any search, because the search for a large patch in a large file could take long.
    if lines.len().saturating_mul(wanted) > MAX_COMPARISONS {
        return Err(format!("{wanted} lines of a patch are too many for a file of {}", lines.len()));
    }
    let mut result: Vec<String> = Vec::with_capacity(lines.len() + 16);
    let mut done = 0;
    for (number, hunk) in hunks.iter().enumerate() {
        let place = find(&lines, done, hunk).map_err(|reason| format!("hunk {}: {reason}", number + 1))?;
        result.extend(lines[done..place].iter().map(ToString::to_string));
        done = place;
        for line in &hunk.lines {
            match line {
                // An empty context line at the end of a hunk may stand for the end of the file.
                HunkLine::Context(_) => {
                    result.extend(lines.get(done).map(ToString::to_string));
                    done += 1;
                }
                HunkLine::Removed(_) => done += 1,
                HunkLine::Added(text) => result.push(text.clone()),
            }
        }
        // A final empty context line may have counted past the end.
        done = done.min(lines.len());
    }
    result.extend(lines[done..].iter().map(ToString::to_string));
    let mut changed = result.join(end);
    if ends && !result.is_empty() {
        changed.push_str(end);
    }
    Ok(changed)
}

/// Returns the index of the line where the hunk begins, at `from` or after it.
fn find(lines: &[&str], mut from: usize, hunk: &Hunk) -> Result<usize, String> {
    let start = from;
    let only_adds = hunk.lines.iter().all(|line| matches!(line, HunkLine::Added(_)));
    for header in &hunk.headers {
        match find_header(lines, from, header) {
            Some(at) => from = at + 1,
            // The header of the previous hunk was repeated. The lines of the hunk decide.
            None if !only_adds && find_header(lines, 0, header).is_some() => {}
            None => {
                return Err(format!("there is no line {:?} after the previous hunk", truncate_line(header)));
            }
        }
    }
    let mut old: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            HunkLine::Context(text) | HunkLine::Removed(text) => Some(text.as_str()),
            HunkLine::Added(_) => None,
        })
        .collect();
    if old.is_empty() {
        // The hunk only adds lines. They go after the header, or to the end of the file.
        return Ok(if hunk.headers.is_empty() || hunk.at_end { lines.len() } else { from });
    }
    if hunk.at_end {
        // The end of the file is tried first, but models also write this marker for other places.
        let last = lines.len().saturating_sub(old.len()).max(from);
        if let Some(at) = seek(lines, last, &old) {
            return Ok(at);
        }
    }
    // The header may also be repeated as the first line of the hunk.
    let with_header = from.saturating_sub(1).max(start);
    if let Some(at) = seek(lines, from, &old).or_else(|| seek(lines, with_header, &old)) {
        return Ok(at);
    }
    // A final empty context line may stand for the end of the file, so the lines before it are searched there.
    if matches!(hunk.lines.last(), Some(HunkLine::Context(text)) if text.is_empty()) && old.len() > 1 {
        old.pop();
        let last = lines.len().saturating_sub(old.len());
        if last >= from && seek(lines, last, &old) == Some(last) {
            return Ok(last);
        }
    }
    let shown: Vec<String> = old.iter().take(3).map(|line| truncate_line(line)).collect();
    // The lines exist, but before the previous hunk. The model can fix the order, so the error says so.
    let earlier = if seek(lines, 0, &old).is_some() {
        "; they are before the previous hunk: put hunks in the order of the file"
    } else {
        ""
    };
    Err(format!(
        "these lines are not in the file: {shown:?}{}{earlier}",
        if old.len() > 3 { " …" } else { "" }
    ))
}

/// Returns the index of the line that a header means: an equal line, or one that begins with it.
fn find_header(lines: &[&str], from: usize, header: &str) -> Option<usize> {
    seek(lines, from, &[header]).or_else(|| {
        let at = lines.get(from..)?.iter().position(|line| line.trim_start().starts_with(header.trim()))?;
        Some(from + at)
    })
}

/// Ways to compare a line of the file with a line of the patch, from strict to lax.
const LINE_MATCHERS: [fn(&str, &str) -> bool; 4] = [
    // In a file with mixed line endings, a line may still end with a CR.
    |own, wanted| own.strip_suffix('\r').unwrap_or(own) == wanted.strip_suffix('\r').unwrap_or(wanted),
    |own, wanted| own.trim_end() == wanted.trim_end(),
    |own, wanted| own.trim() == wanted.trim(),
    |own, wanted| normalize_typography(own.trim()).eq(normalize_typography(wanted.trim())),
];

/// Returns the first position of the wanted lines. A strict match anywhere is preferred to a lax match further up.
fn seek(lines: &[&str], from: usize, wanted: &[&str]) -> Option<usize> {
    let window = lines.get(from..)?;
    LINE_MATCHERS.iter().find_map(|same| {
        window
            .windows(wanted.len())
            .position(|found| found.iter().zip(wanted).all(|(own, wanted)| same(own, wanted)))
            .map(|at| from + at)
    })
}

/// Replaces typographic characters by the plain ones that models write for them.
fn normalize_typography(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().map(|c| match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => ' ',
        c => c,
    })
}

fn truncate_line(line: &str) -> String {
    line.chars().take(80).collect()
}

#[cfg(test)]
#[path = "hunk_tests.rs"]
mod tests;

//! What a text is after its hunks, or which of them does not fit.

use super::{Hunk, Line};

/// Comparisons of lines that a patch may take at worst: looking for lines in a file that repeats itself takes
/// as many as both have lines, multiplied.
const MOST_COMPARED: usize = 200_000_000;

/// Applies hunks in order, each after the one before. Lines of the file that stay are kept as they are,
/// even where the patch has other whitespace in them; line ends and a missing last one stay too.
pub(in crate::tool::files) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    let breaks = text.matches('\n').count();
    let end = if breaks > 0 && text.matches("\r\n").count() == breaks { "\r\n" } else { "\n" };
    let ends = text.is_empty() || text.ends_with('\n');
    let mut lines: Vec<&str> = text.split(end).collect();
    if ends {
        lines.pop();
    }
    let wanted: usize = hunks.iter().map(|hunk| hunk.lines.len() + hunk.headers.len()).sum();
    if lines.len().saturating_mul(wanted) > MOST_COMPARED {
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
                // A trailing empty context line may stand for the end of the file.
                Line::Context(_) => {
                    result.extend(lines.get(done).map(ToString::to_string));
                    done += 1;
                }
                Line::Removed(_) => done += 1,
                Line::Added(text) => result.push(text.clone()),
            }
        }
        done = done.min(lines.len());
    }
    result.extend(lines[done..].iter().map(ToString::to_string));
    let mut changed = result.join(end);
    if ends && !result.is_empty() {
        changed.push_str(end);
    }
    Ok(changed)
}

/// The line where the hunk begins, from `from` on.
fn find(lines: &[&str], mut from: usize, hunk: &Hunk) -> Result<usize, String> {
    let start = from;
    let only_adds = hunk.lines.iter().all(|line| matches!(line, Line::Added(_)));
    for header in &hunk.headers {
        match header_from(lines, from, header) {
            Some(at) => from = at + 1,
            // The header of the hunk before, said once more: the lines themselves decide.
            None if !only_adds && header_from(lines, 0, header).is_some() => {}
            None => return Err(format!("there is no line {:?} after the hunk before it", short(header))),
        }
    }
    let mut old: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Context(text) | Line::Removed(text) => Some(text.as_str()),
            Line::Added(_) => None,
        })
        .collect();
    if old.is_empty() {
        // Only additions: after the header, or at the end.
        return Ok(if hunk.headers.is_empty() || hunk.at_end { lines.len() } else { from });
    }
    if hunk.at_end {
        // The end first; models also say it of places that are not the end.
        let last = lines.len().saturating_sub(old.len()).max(from);
        if let Some(at) = seek(lines, last, &old) {
            return Ok(at);
        }
    }
    // The header may be the first line of the hunk, too.
    let with_header = from.saturating_sub(1).max(start);
    if let Some(at) = seek(lines, from, &old).or_else(|| seek(lines, with_header, &old)) {
        return Ok(at);
    }
    if matches!(hunk.lines.last(), Some(Line::Context(text)) if text.is_empty()) && old.len() > 1 {
        old.pop();
        let last = lines.len().saturating_sub(old.len());
        if last >= from && seek(lines, last, &old) == Some(last) {
            return Ok(last);
        }
    }
    let shown: Vec<String> = old.iter().take(3).map(|line| short(line)).collect();
    let earlier = if seek(lines, 0, &old).is_some() {
        "; they are before the place of the hunk before it: put hunks in the order of the file"
    } else {
        ""
    };
    Err(format!(
        "these lines are not in the file: {shown:?}{}{earlier}",
        if old.len() > 3 { " …" } else { "" }
    ))
}

/// The line a header means: equal, or beginning with it.
fn header_from(lines: &[&str], from: usize, header: &str) -> Option<usize> {
    seek(lines, from, &[header]).or_else(|| {
        let at = lines.get(from..)?.iter().position(|line| line.trim_start().starts_with(header.trim()))?;
        Some(from + at)
    })
}

/// Ways to compare a line of the file with one of the patch, from strict to lax.
const WAYS: [fn(&str, &str) -> bool; 4] = [
    |own, wanted| own.strip_suffix('\r').unwrap_or(own) == wanted.strip_suffix('\r').unwrap_or(wanted),
    |own, wanted| own.trim_end() == wanted.trim_end(),
    |own, wanted| own.trim() == wanted.trim(),
    |own, wanted| plain(own.trim()).eq(plain(wanted.trim())),
];

fn seek(lines: &[&str], from: usize, wanted: &[&str]) -> Option<usize> {
    let window = lines.get(from..)?;
    WAYS.iter().find_map(|same| {
        window
            .windows(wanted.len())
            .position(|found| found.iter().zip(wanted).all(|(own, wanted)| same(own, wanted)))
            .map(|at| from + at)
    })
}

/// Typographic characters as the plain ones that models write for them.
fn plain(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().map(|c| match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => ' ',
        c => c,
    })
}

fn short(line: &str) -> String {
    line.chars().take(80).collect()
}

#[cfg(test)]
#[path = "hunk_tests.rs"]
mod tests;

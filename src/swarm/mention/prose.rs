//! Finds the parts of a Markdown text that are not code.

use std::collections::HashMap;
use std::ops::Range;

/// Returns the parts of a text outside of fenced blocks and code spans, in order. A fence that is never closed extends
/// to the end of the text. A single backtick without a partner is an ordinary character.
pub(super) fn prose(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut paragraph = 0..0;
    let mut fence: Option<Fence> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        at = end;
        match &fence {
            Some(open) => {
                if open.is_closed_by(line) {
                    fence = None;
                }
                paragraph = end..end;
            }
            None => {
                fence = Fence::parse_opening(line);
                // A code span can't reach over an empty line, so each paragraph is searched by itself.
                if fence.is_some() || line.trim().is_empty() {
                    push_outside_spans(text, paragraph, &mut found);
                    paragraph = end..end;
                } else {
                    paragraph.end = end;
                }
            }
        }
    }
    push_outside_spans(text, paragraph, &mut found);
    found
}

/// The opening line of a fenced code block.
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    /// Parses a line that begins with a run of fence characters. Leading `>` and spaces belong to quotations and lists
    /// and are skipped.
    fn run(line: &str) -> Option<(Self, &str)> {
        let line = line.trim_start_matches(|c: char| c == '>' || c.is_whitespace());
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = line.trim_start_matches(mark);
        Some((Self { mark, length: line.len() - rest.len() }, rest))
    }

    fn parse_opening(line: &str) -> Option<Self> {
        let (fence, rest) = Self::run(line)?;
        // A line with more backticks after the run is a code span and opens no block.
        (fence.length >= 3 && !(fence.mark == '`' && rest.contains('`'))).then_some(fence)
    }

    fn is_closed_by(&self, line: &str) -> bool {
        Self::run(line).is_some_and(|(fence, rest)| {
            // A shorter run, or one of the other character, is part of the code.
            fence.mark == self.mark && fence.length >= self.length && rest.trim().is_empty()
        })
    }
}

/// Adds the parts of a paragraph outside of code spans. A span ends with the same number of backticks with which it
/// begins.
fn push_outside_spans(text: &str, paragraph: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut add = |part: Range<usize>| {
        if !part.is_empty() {
            found.push(part);
        }
    };
    let runs = runs(&text[paragraph.clone()]);
    // Scan from the end, so that each run knows the next run of the same length. This keeps the search linear.
    let mut next_of_length = HashMap::new();
    let mut closes = vec![None; runs.len()];
    for (place, run) in runs.iter().enumerate().rev() {
        closes[place] = next_of_length.insert(run.len(), place);
    }
    let mut start = paragraph.start;
    let mut place = 0;
    while place < runs.len() {
        if let Some(close) = closes[place] {
            add(start..paragraph.start + runs[place].start);
            start = paragraph.start + runs[close].end;
            place = close;
        }
        place += 1;
    }
    add(start..paragraph.end);
}

/// Returns the runs of backticks in a text.
fn runs(text: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in memchr::memchr_iter(b'`', text.as_bytes()) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

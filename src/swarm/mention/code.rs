//! What of a Markdown text is not code.

use std::collections::HashMap;
use std::ops::Range;

/// The parts of a text outside of fences and code spans, in order. A fence that is never closed reaches to
/// the end; a lone backtick is only a character.
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
                fence = Fence::opened_by(line);
                if fence.is_some() || line.trim().is_empty() {
                    outside_spans(text, paragraph, &mut found);
                    paragraph = end..end;
                } else {
                    paragraph.end = end;
                }
            }
        }
    }
    outside_spans(text, paragraph, &mut found);
    found
}

/// The line that opens a block of code.
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    /// Leading `>` and spaces are those of quotations and lists.
    fn run(line: &str) -> Option<(Self, &str)> {
        let line = line.trim_start_matches(|c: char| c == '>' || c.is_whitespace());
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = line.trim_start_matches(mark);
        Some((Self { mark, length: line.len() - rest.len() }, rest))
    }

    fn opened_by(line: &str) -> Option<Self> {
        let (fence, rest) = Self::run(line)?;
        (fence.length >= 3 && !(fence.mark == '`' && rest.contains('`'))).then_some(fence)
    }

    fn is_closed_by(&self, line: &str) -> bool {
        Self::run(line).is_some_and(|(fence, rest)| {
            fence.mark == self.mark && fence.length >= self.length && rest.trim().is_empty()
        })
    }
}

/// Adds what of a paragraph is outside of code spans: a span ends with as many backticks as it begins with.
fn outside_spans(text: &str, paragraph: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut add = |part: Range<usize>| {
        if !part.is_empty() {
            found.push(part);
        }
    };
    let runs = runs(&text[paragraph.clone()]);
    // From the end, so that each run knows the next one of its length.
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

/// The runs of backticks.
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

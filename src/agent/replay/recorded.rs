//! The differences from what was recorded itself: the stored prompt, the outcomes of calls, and the compactions. Pure.

use similar::{ChangeTag, TextDiff};

use super::comparison::{DiffLine, Difference};
use super::{CallVerdict, PromptSection, Replay};

/// Returns the differences that the transcript alone shows.
#[must_use]
pub(crate) fn differences(replay: &Replay) -> Vec<Difference> {
    let mut found = Vec::new();
    for step in &replay.steps {
        let number = Some(step.step);
        if let Some(problem) = &step.problem {
            found.push(Difference::new(number, "request", format!("it can't be made any more: {problem}")));
        }
        for call in &step.calls {
            let reason = call.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let text = match (call.recorded, call.decision) {
                (Some(CallVerdict::Run), CallVerdict::Refuse) => {
                    format!("{} ran and would be refused now{reason}", call.tool)
                }
                (Some(CallVerdict::Refuse), CallVerdict::Run | CallVerdict::Ask) => {
                    format!("{} was refused and would {} now", call.tool, call.decision.word())
                }
                // A call that a person approved looks like one that ran.
                _ => continue,
            };
            found.push(Difference::new(number, "policy", text));
        }
        if let Some((before, after)) = step.compaction {
            let text = format!("it would be compacted first, from about {before} to {after} tokens");
            found.push(Difference::new(number, "compaction", text));
        }
    }
    for compaction in replay.compactions.iter().filter(|compaction| !compaction.is_due) {
        let text = format!("compaction {} would not be made", compaction.number);
        found.push(Difference::new(Some(compaction.before_step), "compaction", text));
    }
    found
}

/// Returns the differences between a stored prompt and the sections of the present one.
#[must_use]
pub(crate) fn prompt_differences(stored: &str, sections: &[PromptSection]) -> Vec<Difference> {
    let present = sections.iter().map(|section| section.text.as_str()).collect::<Vec<_>>().join("\n\n");
    if stored == present {
        return Vec::new();
    }
    let mut found: Vec<Difference> = Vec::new();
    // The stored text has no sections of its own, so a line that is gone belongs to the section at its place.
    let mut ends = Vec::new();
    let mut end = 0;
    for section in sections {
        end += section.text.lines().count() + 1;
        ends.push((end, section.name.as_str()));
    }
    let (mut at, last) = (0, sections.last().map_or("", |section| section.name.as_str()));
    for change in TextDiff::from_lines(stored, &present).iter_all_changes() {
        let name = ends.iter().find(|(end, _)| at < *end).map_or(last, |(_, name)| name);
        at += usize::from(change.tag() != ChangeTag::Delete);
        let sign = match change.tag() {
            ChangeTag::Equal => continue,
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        let line = DiffLine { sign, text: change.value().trim_end_matches('\n').to_owned() };
        let text = format!("section {name:?} changed");
        match found.last_mut().filter(|difference| difference.text == text) {
            Some(difference) => difference.lines.push(line),
            None => found.push(Difference { lines: vec![line], ..Difference::new(None, "prompt", text) }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_stored_prompt_belong_to_the_section_at_their_place() {
        let section = |name: &str, text: &str| PromptSection { name: name.to_owned(), text: text.to_owned() };
        let present = [section("Role", "you are ada\nbe good"), section("Tools", "read\nwrite\nexec")];
        let stored = "you are ada\nbe kind\n\nread\nexec";
        let found = prompt_differences(stored, &present);
        let shown: Vec<(String, Vec<String>)> = found
            .into_iter()
            .map(|found| {
                let line = |line: &DiffLine| format!("{}{}", line.sign, line.text);
                (found.text, found.lines.iter().map(line).collect())
            })
            .collect();
        let expected = [
            ("section \"Role\" changed".to_owned(), vec!["-be kind".to_owned(), "+be good".to_owned()]),
            ("section \"Tools\" changed".to_owned(), vec!["+write".to_owned()]),
        ];
        assert_eq!(shown, expected);
        let same = "you are ada\nbe good\n\nread\nwrite\nexec";
        assert!(prompt_differences(same, &present).is_empty());
    }
}

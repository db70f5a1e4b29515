//! The differences between two replays of a session. Pure.

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::{PromptSection, Replay, ReplayStep, ReplayedCall};

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Difference {
    /// The number of the answer, or `None` if it concerns the whole session.
    pub step: Option<usize>,
    /// One of `prompt`, `tools`, `policy`, `conversation`, `hygiene`, `compaction`, `request`, `steps`.
    pub what: &'static str,
    /// The difference in words.
    pub text: String,
    /// The changed lines of a prompt's section.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<DiffLine>,
}

/// A line of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DiffLine {
    /// `-` for a line that only the earlier text has, `+` for one that only the present one has.
    pub sign: char,
    pub text: String,
}

impl Difference {
    pub(crate) fn new(step: Option<usize>, what: &'static str, text: String) -> Self {
        Self { step, what, text, lines: Vec::new() }
    }
}

/// Returns the differences from an earlier replay to the present one, in the order of the answers. What stays different
/// from one answer to the next is named once.
#[must_use]
pub(crate) fn compare(earlier: &Replay, now: &Replay) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut known = Vec::new();
    for step in &now.steps {
        let Some(before) = earlier.steps.iter().find(|before| before.answer == step.answer) else {
            continue;
        };
        let differences = step_differences(earlier, before, now, step);
        for difference in &differences {
            // The same prompt is used for many answers.
            let is_known =
                known.iter().any(|(what, text)| *what == difference.what && *text == difference.text);
            if !is_known {
                found.push(difference.clone());
            }
        }
        known = differences.into_iter().map(|difference| (difference.what, difference.text)).collect();
    }
    let only = |of: &Replay, other: &Replay| {
        let is_there = |step: &&ReplayStep| other.steps.iter().any(|found| found.answer == step.answer);
        of.steps.iter().filter(|step| !is_there(step)).count()
    };
    for (count, place) in
        [(only(earlier, now), "the earlier replay"), (only(now, earlier), "the present one")]
    {
        if count > 0 {
            found.push(Difference::new(None, "steps", format!("{count} answers are only in {place}")));
        }
    }
    for (before, after) in earlier.compactions.iter().zip(&now.compactions) {
        if before.is_due != after.is_due {
            let text =
                format!("compaction {} {}", after.number, if after.is_due { "is due" } else { "is not due" });
            found.push(Difference::new(Some(after.before_step), "compaction", text));
        }
    }
    found
}

fn step_differences(
    earlier: &Replay,
    before: &ReplayStep,
    now: &Replay,
    step: &ReplayStep,
) -> Vec<Difference> {
    let number = Some(step.step);
    let mut found = Vec::new();
    let mut add = |what, text: String| found.push(Difference::new(number, what, text));
    if before.model != step.model {
        add("request", format!("model {} -> {}", before.model, step.model));
    }
    match (&before.problem, &step.problem) {
        (None, Some(problem)) => add("request", format!("it can't be made any more: {problem}")),
        (Some(_), None) => add("request", "it can be made now".to_owned()),
        _ => {}
    }
    if let Some(text) = changed_names(&before.tools, &step.tools) {
        add("tools", text);
    } else if before.tool_texts != step.tool_texts {
        add("tools", "the description or the parameters of a tool changed".to_owned());
    }
    if let Some(text) = changed_messages(&before.messages, &step.messages) {
        add("conversation", text);
    }
    if before.hygiene != step.hygiene {
        add("hygiene", format!("{} -> {}", rules(&before.hygiene), rules(&step.hygiene)));
    }
    if before.compaction.is_some() != step.compaction.is_some() {
        let text =
            if step.compaction.is_some() { "it is compacted first" } else { "it is not compacted first" };
        add("compaction", text.to_owned());
    }
    for call in &step.calls {
        let same = |other: &&ReplayedCall| other.id == call.id && other.decision != call.decision;
        if let Some(other) = before.calls.iter().find(same) {
            let reason = call.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let (old, new) = (other.decision.word(), call.decision.word());
            add("policy", format!("{}: {old} -> {new}{reason}", call.tool));
        }
    }
    if before.prompt != step.prompt {
        let none = Vec::new();
        let old = earlier.prompts.get(&before.prompt).unwrap_or(&none);
        let new = now.prompts.get(&step.prompt).unwrap_or(&none);
        found.extend(prompt(number, old, new));
    }
    // Anything else that the provider's format has.
    if found.is_empty() && before.request != step.request && step.problem.is_none() {
        found.push(Difference::new(number, "request", "the encoded request differs".to_owned()));
    }
    found
}

/// Returns the differences of two prompts, by section.
pub(crate) fn prompt(step: Option<usize>, old: &[PromptSection], new: &[PromptSection]) -> Vec<Difference> {
    let find = |all: &'_ [PromptSection], name: &str| all.iter().position(|section| section.name == name);
    let mut found = Vec::new();
    for section in new {
        let before = find(old, &section.name).map(|index| old[index].text.as_str());
        let text = match before {
            Some(before) if before == section.text => continue,
            Some(_) => format!("section {:?} changed", section.name),
            None => format!("section {:?} is new", section.name),
        };
        let lines = lines(before.unwrap_or_default(), &section.text);
        found.push(Difference { lines, ..Difference::new(step, "prompt", text) });
    }
    for section in old.iter().filter(|section| find(new, &section.name).is_none()) {
        let text = format!("section {:?} is removed", section.name);
        found.push(Difference { lines: lines(&section.text, ""), ..Difference::new(step, "prompt", text) });
    }
    let order = |all: &[PromptSection]| all.iter().map(|section| section.name.clone()).collect::<Vec<_>>();
    if found.is_empty() && order(old) != order(new) {
        found.push(Difference::new(step, "prompt", "the order of the sections changed".to_owned()));
    }
    found
}

/// Returns the lines that differ between two texts.
pub(crate) fn lines(old: &str, new: &str) -> Vec<DiffLine> {
    let diff = TextDiff::from_lines(old, new);
    let changed = diff.iter_all_changes().filter_map(|change| {
        let sign = match change.tag() {
            ChangeTag::Equal => return None,
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        Some(DiffLine { sign, text: change.value().trim_end_matches('\n').to_owned() })
    });
    changed.collect()
}

fn changed_names(old: &[String], new: &[String]) -> Option<String> {
    let only = |of: &[String], other: &[String]| {
        of.iter().filter(|name| !other.contains(name)).cloned().collect::<Vec<_>>().join(", ")
    };
    let (gone, added) = (only(old, new), only(new, old));
    match (gone.is_empty(), added.is_empty()) {
        (true, true) if old == new => None,
        (true, true) => Some("the order of the offered tools changed".to_owned()),
        (false, true) => Some(format!("not offered any more: {gone}")),
        (true, false) => Some(format!("offered now: {added}")),
        (false, false) => Some(format!("not offered any more: {gone}; offered now: {added}")),
    }
}

fn changed_messages(old: &[String], new: &[String]) -> Option<String> {
    if old == new {
        return None;
    }
    let first = old.iter().zip(new).position(|(old, new)| old != new).unwrap_or(old.len().min(new.len()));
    Some(match old.len() == new.len() {
        true => format!("message {} of {} differs", first + 1, new.len()),
        false => format!("{} messages -> {}, from message {} on", old.len(), new.len(), first + 1),
    })
}

fn rules(applied: &[(String, String)]) -> String {
    let mut names: Vec<&str> = applied.iter().map(|(rule, _)| rule.as_str()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    if count == 0 { "nothing".to_owned() } else { format!("{} ({count} times)", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::super::{CallVerdict, FORMAT};
    use super::*;

    fn section(name: &str, text: &str) -> PromptSection {
        PromptSection { name: name.to_owned(), text: text.to_owned() }
    }

    fn replay(prompt: &[PromptSection], steps: &[ReplayStep]) -> Replay {
        Replay {
            format: FORMAT,
            session: "agent:ada:flock:main:ann".to_owned(),
            agent: "ada".to_owned(),
            prompts: [("p".to_owned() + &prompt[0].text, prompt.to_vec())].into(),
            steps: steps.to_vec(),
            compactions: Vec::new(),
        }
    }

    fn step(number: usize, prompt: &str) -> ReplayStep {
        ReplayStep {
            step: number,
            answer: format!("a{number}"),
            model: "x/y".to_owned(),
            prompt: "p".to_owned() + prompt,
            tools: vec!["read".to_owned(), "exec".to_owned()],
            messages: vec!["1".to_owned(), "2".to_owned()],
            ..ReplayStep::default()
        }
    }

    #[test]
    fn a_changed_section_is_named_once_with_its_lines() {
        let old = replay(
            &[section("Role", "one\ntwo"), section("Tools", "t")],
            &[step(1, "one\ntwo"), step(2, "one\ntwo")],
        );
        let new = replay(
            &[section("Role", "one\nTWO"), section("Time", "now")],
            &[step(1, "one\nTWO"), step(2, "one\nTWO")],
        );
        let found = compare(&old, &new);
        let texts: Vec<&str> = found.iter().map(|difference| difference.text.as_str()).collect();
        assert_eq!(
            texts,
            ["section \"Role\" changed", "section \"Time\" is new", "section \"Tools\" is removed"]
        );
        let lines: Vec<String> =
            found[0].lines.iter().map(|line| format!("{}{}", line.sign, line.text)).collect();
        assert_eq!(lines, ["-two", "+TWO"]);
        assert!(compare(&old, &old).is_empty());
    }

    #[test]
    fn tools_messages_decisions_and_rules_are_compared() {
        let call = |decision| ReplayedCall {
            id: "c".to_owned(),
            tool: "exec".to_owned(),
            decision,
            reason: Some("no".to_owned()),
            recorded: None,
        };
        let old = ReplayStep { calls: vec![call(CallVerdict::Run)], ..step(1, "p") };
        let new = ReplayStep {
            tools: vec!["read".to_owned(), "write".to_owned()],
            messages: vec!["1".to_owned(), "3".to_owned()],
            hygiene: vec![("merged".to_owned(), "m".to_owned())],
            compaction: Some((2, 1)),
            calls: vec![call(CallVerdict::Refuse)],
            ..step(1, "p")
        };
        let sections = [section("p", "p")];
        let found = compare(&replay(&sections, &[old]), &replay(&sections, &[new, step(2, "p")]));
        let texts: Vec<String> =
            found.iter().map(|difference| format!("{}: {}", difference.what, difference.text)).collect();
        assert_eq!(
            texts,
            [
                "tools: not offered any more: exec; offered now: write",
                "conversation: message 2 of 2 differs",
                "hygiene: nothing -> merged (1 times)",
                "compaction: it is compacted first",
                "policy: exec: run -> refuse: no",
                "steps: 1 answers are only in the present one",
            ]
        );
    }
}

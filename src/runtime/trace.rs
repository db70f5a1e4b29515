//! Turns the reports of a program into lines for people: for the log, and for the context of a later conversation.

use serde_json::Value;

use super::{ProgramEvent, ToolEvent};
use crate::clean;
use crate::provider::Usage;

/// Most calls that are tracked at once. For further calls only the end is reported.
const MAX_OPEN_CALLS: usize = 128;
/// Characters of an answer's text that are shown.
const MAX_TEXT: usize = 200;
/// Characters of thinking that are shown.
const MAX_THINKING: usize = 300;
/// Characters of a command, a search or a tool's arguments that are shown.
const MAX_CALL: usize = 200;
/// Characters of a command's output that are shown.
const MAX_OUTPUT: usize = 200;
/// Bytes of text that are kept for a line. This leaves room for characters that are dropped.
const MAX_PENDING: usize = 8 << 10;

/// Makes lines from the reports of a program. Each event has one line, which begins with the agent's id. The output of
/// a command follows in indented lines. No line contains anything that controls a terminal, and each is short. The
/// caller limits their number.
pub struct TraceFormatter {
    label: String,
    /// Pieces that are not a line yet, and `true` if they are thinking instead of text.
    pending: Option<(bool, String)>,
    open: Vec<OpenCall>,
    usage: Option<Usage>,
    conversation_usage: Option<Usage>,
    cost: Option<f64>,
}

/// A call that has not ended.
struct OpenCall {
    call: String,
    what: String,
    is_command: bool,
    exit: Option<i64>,
}

impl TraceFormatter {
    #[must_use]
    pub fn new(agent: &str) -> Self {
        Self {
            label: format!("[{}]", clean::label(agent, 64)),
            pending: None,
            open: Vec::new(),
            usage: None,
            conversation_usage: None,
            cost: None,
        }
    }

    /// Returns `true` if the tokens of the run are known.
    #[must_use]
    pub const fn has_usage(&self) -> bool {
        self.usage.is_some()
    }

    /// Takes a report, and adds the lines that are complete with it.
    pub fn said(&mut self, said: &ProgramEvent, lines: &mut Vec<String>) {
        match said {
            ProgramEvent::Text(piece) => self.piece(false, piece, lines),
            ProgramEvent::Thinking(piece) => self.piece(true, piece, lines),
            ProgramEvent::Replaced(text) => {
                self.flush(lines);
                if !text.is_empty() {
                    self.line("agent: (anew)", lines);
                    self.piece(false, text, lines);
                }
            }
            ProgramEvent::FlockTool => self.flush(lines),
            ProgramEvent::Tool(event) => {
                self.flush(lines);
                self.tool(event, lines);
            }
            ProgramEvent::Exit { call, code } => {
                if let Some(open) = self.open.iter_mut().find(|open| open.call == *call) {
                    open.exit = Some(*code);
                }
            }
            ProgramEvent::Search(query) => self.told("search", query, MAX_CALL, lines),
            ProgramEvent::Retrying(why) => self.told("retrying", why, MAX_CALL, lines),
            ProgramEvent::Note(text) => self.told("note", text, MAX_TEXT, lines),
            ProgramEvent::WillFail(why) => self.told("failed", why, MAX_TEXT, lines),
            ProgramEvent::Usage(usage) => self.usage = Some(*usage),
            ProgramEvent::ConversationUsage(usage) => self.conversation_usage = Some(*usage),
            ProgramEvent::Cost(cost) => self.cost = Some(*cost),
            // The name means nothing to people.
            ProgramEvent::Conversation(_) => {}
        }
    }

    /// Adds the remaining lines when the run has ended.
    pub fn end(&mut self, lines: &mut Vec<String>) {
        self.flush(lines);
        for open in std::mem::take(&mut self.open) {
            self.line(&format!("{} → not ended", open.what), lines);
        }
        // The tokens of the run say more than those of the whole conversation.
        match (self.usage.take(), self.conversation_usage.take()) {
            (Some(usage), _) => self.tokens(usage, "", lines),
            (None, Some(usage)) => self.tokens(usage, " in the whole conversation", lines),
            (None, None) => {}
        }
        if let Some(cost) = self.cost.take() {
            lines.push(format!("{} cost: ${cost:.4}", self.label));
        }
    }

    fn tokens(&self, usage: Usage, of: &str, lines: &mut Vec<String>) {
        // Programs count cached tokens apart. A person expects all input in one number.
        let all = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let [all, cached, out] = [all, usage.cache_read, usage.output].map(with_thousands_separators);
        self.line(&format!("tokens: in={all} cached={cached} out={out}{of}"), lines);
    }

    fn tool(&mut self, event: &ToolEvent, lines: &mut Vec<String>) {
        match event {
            ToolEvent::Began { call, tool, arguments } => {
                let (is_command, what) = describe_call(tool, arguments);
                // The limit keeps a program that never ends its calls from filling the memory.
                if self.open.len() < MAX_OPEN_CALLS {
                    self.open.push(OpenCall { call: call.clone(), what, is_command, exit: None });
                }
            }
            ToolEvent::Ended { call, tool, result, error, .. } => {
                let at = self.open.iter().position(|open| open.call == *call);
                let open = match at {
                    Some(at) => self.open.remove(at),
                    // The beginning of the call was not seen or not kept.
                    None => OpenCall {
                        call: String::new(),
                        what: format!("tool: {}", clean::label(tool, MAX_CALL)),
                        is_command: false,
                        exit: None,
                    },
                };
                let outcome = match (open.exit, error) {
                    (Some(code), _) => format!("exit {code}"),
                    (None, Some(_)) => "failed".to_owned(),
                    // Some programs do not report how a command ended.
                    (None, None) if open.is_command => "ended".to_owned(),
                    (None, None) => "ok".to_owned(),
                };
                self.line(&format!("{} → {outcome}", open.what), lines);
                if open.is_command || error.is_some() {
                    let output = error.as_deref().unwrap_or(result);
                    // The first line may repeat the exit code, which the line above already shows.
                    let code = open.exit.map(|code| format!("exit code {code}")).unwrap_or_default();
                    let first = output.lines().next().unwrap_or_default();
                    let is_said = !code.is_empty() && first.eq_ignore_ascii_case(&code);
                    Self::output(if is_said { &output[first.len()..] } else { output }, lines);
                }
            }
        }
    }

    /// Adds the beginning of a command's output.
    fn output(output: &str, lines: &mut Vec<String>) {
        // The limit is for all lines together, in characters.
        let mut left = MAX_OUTPUT;
        for line in output.split(clean::is_line_end).filter(|line| !line.trim().is_empty()) {
            let line = line.trim_end();
            let cut = line.char_indices().nth(left).map_or(line, |(at, _)| &line[..at]);
            let (seen, is_cut) = (clean::inline(cut), cut.len() < line.len());
            left -= cut.chars().count();
            match (cut.is_empty(), is_cut) {
                (true, _) => lines.push("  …".to_owned()),
                (false, true) => lines.push(format!("  {seen}…")),
                (false, false) => lines.push(format!("  {seen}")),
            }
            if is_cut {
                return;
            }
        }
    }

    fn told(&mut self, kind: &str, text: &str, most: usize, lines: &mut Vec<String>) {
        self.flush(lines);
        self.line(&format!("{kind}: {}", clean::summary(text, most)), lines);
    }

    fn piece(&mut self, is_thinking: bool, piece: &str, lines: &mut Vec<String>) {
        if self.pending.as_ref().is_some_and(|(kind, _)| *kind != is_thinking) {
            self.flush(lines);
        }
        let (_, text) = self.pending.get_or_insert_with(|| (is_thinking, String::new()));
        // What does not fit is dropped. The line shows only the beginning.
        let room = MAX_PENDING.saturating_sub(text.len());
        text.push_str(&piece[..piece.floor_char_boundary(room)]);
    }

    /// Makes a line from the pieces so far.
    fn flush(&mut self, lines: &mut Vec<String>) {
        let Some((is_thinking, text)) = self.pending.take() else { return };
        let (kind, most) = if is_thinking { ("reasoning", MAX_THINKING) } else { ("agent", MAX_TEXT) };
        let text = clean::summary(&text, most);
        if !text.is_empty() {
            self.line(&format!("{kind}: {text}"), lines);
        }
    }

    fn line(&self, text: &str, lines: &mut Vec<String>) {
        lines.push(format!("{} {text}", self.label));
    }
}

/// Describes a call for its line: the command if it has one, otherwise the tool with its arguments.
fn describe_call(tool: &str, arguments: &Value) -> (bool, String) {
    if let Some(command) = arguments.get("command").and_then(Value::as_str) {
        return (true, format!("cmd: {}", clean::summary(command, MAX_CALL)));
    }
    let mut words = Vec::new();
    for (name, value) in arguments.as_object().into_iter().flatten().take(8) {
        let value = match value {
            Value::String(text) => clean::summary(text, 60),
            // Nested values are not worth their length.
            Value::Array(_) | Value::Object(_) => "…".to_owned(),
            other => other.to_string(),
        };
        words.push(format!("{}={value}", clean::label(name, 40)));
    }
    let words = clean::summary(&words.join(" "), MAX_CALL);
    let blank = if words.is_empty() { "" } else { " " };
    (false, format!("tool: {}{blank}{words}", clean::label(tool, 80)))
}

/// Formats a number with commas, as in 1,515,404.
pub(crate) fn with_thousands_separators(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn lines(said: &[ProgramEvent]) -> Vec<String> {
        let mut trace = TraceFormatter::new("main");
        let mut lines = Vec::new();
        for said in said {
            trace.said(said, &mut lines);
        }
        trace.end(&mut lines);
        lines
    }

    fn began(call: &str, tool: &str, arguments: Value) -> ProgramEvent {
        ProgramEvent::Tool(ToolEvent::Began { call: call.into(), tool: tool.into(), arguments })
    }

    fn ended(call: &str, tool: &str, result: &str, error: Option<&str>) -> ProgramEvent {
        let error = error.map(str::to_owned);
        ProgramEvent::Tool(ToolEvent::Ended {
            call: call.into(),
            tool: tool.into(),
            result: result.into(),
            error,
            took: None,
        })
    }

    #[test]
    fn a_turn_is_formatted_as_lines() {
        let said = [
            ProgramEvent::Conversation("x".into()),
            ProgramEvent::Thinking("First ".into()),
            ProgramEvent::Thinking("I\nlook.".into()),
            ProgramEvent::Text("I ".into()),
            ProgramEvent::Text("look.".into()),
            began("1", "Bash", json!({"command": "ls\n  -l", "description": "lists"})),
            ProgramEvent::Exit { call: "1".into(), code: 2 },
            ended("1", "Bash", "", Some("Exit code 2\none\n\ntwo\nthree")),
            began("2", "read", json!({"path": "/a", "limit": 3, "deep": {"a": 1}})),
            ended("2", "read", "much\nmore", None),
            ended("9", "odd", "", Some("no such file")),
            began("3", "bash", json!({"command": "sleep 9"})),
            ProgramEvent::Search("rust".into()),
            ProgramEvent::Retrying("500".into()),
            ProgramEvent::Text("Done.".into()),
            ProgramEvent::Usage(Usage { input: 1, ..Usage::default() }),
            ProgramEvent::Usage(Usage {
                input: 1_500_000,
                output: 12_555,
                cache_read: 15_404,
                ..Usage::default()
            }),
            ProgramEvent::Cost(0.5),
        ];
        assert_eq!(
            lines(&said),
            [
                "[main] reasoning: First I look.",
                "[main] agent: I look.",
                "[main] cmd: ls -l → exit 2",
                "  one",
                "  two",
                "  three",
                "[main] tool: read path=/a limit=3 deep=… → ok",
                "[main] tool: odd → failed",
                "  no such file",
                "[main] search: rust",
                "[main] retrying: 500",
                "[main] agent: Done.",
                "[main] cmd: sleep 9 → not ended",
                "[main] tokens: in=1,515,404 cached=15,404 out=12,555",
                "[main] cost: $0.5000",
            ]
        );
    }

    #[test]
    fn conversation_usage_is_shown_if_run_usage_is_unknown() {
        let whole = ProgramEvent::ConversationUsage(Usage {
            input: 40,
            output: 2_000,
            cache_read: 1_160,
            ..Usage::default()
        });
        let told = "[main] tokens: in=1,200 cached=1,160 out=2,000 in the whole conversation";
        assert_eq!(lines(std::slice::from_ref(&whole)), [told]);
        // The tokens of the turn alone say more, whichever comes first.
        let own = ProgramEvent::Usage(Usage { input: 7, output: 3, ..Usage::default() });
        for said in [[whole.clone(), own.clone()], [own, whole]] {
            assert_eq!(lines(&said), ["[main] tokens: in=7 cached=0 out=3"]);
        }
    }

    #[test]
    fn long_text_is_cut_and_replacements_are_marked() {
        let seen = lines(&[
            ProgramEvent::Text("ä".repeat(300)),
            ProgramEvent::Replaced(String::new()),
            ProgramEvent::Text("b".into()),
        ]);
        assert_eq!(seen, [format!("[main] agent: {}…", "ä".repeat(199)), "[main] agent: b".to_owned()]);
        let seen = lines(&[ProgramEvent::Text("one".into()), ProgramEvent::Replaced("on".into())]);
        assert_eq!(seen, ["[main] agent: one", "[main] agent: (anew)", "[main] agent: on"]);
    }

    #[test]
    fn command_output_is_limited_to_200_characters() {
        let told = |output: &str| {
            let end = ended("1", "Bash", output, None);
            let seen = lines(&[began("1", "Bash", json!({"command": "x"})), end]);
            seen[1..].iter().map(|line| line.strip_prefix("  ").unwrap().to_owned()).collect::<Vec<_>>()
        };
        let many: String = (0..9).map(|line| format!("line {line}\n")).collect();
        assert_eq!(told(&many).len(), 9, "lines are not counted");
        assert_eq!(told(&"ä".repeat(200)), ["ä".repeat(200)]);
        assert_eq!(told(&"ä".repeat(201)), [format!("{}…", "ä".repeat(200))]);
        let cut = told(&format!("{}\n\n{}\nend", "a".repeat(150), "b".repeat(60)));
        assert_eq!(cut, ["a".repeat(150), format!("{}…", "b".repeat(50))]);
        assert_eq!(told(&format!("{}\nmore", "a".repeat(200))), ["a".repeat(200), "…".to_owned()]);
        assert_eq!(told(" \n\n"), Vec::<String>::new());
    }

    #[test]
    fn long_turns_are_traced_to_the_end() {
        let long = "x".repeat(100_000);
        let mut said: Vec<ProgramEvent> =
            (0..500).map(|at| ProgramEvent::Note(format!("{at} {long}"))).collect();
        said.extend((0..500).map(|at| began(&at.to_string(), &long, json!({ "command": long }))));
        said.push(ended("499", "Bash", &long, None));
        said.push(ProgramEvent::Cost(1.0));
        let seen = lines(&said);
        assert!(seen[499].starts_with("[main] note: 499 x"), "{}", seen[499]);
        assert_eq!(seen.last().unwrap(), "[main] cost: $1.0000");
        assert!(seen.iter().all(|line| line.len() < 1_000), "each line is short");
        let open = seen.iter().filter(|line| line.ends_with("→ not ended")).count();
        assert_eq!(open, MAX_OPEN_CALLS);
    }

    proptest! {
        #[test]
        fn no_control_characters_reach_the_trace(
            texts in proptest::collection::vec("(\u{1b}\\[2J|\u{202e}|\r|\n|\u{9b}|.){0,40}", 6),
        ) {
            let [a, b, c, d, e, f] = <[String; 6]>::try_from(texts).unwrap();
            let seen = lines(&[
                ProgramEvent::Text(a.clone()),
                ProgramEvent::Thinking(b.clone()),
                began(&c, &d, json!({ e.as_str(): f, "x": [a] })),
                ended(&c, &d, &e, Some(&f)),
                began("x", &d, json!({ "command": f })),
                ended("x", &d, &b, None),
                ProgramEvent::Search(c.clone()),
                ProgramEvent::Note(d.clone()),
                ProgramEvent::Replaced(e.clone()),
            ]);
            for line in seen {
                prop_assert!(!line.chars().any(clean::is_unseen), "{line:?}");
                prop_assert!(line.starts_with("[main] ") || line.starts_with("  "), "{line:?}");
            }
        }
    }
}

//! Tests of the parsers on the output of the real programs. Each case is one run of a program against a model that
//! followed instructions. The name of the case tells what these were.

use std::fmt::Write as _;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::Value;

use super::interface::{ConversationStart, Program, ProgramExit, RunOutcome};
use super::json_lines::{LineSplitter, OutputLine};
use super::{PROGRAMS, listed};
use crate::runtime::trace::TraceFormatter;
use crate::runtime::{ProgramEvent, ToolEvent};

struct Case {
    name: String,
    output: Vec<u8>,
    stderr: String,
    code: i32,
}

pub(super) const NEW: ConversationStart<'_> = ConversationStart::New(uuid::Uuid::nil());

impl Case {
    fn conversation(&self) -> ConversationStart<'_> {
        if self.name.starts_with("resume") { ConversationStart::Resumed("before") } else { NEW }
    }
}

fn cases(program: &dyn Program) -> Vec<Case> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs").join(program.name());
    let codes = fs_err::read_to_string(folder.join("codes.json")).unwrap();
    let codes: Value = serde_json::from_str(&codes).unwrap();
    let codes = codes.as_object().unwrap();
    let mut cases = Vec::new();
    for (name, code) in codes {
        cases.push(Case {
            name: name.clone(),
            output: fs_err::read(folder.join(format!("{name}.jsonl"))).unwrap(),
            stderr: fs_err::read_to_string(folder.join(format!("{name}.err"))).unwrap_or_default(),
            code: i32::try_from(code.as_i64().unwrap()).unwrap(),
        });
    }
    assert_eq!(
        cases.len() + 1,
        fs_err::read_dir(&folder)
            .unwrap()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                !name.to_string_lossy().ends_with(".err")
            })
            .count(),
        "codes.json names all cases of {}",
        program.name()
    );
    cases
}

/// Parses a run with a program's parser.
fn read(
    program: &dyn Program,
    conversation: ConversationStart<'_>,
    output: &[u8],
    stderr: &str,
    code: i32,
) -> (Vec<ProgramEvent>, Vec<String>, RunOutcome) {
    let mut parser = program.parser(conversation);
    let mut lines = LineSplitter::default();
    let (mut said, mut noise) = (Vec::new(), Vec::new());
    let mut tell = |line: OutputLine<'_>| match line {
        OutputLine::Event(event) => parser.line(&event, &mut said),
        OutputLine::Noise(text) => noise.push(text.to_owned()),
    };
    for piece in output.chunks(1000) {
        lines.take(piece, &mut tell);
    }
    lines.end(&mut tell);
    let is_over = parser.is_over();
    let ended = parser.end(&ProgramExit { code, stderr });
    if matches!(ended, RunOutcome::Well { .. }) {
        assert!(is_over, "it had nothing more to tell");
    }
    (said, noise, ended)
}

/// Returns the text that a caller sees as the answer: the text since the last call.
pub(super) fn answer(said: &[ProgramEvent]) -> String {
    let mut text = String::new();
    for said in said {
        match said {
            ProgramEvent::Text(piece) => text.push_str(piece),
            ProgramEvent::Replaced(whole) => text.clone_from(whole),
            ProgramEvent::FlockTool | ProgramEvent::Tool(ToolEvent::Began { .. }) => text.clear(),
            _ => {}
        }
    }
    text
}

fn escape_controls(text: &str) -> String {
    let short: String = text.chars().take(300).collect();
    format!("{short:?}{}", if short.len() < text.len() { "…" } else { "" })
}

pub(super) fn line(said: &ProgramEvent) -> String {
    match said {
        ProgramEvent::Conversation(name) => format!("conversation {name}"),
        ProgramEvent::Text(text) => format!("text {}", escape_controls(text)),
        ProgramEvent::Thinking(text) => format!("thinking {}", escape_controls(text)),
        ProgramEvent::Replaced(text) => format!("anew {}", escape_controls(text)),
        ProgramEvent::FlockTool => "a call of flock's".to_owned(),
        ProgramEvent::Tool(ToolEvent::Began { call, tool, arguments }) => {
            format!("began {call} {tool} {arguments}")
        }
        ProgramEvent::Tool(ToolEvent::Ended { call, tool, result, error, took }) => {
            let error = error.as_deref().map(|error| format!(" error {}", escape_controls(error)));
            let took = took.map(|took| format!(" in {took:?}")).unwrap_or_default();
            format!("ended {call} {tool} {}{}{took}", escape_controls(result), error.unwrap_or_default())
        }
        ProgramEvent::Exit { call, code } => format!("exit {call} {code}"),
        ProgramEvent::Search(query) => format!("search {query}"),
        ProgramEvent::ConversationUsage(usage) => format!("conversation usage {usage:?}"),
        ProgramEvent::Usage(usage) => format!(
            "usage in={} out={} read={} write={}",
            usage.input, usage.output, usage.cache_read, usage.cache_write
        ),
        ProgramEvent::Cost(cost) => format!("cost {cost:.6}"),
        ProgramEvent::Retrying(why) => format!("retrying {why}"),
        ProgramEvent::Note(text) => format!("note {text}"),
        ProgramEvent::WillFail(why) => format!("doomed {why}"),
    }
}

fn told(program: &dyn Program) -> String {
    let mut told = String::new();
    for case in cases(program) {
        let (said, noise, ended) = read(program, case.conversation(), &case.output, &case.stderr, case.code);
        let _ = writeln!(told, "== {} (exit {})", case.name, case.code);
        for said in &said {
            let _ = writeln!(told, "{}", line(said));
        }
        for noise in noise {
            let _ = writeln!(told, "noise {}", escape_controls(&noise));
        }
        let _ = writeln!(told, "answer {}\n{ended:?}", escape_controls(&answer(&said)));
        let mut trace = TraceFormatter::new("a");
        let mut lines = Vec::new();
        said.iter().for_each(|said| trace.said(said, &mut lines));
        trace.end(&mut lines);
        for line in lines {
            let _ = writeln!(told, "| {line}");
        }
        told.push('\n');
    }
    told
}

#[test]
fn claude_code_recordings_match_the_snapshot() {
    insta::assert_snapshot!(told(listed("claude").unwrap()));
}

#[test]
fn codex_recordings_match_the_snapshot() {
    insta::assert_snapshot!(told(listed("codex").unwrap()));
}

#[test]
fn gemini_cli_recordings_match_the_snapshot() {
    insta::assert_snapshot!(told(listed("gemini").unwrap()));
}

#[test]
fn opencode_recordings_match_the_snapshot() {
    insta::assert_snapshot!(told(listed("opencode").unwrap()));
}

/// A run ends well only if the program printed the event that says so. Each program has its own event, so a stream that
/// was cut anywhere before it is not an answer, whatever the exit code.
#[test]
fn a_stream_that_is_cut_short_is_no_answer() {
    for program in PROGRAMS {
        for case in cases(program) {
            let (_, _, whole) = read(program, case.conversation(), &case.output, &case.stderr, case.code);
            let ends: Vec<usize> =
                case.output.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at).collect();
            let Some(last) = ends.len().checked_sub(2).map(|at| ends[at] + 1) else { continue };
            for cut in ends.iter().map(|end| end + 1).take_while(|cut| *cut <= last) {
                for cut in [cut, cut.saturating_sub(20), cut + 20] {
                    let cut = cut.min(last + 20);
                    let (_, _, ended) = read(program, case.conversation(), &case.output[..cut], "", 0);
                    assert!(
                        !matches!(ended, RunOutcome::Well { .. }),
                        "{}/{} cut at {cut} of {}: {ended:?}, whole: {whole:?}",
                        program.name(),
                        case.name,
                        case.output.len()
                    );
                }
            }
        }
    }
}

/// Values like those in the programs' own events, in places where they do not belong.
fn odd_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~한\u{1b}]{0,12}".prop_map(Value::from),
        prop::sample::select(WORDS.to_vec()).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(WORDS.to_vec()), inner), 0..7)
                .prop_map(|pairs| pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

const WORDS: &[&str] = &[
    "type",
    "subtype",
    "system",
    "init",
    "assistant",
    "user",
    "result",
    "stream_event",
    "event",
    "message",
    "content",
    "content_block",
    "delta",
    "text",
    "text_delta",
    "thinking",
    "tool_use",
    "tool_result",
    "tool_use_id",
    "id",
    "name",
    "input",
    "index",
    "is_error",
    "num_turns",
    "usage",
    "session_id",
    "mcp_servers",
    "status",
    "abandoned_blocks",
    "from_block_index",
    "content_block_start",
    "content_block_delta",
    "message_start",
    "message_stop",
    "item",
    "item.started",
    "item.completed",
    "thread.started",
    "turn.completed",
    "turn.failed",
    "command_execution",
    "mcp_tool_call",
    "server",
    "tool",
    "arguments",
    "error",
    "exit_code",
    "aggregated_output",
    "agent_message",
    "reasoning",
    "todo_list",
    "file_change",
    "changes",
    "items",
    "tool_name",
    "tool_id",
    "parameters",
    "output",
    "role",
    "stats",
    "part",
    "state",
    "metadata",
    "time",
    "start",
    "end",
    "tokens",
    "cache",
    "reason",
    "stop",
    "step_finish",
    "sessionID",
    "callID",
    "statusCode",
    "data",
    "flock",
    "model_usage_since_last_result",
    "inputTokens",
    "costUSD",
];

proptest! {
    #[test]
    fn any_event_is_parsed_without_panic(events in prop::collection::vec(odd_value(), 0..8), code in -1i32..200) {
        for program in PROGRAMS {
            let mut parser = program.parser(NEW);
            let mut said = Vec::new();
            for event in &events {
                parser.line(event, &mut said);
            }
            let mut trace = TraceFormatter::new("a");
            let mut lines = Vec::new();
            said.iter().for_each(|said| trace.said(said, &mut lines));
            trace.end(&mut lines);
            let _ = parser.end(&ProgramExit { code, stderr: "" });
        }
    }

    #[test]
    fn any_changed_recording_is_parsed_without_panic(
        seed in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        path in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        odd in odd_value(),
    ) {
        for program in PROGRAMS {
            let cases = cases(program);
            let case = &cases[seed.index(cases.len())];
            let text = String::from_utf8_lossy(&case.output);
            let mut events: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            if events.is_empty() {
                continue;
            }
            let at = at.index(events.len());
            let mut place = String::new();
            for step in &path {
                let key = match events[at].pointer(&place) {
                    Some(Value::Object(map)) if !map.is_empty() => map.keys().nth(step.index(map.len())).cloned(),
                    Some(Value::Array(list)) if !list.is_empty() => Some(step.index(list.len()).to_string()),
                    _ => None,
                };
                let Some(key) = key else { break };
                place = format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
            }
            *events[at].pointer_mut(&place).unwrap() = odd.clone();
            let mut parser = program.parser(NEW);
            let mut said = Vec::new();
            for event in &events {
                parser.line(event, &mut said);
            }
            let _ = parser.end(&ProgramExit { code: case.code, stderr: &case.stderr });
        }
    }

    #[test]
    fn any_bytes_are_parsed_without_panic_or_answer(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for program in PROGRAMS {
            let (_, _, ended) = read(program, NEW, &bytes, &String::from_utf8_lossy(&bytes), 0);
            prop_assert!(!matches!(ended, RunOutcome::Well { .. }), "{ended:?}");
        }
    }
}

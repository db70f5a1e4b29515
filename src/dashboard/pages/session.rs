//! One session: its turns with every call, how full its context is, and the form for a message to the agent.

use askama::Template;
use serde::Deserialize;
use serde_json::Value;

use super::sessions::{self, ActiveTurn};
use crate::clean;
use crate::dashboard::format::{Moment, count};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::id::{AgentId, SessionKey};
use crate::markdown;

/// Number of turns that a page has at first, and that each further part adds.
const TURNS: usize = 20;

#[derive(Deserialize)]
struct Transcript {
    key: SessionKey,
    turns: Vec<Turn>,
    before: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Turn {
    turn: String,
    state: Option<String>,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    model: Option<String>,
    error: Option<String>,
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Item {
    Message {
        role: String,
        text: String,
        at: i64,
    },
    Thinking {
        text: String,
    },
    #[serde(rename_all = "camelCase")]
    Picture {
        media_type: String,
    },
    Call {
        tool: String,
        arguments: Value,
        result: Option<CallResult>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    text: String,
    is_error: bool,
    took_ms: u64,
}

#[derive(Deserialize)]
struct Report {
    room: u64,
    conversation: u64,
    compaction: Option<Compaction>,
}

#[derive(Deserialize)]
struct Compaction {
    number: u64,
    at: i64,
    before: u64,
    after: u64,
    marker: String,
    summary: Option<String>,
}

#[derive(Deserialize)]
struct SessionList {
    turns: Vec<ActiveTurn>,
}

#[derive(Template)]
#[template(path = "session.html")]
struct SessionPage {
    layout: Layout,
    key: SessionKey,
    agent: AgentId,
    /// `true` if the person's messages belong here: in the session of a channel or of another agent they do not.
    can_write: bool,
    turns: Vec<TurnView>,
    /// The address of the part with the turns before these.
    earlier: Option<String>,
    meter: Option<Meter>,
    compaction: Option<CompactionView>,
    is_running: bool,
    /// Number of turns that wait.
    waiting: usize,
}

/// The part of the context that is used.
struct Meter {
    used: u64,
    room: u64,
    text: String,
}

struct CompactionView {
    number: u64,
    at: Moment,
    before: String,
    after: String,
    kept: String,
}

struct TurnView {
    id: String,
    /// The stable word of its state.
    state: String,
    state_text: &'static str,
    began: Option<Moment>,
    took: String,
    model: String,
    error: Option<String>,
    items: Vec<ItemView>,
}

enum ItemView {
    Message { role: String, at: Moment, html: String },
    Thinking { text: String },
    Picture { media_type: String },
    Call { tool: String, head: String, arguments: String, diff: Vec<DiffLine>, result: Option<ResultView> },
}

struct ResultView {
    text: String,
    is_error: bool,
    took: String,
}

/// A line of the change that a call makes to a file.
struct DiffLine {
    /// `added` or `removed`.
    kind: &'static str,
    text: String,
}

/// Returns the page, or with `?before=` in its query an earlier part of the session.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, key: &str, query: &str) -> Result<Page, ApiFailure> {
    let base = format!("/api/sessions/{key}");
    let before = query::value(query, "before");
    let place = before.map(|turn| format!("&before={}", query::encoded(&turn))).unwrap_or_default();
    let transcript = format!("{base}/transcript?limit={TURNS}{place}");
    let (transcript, report, active) = tokio::join!(
        fetch::<Transcript>(api, &transcript),
        fetch::<Report>(api, &base),
        fetch::<SessionList>(api, "/api/sessions"),
    );
    let (transcript, active) = (transcript?, active?);
    // A session begins with its first message, so one that is only opened has no report yet.
    let report = match report {
        Ok(report) => Some(report),
        Err(failure) if failure.status == 404 => None,
        Err(failure) => return Err(failure),
    };
    // As the routes spell it, whatever the case in the address.
    let key = transcript.key;
    let texts = viewer.texts();
    let agent = key.agent().clone();
    let address = sessions::address(&key);
    let of =
        |state: &str| active.turns.iter().filter(|turn| turn.session == key && turn.state == state).count();
    let (running, waiting) = (of("running"), of("waiting"));
    Page::of(&SessionPage {
        layout: Layout::new(viewer, Some(NavItem::Sessions), agent.as_str()),
        can_write: key == sessions::own_key(&agent, &viewer.person),
        agent,
        turns: transcript.turns.into_iter().map(|turn| turn_view(texts, turn)).collect(),
        earlier: transcript.before.map(|before| format!("{address}?before={before}")),
        meter: report.as_ref().map(|report| Meter {
            used: report.conversation,
            room: report.room.max(1),
            text: format!("{} / {}", count(report.conversation), count(report.room)),
        }),
        compaction: report.and_then(|report| report.compaction).map(|last| CompactionView {
            number: last.number,
            at: Moment::new(last.at),
            before: count(last.before),
            after: count(last.after),
            kept: last
                .summary
                .map_or_else(|| last.marker.clone(), |summary| format!("{}\n\n{summary}", last.marker)),
        }),
        is_running: running > 0,
        waiting,
        key,
    })
}

fn turn_view(texts: &'static Texts, turn: Turn) -> TurnView {
    let took = turn.started_at.zip(turn.ended_at).map(|(began, ended)| duration(ended.saturating_sub(began)));
    let state = turn.state.unwrap_or_default();
    TurnView {
        state_text: state_text(texts, &state),
        state,
        began: turn.started_at.map(Moment::new),
        took: took.unwrap_or_default(),
        model: turn.model.unwrap_or_default(),
        error: turn.error,
        items: turn.items.into_iter().map(item_view).collect(),
        id: turn.turn,
    }
}

fn item_view(item: Item) -> ItemView {
    match item {
        Item::Message { role, text, at } => {
            ItemView::Message { role, at: Moment::new(at), html: markdown::html_in_page(&text, &[]) }
        }
        Item::Thinking { text } => ItemView::Thinking { text: clean::block(&text).into_owned() },
        Item::Picture { media_type } => ItemView::Picture { media_type },
        Item::Call { tool, arguments, result } => ItemView::Call {
            head: head(&arguments),
            diff: diff(&arguments),
            arguments: shown(&arguments),
            tool,
            result: result.map(|result| ResultView {
                text: clean::block(&result.text).into_owned(),
                is_error: result.is_error,
                took: duration(i64::try_from(result.took_ms).unwrap_or(i64::MAX)),
            }),
        },
    }
}

/// Returns what a call is about, on one line: its command, its file, or its first text.
fn head(arguments: &Value) -> String {
    const MOST: usize = 120;
    let named =
        ["command", "path", "message", "channelId", "name"].iter().find_map(|name| arguments[name].as_str());
    let text = named.or_else(|| arguments.as_object()?.values().find_map(Value::as_str)).unwrap_or_default();
    clean::summary(text, MOST)
}

/// Returns the lines that an edit takes away and adds.
fn diff(arguments: &Value) -> Vec<DiffLine> {
    let (Some(old), Some(new)) = (arguments["oldText"].as_str(), arguments["newText"].as_str()) else {
        return Vec::new();
    };
    let lines = |text: &str, kind| {
        text.lines().map(|line| DiffLine { kind, text: clean::inline(line).into_owned() }).collect::<Vec<_>>()
    };
    let mut diff = lines(old, "removed");
    diff.extend(lines(new, "added"));
    diff
}

fn shown(arguments: &Value) -> String {
    clean::block(&serde_json::to_string_pretty(arguments).unwrap_or_default()).into_owned()
}

/// Returns a number of milliseconds as people read it.
fn duration(milliseconds: i64) -> String {
    let milliseconds = milliseconds.max(0);
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => format!("{} min {} s", milliseconds / 60_000, milliseconds / 1_000 % 60),
    }
}

/// Returns the words for the state of a turn.
pub(super) fn state_text(texts: &'static Texts, state: &str) -> &'static str {
    match state {
        "started" | "running" => texts.turn_started,
        "failed" => texts.turn_failed,
        "cancelled" => texts.turn_cancelled,
        "interrupted" => texts.turn_interrupted,
        _ => texts.turn_done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_are_shown_as_people_read_them() {
        assert_eq!([0, 999, 1_250, 61_000].map(duration), ["0 ms", "999 ms", "1.2 s", "1 min 1 s"]);
    }

    #[test]
    fn a_call_is_named_by_what_it_is_about() {
        assert_eq!(head(&json!({"timeout": 3, "command": "cargo test\nls"})), "cargo test ls");
        assert_eq!(head(&json!({"x": 1, "y": "z"})), "z");
        assert_eq!(head(&json!("broken")), "");
    }

    #[test]
    fn an_edit_is_shown_as_the_lines_that_change() {
        let lines = diff(&json!({"path": "a", "oldText": "one\ntwo", "newText": "three"}));
        let shown: Vec<_> = lines.iter().map(|line| (line.kind, line.text.as_str())).collect();
        assert_eq!(shown, [("removed", "one"), ("removed", "two"), ("added", "three")]);
        assert!(diff(&json!({"content": "x"})).is_empty());
    }
}

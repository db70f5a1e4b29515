//! A turn of a session as people read it: what was said, and every call with what it changed and gave.

use serde::Deserialize;
use serde_json::Value;

use crate::clean;
use crate::dashboard::format::Moment;
use crate::dashboard::pages::sessions;
use crate::dashboard::query;
use crate::dashboard::texts::Texts;
use crate::id::SessionKey;
use crate::markdown;
use crate::picture;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Turn {
    pub turn: String,
    pub state: Option<String>,
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub model: Option<String>,
    pub error: Option<String>,
    pub items: Vec<Item>,
    /// The log of its work, if it was asked for.
    pub trace: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Item {
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
        n: usize,
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
pub(super) struct CallResult {
    text: String,
    is_error: bool,
    took_ms: u64,
}

pub(super) struct TurnView {
    pub id: String,
    /// The address of the page with the log of its work.
    pub log: String,
    /// The stable word of its state.
    pub state: String,
    pub state_text: &'static str,
    pub began: Option<Moment>,
    pub took: String,
    pub model: String,
    pub error: Option<String>,
    pub items: Vec<ItemView>,
}

pub(super) enum ItemView {
    Message {
        role: String,
        at: Moment,
        html: String,
    },
    Thinking {
        text: String,
    },
    /// A picture with the address of its route and its number for people. The address is `None` if browsers can't show it.
    Picture {
        address: Option<String>,
        number: usize,
        media_type: String,
    },
    Call {
        tool: String,
        head: String,
        arguments: String,
        diff: Vec<DiffLine>,
        result: Option<ResultView>,
    },
}

pub(super) struct ResultView {
    pub text: String,
    pub is_error: bool,
    pub took: String,
}

/// A line of the change that a call makes to files.
pub(super) struct DiffLine {
    pub kind: DiffKind,
    /// The line with its sign.
    pub text: String,
}

/// The way in which a line changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffKind {
    Added,
    Removed,
    /// The name of a file, or a place in it.
    Head,
    Same,
}

impl TurnView {
    /// Makes the view of a turn of this session.
    pub(super) fn new(texts: &'static Texts, session: &SessionKey, turn: Turn) -> Self {
        let took =
            turn.started_at.zip(turn.ended_at).map(|(began, ended)| duration(ended.saturating_sub(began)));
        let state = turn.state.unwrap_or_default();
        Self {
            log: sessions::turn_address(session, &turn.turn),
            state_text: state_text(texts, &state),
            state,
            began: turn.started_at.map(Moment::new),
            took: took.unwrap_or_default(),
            model: turn.model.unwrap_or_default(),
            error: turn.error.map(|error| clean::block(&error).into_owned()),
            items: {
                let (session, id) = (query::encoded(session.as_str()), query::encoded(&turn.turn));
                let route = format!("/api/sessions/{session}/turns/{id}");
                turn.items.into_iter().map(|item| item_view(&route, item)).collect()
            },
            id: turn.turn,
        }
    }
}

fn item_view(turn: &str, item: Item) -> ItemView {
    match item {
        Item::Message { role, text, at } => {
            ItemView::Message { role, at: Moment::new(at), html: markdown::html_in_page(&text, &[], &[]) }
        }
        Item::Thinking { text } => ItemView::Thinking { text: clean::block(&text).into_owned() },
        Item::Picture { n, media_type } => {
            let is_shown = picture::MEDIA_TYPES.contains(&&*media_type);
            ItemView::Picture {
                address: is_shown.then(|| format!("{turn}/pictures/{n}")),
                number: n + 1,
                media_type: clean::summary(&media_type, 40),
            }
        }
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

/// Returns the lines that an edit takes away and adds, or the lines of a patch.
fn diff(arguments: &Value) -> Vec<DiffLine> {
    let line = |kind, text: &str| DiffLine { kind, text: clean::inline(text).into_owned() };
    if let Some(patch) = arguments["input"].as_str().filter(|input| input.contains("*** Begin Patch")) {
        return patch.lines().map(|text| line(kind_in_patch(text), text)).collect();
    }
    let (Some(old), Some(new)) = (arguments["oldText"].as_str(), arguments["newText"].as_str()) else {
        return Vec::new();
    };
    let lines = |text: &str, kind: DiffKind| {
        text.lines().map(|text| line(kind, &format!("{} {text}", kind.sign()))).collect::<Vec<_>>()
    };
    let mut diff = lines(old, DiffKind::Removed);
    diff.extend(lines(new, DiffKind::Added));
    diff
}

fn kind_in_patch(line: &str) -> DiffKind {
    match line.as_bytes().first() {
        Some(b'+') => DiffKind::Added,
        Some(b'-') => DiffKind::Removed,
        Some(b'*' | b'@') => DiffKind::Head,
        _ => DiffKind::Same,
    }
}

impl DiffKind {
    /// Returns the class of the line on the page.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Head => "head-of-diff",
            Self::Same => "same",
        }
    }

    const fn sign(self) -> char {
        if matches!(self, Self::Added) { '+' } else { '-' }
    }
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
pub(in crate::dashboard::pages) fn state_text(texts: &'static Texts, state: &str) -> &'static str {
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
        let shown = |arguments: Value| -> Vec<(DiffKind, String)> {
            diff(&arguments).into_iter().map(|line| (line.kind, line.text)).collect()
        };
        let (added, removed) = (DiffKind::Added, DiffKind::Removed);
        assert_eq!(
            shown(json!({"path": "a", "oldText": "one\ntwo", "newText": "three"})),
            [(removed, "- one".to_owned()), (removed, "- two".to_owned()), (added, "+ three".to_owned())]
        );
        assert!(shown(json!({"content": "x"})).is_empty());
        let patch = "*** Begin Patch\n*** Update File: a\n@@\n same\n-old\n+new\n*** End Patch";
        let kinds: Vec<_> = shown(json!({"input": patch})).into_iter().map(|(kind, _)| kind).collect();
        let (head, same) = (DiffKind::Head, DiffKind::Same);
        assert_eq!(kinds, [head, head, head, same, removed, added, head]);
    }
}

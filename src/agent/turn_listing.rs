//! The turns of a session in full, for people: what was said, every call with its result, and how each turn ended.

use serde::Serialize;
use serde_json::Value;

use super::engine::Engine;
use super::messages::{self, read};
use super::recent_exchanges::words;
use super::transcript::{Exchange, ExchangeScope, MessageRecord, TurnPhase};
use super::turn::TurnError;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::message::joined_text;
use crate::provider::{Block, Role, Usage};

/// Bytes of text after which a listing ends early.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The turns that a listing has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnSelection {
    pub place: ListingPlace,
    /// Number of turns at most.
    pub limit: usize,
    /// `true` for turns with their log.
    pub with_trace: bool,
}

/// The place in a session at which a listing ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingPlace {
    /// The end of the session.
    End,
    /// The turn before this one.
    Before(TurnId),
    /// This turn.
    At(TurnId),
}

/// A turn as clients list it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedTurn {
    pub turn: TurnId,
    /// `started` while it runs, else how it ended. `None` for one whose beginning and end are not in the transcript.
    pub state: Option<TurnPhase>,
    /// Unix milliseconds.
    pub started_at: Option<i64>,
    /// Unix milliseconds.
    pub ended_at: Option<i64>,
    /// `native`, or the name of a program.
    pub runtime: String,
    /// The model as `provider/model`.
    pub model: Option<String>,
    pub usage: Option<Usage>,
    /// The error that ended it.
    pub error: Option<String>,
    pub items: Vec<TurnItem>,
    /// The log of the agent's work, one line per step. `None` if nobody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<String>>,
}

/// A part of a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum TurnItem {
    /// Somebody said something.
    Message { role: Role, text: String, at: i64 },
    /// A thought of the model.
    Thinking { text: String, at: i64 },
    /// A picture, without its bytes. `n` is its number in the turn.
    #[serde(rename_all = "camelCase")]
    Picture { role: Role, n: usize, media_type: String, at: i64 },
    /// A call of a tool.
    Call { call: String, tool: String, arguments: Value, at: i64, result: Option<CallResult> },
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallResult {
    pub text: String,
    pub is_error: bool,
    /// Number of pictures in it.
    pub pictures: usize,
    /// Milliseconds between the call and the result.
    pub took_ms: i64,
}

impl Engine {
    /// Returns the last turns of a session up to a place, oldest first. There are fewer than asked for if they are long.
    /// The flag is `true` if there are earlier ones.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::Store`] if the database can't be read, and [`TurnError::Transcript`] if the transcript
    /// can't.
    pub(crate) async fn turns(
        &self,
        key: &SessionKey,
        TurnSelection { place, limit, with_trace }: TurnSelection,
    ) -> Result<(Vec<ListedTurn>, bool), TurnError> {
        let agent = key.agent().clone();
        self.read_transcript(key, move |path| {
            let mut newest = Vec::new();
            let (mut size, mut has_more) = (0, false);
            let mut is_reached = place == ListingPlace::End;
            // The turns come newest first, so the results of calls that were handed to a client come before the calls.
            let mut later = Vec::new();
            read(path, ExchangeScope::Whole, |exchange| {
                let late = std::mem::replace(&mut later, late_results(&exchange));
                if !is_reached {
                    match place {
                        ListingPlace::At(turn) if exchange.turn() == Some(turn) => is_reached = true,
                        ListingPlace::Before(turn) => {
                            is_reached = exchange.turn() == Some(turn);
                            return true;
                        }
                        _ => return true,
                    }
                }
                if newest.len() == limit || size > MAX_BYTES {
                    has_more = true;
                    return false;
                }
                if let Some(mut turn) = listed(&exchange, &agent, with_trace) {
                    late.iter().for_each(|record| add_results(&mut turn.items, record));
                    size += turn.items.iter().map(TurnItem::size).sum::<usize>();
                    newest.push(turn);
                }
                true
            })?;
            newest.reverse();
            Ok((newest, has_more))
        })
        .await
    }

    /// Returns the type and the base64 of a picture of a turn by its number, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::Store`] if the database can't be read, and [`TurnError::Transcript`] if the transcript
    /// can't.
    pub(crate) async fn picture(
        &self,
        key: &SessionKey,
        turn: TurnId,
        number: usize,
    ) -> Result<Option<(String, String)>, TurnError> {
        self.read_transcript(key, move |path| {
            let mut found = None;
            read(path, ExchangeScope::Whole, |exchange| {
                if exchange.turn() != Some(turn) {
                    return true;
                }
                found = pictures(&exchange).nth(number);
                false
            })?;
            Ok(found)
        })
        .await
    }
}

/// Returns the pictures of a turn in the order of [`items`]. Those in the results of tools are left out, as there.
fn pictures(exchange: &Exchange) -> impl Iterator<Item = (String, String)> + '_ {
    let blocks = in_order(exchange).into_iter().flat_map(|record| &record.message.content);
    blocks.filter_map(|block| match block {
        Block::Image { media_type, data } => Some((media_type.clone(), data.clone())),
        _ => None,
    })
}

fn listed(exchange: &Exchange, agent: &AgentId, with_trace: bool) -> Option<ListedTurn> {
    let turn = exchange.turn()?;
    let (began, ended) = (exchange.began.as_ref(), exchange.ended.as_ref());
    Some(ListedTurn {
        turn,
        state: ended.or(began).map(|record| record.state),
        started_at: began.map(|began| began.at),
        ended_at: ended.map(|ended| ended.at),
        runtime: messages::runtime(exchange),
        model: messages::model(exchange),
        usage: ended.and_then(|ended| ended.usage),
        error: ended.and_then(|ended| ended.error.clone()),
        items: items(exchange),
        trace: with_trace.then(|| messages::log(exchange, agent)),
    })
}

/// Returns the messages of a turn in the order in which they were written.
fn in_order(exchange: &Exchange) -> Vec<&MessageRecord> {
    let mut records: Vec<&MessageRecord> =
        exchange.said.iter().chain(&exchange.between).chain(&exchange.answer).collect();
    // What was steered into the turn stands between its calls. The ids grow with time.
    records.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.id.cmp(&b.id)));
    records
}

/// Returns the parts of a turn in the order in which they were written, each call with its result.
fn items(exchange: &Exchange) -> Vec<TurnItem> {
    let (mut items, mut pictures) = (Vec::new(), 0);
    for record in in_order(exchange) {
        let (role, at) = (record.message.role, record.at);
        if role == Role::User {
            items.push(TurnItem::Message { role, text: words(record), at });
        }
        for block in &record.message.content {
            match block {
                // The words of a person were added above, without what flock wrote beside them.
                Block::Text { .. } if role == Role::User => {}
                Block::Text { text, .. } if text.trim().is_empty() => {}
                Block::Text { text, .. } => items.push(TurnItem::Message { role, text: text.clone(), at }),
                Block::Thinking { thinking, .. } if thinking.trim().is_empty() => {}
                Block::Thinking { thinking, .. } => {
                    items.push(TurnItem::Thinking { text: thinking.clone(), at });
                }
                Block::Image { media_type, .. } => {
                    items.push(TurnItem::Picture { role, n: pictures, media_type: media_type.clone(), at });
                    pictures += 1;
                }
                Block::ToolCall { id, name, arguments, .. } => items.push(TurnItem::Call {
                    call: id.clone(),
                    tool: name.clone(),
                    arguments: arguments.clone(),
                    at,
                    result: None,
                }),
                Block::ToolResult { call_id, content, is_error, .. } => {
                    answer(&mut items, call_id, content, *is_error, record.at);
                }
                Block::Other(_) => {}
            }
        }
    }
    items
}

/// Returns the results at the beginning of a turn. They are those of calls of the turn before.
fn late_results(exchange: &Exchange) -> Vec<MessageRecord> {
    let records = in_order(exchange).into_iter();
    records.take_while(|record| record.message.role == Role::Tool).cloned().collect()
}

fn add_results(items: &mut [TurnItem], record: &MessageRecord) {
    for block in &record.message.content {
        if let Block::ToolResult { call_id, content, is_error, .. } = block {
            answer(items, call_id, content, *is_error, record.at);
        }
    }
}

/// Adds a result to its call. A result whose call is missing is left out: a repair has removed the call.
fn answer(items: &mut [TurnItem], id: &str, content: &[Block], is_error: bool, at: i64) {
    let open = items.iter_mut().rev().find_map(|item| match item {
        TurnItem::Call { call, at, result, .. } if call == id && result.is_none() => Some((*at, result)),
        _ => None,
    });
    if let Some((began, result)) = open {
        let pictures = content.iter().filter(|block| matches!(block, Block::Image { .. })).count();
        *result =
            Some(CallResult { text: joined_text(content), is_error, pictures, took_ms: (at - began).max(0) });
    }
}

impl TurnItem {
    fn size(&self) -> usize {
        match self {
            Self::Message { text, .. } | Self::Thinking { text, .. } => text.len(),
            Self::Picture { .. } => 0,
            Self::Call { arguments, result, .. } => {
                arguments.to_string().len() + result.as_ref().map_or(0, |result| result.text.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::agent::transcript::TurnRecord;
    use crate::provider::Message;

    fn record(turn: TurnId, at: i64, role: Role, content: Vec<Block>) -> MessageRecord {
        MessageRecord::new(turn, at, Message { role, content })
    }

    fn call(id: &str) -> Block {
        let (id, name) = (id.to_owned(), "exec".to_owned());
        Block::ToolCall { id, name, arguments: json!({"command": "ls"}), signature: None }
    }

    fn result(id: &str, text: &str) -> Block {
        let content = Arc::from([Block::text(text)]);
        Block::ToolResult {
            call_id: id.to_owned(),
            name: "exec".to_owned(),
            content,
            is_error: text == "bad",
        }
    }

    #[test]
    fn each_call_is_listed_with_its_result_in_the_order_of_the_turn() {
        let turn = TurnId::new();
        let between = vec![
            record(turn, 2, Role::Assistant, vec![Block::text("I look."), call("a"), call("b")]),
            record(turn, 5, Role::Tool, vec![result("b", "bad"), result("lost", "x")]),
            record(turn, 7, Role::Tool, vec![result("a", "fine")]),
        ];
        let exchange = Exchange {
            said: vec![
                record(turn, 1, Role::User, vec![Block::text("do it")]),
                record(turn, 6, Role::User, vec![Block::text("hurry")]),
            ],
            between,
            answer: Some(record(turn, 9, Role::Assistant, vec![Block::text("done"), Block::text(" ")])),
            began: Some(TurnRecord::new(turn, TurnPhase::Started, 1)),
            ended: Some(TurnRecord::new(turn, TurnPhase::Done, 10)),
        };
        let listed = listed(&exchange, &"coder".parse().unwrap(), false).unwrap();
        assert_eq!(
            (listed.state, listed.started_at, listed.ended_at),
            (Some(TurnPhase::Done), Some(1), Some(10))
        );
        let shown: Vec<String> = listed
            .items
            .iter()
            .map(|item| match item {
                TurnItem::Message { text, .. } => text.clone(),
                TurnItem::Call { call, result: Some(result), .. } => {
                    format!("{call}: {} {} {}", result.text, result.is_error, result.took_ms)
                }
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(shown, ["do it", "I look.", "a: fine false 5", "b: bad true 3", "hurry", "done"]);
    }

    #[test]
    fn pictures_are_numbered_as_they_are_listed() {
        let turn = TurnId::new();
        let picture =
            |kind: &str, data: &str| Block::Image { media_type: kind.to_owned(), data: data.to_owned() };
        let exchange = Exchange {
            said: vec![
                record(turn, 3, Role::User, vec![picture("image/gif", "second")]),
                record(turn, 1, Role::User, vec![Block::text("look"), picture("image/png", "first")]),
            ],
            ..Exchange::default()
        };
        let listed: Vec<(usize, String)> = items(&exchange)
            .into_iter()
            .filter_map(|item| match item {
                TurnItem::Picture { n, media_type, .. } => Some((n, media_type)),
                _ => None,
            })
            .collect();
        assert_eq!(listed, [(0, "image/png".to_owned()), (1, "image/gif".to_owned())]);
        let data: Vec<String> = pictures(&exchange).map(|(_, data)| data).collect();
        assert_eq!(data, ["first", "second"]);
    }

    #[test]
    fn a_call_that_still_runs_has_no_result() {
        let turn = TurnId::new();
        let exchange = Exchange {
            said: vec![record(turn, 1, Role::User, vec![Block::text("do it")])],
            answer: Some(record(turn, 2, Role::Assistant, vec![call("a")])),
            began: Some(TurnRecord::new(turn, TurnPhase::Started, 1)),
            ..Exchange::default()
        };
        let listed = listed(&exchange, &"coder".parse().unwrap(), false).unwrap();
        assert_eq!(listed.state, Some(TurnPhase::Started));
        assert!(
            matches!(listed.items.last(), Some(TurnItem::Call { result: None, .. })),
            "{:?}",
            listed.items
        );
    }
}

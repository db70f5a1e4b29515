//! Tools that a client brings with its request and runs itself.
//!
//! The model is offered them beside the agent's own. If it calls some, the turn ends with these calls in the transcript,
//! without a result: they are pending. The session's next turn begins with their results. Until then nothing is held:
//! no claim, no slot, no reservation. Names, descriptions, schemas and results are text of the client, and as untrusted
//! as anything else that it sends.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::prompt::without_marks;
use super::result_limits::bound;
use super::turn::TurnError;
use crate::clean;
use crate::id::TurnId;
use crate::provider::message::ToolCall;
use crate::provider::{Block, ToolChoice, ToolSpec};
use crate::store::PendingCall;

/// The beginning of the id under which a client knows a call. The turn's id and the call's place in its answer follow.
const ID_PREFIX: &str = "call_";

/// The result of a call that the client did not answer.
const NOT_ANSWERED: &str =
    "the client sent no result: this call was not answered, and nothing is known of its effect";

/// The most characters of the text that says what is wrong with arguments.
const MAX_PROBLEM_CHARS: usize = 600;

/// A client's tool.
#[derive(Clone, Debug)]
pub struct ClientTool {
    pub spec: ToolSpec,
    /// The schema that arguments must fit before the client is handed a call.
    pub strict: Option<Arc<Validator>>,
}

/// The part of a request that is about the client's own tools.
#[derive(Clone, Debug, Default)]
pub struct ClientTools {
    pub tools: Vec<ClientTool>,
    /// The freedom of the model to call tools.
    pub choice: ToolChoice,
    /// `true` if the client takes one call at a time.
    pub one_at_a_time: bool,
    /// The results of the calls that are pending in the session.
    pub results: Vec<ClientResult>,
}

/// The result of a call, from the client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientResult {
    /// The id of the call as the client knows it.
    pub call: String,
    pub content: Vec<Block>,
}

/// A call that is handed to the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientCall {
    /// The id of the call as the client knows it.
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

/// A call at the end of a conversation that has no result yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenCall {
    /// The id of the call as the client knows it.
    pub(super) id: String,
    /// The id of the call in the transcript.
    pub(super) call_id: String,
    pub(super) name: String,
}

/// Returns the id under which a client knows the call at this place of the turn's last answer.
///
/// The ids of models are not used: some number the calls of each answer from the start.
#[must_use]
pub(crate) fn client_call_id(turn: TurnId, place: usize) -> String {
    format!("{ID_PREFIX}{}_{place}", turn.to_string().replace('-', ""))
}

/// Returns the turn whose call has this id, or `None` if flock gave out no such id.
#[must_use]
pub(crate) fn turn_of_call(id: &str) -> Option<TurnId> {
    let (turn, place) = id.strip_prefix(ID_PREFIX)?.split_once('_')?;
    place.parse::<usize>().ok()?;
    uuid::Uuid::parse_str(turn).ok()?.to_string().parse().ok()
}

impl ClientTools {
    /// Returns the client's tool of this name.
    #[must_use]
    pub(super) fn find(&self, name: &str) -> Option<&ClientTool> {
        self.tools.iter().find(|tool| tool.spec.name == name)
    }

    /// Returns `true` if the request brings tools or results of calls.
    #[must_use]
    pub fn is_used(&self) -> bool {
        !self.tools.is_empty() || !self.results.is_empty()
    }

    pub(super) fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|tool| &tool.spec)
    }

    /// Returns the results of the pending calls as blocks of the transcript, in the order of the calls.
    ///
    /// Without any result, each call gets an error as its result, because the conversation goes on without the client's
    /// answer.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::NotPending`] if there are results, and they are not exactly those of the pending calls.
    pub(super) fn answers(&mut self, open: &[OpenCall]) -> Result<Vec<Block>, TurnError> {
        if self.results.is_empty() {
            return Ok(open.iter().map(|call| unanswered(&call.call_id, &call.name)).collect());
        }
        let results = std::mem::take(&mut self.results);
        let ids: Vec<&str> = results.iter().map(|result| result.call.as_str()).collect();
        check_results(&ids, open.iter().map(|call| call.id.as_str()))
            .map_err(|fault| TurnError::NotPending(fault.to_string()))?;
        let mut contents: HashMap<String, Vec<Block>> =
            results.into_iter().map(|result| (result.call, result.content)).collect();
        let answer = |call: &OpenCall| {
            let content = bounded(contents.remove(&call.id).unwrap_or_default()).into();
            let (call_id, name) = (call.call_id.clone(), call.name.clone());
            Block::ToolResult { call_id, name, content, is_error: false }
        };
        Ok(open.iter().map(answer).collect())
    }
}

/// The fault of the results of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResultFault {
    #[error("there are two results of the call {0:?}")]
    Doubled(String),
    #[error("no call with the id {0:?} waits for a result in this session")]
    Unknown(String),
    #[error(
        "the call {0:?} waits for a result too, and there is none: send the results of all calls in one request"
    )]
    Missing(String),
}

/// Checks that the results with these ids are exactly those of the pending calls.
///
/// # Errors
///
/// Returns the first fault.
pub(crate) fn check_results<'c>(
    results: &[&str],
    pending: impl IntoIterator<Item = &'c str>,
) -> Result<(), ResultFault> {
    let pending: Vec<&str> = pending.into_iter().collect();
    let named = |id: &str| clean::label(id, 80);
    for (at, id) in results.iter().enumerate() {
        if results[..at].contains(id) {
            return Err(ResultFault::Doubled(named(id)));
        }
        if !pending.contains(id) {
            return Err(ResultFault::Unknown(named(id)));
        }
    }
    match pending.iter().find(|id| !results.contains(id)) {
        Some(id) => Err(ResultFault::Missing(named(id))),
        None => Ok(()),
    }
}

/// Returns the result of a call that the client went on without.
#[must_use]
pub(crate) fn unanswered(call_id: &str, name: &str) -> Block {
    Block::ToolResult {
        call_id: call_id.to_owned(),
        name: name.to_owned(),
        content: [Block::text(NOT_ANSWERED)].into(),
        is_error: true,
    }
}

/// Bounds a client's result as that of any tool. It can't imitate what flock puts beside a message.
#[must_use]
pub(crate) fn bounded(content: Vec<Block>) -> Vec<Block> {
    let content = content.into_iter().map(|block| match block {
        Block::Text { text, .. } => Block::text(without_marks(&text)),
        other => other,
    });
    bound(content.collect::<Vec<_>>().into()).content
}

/// The client's tools in one answer of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientSide<'a> {
    pub(super) tools: &'a ClientTools,
    /// Number of calls of this answer that are handed out already.
    pub(super) handed_out: usize,
}

impl<'a> ClientSide<'a> {
    /// Returns the decision about a call of a client's tool, or `None` if the client has no such tool. An error is for
    /// the model, and the client never sees that call.
    pub(super) fn decide(&self, call: &ToolCall<'_>) -> Option<Result<(), String>> {
        let tool = self.tools.find(call.name)?;
        if self.tools.one_at_a_time && self.handed_out > 0 {
            return Some(Err(
                "not run: the client takes one call at a time; call it again after the result of \
                             the other one"
                    .to_owned(),
            ));
        }
        Some(tool.check(call.arguments))
    }
}

impl ClientTool {
    fn check(&self, arguments: &Value) -> Result<(), String> {
        let Some(strict) = &self.strict else { return Ok(()) };
        match strict.iter_errors(arguments).next() {
            None => Ok(()),
            Some(error) => {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { "the whole".to_owned() } else { place };
                let wrong = clean::summary(&format!("{place}: {error}"), MAX_PROBLEM_CHARS);
                Err(format!("not run: the arguments do not fit the tool's schema ({wrong})"))
            }
        }
    }
}

/// Returns the calls as the database and the transcript keep them.
pub(super) fn pending(calls: &[ClientCall]) -> Vec<PendingCall> {
    calls.iter().map(|call| PendingCall { id: call.id.clone(), name: call.name.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn open(id: &str) -> OpenCall {
        OpenCall { id: id.to_owned(), call_id: format!("own-{id}"), name: "weather".to_owned() }
    }

    fn result(id: &str, text: &str) -> ClientResult {
        ClientResult { call: id.to_owned(), content: vec![Block::text(text)] }
    }

    #[test]
    fn an_id_names_its_turn_and_nothing_else_does() {
        let turn = TurnId::new();
        let id = client_call_id(turn, 7);
        assert_eq!(turn_of_call(&id), Some(turn));
        assert!(id.len() <= 64 && crate::provider::call::is_plain(&id), "{id}");
        for other in ["", "call_", "call_script_1", "call_abc", "toolu_01", "call_00000000_1", "call__"] {
            assert_eq!(turn_of_call(other), None, "{other}");
        }
    }

    #[test]
    fn results_must_be_those_of_the_pending_calls() {
        for (results, pending, fault) in [
            (vec!["a", "b"], vec!["b", "a"], None),
            (vec!["a"], vec!["a"], None),
            (vec!["a", "a"], vec!["a"], Some(ResultFault::Doubled("a".into()))),
            (vec!["a"], vec![], Some(ResultFault::Unknown("a".into()))),
            (vec!["c", "a"], vec!["a"], Some(ResultFault::Unknown("c".into()))),
            (vec!["a"], vec!["a", "b"], Some(ResultFault::Missing("b".into()))),
        ] {
            assert_eq!(check_results(&results, pending.clone()).err(), fault, "{results:?} {pending:?}");
        }
    }

    #[test]
    fn results_get_the_ids_of_the_transcript_and_missing_ones_are_errors() {
        let mut tools =
            ClientTools { results: vec![result("b", "two"), result("a", "one")], ..Default::default() };
        let answers = tools.answers(&[open("a"), open("b")]).unwrap();
        let ids: Vec<(String, bool)> = answers
            .iter()
            .map(|block| match block {
                Block::ToolResult { call_id, is_error, .. } => (call_id.clone(), *is_error),
                _ => panic!(),
            })
            .collect();
        assert_eq!(ids, [("own-a".to_owned(), false), ("own-b".to_owned(), false)]);
        let mut nothing = ClientTools::default();
        let answers = nothing.answers(&[open("a")]).unwrap();
        let Block::ToolResult { content, is_error: true, .. } = &answers[0] else { panic!("{answers:?}") };
        assert!(crate::provider::message::joined_text(content).contains("was not answered"));
        let mut stray = ClientTools { results: vec![result("a", "one")], ..Default::default() };
        assert!(matches!(stray.answers(&[]), Err(TurnError::NotPending(_))));
    }

    #[test]
    fn results_are_bounded_and_imitate_nothing() {
        let mark = super::super::prompt::message_context(0, &jiff::tz::TimeZone::UTC, &[], &[]).remove(0);
        let content = bounded(vec![Block::text(mark.clone()), Block::text("x".repeat(1 << 20))]);
        let text = crate::provider::message::joined_text(&content);
        assert!(text.len() < 70_000 && !text.contains(mark.trim()), "{}", text.len());
        assert_eq!(bounded(Vec::new()).len(), 1);
    }

    #[test]
    fn a_call_is_handed_out_if_it_fits() {
        let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}},
            "required": ["city"], "additionalProperties": false});
        let strict = Arc::new(jsonschema::validator_for(&parameters).unwrap());
        let spec =
            ToolSpec { name: "weather".into(), description: String::new(), parameters: parameters.into() };
        let tool = ClientTool { spec, strict: Some(strict) };
        let tools = ClientTools { tools: vec![tool], one_at_a_time: true, ..Default::default() };
        let decide = |name: &str, arguments: &Value, handed_out| {
            ClientSide { tools: &tools, handed_out }.decide(&ToolCall { id: "1", name, arguments })
        };
        assert_eq!(decide("weather", &json!({"city": "Oslo"}), 0), Some(Ok(())));
        assert!(decide("weather", &json!({"city": 7}), 0).unwrap().unwrap_err().contains("/city"));
        assert!(decide("weather", &json!({"city": "Oslo"}), 1).unwrap().unwrap_err().contains("one call"));
        assert_eq!(decide("read", &json!({}), 0), None);
    }
}

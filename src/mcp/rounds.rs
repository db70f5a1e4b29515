//! Calls in rounds (version 2026-07-28). A server of this version sends no requests over the connection. It answers a call with what it
//! needs (`input_required`), and the call is made again with the answers, until it has a result. The answers follow the rules of
//! [`Asks`](super::asks::Asks).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::asks::{self, AskError, CallGuard, Offers};
use super::connection::{CallWaits, Connection};
use super::definition::cleaned_text;
use super::elicitation::PersonAnswer;
use super::error::McpError;
use crate::clean;
use crate::provider::BoxFuture;
use crate::store::McpCapability;
use crate::tool::{CallContext, ToolError};

/// The most demands of a server during one call, and the most requests in one of them.
const MAX_ROUNDS: u32 = 8;
const MAX_REQUESTS: usize = 8;
/// The most bytes of a request's key, and of the state that a server gives to flock for the next round.
const MAX_KEY: usize = 256;
const MAX_STATE: usize = 256 << 10;
/// The first pause before a call is made again for a server that only asks for that. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A call of a tool, with all its rounds.
pub(super) struct ToolCall<'a> {
    pub tool: &'a str,
    pub arguments: &'a Map<String, Value>,
    pub context: &'a CallContext,
    pub guard: &'a CallGuard,
    /// The capabilities that were granted for the agent that calls.
    pub offers: Offers,
    /// The time of all rounds together.
    pub limit: Duration,
}

/// The answers that a server gets with the next round.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub responses: BTreeMap<String, Value>,
    /// The state that the server sent. The protocol has it returned unchanged and unread.
    pub state: Option<String>,
}

/// The reason why a call has no result.
pub(super) enum CallError {
    Server(McpError),
    /// The agent may not call the tool any more.
    TakenBack(ToolError),
}

impl From<McpError> for CallError {
    fn from(error: McpError) -> Self {
        Self::Server(error)
    }
}

/// Checks that a call may be made once more.
pub(super) type MayGoOn<'a> = &'a (dyn Fn() -> BoxFuture<'a, Result<(), ToolError>> + Sync);

/// Makes a call, and makes it again for each demand of the server. It is repeated for no other reason.
///
/// # Errors
///
/// Returns an error if the call fails, if the server demands too much or something that it can't get, or if the time is over.
pub(super) async fn call(
    connection: &Connection,
    call: &ToolCall<'_>,
    may_go_on: MayGoOn<'_>,
) -> Result<Value, CallError> {
    let waits = CallWaits::new(call.limit, Some(call.guard), call.context.progress.as_ref());
    let excess = |what: String| McpError::Excess { server: connection.server.clone(), what };
    let mut answers = Answers::default();
    let (mut rounds, mut pause) = (0, FIRST_PAUSE);
    loop {
        let result = connection.call(call, answers, &waits).await?;
        if !is_demand(&result) {
            return Ok(result);
        }
        if !connection.asks_in_results {
            let version = &connection.version;
            let what =
                format!("answers with \"input_required\", which its version {version} of MCP does not have");
            return Err(excess(what).into());
        }
        if rounds == MAX_ROUNDS {
            return Err(excess(format!("asks for more than {MAX_ROUNDS} times during one call")).into());
        }
        rounds += 1;
        let demand = Demand::read(result).map_err(excess)?;
        answers = in_time(connection, call, &waits, async {
            if demand.requests.is_empty() {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            let answers = answers_to(connection, call, demand).await?;
            may_go_on().await.map_err(CallError::TakenBack)?;
            Ok(answers)
        })
        .await?;
    }
}

/// Returns `true` if a result is none, but a demand.
pub(super) fn is_demand(result: &Value) -> bool {
    result["resultType"] == "input_required"
}

/// Does the work between two rounds, unless the time is over, the server ends or the caller cancels.
async fn in_time<T>(
    connection: &Connection,
    call: &ToolCall<'_>,
    waits: &CallWaits<'_>,
    work: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let error = tokio::select! {
        done = work => return done,
        () = connection.flow.over.cancelled() => connection.ended(),
        () = waits.over() => McpError::Silent {
            server: connection.server.clone(),
            seconds: waits.limit.as_secs(),
            reported: "; it waited for something that it had asked for".to_owned(),
        },
        () = call.context.cancel.cancelled() => McpError::Cancelled,
    };
    Err(error.into())
}

/// The requests that a server wants answered before it goes on.
#[derive(Debug)]
struct Demand {
    requests: Vec<Request>,
    state: Option<String>,
}

#[derive(Debug)]
struct Request {
    /// The server's name for it, under which it gets the answer.
    key: String,
    /// `None` for the folders of the client (roots).
    wanted: Option<McpCapability>,
    params: Value,
}

impl Demand {
    /// Reads a demand.
    ///
    /// # Errors
    ///
    /// Returns what the server does wrong, as the end of a sentence about it.
    fn read(mut result: Value) -> Result<Self, String> {
        let mut part = |name: &str| result.get_mut(name).map(Value::take).unwrap_or_default();
        let state = match part("requestState") {
            Value::Null => None,
            Value::String(state) if state.len() <= MAX_STATE => Some(state),
            _ => {
                let limit = MAX_STATE >> 10;
                return Err(format!("sends a requestState that is no text of at most {limit} KiB"));
            }
        };
        let asked = match part("inputRequests") {
            Value::Null => Map::new(),
            Value::Object(asked) => asked,
            _ => return Err("sends inputRequests that are no object".to_owned()),
        };
        if asked.is_empty() && state.is_none() {
            return Err("answers with \"input_required\", but asks for nothing".to_owned());
        }
        if asked.len() > MAX_REQUESTS || asked.keys().any(|key| key.len() > MAX_KEY) {
            return Err(format!(
                "asks for more than {MAX_REQUESTS} things at once, or under a name of more than {MAX_KEY} bytes"
            ));
        }
        let requests = asked.into_iter().map(|(key, request)| Request::read(key, request));
        Ok(Self { requests: requests.collect::<Result<_, _>>()?, state })
    }
}

impl Request {
    fn read(key: String, mut request: Value) -> Result<Self, String> {
        let method = request["method"].as_str().unwrap_or_default();
        let wanted = match (asks::wanted(method), method) {
            (Some(wanted), _) => Some(wanted),
            (None, "roots/list") => None,
            (None, other) => {
                let other = clean::label(&cleaned_text(other), 60);
                return Err(format!("asks for {other:?} during a call, which MCP does not allow"));
            }
        };
        let params = request.get_mut("params").map(Value::take).unwrap_or_default();
        Ok(Self { key, wanted, params })
    }
}

/// Gets the answers to everything that a server demands, one after the other.
async fn answers_to(
    connection: &Connection,
    call: &ToolCall<'_>,
    demand: Demand,
) -> Result<Answers, McpError> {
    // Before anybody is asked: without the model's answer, the other answers are of no use.
    let mut wanted = demand.requests.iter().filter_map(|request| request.wanted);
    if !call.offers.sampling && wanted.any(|wanted| wanted == McpCapability::Sampling) {
        let server = connection.server.clone();
        return Err(McpError::NotGranted { server, wanted: McpCapability::Sampling });
    }
    let mut responses = BTreeMap::new();
    for Request { key, wanted, params } in demand.requests {
        let response = match wanted {
            Some(wanted) => answer(connection, call, wanted, params).await?,
            None => json!({"roots": []}),
        };
        responses.insert(key, response);
    }
    Ok(Answers { responses, state: demand.state })
}

/// Gets one answer. The protocol has no errors here: a question to a person can be declined, and the call ends without an answer of
/// a model.
async fn answer(
    connection: &Connection,
    call: &ToolCall<'_>,
    wanted: McpCapability,
    params: Value,
) -> Result<Value, McpError> {
    let answered = match call.offers.has(wanted) {
        true => connection.asks.answer_within(call.guard, wanted, params).await,
        false => Err(AskError::unknown()),
    };
    let error = match answered {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    if wanted == McpCapability::Elicitation && !error.is_failure() {
        tracing::info!(server = %connection.server, reason = error.message,
            "a question of an MCP server to a person was declined");
        return Ok(PersonAnswer::Declined.result());
    }
    Err(McpError::NotAnswered { server: connection.server.clone(), wanted, why: error.message })
}

/// Returns the capability that a server misses in a request, from the data of its error, if a person can grant it.
pub(super) fn missing(data: &Value) -> Option<McpCapability> {
    let required = &data["requiredCapabilities"];
    // Tools for the model, the context of the conversation, and questions that lead to an address are never offered.
    let plain = |name: &str, more: &[&str]| {
        let wants = required[name].as_object();
        wants.is_some_and(|wants| more.iter().all(|more| !wants.contains_key(*more)))
    };
    if plain("sampling", &["tools", "context"]) {
        Some(McpCapability::Sampling)
    } else if plain("elicitation", &["url"]) {
        Some(McpCapability::Elicitation)
    } else {
        None
    }
}

//! The requests of a server to flock, and the agents' calls that it can make them for. Over the connection, a server may ask only while
//! calls of one turn run on it, so that it is clear who is asked and charged. A request in the result of a call is that call's.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use rmcp::model::{ClientCapabilities, ErrorCode, ErrorData};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::log;
use super::servers::Servers;
use crate::config::McpServer;
use crate::id::{McpServerName, TurnId};
use crate::store::McpCapability;
use crate::sync::lock;
use crate::telemetry::{self, Current};
use crate::tool::{CallContext, ProgressSink};

/// The most requests of a server that wait for an answer at once.
const MAX_WAITING: usize = 8;

/// The protocol's codes of errors.
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL: i32 = -32603;
/// The code of a request that the user refused.
const REFUSED: i32 = -1;

/// The error that a server gets. It has nothing that a server should not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AskError {
    pub code: i32,
    pub message: String,
}

impl AskError {
    /// Returns the error of a request that is none, or too large.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: INVALID_PARAMS, message: message.into() }
    }

    /// Returns the error of a request that is not answered because of a rule or a limit.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { code: REFUSED, message: message.into() }
    }

    /// Returns the error of a request that could not be answered.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: INTERNAL, message: message.into() }
    }

    /// Returns `true` if flock failed, and the server did nothing wrong.
    pub const fn is_failure(&self) -> bool {
        self.code == INTERNAL
    }

    /// Returns the error of something that was not declared to the server.
    pub fn unknown() -> Self {
        let message = "not granted: flock gives this server no model, and asks nobody for it".to_owned();
        Self { code: METHOD_NOT_FOUND, message }
    }
}

impl From<AskError> for ErrorData {
    fn from(error: AskError) -> Self {
        Self::new(ErrorCode(error.code), error.message, None)
    }
}

/// The capabilities that a server may use. They are declared when the connection begins, and since 2026-07-28 with each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offers {
    pub sampling: bool,
    pub elicitation: bool,
}

impl Offers {
    /// Adds a capability.
    pub fn with(mut self, capability: McpCapability) -> Self {
        match capability {
            McpCapability::Sampling => self.sampling = true,
            McpCapability::Elicitation => self.elicitation = true,
        }
        self
    }

    /// Returns `true` if a capability is one of them.
    pub const fn has(self, capability: McpCapability) -> bool {
        match capability {
            McpCapability::Sampling => self.sampling,
            McpCapability::Elicitation => self.elicitation,
        }
    }

    /// Returns the declaration in the protocol's form.
    pub fn declared(self) -> ClientCapabilities {
        let mut declared = json!({});
        if self.sampling {
            declared["sampling"] = json!({});
        }
        if self.elicitation {
            // Questions that lead to an address are not declared.
            declared["elicitation"] = json!({"form": {}});
        }
        serde_json::from_value(declared).unwrap_or_default()
    }
}

/// Returns the capability that a request of a server needs. Folders (roots), and whatever a server invents, need none.
pub(super) fn wanted(method: &str) -> Option<McpCapability> {
    match method {
        "sampling/createMessage" => Some(McpCapability::Sampling),
        "elicitation/create" => Some(McpCapability::Elicitation),
        _ => None,
    }
}

/// The right to be answered now. Others wait meanwhile.
type Turn<'a> = (SemaphorePermit<'a>, SemaphorePermit<'a>);

/// The requests of one connection's server.
pub(super) struct Asks {
    servers: Weak<Servers>,
    server: McpServerName,
    pub offers: Offers,
    pub calls: Arc<RunningCalls>,
    /// One request is answered after the other. So limits can't be exceeded by asking at once.
    turn: Semaphore,
    waiting: Semaphore,
}

impl Asks {
    /// Creates the value for a connection that begins.
    pub fn new(servers: Weak<Servers>, server: McpServerName, offers: Offers) -> Arc<Self> {
        let (turn, waiting) = (Semaphore::new(1), Semaphore::new(MAX_WAITING));
        Arc::new(Self { servers, server, offers, calls: Arc::default(), turn, waiting })
    }

    /// Returns the requests of a server that no agent calls on this connection.
    pub fn of_nobody(server: &McpServer) -> Arc<Self> {
        Self::new(Weak::new(), server.name.clone(), Offers::default())
    }

    /// Answers a request that came over the connection. `given_up` is cancelled when the server does not want the answer any more.
    pub async fn answer(
        &self,
        method: &str,
        params: &Value,
        given_up: CancellationToken,
    ) -> Result<Value, AskError> {
        let wanted = wanted(method).filter(|wanted| self.offers.has(*wanted));
        let wanted = wanted.ok_or_else(AskError::unknown)?;
        let work = async {
            let _turn = self.take_turn().await?;
            let asked = self.calls.owner()?;
            self.answer_for(&asked, wanted, params).await
        };
        let cancelled = || AskError::refused("cancelled");
        given_up.run_until_cancelled(work).await.ok_or_else(cancelled)?
    }

    /// Answers a request that came in the result of a call, whose time stands still while other requests are answered first.
    ///
    /// The work is a task of its own, as it is for requests over the connection: if the caller gives up, it ends with the call, and
    /// after it has been written into the audit.
    pub async fn answer_within(
        self: &Arc<Self>,
        call: &CallGuard,
        wanted: McpCapability,
        params: Value,
    ) -> Result<Value, AskError> {
        let (this, asked) = (Arc::clone(self), call.asked()?);
        let queued = self.calls.pause(&asked);
        let work = tokio::spawn(async move {
            let turn = asked.over.run_until_cancelled(this.take_turn()).await;
            drop(queued);
            let _turn = turn.ok_or_else(|| AskError::refused("not done: the call has ended"))??;
            this.answer_for(&asked, wanted, &params).await
        });
        work.await.unwrap_or_else(|_| Err(AskError::failed("not done: flock failed")))
    }

    async fn take_turn(&self) -> Result<Turn<'_>, AskError> {
        let waits = self.waiting.try_acquire().map_err(|_| {
            AskError::refused(format!("not done: {MAX_WAITING} requests of this server wait already"))
        })?;
        let turn = self.turn.acquire().await.map_err(|_| AskError::failed("not done: flock is stopping"))?;
        Ok((waits, turn))
    }

    async fn answer_for(
        &self,
        asked: &AskedCall,
        wanted: McpCapability,
        params: &Value,
    ) -> Result<Value, AskError> {
        let servers = self.servers.upgrade().ok_or_else(AskError::unknown)?;
        match wanted {
            McpCapability::Sampling => servers.sample(&self.server, (&self.calls, asked), params).await,
            McpCapability::Elicitation => servers.elicit(&self.server, (&self.calls, asked), params).await,
        }
    }

    /// Passes a log message of the server on to the turn whose calls run.
    pub fn log(&self, params: &impl Serialize) {
        // Nothing is prepared for nobody, because a server can send any number of messages.
        let Some(sink) = self.calls.listener() else { return };
        let params = serde_json::to_value(params).unwrap_or_default();
        if let Some(message) = log::message(&self.server, &params) {
            sink.log(message);
        }
    }
}

/// The agents' calls that run on a connection.
#[derive(Default)]
pub(super) struct RunningCalls(Mutex<CallList>);

#[derive(Default)]
struct CallList {
    last: u64,
    calls: Vec<RunningCall>,
}

/// A call that runs.
#[derive(Clone)]
struct RunningCall {
    number: u64,
    context: CallContext,
    /// Cancelled when the call has ended.
    over: CancellationToken,
    trace: Option<Current>,
    sampled: Sampled,
    /// The number of questions to a person.
    questions: u32,
    /// The time in which a person was asked, without the question that is open.
    waited: Duration,
    /// The beginning of the open question.
    waits_since: Option<Instant>,
}

impl RunningCall {
    fn asked(&self, whose: Whose) -> AskedCall {
        let (context, over, trace) = (self.context.clone(), self.over.clone(), self.trace.clone());
        AskedCall { number: self.number, whose, context, over, trace }
    }
}

/// The questions of a server to an agent's model during one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sampled {
    /// The number of requests, including those that failed.
    pub asked: u32,
    pub answered: u32,
    /// Tokens of the answered ones.
    pub tokens: u64,
}

/// The calls that a request may be for.
#[derive(Clone, Copy)]
enum Whose {
    /// This one.
    Call(u64),
    /// Any of this turn.
    Turn(TurnId),
}

impl Whose {
    fn has(self, call: &RunningCall) -> bool {
        match self {
            Self::Call(number) => call.number == number,
            Self::Turn(turn) => call.context.turn == turn,
        }
    }
}

/// The call that a request is answered for.
pub(super) struct AskedCall {
    number: u64,
    whose: Whose,
    pub context: CallContext,
    /// Cancelled when the call has ended.
    pub over: CancellationToken,
    pub trace: Option<Current>,
}

impl RunningCalls {
    /// Adds a call, until the returned guard is dropped.
    pub fn begin(self: &Arc<Self>, context: &CallContext) -> CallGuard {
        let mut list = lock(&self.0);
        list.last += 1;
        let number = list.last;
        list.calls.push(RunningCall {
            number,
            context: context.clone(),
            over: CancellationToken::new(),
            trace: telemetry::current(),
            sampled: Sampled::default(),
            questions: 0,
            waited: Duration::ZERO,
            waits_since: None,
        });
        CallGuard { calls: Arc::clone(self), number }
    }

    /// Returns the call that a request belongs to.
    ///
    /// # Errors
    ///
    /// Returns the error for the server if no call runs, or if it is not clear who is asked.
    pub fn owner(&self) -> Result<AskedCall, AskError> {
        let list = lock(&self.0);
        owner(&list.calls).map(|call| call.asked(Whose::Turn(call.context.turn)))
    }

    /// Returns the recipient of what the server says about no particular call: the oldest call that listens, if all calls are
    /// of one turn. Otherwise a turn could be told what the call of another one is about.
    pub fn listener(&self) -> Option<ProgressSink> {
        let list = lock(&self.0);
        owner(&list.calls).ok()?;
        list.calls.iter().find_map(|call| call.context.progress.clone())
    }

    /// Counts a request of the call, or of the oldest call of the turn that has some left.
    ///
    /// # Errors
    ///
    /// Returns the error for the server if the calls have used up their number.
    pub fn count(&self, asked: &AskedCall, most: u32) -> Result<u64, AskError> {
        let mut list = lock(&self.0);
        let mut calls = list.calls.iter_mut().filter(|call| asked.whose.has(call));
        let call = calls.find(|call| call.sampled.asked < most).ok_or_else(|| {
            AskError::refused(format!("not done: a call can ask the agent's model {most} times"))
        })?;
        call.sampled.asked += 1;
        Ok(call.number)
    }

    /// Counts a question to a person.
    ///
    /// # Errors
    ///
    /// Returns the error for the server if the call has had its questions.
    pub fn count_question(&self, asked: &AskedCall, most: u32) -> Result<(), AskError> {
        let mut list = lock(&self.0);
        let call = list.calls.iter_mut().find(|call| call.number == asked.number);
        let call = call.filter(|call| call.questions < most);
        let call =
            call.ok_or_else(|| AskError::refused(format!("not done: a call can ask a person {most} times")))?;
        call.questions += 1;
        Ok(())
    }

    /// Lets the time of the call, or of all calls of the turn, stand still until the returned guard is dropped.
    pub fn pause(self: &Arc<Self>, asked: &AskedCall) -> Pause {
        self.each_of(asked.whose, |call| call.waits_since = Some(Instant::now()));
        Pause { calls: Arc::clone(self), whose: asked.whose }
    }

    fn each_of(&self, whose: Whose, change: impl FnMut(&mut RunningCall)) {
        lock(&self.0).calls.iter_mut().filter(|call| whose.has(call)).for_each(change);
    }

    /// Records an answer that was given during a call.
    pub fn answered(&self, number: u64, tokens: u64) {
        if let Some(call) = lock(&self.0).calls.iter_mut().find(|call| call.number == number) {
            call.sampled.answered += 1;
            call.sampled.tokens += tokens;
        }
    }
}

/// Decides which call a request belongs to: calls of two turns can't be told apart, since any of them may have caused it.
fn owner(calls: &[RunningCall]) -> Result<&RunningCall, AskError> {
    let Some(first) = calls.first() else {
        return Err(AskError::refused("not done: no agent's call of this server is running"));
    };
    let other = calls.iter().find(|call| call.context.turn != first.context.turn);
    match other {
        None => Ok(first),
        Some(other) if other.context.agent != first.context.agent => Err(AskError::refused(
            "not done: calls of several agents are running, so it is not clear for which of them this is",
        )),
        Some(_) => Err(AskError::refused(
            "not done: calls of several turns are running, so it is not clear for which of them this is",
        )),
    }
}

/// A time in which a person is asked.
pub(super) struct Pause {
    calls: Arc<RunningCalls>,
    whose: Whose,
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.calls.each_of(self.whose, |call| {
            if let Some(since) = call.waits_since.take() {
                call.waited += since.elapsed();
            }
        });
    }
}

/// A call that runs. What is asked for it ends with it.
pub(super) struct CallGuard {
    calls: Arc<RunningCalls>,
    number: u64,
}

impl CallGuard {
    /// Returns the call, for a request that is certainly made for it.
    fn asked(&self) -> Result<AskedCall, AskError> {
        let list = lock(&self.calls.0);
        let call = list.calls.iter().find(|call| call.number == self.number);
        let ended = || AskError::refused("not done: the call has ended");
        call.map(|call| call.asked(Whose::Call(self.number))).ok_or_else(ended)
    }

    /// Returns the time for which the call has stood still because a person was asked.
    pub fn waited(&self) -> Duration {
        let list = lock(&self.calls.0);
        let call = list.calls.iter().find(|call| call.number == self.number);
        call.map_or(Duration::ZERO, |call| {
            call.waited + call.waits_since.map_or(Duration::ZERO, |since| since.elapsed())
        })
    }

    /// Ends the call, and returns what the server asked during it.
    pub fn end(self) -> Sampled {
        let list = lock(&self.calls.0);
        let call = list.calls.iter().find(|call| call.number == self.number);
        let sampled = call.map(|call| call.sampled).unwrap_or_default();
        // The guard takes the lock again.
        drop(list);
        sampled
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut list = lock(&self.calls.0);
        if let Some(at) = list.calls.iter().position(|call| call.number == self.number) {
            list.calls.remove(at).over.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{AgentId, SessionKey, SessionKind};
    use crate::tool::CallProgress;

    fn context(agent: &str) -> CallContext {
        let agent: AgentId = agent.parse().unwrap();
        let session = SessionKey::new(&agent, SessionKind::Main, "ann");
        CallContext { agent, session, turn: TurnId::new(), cancel: CancellationToken::new(), progress: None }
    }

    fn refusal(calls: &RunningCalls) -> String {
        calls.owner().err().map(|error| error.message).unwrap_or_default()
    }

    #[test]
    fn a_request_belongs_to_the_only_turn_whose_calls_run() {
        let calls = Arc::new(RunningCalls::default());
        assert!(refusal(&calls).contains("no agent's call"));
        let coder = context("coder");
        let first = calls.begin(&coder);
        let second = calls.begin(&coder);
        assert_eq!(calls.owner().unwrap().context.turn, coder.turn);
        let other = calls.begin(&context("tester"));
        assert!(refusal(&calls).contains("several agents"));
        drop(other);
        let later = calls.begin(&context("coder"));
        assert!(refusal(&calls).contains("several turns"));
        drop(later);
        let asked = calls.owner().unwrap();
        drop(first);
        assert!(asked.over.is_cancelled(), "what is asked for a call ends with it");
        assert_eq!(calls.owner().unwrap().context.turn, coder.turn);
        drop(second);
        assert!(refusal(&calls).contains("no agent's call"));
    }

    #[test]
    fn what_a_server_says_is_heard_by_the_only_turn_whose_calls_run() {
        let calls = Arc::new(RunningCalls::default());
        let coder = context("coder");
        let (news, heard) = std::sync::mpsc::channel();
        let sink = ProgressSink::new(move |told| news.send(told).unwrap());
        let silent = calls.begin(&coder);
        assert!(calls.listener().is_none());
        let listens = calls.begin(&CallContext { progress: Some(sink.clone()), ..coder });
        calls.listener().unwrap().report(CallProgress { done: 1.0, total: None, message: None });
        assert!(heard.try_recv().is_ok());
        let other = calls.begin(&CallContext { progress: Some(sink), ..context("coder") });
        assert!(calls.listener().is_none(), "calls of two turns run");
        drop((silent, listens));
        assert!(calls.listener().is_some());
        drop(other);
        assert!(calls.listener().is_none());
    }

    #[test]
    fn requests_are_counted_for_each_call() {
        let calls = Arc::new(RunningCalls::default());
        let coder = context("coder");
        let (first, second) = (calls.begin(&coder), calls.begin(&coder));
        let asked = calls.owner().unwrap();
        let counted: Vec<u64> = (0..4).map(|_| calls.count(&asked, 2).unwrap()).collect();
        assert_eq!(counted, [1, 1, 2, 2]);
        assert!(calls.count(&asked, 2).unwrap_err().message.contains("2 times"));
        calls.answered(1, 30);
        calls.answered(1, 12);
        assert_eq!(first.end(), Sampled { asked: 2, answered: 2, tokens: 42 });
        assert_eq!(second.end(), Sampled { asked: 2, answered: 0, tokens: 0 });
        assert!(refusal(&calls).contains("no agent's call"));
    }

    #[test]
    fn the_time_of_a_call_stands_still_while_a_person_is_asked() {
        let calls = Arc::new(RunningCalls::default());
        let guard = calls.begin(&context("coder"));
        let asked = calls.owner().unwrap();
        assert_eq!(guard.waited(), Duration::ZERO);
        let pause = calls.pause(&asked);
        let deadline = Instant::now() + Duration::from_secs(5);
        while guard.waited() < Duration::from_millis(5) {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        drop(pause);
        let waited = guard.waited();
        assert!(waited >= Duration::from_millis(5) && guard.waited() == waited);
        let counted = (0..4).filter(|_| calls.count_question(&asked, 3).is_ok()).count();
        assert_eq!(counted, 3);
    }

    #[test]
    fn a_request_in_a_result_is_that_calls_whatever_else_runs() {
        let calls = Arc::new(RunningCalls::default());
        let coder = context("coder");
        let (first, second) = (calls.begin(&coder), calls.begin(&coder));
        let other = calls.begin(&context("tester"));
        assert!(refusal(&calls).contains("several agents"));
        let asked = second.asked().unwrap();
        assert_eq!(asked.context.turn, coder.turn);
        assert_eq!(calls.count(&asked, 1).unwrap(), 2, "the oldest call of the turn is not charged");
        assert!(calls.count(&asked, 1).unwrap_err().message.contains("1 times"));
        let pause = calls.pause(&asked);
        let deadline = Instant::now() + Duration::from_secs(5);
        while second.waited() < Duration::from_millis(5) {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        drop(pause);
        assert_eq!((first.waited(), other.waited()), (Duration::ZERO, Duration::ZERO));
        assert_eq!(second.end().asked, 1);
        assert!(asked.over.is_cancelled());
        assert!(calls.count(&asked, 9).is_err(), "a call that has ended has no requests left");
        assert_eq!(first.end().asked, 0);
    }

    #[test]
    fn nothing_is_declared_that_was_not_granted() {
        let declared = |offers: Offers| serde_json::to_value(offers.declared()).unwrap();
        assert_eq!(declared(Offers::default()), json!({}));
        assert_eq!(declared(Offers::default().with(McpCapability::Sampling)), json!({"sampling": {}}));
        let asks = Offers::default().with(McpCapability::Elicitation);
        assert_eq!(declared(asks), json!({"elicitation": {"form": {}}}));
    }
}

//! Issues the two tokens of an agent program's turn, one for the relay and one for MCP. Each is good for that turn
//! only.
//!
//! The program and every command that it runs can see its tokens. So a token is random, carries no information, and is
//! invalid once the turn is over. Only a digest of it is kept, in memory.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::final_error::FinalError;
use super::mcp_sessions::McpSessions;
use crate::agent::delegated::ProgramSource;
use crate::config::Api;
use crate::id::{AgentId, ModelRef, SessionKey, TurnId, hex};
use crate::runtime::RuntimeRequest;
use crate::runtime::program::CallCounter;
use crate::sync::lock;

/// The tickets of the turns that run.
#[derive(Default)]
pub struct Tickets(Mutex<Vec<Entry>>);

struct Entry {
    relay: Option<Digest>,
    mcp: Digest,
    ticket: Arc<Ticket>,
}

type Digest = [u8; 32];

/// The rights of a turn's tokens.
pub struct Ticket {
    pub agent: AgentId,
    pub session: SessionKey,
    pub turn: TurnId,
    /// The id by which flock's tools know the turn.
    pub source: ProgramSource,
    /// The agent's model.
    pub model: ModelRef,
    /// The wire format of the model, or `None` if the program asks with its own login.
    pub api: Option<Api>,
    /// The counts of its model calls so far.
    pub calls: Arc<CallCounter>,
    /// Cancelled when the turn is over.
    pub over: CancellationToken,
    /// The slots for requests that are processed at the same time.
    pub places: Arc<Semaphore>,
    /// The slots for lists of names that are made at the same time. Further ones wait.
    pub(crate) listings: Semaphore,
    /// The sessions that the program has begun over MCP.
    pub(crate) mcp_sessions: McpSessions,
    steps: AtomicU32,
    /// The error that is repeated without asking a provider, if no model has answered.
    pub(super) final_error: FinalError,
    counts: AtomicU32,
    running: Mutex<Vec<RunningCall>>,
}

/// A running call over MCP.
struct RunningCall {
    /// The id of the request as JSON text, so that `1` differs from `"1"`.
    request: String,
    cancel: CancellationToken,
}

/// Most token counts in one turn. A count costs nothing, so no budget limits it.
pub const MAX_COUNTS: u32 = 200;

/// Most requests of one turn that are processed at the same time. Further ones wait.
const MAX_CONCURRENT: usize = 8;

/// Most lists of one turn that are made at the same time.
const MAX_LISTINGS: usize = 2;

impl Ticket {
    /// Returns the number of the turn's next model call, counted from 1.
    #[must_use]
    pub fn step(&self) -> u32 {
        self.steps.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Registers a call over MCP as running until the guard is dropped.
    #[must_use]
    pub(crate) fn call(&self, request: &Value) -> CallGuard<'_> {
        let cancel = CancellationToken::new();
        lock(&self.running).push(RunningCall { request: request.to_string(), cancel: cancel.clone() });
        CallGuard { ticket: self, cancel }
    }

    /// Cancels the running call of this request. An unknown request is ignored, because it may have just ended.
    pub(crate) fn cancel(&self, request: &Value) {
        let request = request.to_string();
        lock(&self.running).iter().filter(|one| one.request == request).for_each(|one| one.cancel.cancel());
    }

    /// Returns `true` if tokens may be counted once more, and counts that use.
    #[must_use]
    pub(crate) fn try_count(&self) -> bool {
        // The counter stops at the limit, so it can't overflow.
        let more = |counts: u32| (counts < MAX_COUNTS).then_some(counts + 1);
        self.counts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// A guard for a running call over MCP.
pub(crate) struct CallGuard<'a> {
    ticket: &'a Ticket,
    /// Cancelled when nobody wants the result any more.
    pub cancel: CancellationToken,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        // The token doubles as the mark of this entry: several calls may have the same request id.
        self.cancel.cancel();
        lock(&self.ticket.running).retain(|one| !one.cancel.is_cancelled());
    }
}

/// The tokens that were issued for a turn, and the guard that ends them.
pub struct IssuedTokens {
    /// The token for the relay, or `None` if the program asks with its own login.
    pub relay: Option<String>,
    /// The token for MCP.
    pub mcp: String,
    pub ticket: Arc<Ticket>,
    /// Invalidates the tokens when it is dropped.
    pub close: TokenGuard,
}

/// A guard that invalidates a turn's tokens when it is dropped, and ends everything that still runs with them.
pub struct TokenGuard {
    tickets: Arc<Tickets>,
    ticket: Arc<Ticket>,
}

impl Drop for TokenGuard {
    fn drop(&mut self) {
        // The entry is removed first, so no new request gets in while the running ones end.
        lock(&self.tickets.0).retain(|entry| !Arc::ptr_eq(&entry.ticket, &self.ticket));
        self.ticket.over.cancel();
    }
}

impl Tickets {
    /// Issues new tokens for this turn. Without `api` there is none for the relay.
    #[must_use]
    pub fn open(self: &Arc<Self>, order: &RuntimeRequest, api: Option<Api>) -> IssuedTokens {
        let source = ProgramSource { agent: order.agent.clone(), conversation: order.conversation.clone() };
        let over = CancellationToken::new();
        let ticket = Arc::new(Ticket {
            agent: order.agent.clone(),
            session: order.session.clone(),
            turn: order.turn,
            source,
            model: order.model.clone(),
            api,
            calls: Arc::default(),
            mcp_sessions: McpSessions::new(&over),
            over,
            places: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            listings: Semaphore::new(MAX_LISTINGS),
            steps: AtomicU32::new(0),
            final_error: FinalError::default(),
            counts: AtomicU32::new(0),
            running: Mutex::default(),
        });
        // Each service has a token of its own, so that one never opens the other.
        let relay = api.map(|_| token("relay"));
        let mcp = token("mcp");
        let entry = Entry {
            relay: relay.as_deref().map(|token| digest(token.as_bytes())),
            mcp: digest(mcp.as_bytes()),
            ticket: Arc::clone(&ticket),
        };
        lock(&self.0).push(entry);
        let close = TokenGuard { tickets: Arc::clone(self), ticket: Arc::clone(&ticket) };
        IssuedTokens { relay, mcp, ticket, close }
    }

    /// Returns the ticket of the turn for which a token opens the relay.
    #[must_use]
    pub(crate) fn relay(&self, token: &[u8]) -> Option<Arc<Ticket>> {
        self.find(token, |entry| entry.relay.as_ref())
    }

    /// Returns the ticket of the turn for which a token opens MCP.
    #[must_use]
    pub fn mcp(&self, token: &[u8]) -> Option<Arc<Ticket>> {
        self.find(token, |entry| Some(&entry.mcp))
    }

    /// Compares the token with every entry, so that the time does not reveal which one matched.
    fn find(&self, token: &[u8], of: impl Fn(&Entry) -> Option<&Digest>) -> Option<Arc<Ticket>> {
        let shown = digest(token);
        let entries = lock(&self.0);
        let mut found = None;
        for entry in entries.iter() {
            // The comparison takes constant time, and the loop has no early exit.
            let same = of(entry).map_or(Choice::from(0), |known| known.ct_eq(&shown));
            if bool::from(same) {
                found = Some(&entry.ticket);
            }
        }
        found.map(Arc::clone)
    }
}

/// Returns a token with 256 random bits. Its prefix is for a person who finds it somewhere and wonders what it is.
fn token(scope: &str) -> String {
    format!("flock-{scope}-{}", hex(&rand::random::<Digest>()))
}

fn digest(token: &[u8]) -> Digest {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(agent: &str) -> RuntimeRequest {
        RuntimeRequest {
            agent: agent.parse().unwrap(),
            session: format!("agent:{agent}:flock:main:x").parse().unwrap(),
            turn: TurnId::new(),
            model: "lab/m".parse().unwrap(),
            effort: None,
            conversation: format!("agent:{agent}:flock:main:x.1"),
            system: String::new(),
            messages: Vec::new(),
            recent: String::new(),
            missed: None,
        }
    }

    #[test]
    fn a_token_opens_only_its_own_service_for_its_own_turn() {
        let tickets = Arc::new(Tickets::default());
        let (coder, tester) = (order("coder"), order("tester"));
        let one = tickets.open(&coder, Some(Api::AnthropicMessages));
        let two = tickets.open(&tester, Some(Api::AnthropicMessages));
        let relay = one.relay.clone().unwrap();
        assert_eq!(tickets.relay(relay.as_bytes()).unwrap().agent, coder.agent);
        assert_eq!(tickets.mcp(one.mcp.as_bytes()).unwrap().turn, coder.turn);
        assert_eq!(tickets.mcp(two.mcp.as_bytes()).unwrap().source.conversation, tester.conversation);
        assert!(tickets.mcp(relay.as_bytes()).is_none() && tickets.relay(one.mcp.as_bytes()).is_none());
        let all = [one.relay, two.relay, Some(one.mcp), Some(two.mcp)];
        let all: std::collections::BTreeSet<_> = all.into_iter().flatten().collect();
        assert_eq!(all.len(), 4, "no two are the same");
        for wrong in ["", "x", &relay[..relay.len() - 1], &format!("{relay}0")] {
            assert!(tickets.relay(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_invalid_after_its_turn() {
        let tickets = Arc::new(Tickets::default());
        let IssuedTokens { relay, mcp, ticket, close } =
            tickets.open(&order("coder"), Some(Api::OpenAiResponses));
        let other = tickets.open(&order("coder"), Some(Api::OpenAiResponses));
        drop(close);
        assert!(tickets.relay(relay.unwrap().as_bytes()).is_none());
        assert!(tickets.mcp(mcp.as_bytes()).is_none());
        assert!(ticket.over.is_cancelled());
        assert!(tickets.mcp(other.mcp.as_bytes()).is_some() && !other.ticket.over.is_cancelled());
    }

    #[test]
    fn a_program_with_its_own_login_gets_no_relay_token() {
        let tickets = Arc::new(Tickets::default());
        let opened = tickets.open(&order("coder"), None);
        assert!(opened.relay.is_none() && tickets.mcp(opened.mcp.as_bytes()).is_some());
        assert!(tickets.relay(b"").is_none());
    }
}

//! Who watches turns, for tests: counts what is set aside and settled, freezes, refuses, remembers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flock::agent::{CallUsage, ModelCall, Oversight, Reservation, TokenEstimate, ToolCallRecord};
use flock::id::AgentId;
use flock::provider::BoxFuture;
use flock::runtime::PauseReason;
use flock::store::CallSettlement;
use flock::tool::CallContext;
use serde_json::Value;
use tokio::sync::watch;

type Hook = Box<dyn Fn(&Watch) + Send + Sync>;

pub struct Watch {
    pub next: AtomicU64,
    pub calls: Mutex<Vec<ModelCall>>,
    pub settled: Mutex<Vec<(u64, CallUsage)>>,
    /// What was seen of each call.
    pub seen: Mutex<Vec<TokenEstimate>>,
    pub called: Mutex<Vec<ToolCallRecord>>,
    pub asked: Mutex<Vec<(String, Value, String)>>,
    /// From this step on nothing is left.
    pub budget: u32,
    /// Whether setting aside waits for ever.
    pub reserve_hangs: AtomicBool,
    pub reserve_waits: AtomicBool,
    pub frozen: watch::Sender<bool>,
    pub waits_frozen: AtomicBool,
    /// Leaves the last call of a turn to the turn's end: what it reserved is released then.
    pub leaves_last: bool,
    pub on_reserve: Option<Hook>,
    pub on_settle: Option<Hook>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            next: AtomicU64::default(),
            calls: Mutex::default(),
            settled: Mutex::default(),
            seen: Mutex::default(),
            called: Mutex::default(),
            asked: Mutex::default(),
            budget: u32::MAX,
            reserve_hangs: AtomicBool::default(),
            reserve_waits: AtomicBool::default(),
            frozen: watch::Sender::new(false),
            waits_frozen: AtomicBool::default(),
            leaves_last: false,
            on_reserve: None,
            on_settle: None,
        }
    }
}

impl Watch {
    pub fn freeze(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }

    pub fn settled(&self) -> Vec<(u64, CallUsage)> {
        self.settled.lock().unwrap().clone()
    }

    pub fn waits_frozen(&self) -> bool {
        self.waits_frozen.load(Ordering::SeqCst)
    }
}

impl Oversight for Watch {
    fn thawed<'a>(&'a self, _agent: &'a AgentId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut frozen = self.frozen.subscribe();
            while *frozen.borrow_and_update() {
                self.waits_frozen.store(true, Ordering::SeqCst);
                frozen.changed().await.unwrap();
            }
        })
    }

    fn reserve<'a>(&'a self, call: &'a ModelCall) -> BoxFuture<'a, Result<Reservation, PauseReason>> {
        Box::pin(async move {
            if let Some(hook) = &self.on_reserve {
                hook(self);
            }
            if self.reserve_hangs.load(Ordering::SeqCst) {
                self.reserve_waits.store(true, Ordering::SeqCst);
                std::future::pending::<()>().await;
            }
            if call.step > self.budget {
                return Err(PauseReason::Budget("the budget of the day is used up".to_owned()));
            }
            self.calls.lock().unwrap().push(call.clone());
            Ok(Reservation::new(self.next.fetch_add(1, Ordering::SeqCst)))
        })
    }

    fn settle(&self, reservation: Reservation, taken: CallUsage) {
        self.seen.lock().unwrap().push(reservation.seen());
        self.settled.lock().unwrap().push((reservation.id(), taken));
        if let Some(hook) = &self.on_settle {
            hook(self);
        }
    }

    fn settle_with_turn(&self, reservation: Reservation, taken: CallUsage) -> Option<CallSettlement> {
        let id = i64::try_from(reservation.id()).unwrap();
        self.settle(reservation, taken);
        self.leaves_last.then_some(CallSettlement { id, used: None })
    }

    fn ask<'a>(
        &'a self,
        _context: &'a CallContext,
        tool: &'a str,
        arguments: &'a Value,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push((tool.to_owned(), arguments.clone(), reason.to_owned()));
            Ok("request 7 waits for a person".to_owned())
        })
    }

    fn called<'a>(&'a self, _context: &'a CallContext, call: &'a ToolCallRecord) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.called.lock().unwrap().push(call.clone()) })
    }
}

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::*;
use crate::agent::{CallUsage, ModelCall, NoOversight, Reservation, ToolCallRecord};
use crate::provider::BoxFuture;
use crate::runtime::PauseReason;
use crate::tool::CallContext;

/// An oversight that is frozen for ever.
#[derive(Default)]
struct FrozenOversight {
    felt: AtomicBool,
}

impl Oversight for FrozenOversight {
    fn thawed<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, ()> {
        self.felt.store(true, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }

    fn reserve<'a>(&'a self, _: &'a ModelCall) -> BoxFuture<'a, Result<Reservation, PauseReason>> {
        Box::pin(std::future::pending())
    }

    fn settle(&self, _: Reservation, _: CallUsage) {}

    fn ask<'a>(
        &'a self,
        _: &'a CallContext,
        _: &'a str,
        _: &'a Value,
        _: &'a str,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(std::future::pending())
    }

    fn called<'a>(&'a self, _: &'a CallContext, _: &'a ToolCallRecord) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }
}

fn halt(wall: Duration, oversight: Arc<dyn Oversight>) -> Deadline {
    Deadline::new(CancellationToken::new(), wall, oversight, "coder".parse().unwrap())
}

#[tokio::test]
async fn waiting_for_others_does_not_count_against_the_deadline() {
    let halt = halt(Duration::from_secs(60), Arc::new(NoOversight));
    let before = halt.deadline();
    let from = Instant::now();
    halt.uncounted(async {
        while from.elapsed() < Duration::from_millis(5) {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert!(halt.deadline() >= before + Duration::from_millis(5));
    assert!(halt.now().is_ok());
}

#[tokio::test]
async fn a_frozen_agent_does_not_time_out_and_can_be_cancelled() {
    let ice = Arc::new(FrozenOversight::default());
    let halt = halt(Duration::ZERO, ice.clone());
    let (end, ()) = tokio::join!(halt.wait(), async {
        while !ice.felt.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        halt.cancel.cancel();
    });
    assert!(matches!(end, TurnError::Cancelled), "{end}");
    let thawed = self::halt(Duration::ZERO, Arc::new(NoOversight));
    assert!(matches!(thawed.wait().await, TurnError::TimedOut(_)));
}

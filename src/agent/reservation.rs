//! The reservation of one model call's cost: made before the call, told of each attempt, and settled exactly once: when
//! it is dropped, or together with the turn that ends with the call. Native turns, delegated turns and the relay all use it.

use std::sync::{Arc, Mutex};

use super::call_trace::CallTrace;
use super::estimate;
use super::metering::CallUsage;
use super::oversight::{ModelCall, Oversight, Reservation, TokenEstimate};
use crate::provider::retry::{self, Policy, RetryNotice};
use crate::provider::{Delta, Provider, ProviderError, Request, Response, Sink, Usage};
use crate::runtime::PauseReason;
use crate::store::CallSettlement;
use crate::sync::lock;
use crate::telemetry::{self, Current};

/// A reservation for a model call. Dropping it settles it.
pub struct CallReservation {
    oversight: Arc<dyn Oversight>,
    reservation: Option<Reservation>,
    meter: Mutex<CallMeter>,
    /// The call's span, if telemetry is on.
    trace: Mutex<Option<CallTrace>>,
    on_settled: Option<Box<dyn FnOnce(CallUsage) + Send + Sync>>,
}

/// The usage of a call so far. It is behind a mutex because the answer and the retries are reported by different
/// callbacks.
#[derive(Default)]
struct CallMeter {
    /// Usage of the attempts that have ended.
    ended: CallUsage,
    /// `true` if the answer of the running attempt has begun. `None` if no attempt is running.
    begun: Option<bool>,
    /// Usage that was reported while the attempt runs.
    interim: Option<Usage>,
    /// `true` if a part of an answer was shown.
    shown: bool,
    /// flock's own estimate of the call.
    seen: TokenEstimate,
}

impl CallReservation {
    /// Reserves the cost of a call. The reservation may have to wait.
    ///
    /// # Errors
    ///
    /// Returns [`PauseReason`] if no budget is left.
    pub async fn reserve(oversight: &Arc<dyn Oversight>, call: &ModelCall) -> Result<Self, PauseReason> {
        let reservation = Some(oversight.reserve(call).await?);
        Ok(Self {
            oversight: Arc::clone(oversight),
            reservation,
            meter: Mutex::default(),
            trace: Mutex::new(CallTrace::new(call)),
            on_settled: None,
        })
    }

    /// Observes the call as a whole turn of a program whose own calls are not seen.
    pub(super) fn observe_as_turn(&self) {
        self.trace(CallTrace::count_turn);
    }

    /// Returns what the request to the provider belongs to, if telemetry is on and the request was begun.
    #[must_use]
    pub(crate) fn current(&self) -> Option<Current> {
        lock(&self.trace).as_ref().and_then(CallTrace::current)
    }

    fn trace(&self, note: impl FnOnce(&mut CallTrace)) {
        if let Some(trace) = &mut *lock(&self.trace) {
            note(trace);
        }
    }

    /// Sets a function that receives the usage once it is settled.
    #[must_use]
    pub fn on_settled(mut self, observer: impl FnOnce(CallUsage) + Send + Sync + 'static) -> Self {
        self.on_settled = Some(Box::new(observer));
        self
    }

    /// Changes flock's own estimate of the call, which is zero at first.
    pub fn estimate(&self, change: impl FnOnce(&mut TokenEstimate)) {
        change(&mut lock(&self.meter).seen);
    }

    /// Records that the provider is being asked.
    pub fn start_attempt(&self) {
        lock(&self.meter).begun = Some(false);
        self.trace(CallTrace::start_attempt);
    }

    /// Records that the answer has begun.
    pub fn start_answer(&self) {
        lock(&self.meter).begun = Some(true);
        self.trace(CallTrace::start_answer);
    }

    /// Records the usage reported so far. It counts if the attempt ends without a final report.
    pub fn report_interim(&self, usage: Usage) {
        lock(&self.meter).interim = Some(usage);
    }

    /// Records that the running attempt failed, or was given up if `error` is `None`.
    pub fn fail_attempt(&self, error: Option<&ProviderError>) {
        let mut meter = lock(&self.meter);
        let Some(begun) = meter.begun.take() else { return };
        let taken = match (CallUsage::failed(error, begun), meter.interim) {
            (CallUsage::Sent | CallUsage::Begun, Some(usage)) => CallUsage::Told(usage),
            (taken, _) => taken,
        };
        // Several attempts of one call count as their greatest usage, because the reservation is for one call.
        meter.ended = meter.ended.or(taken);
        drop(meter);
        self.trace(|trace| trace.fail_attempt(error));
    }

    /// Records that the running attempt never began, whatever was assumed when it was started.
    pub fn discard_attempt(&self) {
        lock(&self.meter).begun = None;
        self.trace(CallTrace::discard);
    }

    /// Records the end of the running attempt with the usage that was reported.
    pub fn complete(&self, usage: Usage) {
        let mut meter = lock(&self.meter);
        meter.begun = None;
        meter.ended = meter.ended.or(CallUsage::Told(usage));
    }

    /// Settles the reservation at once with no usage, for a call that is charged elsewhere.
    pub fn release(&mut self) {
        // It is observed where it is charged.
        self.trace(CallTrace::discard);
        *lock(&self.trace) = None;
        self.settle(CallUsage::Nothing, TokenEstimate::default());
    }

    /// Asks a provider, with retries, and records each attempt.
    pub(super) async fn call(
        &self,
        policy: &Policy,
        provider: &dyn Provider,
        request: &Request,
        sink: Sink<'_>,
        on_retry: &mut (dyn FnMut(RetryNotice<'_>) + Send),
    ) -> Result<Response, ProviderError> {
        let mut watch = |delta: Delta| {
            let mut meter = lock(&self.meter);
            let is_first = meter.begun.replace(true) != Some(true);
            // A tool call alone shows nothing to a person, so another model may still be asked after it.
            meter.shown |= delta != Delta::ToolCall;
            // Released before `sink`, which is another module's code.
            drop(meter);
            if is_first {
                self.trace(CallTrace::start_answer);
            }
            sink(delta);
        };
        let mut retried = |notice: RetryNotice<'_>| {
            self.fail_attempt(Some(notice.reason));
            self.start_attempt();
            on_retry(notice);
        };
        self.start_attempt();
        self.trace(|trace| trace.ask(request));
        let work = retry::call(policy, provider, request, &mut watch, &mut retried);
        let answered = telemetry::scoped(self.current(), work).await;
        match &answered {
            Ok(response) => {
                self.trace(|trace| trace.answer(response));
                self.estimate(|seen| {
                    seen.input = estimate::asked(request);
                    seen.output = estimate::written(&response.content);
                });
                self.complete(response.usage);
            }
            Err(error) => self.fail_attempt(Some(error)),
        }
        answered
    }

    /// Returns `true` if an attempt is running and has returned nothing yet.
    pub(super) fn is_silent(&self) -> bool {
        lock(&self.meter).begun == Some(false)
    }

    /// Returns `true` if a part of an answer was shown.
    pub(super) fn shown(&self) -> bool {
        lock(&self.meter).shown
    }

    /// Settles the reservation of the call that a turn ends with. Returns what is to be written together with the turn's
    /// end, if anything is.
    #[must_use]
    pub(super) fn settle_with_turn(mut self) -> Option<CallSettlement> {
        let (taken, seen) = self.close();
        let reservation = self.reservation.take()?;
        let settlement = self.oversight.settle_with_turn(reservation.with_estimate(seen), taken);
        self.observe_settled(taken);
        settlement
    }

    fn settle(&mut self, taken: CallUsage, seen: TokenEstimate) {
        let Some(reservation) = self.reservation.take() else { return };
        self.oversight.settle(reservation.with_estimate(seen), taken);
        self.observe_settled(taken);
    }

    /// Returns the usage of the call, which is over, and flock's own estimate of it.
    fn close(&self) -> (CallUsage, TokenEstimate) {
        // If an attempt is still running here, it was given up in the middle.
        self.fail_attempt(None);
        // The lock is released before the settling, which is another module's code.
        let CallMeter { ended, seen, .. } = *lock(&self.meter);
        (ended, seen)
    }

    fn observe_settled(&mut self, taken: CallUsage) {
        if let Some(trace) = lock(&self.trace).take() {
            trace.settle(taken);
        }
        if let Some(observer) = self.on_settled.take() {
            observer(taken);
        }
    }
}

impl Drop for CallReservation {
    fn drop(&mut self) {
        let (taken, seen) = self.close();
        self.settle(taken, seen);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::agent::ToolCallRecord;
    use crate::id::{AgentId, SessionKey, SessionKind, TurnId};
    use crate::provider::BoxFuture;
    use crate::tool::CallContext;

    /// An oversight that records what is settled.
    #[derive(Default)]
    struct Settled(Mutex<Vec<(CallUsage, TokenEstimate)>>);

    impl Oversight for Settled {
        fn thawed<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, ()> {
            Box::pin(std::future::ready(()))
        }

        fn reserve<'a>(&'a self, _: &'a ModelCall) -> BoxFuture<'a, Result<Reservation, PauseReason>> {
            Box::pin(std::future::ready(Ok(Reservation::new(1))))
        }

        fn settle(&self, reservation: Reservation, taken: CallUsage) {
            self.0.lock().unwrap().push((taken, reservation.seen()));
        }

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
            Box::pin(std::future::ready(()))
        }
    }

    const USAGE: Usage = Usage { input: 7, output: 5, cache_read: 0, cache_write: 0, cost: None };

    #[tokio::test]
    async fn each_reservation_is_settled_once_however_its_call_ends() {
        let agent: AgentId = "coder".parse().unwrap();
        let call = ModelCall {
            session: SessionKey::new(&agent, SessionKind::Main, "ann"),
            agent,
            turn: TurnId::new(),
            model: "lab/a".parse().unwrap(),
            input_estimate: 1,
            max_output: 1,
            step: 1,
            server: None,
        };
        let error = |status| ProviderError::from_status("lab", status, "x", None);
        type Steps<'a> = (&'a str, &'a dyn Fn(&mut CallReservation), CallUsage);
        let steps: [Steps<'_>; 10] = [
            ("not made", &|_| {}, CallUsage::Nothing),
            ("given up before an answer", &|call| call.start_attempt(), CallUsage::Sent),
            (
                "rejected",
                &|call| {
                    call.start_attempt();
                    call.fail_attempt(Some(&error(401)));
                },
                CallUsage::Nothing,
            ),
            (
                "failed",
                &|call| {
                    call.start_attempt();
                    call.fail_attempt(Some(&error(500)));
                },
                CallUsage::Sent,
            ),
            (
                "given up in the answer",
                &|call| {
                    call.start_attempt();
                    call.start_answer();
                },
                CallUsage::Begun,
            ),
            (
                "answered",
                &|call| {
                    call.start_attempt();
                    call.complete(USAGE);
                },
                CallUsage::Told(USAGE),
            ),
            (
                "answered after a failure",
                &|call| {
                    call.start_attempt();
                    call.start_answer();
                    call.fail_attempt(Some(&error(500)));
                    call.start_attempt();
                    call.complete(USAGE);
                },
                CallUsage::Told(USAGE),
            ),
            (
                "given up after an interim report",
                &|call| {
                    call.start_attempt();
                    call.report_interim(USAGE);
                },
                CallUsage::Told(USAGE),
            ),
            (
                "never begun",
                &|call| {
                    call.start_attempt();
                    call.report_interim(USAGE);
                    call.discard_attempt();
                },
                CallUsage::Nothing,
            ),
            (
                "charged elsewhere",
                &|call| {
                    call.release();
                    call.start_attempt();
                    call.complete(USAGE);
                },
                CallUsage::Nothing,
            ),
        ];
        for ends_turn in [false, true] {
            for (what, work, expected) in steps {
                let settled = Arc::new(Settled::default());
                let oversight: Arc<dyn Oversight> = settled.clone();
                let observed: Arc<Mutex<Vec<CallUsage>>> = Arc::default();
                let observer = Arc::clone(&observed);
                let mut reserved = CallReservation::reserve(&oversight, &call)
                    .await
                    .unwrap()
                    .on_settled(move |taken| observer.lock().unwrap().push(taken));
                work(&mut reserved);
                reserved.estimate(|seen| seen.output = 3);
                if ends_turn {
                    assert_eq!(reserved.settle_with_turn(), None, "{what}: this oversight leaves nothing");
                } else {
                    drop(reserved);
                }
                let taken: Vec<CallUsage> =
                    settled.0.lock().unwrap().iter().map(|(taken, _)| *taken).collect();
                assert_eq!(taken, [expected], "{what}");
                assert_eq!(*observed.lock().unwrap(), [expected], "{what}");
            }
        }
    }
}

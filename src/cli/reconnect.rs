//! Waiting for a gateway that is being restarted.
//!
//! A request waits for as long as the supervisor says that the gateway is coming back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::{Context, Failure, in_process, team};
use crate::config;
use crate::home::Home;
use crate::supervise::control::ControlConnection;
use crate::supervise::gateway_client::{Call, Client, GatewayClientError};
use crate::supervise::state::UnitState;
use crate::supervise::unit::GATEWAY;

/// The rule for sending a request again that may already have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Repeating the request has no further effect.
    Safe,
    /// The request may be sent again only if it certainly never reached the gateway.
    Unsent,
}

/// Time that one answer of the supervisor may take.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two looks at the supervisor.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of looks at a gateway that its supervisor calls healthy and that does not answer as this home's, until the
/// person is told. Two or three in a row are normal while a gateway ends or begins.
const LOOKS_UNTIL_NOTICE: u32 = 20;
/// Number of such looks until the wait ends, which is at least five seconds. Otherwise a gateway that nobody can use,
/// for example because the home's instance file was lost, would be waited for without end.
const MAX_LOOKS: u32 = 100;
/// Number of times a request is sent at most. A gateway that breaks off each time is not restarting.
const MAX_TRIES: u32 = 5;

/// The answer to a request.
pub(crate) struct RoutedAnswer {
    pub answer: Value,
    /// `true` if this process handled the request, because no gateway runs.
    pub in_process: bool,
}

/// The way to the gateway of a home. It waits for one that is being restarted, and tells the person only once.
#[derive(Debug)]
pub(crate) struct Reconnector<'a> {
    home: &'a Home,
    context: &'a Context,
    /// `true` once the person was told.
    announced: AtomicBool,
}

impl<'a> Reconnector<'a> {
    pub(crate) const fn new(home: &'a Home, context: &'a Context) -> Self {
        Self { home, context, announced: AtomicBool::new(false) }
    }

    /// Returns the running gateway of a home. It waits for a gateway that is starting, and returns `None` if nobody
    /// starts one, or if one runs that does not answer as this home's.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is not valid, or if a gateway runs but can't be used.
    pub(crate) async fn gateway(&self) -> Result<Option<Client>, Failure> {
        let mut looks = 0;
        loop {
            let found = team::gateway(self.home, &config::read(self.home)?).await;
            // A gateway that listens but does not answer yet is also `Ok(None)` here, so it is waited for in the same
            // way.
            if !matches!(found, Ok(None)) || looks == MAX_LOOKS || !self.wait_for_restart().await {
                return found;
            }
            looks += 1;
            if looks == LOOKS_UNTIL_NOTICE {
                self.context.printer.say("the gateway runs but does not answer: waiting for it");
            }
        }
    }

    /// Sends a request to the running gateway. If none runs, this process handles it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::gateway`], [`Self::ask`] and [`in_process::handle`].
    pub(crate) async fn send(
        &self,
        call: Call,
        repeat: Repeat,
        limit: Duration,
    ) -> Result<RoutedAnswer, Failure> {
        let Some(gateway) = self.gateway().await? else {
            let answer = in_process::handle(self.home, self.context, call).await?;
            return Ok(RoutedAnswer { answer, in_process: true });
        };
        let send = async |to: &Client| to.ask(call.clone(), limit).await?.json(limit).await;
        let answer = self.ask(&gateway, repeat, send).await?;
        Ok(RoutedAnswer { answer, in_process: false })
    }

    /// Sends a request to a gateway, or to its successor if the gateway is lost before it has answered.
    ///
    /// # Errors
    ///
    /// Returns the error of `call`, or an error if the successor can't be used.
    pub(crate) async fn ask<T>(
        &self,
        gateway: &Client,
        repeat: Repeat,
        call: impl AsyncFn(&Client) -> Result<T, GatewayClientError>,
    ) -> Result<T, Failure> {
        let mut gateway = gateway.clone();
        let mut tries = 1;
        loop {
            let error = match call(&gateway).await {
                Err(error) if is_lost(&error, repeat) && tries < MAX_TRIES => error,
                answer => return Ok(answer?),
            };
            tries += 1;
            if !self.wait_for_restart().await {
                return Err(error.into());
            }
            match self.gateway().await? {
                Some(next) => gateway = next,
                // The supervisor said that a gateway would come back, but it was stopped meanwhile.
                None => return Err(error.into()),
            }
        }
    }

    /// Waits for as long as the supervisor says that the gateway is starting. Returns `true` if it runs afterwards.
    async fn wait_for_restart(&self) -> bool {
        loop {
            match gateway_state(self.home).await {
                Some(UnitState::Healthy) => {
                    // The supervisor may not have noticed yet that the gateway is gone, so it is asked a second time.
                    tokio::time::sleep(POLL_INTERVAL).await;
                    return gateway_state(self.home).await.is_some_and(is_coming);
                }
                Some(state) if is_coming(state) => {}
                _ => return false,
            }
            if !self.announced.swap(true, Ordering::SeqCst) {
                self.context.printer.say("the gateway is being restarted: waiting for it");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Returns the state of the gateway as its supervisor sees it.
///
/// The result is `None` if no supervisor answers, or if the gateway has failed and nobody knows when it can run again.
async fn gateway_state(home: &Home) -> Option<UnitState> {
    let status = ControlConnection::status(home, STATUS_TIMEOUT).await?;
    status.unit(GATEWAY).filter(|unit| unit.failure.is_none()).map(|unit| unit.state)
}

/// Returns `true` if a gateway in this state runs, or will run without anybody's help. One that stops may do so for a
/// restart.
const fn is_coming(state: UnitState) -> bool {
    match state {
        UnitState::Starting | UnitState::Healthy | UnitState::BackingOff | UnitState::Stopping => true,
        UnitState::Stopped | UnitState::BreakerOpen | UnitState::Failed => false,
    }
}

/// Returns `true` if the gateway was lost and the request may be sent again.
fn is_lost(error: &GatewayClientError, repeat: Repeat) -> bool {
    match error {
        // No connection was made, so the request can't have been carried out.
        GatewayClientError::Unreachable { .. } => true,
        // The connection broke after the request was sent. Nobody knows if it was carried out.
        GatewayClientError::Broken { .. } => repeat == Repeat::Safe,
        // The gateway refused the request because it is stopping, so nothing was done.
        GatewayClientError::Status { status, code, .. } => {
            *status == 503 && code.as_deref() == Some("stopping")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_that_did_not_arrive_is_always_sent_again() {
        let address = "127.0.0.1:1".parse().unwrap();
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let unreachable = GatewayClientError::Unreachable { address, source: refused };
        let timeout = GatewayClientError::Timeout { address, limit: STATUS_TIMEOUT };
        for repeat in [Repeat::Safe, Repeat::Unsent] {
            assert!(is_lost(&unreachable, repeat));
            assert!(!is_lost(&timeout, repeat), "it may still be at it");
        }
        for state in [UnitState::Stopped, UnitState::BreakerOpen, UnitState::Failed] {
            assert!(!is_coming(state));
        }
    }
}

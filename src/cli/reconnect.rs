//! A gateway that is being restarted: whoever asks it something waits for as long as its supervisor says that it is coming
//! back.

use std::cell::Cell;
use std::time::Duration;

use super::{Context, Failure, team};
use crate::config;
use crate::home::Home;
use crate::supervise::control::{Connection, Request};
use crate::supervise::loopback::{Client, LoopbackError};
use crate::supervise::state::Standing;
use crate::supervise::unit::GATEWAY;

/// Whether something may be asked again that perhaps was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It is the same however often it is done.
    Safe,
    /// Only where it is certain that it never reached the gateway.
    Unsent,
}

/// How long one answer of the supervisor may take.
const QUICK: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a request is sent at most: a gateway that breaks off each time is not restarting.
const TRIES: u32 = 5;

/// Waits for the gateways of a home, and says so once.
#[derive(Debug, Default)]
pub struct Waiting {
    told: Cell<bool>,
}

impl Waiting {
    /// The running gateway of a home, also where it is only about to run; `None` where nobody is starting it.
    ///
    /// # Errors
    ///
    /// As [`team::gateway`].
    pub async fn gateway(&self, home: &Home, context: &Context) -> Result<Option<Client>, Failure> {
        loop {
            let found = team::gateway(home, &config::read(home)?).await;
            // One that listens and does not answer yet is no other case.
            if !matches!(found, Ok(None)) || !self.comes_back(home, context).await {
                return found;
            }
        }
    }

    /// Has a gateway do something; where it is lost meanwhile, its successor.
    ///
    /// # Errors
    ///
    /// Those of `call`, and as [`team::gateway`].
    pub async fn ask<T>(
        &self,
        home: &Home,
        context: &Context,
        gateway: &Client,
        repeat: Repeat,
        call: impl AsyncFn(&Client) -> Result<T, LoopbackError>,
    ) -> Result<T, Failure> {
        let mut gateway = gateway.clone();
        let mut tries = 1;
        loop {
            let error = match call(&gateway).await {
                Err(error) if is_lost(&error, repeat) && tries < TRIES => error,
                answer => return Ok(answer?),
            };
            tries += 1;
            if !self.comes_back(home, context).await {
                return Err(error.into());
            }
            match self.gateway(home, context).await? {
                Some(next) => gateway = next,
                None => return Err(error.into()),
            }
        }
    }

    /// Waits for as long as the supervisor says that the gateway is coming; whether it has come.
    async fn comes_back(&self, home: &Home, context: &Context) -> bool {
        loop {
            match standing(home).await {
                Some(Standing::Healthy) => {
                    // It may not have seen yet that the gateway is gone.
                    tokio::time::sleep(PAUSE).await;
                    return standing(home).await.is_some_and(is_coming);
                }
                Some(standing) if is_coming(standing) => {}
                _ => return false,
            }
            if !self.told.replace(true) {
                context.printer.say("the gateway is being restarted: waiting for it");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// How the gateway stands, as its supervisor says; `None` where none answers, or nobody knows how long it takes until it can
/// run again.
async fn standing(home: &Home) -> Option<Standing> {
    let mut supervisor = Connection::open(home).await.ok()?;
    let status = supervisor.ask(Request::Status, QUICK).await.ok()?.status?;
    status.unit(GATEWAY).filter(|unit| unit.failure.is_none()).map(|unit| unit.state)
}

/// Whether a gateway that stands so runs, or will without anybody's doing. One that stops may do so for a restart.
const fn is_coming(standing: Standing) -> bool {
    match standing {
        Standing::Starting | Standing::Healthy | Standing::BackingOff | Standing::Stopping => true,
        Standing::Stopped | Standing::BreakerOpen | Standing::Failed => false,
    }
}

/// Whether the gateway was lost on the way, and the request may be sent again.
fn is_lost(error: &LoopbackError, repeat: Repeat) -> bool {
    match error {
        LoopbackError::Unreachable { .. } => true,
        LoopbackError::Broken { .. } => repeat == Repeat::Safe,
        // It stops: nothing of it was done.
        LoopbackError::Status { status, code, .. } => *status == 503 && code.as_deref() == Some("stopping"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_did_not_reach_the_gateway_is_always_sent_again() {
        let address = "127.0.0.1:1".parse().unwrap();
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let unreachable = LoopbackError::Unreachable { address, source: refused };
        let timeout = LoopbackError::Timeout { address, limit: QUICK };
        for repeat in [Repeat::Safe, Repeat::Unsent] {
            assert!(is_lost(&unreachable, repeat));
            assert!(!is_lost(&timeout, repeat), "it may still be at it");
        }
        for standing in [Standing::Stopped, Standing::BreakerOpen, Standing::Failed] {
            assert!(!is_coming(standing));
        }
    }
}

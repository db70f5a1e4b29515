//! The gateway's events, as far as a running prompt needs them. A connection that breaks is made again.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::host::Host;
use crate::supervise::gateway_client::{Call, ServerSentEvents};

/// Time without a byte after which the stream counts as broken. The gateway writes more often.
const IDLE: Duration = Duration::from_secs(60);
/// Pause before the gateway is looked for again.
const PAUSE: Duration = Duration::from_secs(1);
/// Time that the beginning of the stream may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An event of the gateway.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum GatewayEvent {
    /// An event with its name and data.
    Named(String, Value),
    /// Events may have been missed, so everything has to be looked at again.
    Missed,
}

/// The stream of events.
pub(super) struct Events<'a> {
    host: &'a Host,
    stream: Option<ServerSentEvents>,
    /// The moment of the next attempt to connect.
    retry_at: Instant,
}

/// The events that a prompt needs.
const WANTED: &str = "/api/events?types=turn,tool,approval,task,channel.message";

impl<'a> Events<'a> {
    /// Opens the stream, so that nothing that happens from now on is missed.
    pub(super) async fn open(host: &'a Host) -> Self {
        let mut events = Self { host, stream: None, retry_at: Instant::now() };
        events.connect().await;
        events
    }

    /// Returns the next event. It can be dropped at any time without losing one.
    pub(super) async fn next(&mut self) -> GatewayEvent {
        loop {
            let Some(stream) = &mut self.stream else {
                tokio::time::sleep_until(self.retry_at).await;
                self.connect().await;
                self.retry_at = Instant::now() + PAUSE;
                if self.stream.is_some() {
                    return GatewayEvent::Missed;
                }
                continue;
            };
            match stream.next(IDLE).await {
                Ok(Some(event)) if event.name == "reset" => return GatewayEvent::Missed,
                Ok(Some(event)) => {
                    let data = serde_json::from_str(&event.data).unwrap_or_default();
                    return GatewayEvent::Named(event.name, data);
                }
                Ok(None) | Err(_) => self.stream = None,
            }
        }
    }

    async fn connect(&mut self) {
        let Ok(gateway) = self.host.gateway().await else { return };
        self.stream = gateway.ask(Call::get(WANTED), TIMEOUT).await.ok().map(|answer| answer.events());
    }
}

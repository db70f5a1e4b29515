//! Follows the events of a workspace: opens connections one after the other, and delivers what they tell.

use std::convert::Infallible;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Slack;
use super::event::{self, Happening, Own, RawMessage};
use super::place::Place;
use super::refusal::APPS;
use super::socket::{Acknowledgement, Socket, Told};
use super::ts::Ts;
use crate::bridge::message::{BotAccount, PlatformEvent, Position};
use crate::bridge::platform::PlatformError;

/// Largest number of events that wait to be delivered.
const QUEUE: usize = 1024;
/// Largest number of events that are acknowledged together.
const TOGETHER: usize = 20;
/// Time between two looks at the bot token while nothing happens: events just stop when it is revoked.
const CHECK: Duration = Duration::from_secs(60);
/// Longest time until Slack greets on a new connection.
const GREETING: Duration = Duration::from_secs(30);
/// A connection that Slack ends sooner than this is not followed by another one at once.
const SHORTEST: Duration = Duration::from_secs(5);

/// Follows the events until something fails.
pub(super) async fn follow(
    slack: &Slack,
    from: Position,
    events: mpsc::Sender<PlatformEvent>,
) -> Result<Infallible, PlatformError> {
    let own = slack.sign_in().await?;
    let (to, mut queue) = mpsc::channel(QUEUE);
    let mut sockets =
        Sockets { slack, to, opened: 0, greeted: None, since: Instant::now(), open: Vec::new() };
    let place = Place::read(from.cursor.as_deref(), &from.channels);
    let mut delivery = Delivery { slack, own, events, place, is_moved: false, waiting: Vec::new() };
    sockets.open().await?;
    loop {
        let told = match queue.try_recv() {
            Ok(told) => Some(told),
            Err(_) => {
                delivery.settle().await?;
                let wait = if sockets.is_greeted() { CHECK } else { GREETING };
                tokio::time::timeout(wait, queue.recv()).await.ok().flatten()
            }
        };
        match told {
            None if !sockets.is_greeted() => {
                return Err(PlatformError::Unavailable(
                    "Slack does not greet on a connection for events".to_owned(),
                ));
            }
            None => match slack.sign_in().await {
                // The events still come.
                Ok(_) | Err(PlatformError::Unavailable(_) | PlatformError::RateLimited(_)) => {}
                Err(error) => return Err(error),
            },
            Some((number, Told::Hello(connections))) if sockets.greet(number, connections) => {
                delivery.connected().await?;
                // Events that were for an earlier connection may come later than those for this one.
                delivery.catch_up().await?;
            }
            Some((_, Told::Hello(_))) => {}
            Some((number, Told::Dismissed(why))) => sockets.replace(number, &why).await?,
            Some((number, Told::Ended(why))) => sockets.ended(number, why)?,
            Some((_, Told::Event(payload, acknowledgement))) => {
                delivery.event(&payload, acknowledgement).await?;
            }
            Some((_, Told::Interaction(payload))) => delivery.interaction(&payload).await?,
        }
    }
}

/// The open connections. The newest one is followed; an older one may still bring events until Slack closes it.
struct Sockets<'a> {
    slack: &'a Slack,
    to: mpsc::Sender<(u64, Told)>,
    /// The number of the newest connection.
    opened: u64,
    /// The number of the newest connection that was greeted.
    greeted: Option<u64>,
    /// The time at which the newest connection was opened.
    since: Instant,
    open: Vec<(u64, Socket)>,
}

impl Sockets<'_> {
    async fn open(&mut self) -> Result<(), PlatformError> {
        let url = self.slack.api.open_connection().await?;
        let number = self.opened + 1;
        let socket = Socket::open(url, number, self.to.clone()).await?;
        self.open.push((number, socket));
        (self.opened, self.since) = (number, Instant::now());
        Ok(())
    }

    fn is_greeted(&self) -> bool {
        self.greeted == Some(self.opened)
    }

    /// Notes a greeting. Returns `true` if it is of the newest connection.
    fn greet(&mut self, number: u64, connections: u64) -> bool {
        if connections > self.open.len() as u64 {
            // Slack sends each event to one connection only. One that broke is counted until Slack notices.
            tracing::warn!(connections, "another program may be taking the events of this Slack app");
        }
        let is_newest = number == self.opened;
        if is_newest {
            self.greeted = Some(number);
        }
        is_newest
    }

    /// Opens the next connection before Slack closes this one.
    async fn replace(&mut self, number: u64, why: &str) -> Result<(), PlatformError> {
        if number != self.opened {
            return Ok(());
        }
        if self.since.elapsed() < SHORTEST {
            // A revoked token is told in the same way, and the API knows better.
            self.slack.api.open_connection().await?;
            return Err(match why {
                "link_disabled" => PlatformError::Refused(format!(
                    "Socket Mode is switched off for the app; switch it on at {APPS} (Socket Mode)"
                )),
                _ => PlatformError::Unavailable(format!("Slack closes a new connection for events: {why}")),
            });
        }
        tracing::info!(why, "Slack asks for a new connection for events");
        self.open().await
    }

    fn ended(&mut self, number: u64, why: String) -> Result<(), PlatformError> {
        self.open.retain(|(open, _)| *open != number);
        if number == self.opened { Err(PlatformError::Unavailable(why)) } else { Ok(()) }
    }
}

/// Delivers what happens, and acknowledges it to Slack after it was taken.
pub(super) struct Delivery<'a> {
    pub(super) slack: &'a Slack,
    pub(super) own: Own,
    events: mpsc::Sender<PlatformEvent>,
    pub(super) place: Place,
    /// Set if the place changed since it was delivered.
    is_moved: bool,
    waiting: Vec<Acknowledgement>,
}

impl Delivery<'_> {
    async fn connected(&self) -> Result<(), PlatformError> {
        let account = BotAccount { id: self.own.user.clone(), name: self.own.name.clone() };
        self.send(PlatformEvent::Connected(account)).await
    }

    async fn send(&self, event: PlatformEvent) -> Result<(), PlatformError> {
        self.events.send(event).await.map_err(|_| PlatformError::Unavailable("the gateway stops".to_owned()))
    }

    /// Delivers the place, and acknowledges what was delivered before it.
    ///
    /// An event that fits into the channel was not taken yet. There is room for another one after the place was received,
    /// and it is received after everything before it was committed.
    pub(super) async fn settle(&mut self) -> Result<(), PlatformError> {
        if std::mem::take(&mut self.is_moved) {
            self.send(PlatformEvent::Cursor(self.place.write())).await?;
        }
        if !self.waiting.is_empty() {
            let room = self.events.reserve().await;
            drop(room.map_err(|_| PlatformError::Unavailable("the gateway stops".to_owned()))?);
            self.waiting.drain(..).for_each(Acknowledgement::send);
        }
        Ok(())
    }

    async fn event(
        &mut self,
        payload: &Value,
        acknowledgement: Acknowledgement,
    ) -> Result<(), PlatformError> {
        match event::happening(payload, &self.own) {
            None => {
                // Not acknowledged: what flock can't read now is not said to be taken.
                tracing::warn!("an event of Slack's can't be read");
                return Ok(());
            }
            Some(Happening::Message(raw)) => self.message(&raw).await?,
            Some(Happening::Edited(raw, at)) => self.edited(&raw, at).await?,
            Some(Happening::Deleted { channel, thread, ts, at }) => {
                if !self.place.has(&channel, at) {
                    let external = event::external(&channel, thread);
                    self.send(PlatformEvent::Deleted { external, message: ts.to_string() }).await?;
                    self.delivered(&channel, at);
                }
            }
            Some(Happening::Other(event)) => self.send(event).await?,
            Some(Happening::Revoked) => {
                return Err(PlatformError::Unauthorized(format!(
                    "the app was removed from the workspace ({APPS})"
                )));
            }
            Some(Happening::Nothing) => {}
        }
        self.waiting.push(acknowledgement);
        if self.waiting.len() >= TOGETHER {
            self.settle().await?;
        }
        Ok(())
    }

    /// Delivers a message, unless it was delivered before.
    pub(super) async fn message(&mut self, raw: &RawMessage) -> Result<(), PlatformError> {
        if self.place.has(&raw.channel, raw.ts) {
            return Ok(());
        }
        let slack = self.slack;
        let message = patient(|| slack.names.resolve(&slack.api, &self.own, raw)).await?;
        self.send(PlatformEvent::Message(message)).await?;
        self.delivered(&raw.channel, raw.ts);
        Ok(())
    }

    /// Delivers a changed text, unless this change was delivered before.
    pub(super) async fn edited(&mut self, raw: &RawMessage, at: Ts) -> Result<(), PlatformError> {
        if self.place.has(&raw.channel, at) {
            return Ok(());
        }
        let slack = self.slack;
        let message = patient(|| slack.names.resolve(&slack.api, &self.own, raw)).await?;
        self.send(PlatformEvent::Edited(message)).await?;
        self.delivered(&raw.channel, at);
        if let Some(edited) = raw.edited {
            self.delivered(&raw.channel, edited);
        }
        Ok(())
    }

    async fn interaction(&self, payload: &Value) -> Result<(), PlatformError> {
        let Some(mut pressed) = event::pressed(payload) else { return Ok(()) };
        let account = pressed.sender.account.clone();
        pressed.sender.username = patient(|| self.slack.names.person(&self.slack.api, &account)).await?;
        self.send(PlatformEvent::Pressed(pressed)).await
    }

    fn delivered(&mut self, channel: &str, ts: Ts) {
        self.place.add(channel, ts);
        self.is_moved = true;
    }
}

/// Makes a request, again after each wait that Slack asks for. The events wait too: they have an order.
pub(super) async fn patient<T, F>(request: impl Fn() -> F) -> Result<T, PlatformError>
where
    F: Future<Output = Result<T, PlatformError>>,
{
    loop {
        match request().await {
            Err(PlatformError::RateLimited(wait)) => tokio::time::sleep(wait).await,
            other => return other,
        }
    }
}

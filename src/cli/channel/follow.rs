//! Following a channel with `flock channel read --follow`.
//!
//! New messages are read whenever the gateway reports one. While the gateway is gone, they are read from the database.
//! The number of the last shown message decides where to continue, so no message is missed or shown twice, whatever
//! happens to the connection.

use std::time::Duration;

use serde_json::Value;

use super::backend::ChannelBackend;
use super::show;
use crate::cli::{Exit, Failure};
use crate::gateway::channels::MessageQuery;
use crate::id::ChannelId;
use crate::supervise::gateway_client::ServerSentEvent;
use crate::ui::Printer;

/// Time without any event after which the gateway counts as gone. It sends a keep-alive every 15 seconds.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which a missing gateway is looked for.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Shows the messages that `reading` asks for and then every new one, until Ctrl-C or until stdout is closed.
///
/// # Errors
///
/// Returns an error if there is no such channel, or if the first read fails.
pub(crate) async fn follow(
    backend: &mut ChannelBackend,
    id: &ChannelId,
    reading: MessageQuery,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let mut feed = Feed { backend, id, reading, seen: 0, printer };
    tokio::select! {
        ended = feed.run() => ended.map(|()| Exit::Done),
        _ = tokio::signal::ctrl_c() => Ok(Exit::Done),
    }
}

struct Feed<'a> {
    backend: &'a mut ChannelBackend,
    id: &'a ChannelId,
    reading: MessageQuery,
    /// The number of the last shown message. All earlier ones are shown or were not asked for.
    seen: u64,
    printer: &'a Printer,
}

impl Feed<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        let mut was_there = true;
        let mut has_read = false;
        let mut is_waiting = false;
        loop {
            let is_there = match self.once().await {
                Ok(is_there) => {
                    has_read = true;
                    if std::mem::take(&mut is_waiting) {
                        self.printer.say("the channel can be read again");
                    }
                    is_there
                }
                // A channel that was read once exists, so this error passes: the database can't be read for a while.
                Err(failure) if has_read => {
                    if !std::mem::replace(&mut is_waiting, true) {
                        self.printer.warn(&format!("waiting: {}", failure.text()));
                    }
                    false
                }
                Err(failure) => return Err(failure),
            };
            if self.printer.closed() {
                return Ok(());
            }
            if was_there && !is_there && !is_waiting {
                self.printer.say("the gateway is not running: reading from the database until it is back");
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
            // A gateway that does not answer now is looked for again in the next round.
            let is_back = self.backend.look().await.unwrap_or(false);
            if is_back && !is_there {
                self.printer.say("the gateway is running");
            }
            was_there = is_back || is_there;
        }
    }

    /// Reads new messages for as long as the gateway reports more. Returns `true` if there was a gateway.
    async fn once(&mut self) -> Result<bool, Failure> {
        // Listening begins before reading. A message between the two is then reported as an event.
        let mut events = match self.backend.listen().await {
            Ok(events) => events,
            Err(_) => {
                self.backend.lose();
                None
            }
        };
        if let Err(failure) = self.print_new().await {
            if events.is_none() {
                return Err(failure);
            }
            // The gateway may just have ended. If the error has another reason, the database gives the same error.
            self.backend.lose();
            self.print_new().await?;
            return Ok(false);
        }
        let Some(events) = &mut events else { return Ok(false) };
        // An event holds only the number of a message. Its text comes from the read, in order and without gaps.
        while let Ok(Some(event)) = events.next(SILENCE_TIMEOUT).await {
            if self.printer.closed() {
                break;
            }
            if self.concerns(&event) && self.print_new().await.is_err() {
                break;
            }
        }
        self.backend.lose();
        Ok(true)
    }

    fn concerns(&self, event: &ServerSentEvent) -> bool {
        let Ok(data) = serde_json::from_str::<Value>(&event.data) else { return false };
        event.name == "channel.message"
            && data["channel"].as_str().is_some_and(|id| id.eq_ignore_ascii_case(self.id.as_str()))
            && data["seq"].as_u64().is_some_and(|seq| seq > self.seen)
    }

    async fn print_new(&mut self) -> Result<(), Failure> {
        loop {
            let answer = self.backend.read(self.id, &self.reading).await?;
            for message in answer["messages"].as_array().into_iter().flatten() {
                if self.printer.is_json() {
                    self.printer.json_line(message);
                } else {
                    show::message(message, self.printer);
                }
                self.seen = message["seq"].as_u64().unwrap_or_default().max(self.seen);
            }
            self.reading = MessageQuery {
                after: Some(self.seen.max(self.reading.after.unwrap_or_default())),
                limit: None,
                ..MessageQuery::default()
            };
            // A read returns a limited number of messages. `after` is set if there are more.
            if answer["after"].is_null() {
                return Ok(());
            }
        }
    }
}

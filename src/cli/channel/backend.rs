//! The backend of the channel commands: the gateway if it runs, otherwise this process.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::cli::reconnect::{Repeat, Waiting};
use crate::cli::{Context, Failure, team};
use crate::config::{self, Live};
use crate::error::chain;
use crate::gateway::channels::{
    self, ArchiveRequest, ChangeMembers, ChannelFilter, CreateChannel, MessageQuery, PostMessage,
    RenameChannel,
};
use crate::home::Home;
use crate::id::ChannelId;
use crate::store::{Reader, Store};
use crate::supervise::gateway_client::{Call, Client, GatewayClientError, ServerSentEvents};
use crate::swarm::{Notifier, Swarm, SwarmError, SwarmParts};

/// Time that the gateway may take for one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The place where channels are read and changed.
pub struct ChannelBackend<'a> {
    home: Home,
    gateway: Option<Client>,
    waiting: Waiting,
    context: &'a Context,
}

impl<'a> ChannelBackend<'a> {
    /// Opens the backend for this home.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is not valid, or if a gateway runs but can't be used.
    pub async fn open(home: Home, context: &'a Context) -> Result<Self, Failure> {
        let mut desk = Self { home, gateway: None, waiting: Waiting::default(), context };
        desk.look().await?;
        Ok(desk)
    }

    /// Looks again for a running gateway. Returns `true` if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is not valid, or if a gateway runs but can't be used.
    pub async fn look(&mut self) -> Result<bool, Failure> {
        // The old client goes first: if the look fails, the backend must not keep a connection to a dead gateway.
        self.gateway = None;
        self.gateway = team::gateway(&self.home, &config::read(&self.home)?).await?;
        Ok(self.gateway.is_some())
    }

    /// Works without the gateway until the next [`Self::look`].
    pub fn lose(&mut self) {
        self.gateway = None;
    }

    /// Returns the gateway's stream of events, or `None` if no gateway runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the gateway can't be reached or refuses the request.
    pub async fn listen(&self) -> Result<Option<ServerSentEvents>, Failure> {
        match &self.gateway {
            Some(gateway) => Ok(Some(gateway.ask(Call::get("/api/events"), TIMEOUT).await?.events())),
            None => Ok(None),
        }
    }

    /// Returns the channels that match a filter.
    ///
    /// # Errors
    ///
    /// Returns an error if the gateway refuses the request, or if the database can't be read.
    pub async fn list(&self, filter: &ChannelFilter) -> Result<Value, Failure> {
        if let Some(gateway) = &self.gateway {
            match gateway.get_json(&path("/api/channels", filter), TIMEOUT).await {
                // The gateway ended meanwhile. The database holds the same data, so it is read below.
                Err(GatewayClientError::Unreachable { .. } | GatewayClientError::Broken { .. }) => {}
                answer => return Ok(answer?),
            }
        }
        match Reader::open(&self.home)? {
            Some(reader) => Ok(channels::list(&reader, filter, |_| true)?),
            None => Ok(json!({"channels": []})),
        }
    }

    /// Returns messages of a channel.
    pub async fn read(&self, id: &ChannelId, reading: &MessageQuery) -> Result<Value, Failure> {
        if let Some(gateway) = &self.gateway {
            match gateway.get_json(&path(&format!("/api/channels/{id}/messages"), reading), TIMEOUT).await {
                // The gateway ended meanwhile. The database holds the same messages.
                Err(GatewayClientError::Unreachable { .. } | GatewayClientError::Broken { .. }) => {}
                answer => return Ok(answer?),
            }
        }
        match Reader::open(&self.home)? {
            Some(reader) => Ok(channels::read(&reader, id, reading)?),
            None => Err(SwarmError::NoChannel(id.clone()).into()),
        }
    }

    /// Creates a channel.
    pub async fn create(&self, new: CreateChannel) -> Result<Value, Failure> {
        match &self.writer().await? {
            // A repeated request would be refused, because the channel then exists.
            Some(gateway) => self.post(gateway, Repeat::Unsent, "/api/channels", &new).await,
            None => self.here(async |swarm| channels::create(swarm, new).await).await,
        }
    }

    pub async fn say(&self, id: &ChannelId, say: PostMessage) -> Result<Value, Failure> {
        match &self.writer().await? {
            // A repeated request could post the message twice, so only an unsent one is sent again.
            Some(gateway) => {
                self.post(gateway, Repeat::Unsent, &format!("/api/channels/{id}/messages"), &say).await
            }
            None => {
                self.here(async |swarm| {
                    channels::say(swarm, &channels::person(say.name.as_deref())?, id, say, None).await
                })
                .await
            }
        }
    }

    /// Changes the members of a channel.
    pub async fn assign(&self, id: &ChannelId, change: ChangeMembers) -> Result<Value, Failure> {
        match &self.writer().await? {
            // Adding a member twice or removing one twice changes nothing, so the request may be repeated.
            Some(gateway) => {
                self.post(gateway, Repeat::Safe, &format!("/api/channels/{id}/members"), &change).await
            }
            None => self.here(async |swarm| channels::assign(swarm, id, change).await).await,
        }
    }

    /// Changes the shown name or the topic of a channel.
    pub async fn retitle(&self, id: &ChannelId, change: RenameChannel) -> Result<Value, Failure> {
        match &self.writer().await? {
            Some(gateway) => {
                let path = format!("/api/channels/{id}");
                let put = async |to: &Client| {
                    to.ask(Call::put(&path).json(&change)?, TIMEOUT).await?.json(TIMEOUT).await
                };
                self.waiting.ask(&self.home, self.context, gateway, Repeat::Safe, put).await
            }
            None => self.here(async |swarm| channels::retitle(swarm, id, change).await).await,
        }
    }

    /// Does a step of the archive protocol.
    pub async fn archive(&self, id: &ChannelId, step: ArchiveRequest) -> Result<Value, Failure> {
        match &self.writer().await? {
            Some(gateway) => {
                self.post(gateway, Repeat::Safe, &format!("/api/channels/{id}/archive"), &step).await
            }
            None => self.here(async |swarm| channels::archive(swarm, id, step).await).await,
        }
    }

    /// Returns the gateway that writes. It waits for a gateway that is starting.
    async fn writer(&self) -> Result<Option<Client>, Failure> {
        match &self.gateway {
            Some(gateway) => Ok(Some(gateway.clone())),
            None => self.waiting.gateway(&self.home, self.context).await,
        }
    }

    /// Sends the request to the gateway, or to the one that replaces it after a restart.
    async fn post(
        &self,
        gateway: &Client,
        repeat: Repeat,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Value, Failure> {
        let post = async |to: &Client| to.post_json(path, body, TIMEOUT).await;
        self.waiting.ask(&self.home, self.context, gateway, repeat, post).await
    }

    /// Does the work in the database itself. No notification is sent: the gateway looks for new messages when it
    /// starts.
    async fn here(
        &self,
        work: impl AsyncFnOnce(&Swarm) -> Result<Value, SwarmError>,
    ) -> Result<Value, Failure> {
        // The check comes before the store is opened: only one process may write to it.
        team::require_no_gateway(&self.home)?;
        let store = Arc::new(Store::open(&self.home)?);
        // A swarm needs a notifier. This one goes nowhere, since no scheduler runs in this process.
        let (rings, _) = mpsc::unbounded_channel();
        let bell = Notifier::new(rings, Arc::new(|_, _| {}));
        let live = Arc::new(Live::open(self.home.clone())?);
        let swarm = Swarm::new(SwarmParts { live, store: Arc::clone(&store), bell });
        // Loads which agents sleep, so that a mention wakes them.
        swarm.agent_events()?;
        let done = work(&swarm).await?;
        // The work is already done. A failure to checkpoint the log now is only worth a warning.
        if let Err(error) = store.settle().await {
            self.context.printer.warn(&chain(&error));
        }
        self.context.printer.say("the gateway is not running: the agents are told when it starts");
        Ok(done)
    }
}

/// Returns a path with the fields of `query` that are set, percent-encoded.
fn path(base: &str, query: &impl Serialize) -> String {
    let mut path = base.to_owned();
    let Ok(Value::Object(fields)) = serde_json::to_value(query) else { return path };
    for (number, (name, value)) in fields.iter().enumerate() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        path.push(if number == 0 { '?' } else { '&' });
        path.push_str(name);
        path.push('=');
        for byte in value.bytes() {
            // Every other byte is encoded, which is always valid in a query and needs no table of exceptions.
            if byte.is_ascii_alphanumeric() {
                path.push(char::from(byte));
            } else {
                // Writing to a `String` can't fail.
                let _ = write!(path, "%{byte:02X}");
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_are_percent_encoded() {
        let reading =
            MessageQuery { limit: Some(5), q: Some("a b&limit=9#é".to_owned()), ..MessageQuery::default() };
        assert_eq!(path("/x", &reading), "/x?limit=5&q=a%20b%26limit%3D9%23%C3%A9");
        assert_eq!(path("/x", &MessageQuery::default()), "/x");
    }
}

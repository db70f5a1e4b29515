//! Who does what is asked of channels: the gateway where it runs, this process where it does not.

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
use crate::gateway::channels::{self, Assign, Create, Filter, Reading, Retitle, Say, Step};
use crate::home::Home;
use crate::id::ChannelId;
use crate::store::{Reader, Store};
use crate::supervise::loopback::{Call, Client, Events, LoopbackError};
use crate::swarm::{Bell, Parts, Swarm, SwarmError};

/// How long the gateway may take for one request.
const LIMIT: Duration = Duration::from_secs(30);

/// Where channels are read and changed.
pub struct Desk<'a> {
    home: Home,
    gateway: Option<Client>,
    waiting: Waiting,
    context: &'a Context,
}

impl<'a> Desk<'a> {
    /// A desk of this home.
    ///
    /// # Errors
    ///
    /// If the home's configuration is not usable, or its gateway runs and can't be used.
    pub async fn open(home: Home, context: &'a Context) -> Result<Self, Failure> {
        let mut desk = Self { home, gateway: None, waiting: Waiting::default(), context };
        desk.look().await?;
        Ok(desk)
    }

    /// Looks again whether the gateway runs; says so.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub async fn look(&mut self) -> Result<bool, Failure> {
        self.gateway = None;
        self.gateway = team::gateway(&self.home, &config::read(&self.home)?).await?;
        Ok(self.gateway.is_some())
    }

    /// Goes on without the gateway until the next look.
    pub fn lose(&mut self) {
        self.gateway = None;
    }

    /// What happens, as the gateway tells it; `None` where none runs.
    ///
    /// # Errors
    ///
    /// In the gateway's own words.
    pub async fn listen(&self) -> Result<Option<Events>, Failure> {
        match &self.gateway {
            Some(gateway) => Ok(Some(gateway.ask(Call::get("/api/events"), LIMIT).await?.events())),
            None => Ok(None),
        }
    }

    /// The channels.
    ///
    /// # Errors
    ///
    /// In the words of whoever does it; so with all that follow.
    pub async fn list(&self, filter: &Filter) -> Result<Value, Failure> {
        if let Some(gateway) = &self.gateway {
            match gateway.get_json(&path("/api/channels", filter), LIMIT).await {
                // It went meanwhile. What it would read is there all the same.
                Err(LoopbackError::Unreachable { .. } | LoopbackError::Broken { .. }) => {}
                answer => return Ok(answer?),
            }
        }
        match Reader::open(&self.home)? {
            Some(reader) => Ok(channels::list(&reader, filter, |_| true)?),
            None => Ok(json!({"channels": []})),
        }
    }

    /// Messages of a channel.
    pub async fn read(&self, id: &ChannelId, reading: &Reading) -> Result<Value, Failure> {
        if let Some(gateway) = &self.gateway {
            match gateway.get_json(&path(&format!("/api/channels/{id}/messages"), reading), LIMIT).await {
                Err(LoopbackError::Unreachable { .. } | LoopbackError::Broken { .. }) => {}
                answer => return Ok(answer?),
            }
        }
        match Reader::open(&self.home)? {
            Some(reader) => Ok(channels::read(&reader, id, reading)?),
            None => Err(SwarmError::NoChannel(id.clone()).into()),
        }
    }

    /// Makes a channel.
    pub async fn create(&self, new: Create) -> Result<Value, Failure> {
        match &self.writer().await? {
            // A second one would be told that the channel exists.
            Some(gateway) => self.post(gateway, Repeat::Unsent, "/api/channels", &new).await,
            None => self.here(async |swarm| channels::create(swarm, new).await).await,
        }
    }

    /// Posts a message.
    pub async fn say(&self, id: &ChannelId, say: Say) -> Result<Value, Failure> {
        match &self.writer().await? {
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

    /// Changes who is a member.
    pub async fn assign(&self, id: &ChannelId, change: Assign) -> Result<Value, Failure> {
        match &self.writer().await? {
            Some(gateway) => {
                self.post(gateway, Repeat::Safe, &format!("/api/channels/{id}/members"), &change).await
            }
            None => self.here(async |swarm| channels::assign(swarm, id, change).await).await,
        }
    }

    /// Gives a channel another shown name or topic.
    pub async fn retitle(&self, id: &ChannelId, change: Retitle) -> Result<Value, Failure> {
        match &self.writer().await? {
            Some(gateway) => {
                let path = format!("/api/channels/{id}");
                let put = async |to: &Client| {
                    to.ask(Call::put(&path).json(&change)?, LIMIT).await?.json(LIMIT).await
                };
                self.waiting.ask(&self.home, self.context, gateway, Repeat::Safe, put).await
            }
            None => self.here(async |swarm| channels::retitle(swarm, id, change).await).await,
        }
    }

    /// Does a step of the archive protocol.
    pub async fn archive(&self, id: &ChannelId, step: Step) -> Result<Value, Failure> {
        match &self.writer().await? {
            Some(gateway) => {
                self.post(gateway, Repeat::Safe, &format!("/api/channels/{id}/archive"), &step).await
            }
            None => self.here(async |swarm| channels::archive(swarm, id, step).await).await,
        }
    }

    /// The gateway that writes: also one that is about to run.
    async fn writer(&self) -> Result<Option<Client>, Failure> {
        match &self.gateway {
            Some(gateway) => Ok(Some(gateway.clone())),
            None => self.waiting.gateway(&self.home, self.context).await,
        }
    }

    /// Has the gateway do it, or the one that takes its place.
    async fn post(
        &self,
        gateway: &Client,
        repeat: Repeat,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Value, Failure> {
        let post = async |to: &Client| to.post_json(path, body, LIMIT).await;
        self.waiting.ask(&self.home, self.context, gateway, repeat, post).await
    }

    /// Does it in the database. Nobody hears the bell; the gateway looks for what is new when it starts.
    async fn here(
        &self,
        work: impl AsyncFnOnce(&Swarm) -> Result<Value, SwarmError>,
    ) -> Result<Value, Failure> {
        team::require_none(&self.home)?;
        let store = Arc::new(Store::open(&self.home)?);
        let (rings, _) = mpsc::unbounded_channel();
        let bell = Bell::new(rings, Arc::new(|_, _| {}));
        let live = Arc::new(Live::open(self.home.clone())?);
        let swarm = Swarm::new(Parts { live, store: Arc::clone(&store), bell });
        // Who sleeps is known from here on, so that a mention wakes it.
        swarm.agent_events()?;
        let done = work(&swarm).await?;
        // It is done: that the log can't be folded now is nothing to whoever asked.
        if let Err(error) = store.settle().await {
            self.context.printer.warn(&chain(&error));
        }
        self.context.printer.say("the gateway is not running: the agents hear of it when it is started");
        Ok(done)
    }
}

/// A path with the fields of `query` that are there.
fn path(base: &str, query: &impl Serialize) -> String {
    let mut path = base.to_owned();
    let Ok(Value::Object(fields)) = serde_json::to_value(query) else { return path };
    for (number, (name, value)) in fields.iter().enumerate() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        path.push(if number == 0 { '?' } else { '&' });
        path.push_str(name);
        path.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() {
                path.push(char::from(byte));
            } else {
                // Writing to a String does not fail.
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
    fn nothing_in_a_query_can_pass_for_another_field() {
        let reading = Reading { limit: Some(5), q: Some("a b&limit=9#é".to_owned()), ..Reading::default() };
        assert_eq!(path("/x", &reading), "/x?limit=5&q=a%20b%26limit%3D9%23%C3%A9");
        assert_eq!(path("/x", &Reading::default()), "/x");
    }
}

//! The backend of the channel commands: the gateway if it runs, otherwise this process.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::reconnect::{Reconnector, Repeat};
use crate::cli::{Context, Failure, team};
use crate::config;
use crate::gateway::channels::{self, ChannelFilter, MessageQuery};
use crate::home::Home;
use crate::id::ChannelId;
use crate::store::Reader;
use crate::supervise::gateway_client::{Call, Client, GatewayClientError, ServerSentEvents};
use crate::swarm::SwarmError;

/// Time that the gateway may take for one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The place where channels are read.
pub(crate) struct ChannelBackend {
    home: Home,
    gateway: Option<Client>,
}

impl ChannelBackend {
    /// Opens the backend for this home.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is not valid, or if a gateway runs but can't be used.
    pub(crate) async fn open(home: Home) -> Result<Self, Failure> {
        let mut backend = Self { home, gateway: None };
        backend.look().await?;
        Ok(backend)
    }

    /// Looks again for a running gateway. Returns `true` if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is not valid, or if a gateway runs but can't be used.
    pub(crate) async fn look(&mut self) -> Result<bool, Failure> {
        // The old client goes first: if the look fails, the backend must not keep a connection to a dead gateway.
        self.gateway = None;
        self.gateway = team::gateway(&self.home, &config::read(&self.home)?).await?;
        Ok(self.gateway.is_some())
    }

    /// Works without the gateway until the next [`Self::look`].
    pub(crate) fn lose(&mut self) {
        self.gateway = None;
    }

    /// Returns the gateway's stream of events, or `None` if no gateway runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the gateway can't be reached or refuses the request.
    pub(crate) async fn listen(&self) -> Result<Option<ServerSentEvents>, Failure> {
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
    pub(crate) async fn list(&self, filter: &ChannelFilter) -> Result<Value, Failure> {
        if let Some(found) = self.get(&path("/api/channels", filter)).await? {
            return Ok(found);
        }
        match Reader::open(&self.home)? {
            Some(reader) => Ok(channels::list(&reader, filter, |_| true).await?),
            None => Ok(json!({"channels": []})),
        }
    }

    /// Returns messages of a channel.
    pub(crate) async fn read(&self, id: &ChannelId, reading: &MessageQuery) -> Result<Value, Failure> {
        if let Some(found) = self.get(&path(&format!("/api/channels/{id}/messages"), reading)).await? {
            return Ok(found);
        }
        match Reader::open(&self.home)? {
            Some(reader) => Ok(channels::read(&reader, id, reading).await?),
            None => Err(SwarmError::NoChannel(id.clone()).into()),
        }
    }

    /// Returns the gateway's answer, or `None` if there is no gateway or it has ended meanwhile. The database holds the
    /// same data.
    async fn get(&self, path: &str) -> Result<Option<Value>, Failure> {
        let Some(gateway) = &self.gateway else { return Ok(None) };
        match gateway.get_json(path, TIMEOUT).await {
            Err(GatewayClientError::Unreachable { .. } | GatewayClientError::Broken { .. }) => Ok(None),
            answer => Ok(Some(answer?)),
        }
    }
}

/// Makes a change, by the gateway or, if none runs, in this process.
///
/// # Errors
///
/// Returns an error if the configuration is not valid, if a gateway runs but can't be used, or if the change is refused.
pub(crate) fn change(home: &Home, context: &Context, call: Call, repeat: Repeat) -> Result<Value, Failure> {
    let done = context.block_on(Reconnector::new(home, context).send(call, repeat, TIMEOUT))?;
    if done.in_process {
        context.printer.say("the gateway is not running: the agents are told when it starts");
    }
    Ok(done.answer)
}

/// Returns a path with the fields of `query` that are set, percent-encoded.
pub(in crate::cli) fn path(base: &str, query: &impl Serialize) -> String {
    let mut path = base.to_owned();
    let Ok(Value::Object(fields)) = serde_json::to_value(query) else { return path };
    // A parameter without a value would be read as the word `null`.
    for (number, (name, value)) in fields.iter().filter(|(_, value)| !value.is_null()).enumerate() {
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

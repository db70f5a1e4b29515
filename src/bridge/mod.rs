//! Bridges: people join the team's channels from other platforms.
//!
//! A *bridge* is one account on a platform, in the configuration. A *link* joins a channel with a channel of the
//! platform, in the database. What a channel shows goes out through the outbox, which is filled in the transaction of
//! each post ([`outbound`]). What people write comes in once for each message of the platform ([`inbound`]). A
//! [`platform::Platform`] only speaks the platform's protocol: to add one, add a folder and its line in [`with_credentials`].

mod attachment;
mod command;
mod connection;
mod decision;
mod direct;
mod discord;
#[cfg(test)]
mod flow_tests;
mod history;
mod identity;
mod inbound;
pub(crate) mod linking;
mod matrix;
pub(crate) mod message;
mod outbound;
pub(crate) mod platform;
mod retry;
mod running;
mod side_by_side;
mod slack;
mod telegram;
#[cfg(test)]
#[path = "../../tests/unit/platform.rs"]
pub(crate) mod testing;
mod text;
pub mod tool;
mod turns;
mod typing;
mod workspace_file;

pub(crate) use connection::BridgeStatus;
pub(crate) use history::import_history;
pub use running::Bridges;
pub(crate) use turns::{RunningTurn, Turns};

use crate::config::bridges::{self, BridgeSecret};
use crate::config::{Bridge, PlatformName, secret};
use crate::error::chain;
use crate::home::Home;
use crate::store::Link;
use message::OutgoingMessage;
use platform::{Platform, PlatformError};

/// The credentials of a bridge.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) token: String,
    /// Slack's second token.
    pub(crate) app_token: Option<String>,
}

/// Makes the connection of a bridge with its stored token. Nothing is sent yet.
///
/// # Errors
///
/// Returns an error if there is no token, or if the HTTP client can't be made.
pub(crate) fn open(home: &Home, bridge: &Bridge) -> Result<Box<dyn Platform>, PlatformError> {
    if bridge.has_literal_token {
        let moved = bridges::move_tokens(home, &bridge.name);
        if moved.map_err(|error| PlatformError::Unauthorized(chain(&error)))? {
            tracing::info!(bridge = bridge.name, "the token was moved from the configuration to secrets/");
        }
    }
    let read = |kind: BridgeSecret| {
        let found = secret::get(home, &kind.name(&bridge.name));
        found.map_err(|error| PlatformError::Unauthorized(chain(&error)))
    };
    let token = read(BridgeSecret::Token)?.ok_or_else(|| {
        PlatformError::Unauthorized(format!("there is no token for the bridge {} in secrets/", bridge.name))
    })?;
    with_credentials(home, bridge, Credentials { token, app_token: read(BridgeSecret::AppToken)? })
}

/// Makes the connection of a bridge with these credentials. Nothing is sent yet.
///
/// # Errors
///
/// Returns an error if the HTTP client can't be made.
pub(crate) fn with_credentials(
    home: &Home,
    bridge: &Bridge,
    credentials: Credentials,
) -> Result<Box<dyn Platform>, PlatformError> {
    match bridge.platform {
        PlatformName::Discord => Ok(Box::new(discord::Discord::new(home, bridge, credentials.token)?)),
        PlatformName::Matrix => {
            // The configuration has no Matrix bridge without one.
            let homeserver = bridge.api.as_deref().unwrap_or_default();
            Ok(Box::new(matrix::Matrix::new(homeserver, credentials.token)?))
        }
        PlatformName::Slack => Ok(Box::new(slack::Slack::new(bridge.api.as_deref(), &credentials)?)),
        PlatformName::Telegram => {
            let api = bridge.api.as_deref().unwrap_or(telegram::API);
            Ok(Box::new(telegram::Telegram::new(api, credentials.token)?))
        }
    }
}

/// Sends a message of flock's own over a link, and looks whether the platform's channel has it.
///
/// # Errors
///
/// Returns the platform's error, or [`PlatformError::Refused`] if it took the message and does not have it.
pub(crate) async fn send_test(platform: &dyn Platform, link: &Link) -> Result<(), PlatformError> {
    let key = format!("flock-test-{}", uuid::Uuid::now_v7());
    let markdown = format!("This is a test of the link with channel {}.", link.channel);
    let external = &link.external;
    let outgoing = OutgoingMessage { external, markdown: &markdown, key: &key, ..OutgoingMessage::default() };
    let message = platform.send(&outgoing).await?;
    if platform.has_message(external, &message).await? == Some(false) {
        return Err(PlatformError::Refused(format!(
            "it took the message and has none with the id {message}"
        )));
    }
    Ok(())
}

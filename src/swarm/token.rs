//! Creates and revokes the tokens of API clients.

use super::{Actor, SwarmError};
use crate::clock::unix_ms;
use crate::config::Config;
use crate::id::Party;
use crate::store::{ClientToken, Level, NewToken, Right, Store, token_hash};

/// Prefix of every client token, so that a leaked one can be recognised.
pub(crate) const PREFIX: &str = "flk_";

/// Names of other senders of requests, which a token must not have.
const RESERVED_NAMES: [&str; 3] = ["owner", "system", "plugin"];

/// Creates a token and returns it. The token itself is not stored anywhere: the database has only its hash.
///
/// # Errors
///
/// Returns [`SwarmError::Invalid`] if the name is not valid, if there is no right or no agent, or if the expiry time
/// has passed. Returns [`SwarmError::NoAgent`] if an agent does not exist, and [`SwarmError::TokenExists`] if the name
/// is taken.
pub(crate) async fn add(
    store: &Store,
    config: &Config,
    by: &Actor,
    new: NewToken,
) -> Result<(String, ClientToken), SwarmError> {
    let now = unix_ms();
    let new = validate(config, new, now)?;
    let token = new_token();
    let entry = by.entry("token.add", &new.name, Level::Yellow, describe(&new));
    let kept = ClientToken {
        name: new.name.clone(),
        client: new.name.clone(),
        agents: new.agents.clone(),
        rights: new.rights.clone(),
        created_at: now,
        expires_at: new.expires_at,
        revoked_at: None,
        person: None,
        used_at: None,
    };
    if !store.tokens().add(new, token_hash(token.as_bytes()), entry, now).await? {
        return Err(SwarmError::TokenExists(kept.name));
    }
    // On disk before anybody gets the token: a power failure must not lose a token that is in use.
    store.sync().await?;
    Ok((token, kept))
}

/// Returns a new token.
pub(super) fn new_token() -> String {
    format!("{PREFIX}{}", crate::id::hex(&rand::random::<[u8; 32]>()))
}

/// Revokes a token. From then on, the gateway refuses it and ends the streams that it opened.
///
/// # Errors
///
/// Returns [`SwarmError::NoToken`] if no token has this name or it was revoked.
pub(crate) async fn revoke(store: &Store, by: &Actor, name: &str) -> Result<(), SwarmError> {
    let entry = by.entry("token.revoke", name, Level::Yellow, String::new());
    if !store.tokens().revoke(name.to_owned(), entry, unix_ms()).await? {
        return Err(SwarmError::NoToken(crate::clean::summary(name, 80)));
    }
    // A power failure must not bring a revoked token back.
    store.sync().await?;
    Ok(())
}

fn validate(config: &Config, mut new: NewToken, now: i64) -> Result<NewToken, SwarmError> {
    let invalid = |reason: &str| Err(SwarmError::Invalid(reason.to_owned()));
    if Party::client(&new.name).is_none() {
        return invalid("the name of a token is 1 to 40 letters, digits, '.', '_', '@' and '-'");
    }
    if RESERVED_NAMES.iter().any(|taken| new.name.eq_ignore_ascii_case(taken)) {
        return invalid(
            "a token can't be named owner, system or plugin: others send requests under these names",
        );
    }
    new.rights.sort_unstable();
    new.rights.dedup();
    if new.rights.is_empty() {
        return invalid("a token needs at least one right of chat, a2a, read and approve");
    }
    if let Some(agents) = &mut new.agents {
        agents.sort_unstable();
        agents.dedup();
        if agents.is_empty() {
            return invalid("a token needs at least one agent; leave `agents` out for all of them");
        }
        if let Some(unknown) = agents.iter().find(|agent| config.agent(agent).is_none()) {
            return Err(SwarmError::NoAgent(unknown.clone()));
        }
    }
    if new.expires_at.is_some_and(|end| end <= now) {
        return invalid("`expiresAt` has passed already");
    }
    Ok(new)
}

fn describe(new: &NewToken) -> String {
    let rights: Vec<&str> = new.rights.iter().copied().map(Right::as_str).collect();
    let agents = new.agents.as_ref().map_or_else(
        || "all agents".to_owned(),
        |agents| agents.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    );
    let until = match new.expires_at {
        Some(end) => format!(", until {}", crate::clock::local(end)),
        None => String::new(),
    };
    format!("{} for {agents}{until}", rights.join(", "))
}

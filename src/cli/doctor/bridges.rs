//! Checks of bridges: their tokens, and what waits to be sent.

use std::time::Duration;

use serde_json::Value;

use super::check::Check;
use super::fix::Fix;
use crate::cli::database;
use crate::clock::{self, unix_ms};
use crate::config::bridges::BridgeSecret;
use crate::config::{Bridge, Config, PlatformName, secret};
use crate::home::Home;
use crate::store::{Link, LinkState, Reader, StoreError};
use crate::supervise::gateway_client::Client;

const NAME: &str = "bridge";
/// The longest wait for the gateway's answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a message that waits shows that something is wrong.
const OLD_MS: i64 = 3_600_000;

/// A link with the time of its oldest waiting message.
struct WaitingLink {
    link: Link,
    waiting: u64,
    oldest_at: Option<i64>,
}

/// Checks each bridge, and the links of bridges that are gone.
pub(super) fn all(home: &Home, config: &Config) -> Vec<Check> {
    let links = match database::read(home, async |reader| links(&reader).await) {
        Ok(links) => links.unwrap_or_default(),
        // Problems with opening the database are reported by its own check.
        Err(_) => return Vec::new(),
    };
    let orphans =
        links.iter().filter(|one| config.bridges.iter().all(|bridge| bridge.name != one.link.bridge));
    let orphans = orphans.map(|one| {
        let text = format!(
            "channel {} is linked with {} of {}, and there is no such bridge",
            one.link.channel, one.link.title, one.link.bridge
        );
        Check::warn(NAME, text, format!("flock bridge add PLATFORM --name {}", one.link.bridge))
    });
    config.bridges.iter().map(|bridge| check(home, bridge, &links)).chain(orphans).collect()
}

/// Names the bridges that a running gateway has no connection for.
pub(super) async fn disconnected(gateway: &Client) -> Vec<Check> {
    // A gateway that does not answer is reported by its own check.
    let Ok(found) = gateway.get_json::<Value>("/api/bridges", TIMEOUT).await else { return Vec::new() };
    let bridges = found["bridges"].as_array().map(Vec::as_slice).unwrap_or_default();
    bridges.iter().filter_map(disconnected_check).collect()
}

fn disconnected_check(bridge: &Value) -> Option<Check> {
    let name = bridge["name"].as_str()?;
    if matches!(bridge["state"].as_str(), Some("connected" | "paused")) {
        return None;
    }
    let why = bridge["lastError"].as_str().map_or_else(String::new, |error| format!(": {error}"));
    let text = format!("{name} is not connected{why}");
    Some(Check::bad(NAME, text, format!("flock bridge status {name}")))
}

async fn links(reader: &Reader) -> Result<Vec<WaitingLink>, StoreError> {
    let mut found = Vec::new();
    for link in reader.links().list(None).await? {
        let waits = reader.outbox().backlog(&link.id).await?;
        found.push(WaitingLink { link, waiting: waits.entries, oldest_at: waits.oldest_at });
    }
    Ok(found)
}

fn check(home: &Home, bridge: &Bridge, links: &[WaitingLink]) -> Check {
    let name = &bridge.name;
    let needs: &[BridgeSecret] = if bridge.platform == PlatformName::Slack {
        &[BridgeSecret::Token, BridgeSecret::AppToken]
    } else {
        &[BridgeSecret::Token]
    };
    if bridge.has_literal_token {
        let text = format!("{name}: its token stands in the configuration and not in secrets/");
        return Check::warn(NAME, text, "flock doctor --fix").with_fix(Fix::BridgeTokens(name.clone()));
    }
    for kind in needs {
        let file = kind.name(name);
        match secret::get(home, &file) {
            Ok(Some(_)) => {}
            Ok(None) => {
                let text = format!("{name}: secrets/{file} is not there, so it can't sign in");
                let mend = format!("flock bridge add {} --name {name} --replace", bridge.platform.as_str());
                return Check::bad(NAME, text, mend);
            }
            Err(error) => return Check::failed(NAME, error.into()),
        }
    }
    let own: Vec<&WaitingLink> = links.iter().filter(|one| one.link.bridge == *name).collect();
    if bridge.is_paused {
        return Check::warn(NAME, format!("{name} is paused"), format!("flock bridge resume {name}"));
    }
    let old = unix_ms().saturating_sub(OLD_MS);
    let late = own.iter().filter(|one| one.link.state == LinkState::Active);
    let late = late.filter_map(|one| Some((one, one.oldest_at.filter(|&at| at < old)?)));
    if let Some((one, oldest)) = late.min_by_key(|(_, oldest)| *oldest) {
        let text = format!(
            "{name}: {} messages wait to be sent to {}, the oldest since {}",
            one.waiting,
            one.link.title,
            clock::local(oldest)
        );
        return Check::warn(NAME, text, format!("flock bridge status {name}"));
    }
    if own.is_empty() {
        let mend = format!("flock bridge link CHANNEL {name}:EXTERNAL");
        return Check::warn(NAME, format!("{name} is linked with no channel"), mend);
    }
    Check::ok(NAME, format!("{name}: {} links, nothing waits for long", own.len()))
}

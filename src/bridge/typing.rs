//! Shows on the platform that an agent works on an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::platform::Platform;
use super::turns::Turns;
use crate::id::ChannelId;
use crate::store::{LinkState, StoreError};
use crate::swarm::Swarm;

/// Shows that somebody writes in the linked channels in which agents work, until it is dropped.
pub(super) async fn show(swarm: &Swarm, bridge: &str, platform: &dyn Platform, turns: &Turns) {
    let mut changes = turns.changes.clone();
    let lasts = platform.limits().typing_lasts;
    if lasts.is_zero() {
        return std::future::pending().await;
    }
    // It is shown again a little before it goes out.
    let interval = lasts.mul_f32(0.75);
    let mut shown: BTreeMap<ChannelId, Instant> = BTreeMap::new();
    loop {
        changes.mark_unchanged();
        let working: BTreeSet<ChannelId> =
            (turns.list)().into_iter().filter_map(|turn| turn.channel).collect();
        shown.retain(|channel, _| working.contains(channel));
        let due = working
            .into_iter()
            .filter(|channel| shown.get(channel).is_none_or(|since| since.elapsed() >= interval));
        for channel in due.collect::<Vec<_>>() {
            if let Err(error) = show_in(swarm, bridge, platform, &channel).await {
                tracing::debug!(bridge, %error, "failed to look up the links of a channel");
            }
            shown.insert(channel, Instant::now());
        }
        let next = shown.values().map(|since| interval.saturating_sub(since.elapsed())).min();
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return std::future::pending().await },
            () = tokio::time::sleep(next.unwrap_or(Duration::MAX)) => {}
        }
    }
}

async fn show_in(
    swarm: &Swarm,
    bridge: &str,
    platform: &dyn Platform,
    channel: &ChannelId,
) -> Result<(), StoreError> {
    for link in swarm.store().links().list(Some(bridge)).await? {
        if link.channel == *channel && link.state == LinkState::Active {
            // It is only a sign, so a failure has no consequence.
            if let Err(error) = platform.show_typing(&link.external).await {
                tracing::debug!(bridge, %error, "failed to show that an agent works");
            }
        }
    }
    Ok(())
}

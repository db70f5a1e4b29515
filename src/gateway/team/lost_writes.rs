//! Repairs the state after a disk lost writes: no position may point past what exists, and the loss is written to the
//! audit.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Team;
use super::watchdog::SettleError;
use crate::agent::LostWrites;
use crate::clock::unix_ms;
use crate::id::AgentId;
use crate::store::{AuditFilter, Level};
use crate::swarm::Actor;

/// Action name of the audit row about lost writes.
const ACTION: &str = "disk.lost";
/// Largest number of sessions that the row names.
const MAX_NAMED: usize = 10;

/// Sets back every position that points past what exists. Messages that an agent was given but that its transcript lost
/// are given to it again. With `only`, this is done for these agents, whose turns nothing runs.
pub(super) async fn settle(team: &Arc<Team>, only: Option<&BTreeSet<AgentId>>) -> Result<(), SettleError> {
    let store = team.swarm.store();
    let mut positions = match only {
        Some(agents) if !store.deliveries().are_past_the_end(agents).await? => 0,
        _ => store.deliveries().clamp_positions().await?,
    };
    let is_wanted = |agent: &AgentId| only.is_none_or(|agents| agents.contains(agent));
    let (mut transcripts, mut database) = (Vec::new(), Vec::new());
    for lost in team.engine.lost(is_wanted).await? {
        match lost {
            LostWrites::Transcript { session, shown } => {
                if let (Some(channel), Some(shown)) = (session.channel(), shown) {
                    let agent = session.agent().clone();
                    positions += usize::from(store.deliveries().rewind(agent, channel, shown).await?);
                }
                transcripts.push(session.to_string());
            }
            LostWrites::Database { session } => database.push(session.to_string()),
        }
    }
    if positions == 0 && transcripts.is_empty() && database.is_empty() {
        return Ok(());
    }
    let found = describe(positions, &transcripts, &database);
    tracing::error!(found, "the disk lost writes");
    let filter = AuditFilter { action: Some(ACTION.to_owned()), ..AuditFilter::default() };
    // Each start finds the same loss until such a session has its next turn, so an identical row is not written again.
    if store.audit().rows(&filter, 1).await?.first().is_none_or(|row| row.detail != found) {
        store.audit().append(Actor::system().entry(ACTION, "home", Level::Yellow, found), unix_ms()).await?;
    }
    Ok(())
}

/// Returns the losses as one sentence, such as `the transcript lacks the last turn of x`. At most [`MAX_NAMED`] sessions
/// are named.
fn describe(positions: usize, transcripts: &[String], database: &[String]) -> String {
    let mut parts = Vec::new();
    match positions {
        0 => {}
        1 => parts.push("1 position that pointed past the end of the stored data was set back".to_owned()),
        count => parts
            .push(format!("{count} positions that pointed past the end of the stored data were set back")),
    }
    for (sessions, what) in [
        (transcripts, "the transcript lacks the last turn of"),
        (database, "the database lacks the last turn of"),
    ] {
        if !sessions.is_empty() {
            let more = sessions.len().saturating_sub(MAX_NAMED);
            let named = sessions[..sessions.len().min(MAX_NAMED)].join(", ");
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            parts.push(format!("{what} {named}{more}"));
        }
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_said_in_one_bounded_line() {
        let sessions: Vec<String> = (0..12).map(|number| format!("s{number}")).collect();
        assert_eq!(
            describe(1, &[], &[]),
            "1 position that pointed past the end of the stored data was set back"
        );
        assert_eq!(
            describe(2, &sessions[..2], &sessions),
            "2 positions that pointed past the end of the stored data were set back; the transcript lacks the last \
             turn of s0, s1; the database lacks the last turn of s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 and 2 more"
        );
    }
}

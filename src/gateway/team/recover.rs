//! Takes up the turns that an earlier run left unfinished. The transcript decides: a message that it holds is
//! delivered, and a message that it does not hold is new again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::Team;
use super::inbox::ChannelInbox;
use super::outcome::MAX_RESUMES;
use super::turn::TeamTurn;
use crate::agent::quota::QuotaParked;
use crate::agent::{Inbox as _, Provenance, TurnError};
use crate::error::chain;
use crate::id::{SessionKey, TurnId};
use crate::store::{InboxItem, TurnState};
use crate::swarm::channel;

/// Ends or takes up every turn of the team that did not end in order before this process started. A turn that can't be
/// taken up does not hold up the others.
///
/// # Errors
///
/// Returns an error of any turn, after all of them were tried. If there is one that is not of a single transcript, it is such a
/// one.
pub(super) async fn recover(team: &Arc<Team>) -> Result<(), TurnError> {
    recover_matching(team, |_| true).await
}

/// Does the same as [`recover`], for these turns only.
pub(super) async fn take_up(team: &Arc<Team>, turns: &HashSet<TurnId>) -> Result<(), TurnError> {
    recover_matching(team, |turn| turns.contains(turn)).await
}

async fn recover_matching(team: &Arc<Team>, wanted: impl Fn(&TurnId) -> bool) -> Result<(), TurnError> {
    let store = team.swarm.store();
    let mut left: BTreeMap<TurnId, (SessionKey, Option<InboxItem>)> = BTreeMap::new();
    for delivery in store.deliveries().in_flight().await? {
        left.insert(delivery.turn, (channel::session(&delivery.agent, &delivery.channel), None));
    }
    // A turn in a channel can have a delivery and an item. The item comes second, so the entry with it remains.
    for item in store.inbox().in_flight().await? {
        if let Some(turn) = item.turn {
            left.insert(turn, (item.session.clone(), Some(item)));
        }
    }
    let mut failed = None;
    for (turn, (session, item)) in left.into_iter().filter(|(turn, _)| wanted(turn)) {
        let name = session.clone();
        if let Err(error) = recover_turn(team, turn, session, item).await {
            tracing::error!(error = chain(&error), session = %name, %turn, "failed to take up a turn");
            // What is wrong with more than one transcript must not be hidden by what is wrong with one.
            if failed.as_ref().is_none_or(is_of_one_transcript) {
                failed = Some(error);
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Returns `true` for an error of one transcript, which says nothing about other turns. One of a gateway that may have been
/// replaced concerns all of them.
pub(super) fn is_of_one_transcript(error: &TurnError) -> bool {
    matches!(error, TurnError::Transcript(error) if !error.is_cut_off())
}

async fn recover_turn(
    team: &Arc<Team>,
    turn: TurnId,
    session: SessionKey,
    item: Option<InboxItem>,
) -> Result<(), TurnError> {
    let store = team.swarm.store();
    let given = team.engine.deliveries(&session, turn).await?;
    let inbox = session
        .channel()
        .map(|channel| Arc::new(ChannelInbox::new(store.clone(), session.agent().clone(), channel, turn)));
    let work = TeamTurn { session: session.clone(), turn, item, inbox };
    // The transcript never got the input, so the agent has seen nothing of it.
    if given.is_empty() {
        team.give_back(&work).await;
        return Ok(());
    }
    if let Some(inbox) = &work.inbox {
        for provenance in &given {
            if matches!(provenance, Provenance::Channel { .. }) {
                inbox.committed(provenance).await;
            }
        }
        if team.is_awaited(&session).await? {
            inbox.expect_answer();
        }
    }
    let recorded = store.turns().find(turn).await?;
    let is_parked =
        recorded.as_ref().and_then(|turn| turn.error.as_deref()).is_some_and(QuotaParked::is_recorded);
    match (recorded.map(|turn| turn.state), team.engine.answer(&session, turn).await?) {
        (Some(TurnState::Done), Some(text)) => {
            if team.swarm.frozen().contains(session.agent()) {
                // The result waits for the thaw in a task of its own, so the other turns do not wait with it.
                let (team, held) = (Arc::clone(team), team.hold(turn));
                let lease = team.swarm.ownership().enter_agent(session.agent());
                tokio::spawn(async move {
                    team.done(&work, &text).await;
                    drop((held, lease));
                });
            } else {
                team.done(&work, &text).await;
            }
        }
        (Some(TurnState::Failed), _) if is_parked => team.conclude_recorded_park(&work).await?,
        (Some(TurnState::Failed), _) => {
            team.conclude_recorded_failure(&work).await?;
        }
        // The turn was taken up once already and broke off again.
        _ if work.attempts() >= MAX_RESUMES => {
            team.broke_off(&work, true).await;
        }
        _ => team.interrupted(&work).await?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::agent::transcript::TranscriptError;
    use crate::home::write_fence::CutOff;
    use crate::store::StoreError;

    #[test]
    fn only_a_transcript_that_fails_by_itself_leaves_the_others_alone() {
        let transcript = |source| TurnError::from(TranscriptError::reading(Path::new("/x.jsonl"))(source));
        assert!(is_of_one_transcript(&transcript(io::ErrorKind::InvalidData.into())));
        assert!(!is_of_one_transcript(&transcript(io::Error::other(CutOff))));
        assert!(!is_of_one_transcript(&StoreError::Stopped.into()));
    }
}

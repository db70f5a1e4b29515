//! What is shown of a race.

use serde_json::{Value, json};

use super::decide::CopyReport;
use super::settle::is_choosable;
use super::{Races, RacesError};
use crate::store::{Race, RaceCopy, RaceState};

/// The most races that are listed.
const MAX_LISTED: u32 = 200;

impl Races {
    /// Returns the newest races, without their copies' work.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(crate) async fn list(&self) -> Result<Vec<Value>, RacesError> {
        let all = self.swarm.store().races().list(MAX_LISTED).await?;
        Ok(all.iter().map(short).collect())
    }

    /// Returns a short account of the races that run or wait for a person.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(crate) async fn summaries(&self) -> Result<Vec<Value>, RacesError> {
        let open = self.swarm.store().races().open().await?;
        let is_shown = |race: &&Race| {
            matches!(race.state, RaceState::Running | RaceState::Person) && race.dropped_at.is_none()
        };
        let summary = |race: &Race| json!({"race": race.id, "state": race.state, "channel": race.channel, "project": race.project});
        Ok(open.iter().filter(is_shown).map(summary).collect())
    }

    /// Returns a race with what each copy has done.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(crate) async fn shown(&self, race: &Race) -> Result<Value, RacesError> {
        let mut shown = short(race);
        let (mut copies, mut tokens, mut cost) = (Vec::new(), 0_u64, 0_u64);
        for copy in &race.copies {
            let report = self.report(race, copy).await?;
            tokens = tokens.saturating_add(report.activity.used.tokens);
            cost = cost.saturating_add(report.activity.used.cost);
            copies.push(self.shown_copy(race, copy, &report).await?);
        }
        shown["copies"] = json!(copies);
        shown["used"] = json!({"tokens": tokens, "costMicros": cost});
        Ok(shown)
    }

    async fn shown_copy(
        &self,
        race: &Race,
        copy: &RaceCopy,
        report: &CopyReport,
    ) -> Result<Value, RacesError> {
        let agents: Vec<Value> =
            copy.agents.iter().map(|(agent, from)| json!({"agent": agent, "from": from})).collect();
        let counted = report.counted(copy);
        let found = counted.or_else(|| report.submissions.first());
        let delivered = match found {
            None => Value::Null,
            Some(found) => {
                let change = self.projects.change_of(found).await.ok();
                json!({
                    "number": found.id,
                    "agent": found.agent,
                    "branch": found.branch,
                    "title": found.title,
                    "state": found.state,
                    "receipt": found.receipt,
                    "reasons": found.reasons,
                    "choosable": is_choosable(found),
                    "tests": self.tests(found).await?,
                    "files": change.as_ref().map(|change| change.changed),
                    "added": change.as_ref().map(|change| change.added),
                    "removed": change.as_ref().map(|change| change.removed),
                })
            }
        };
        let state = if race.winner == Some(copy.number) {
            "won"
        } else if race.state == RaceState::Decided {
            "lost"
        } else if counted.is_some() {
            "proven"
        } else if race.state != RaceState::Running {
            "over"
        } else if report.activity.is_busy {
            "working"
        } else {
            "quiet"
        };
        Ok(json!({
            "number": copy.number,
            "channel": copy.channel,
            "agents": agents,
            "state": state,
            "submission": delivered,
            "tokens": report.activity.used.tokens,
            "costMicros": report.activity.used.cost,
            "ended": copy.ended,
            "why": copy.why,
        }))
    }
}

fn short(race: &Race) -> Value {
    json!({
        "race": race.id,
        "state": race.state,
        "channel": race.channel,
        "project": race.project,
        "task": race.task,
        "copyCount": race.copies.len(),
        "base": race.base,
        "by": race.created_by,
        "tokens": race.tokens,
        "costMicros": race.cost,
        "endsAt": race.ends_at,
        "spentAt": race.spent_at,
        "winner": race.winner,
        "chosenBy": race.chosen_by,
        "why": race.why,
        "createdAt": race.created_at,
        "decidedAt": race.decided_at,
        "droppedAt": race.dropped_at,
    })
}

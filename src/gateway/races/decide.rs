//! A race ends: by itself, once no copy works any more, or by a person.

use super::rule::{self, Choice, CopyEnd, CopyFacts, Delivery, RaceFacts};
use super::{Races, RacesError};
use crate::clean;
use crate::clock::unix_ms;
use crate::error::chain;
use crate::gateway::projects::ProjectsError;
use crate::receipt::Receipt;
use crate::store::{
    Along, CopyActivity, Level, NewPost, Race, RaceCopy, RaceDecision, RaceState, Submission, SubmissionState,
};
use crate::swarm::Actor;

/// The facts about a copy.
pub(super) struct CopyReport {
    pub(super) activity: CopyActivity,
    /// Everything that its agents have submitted, newest first.
    pub(super) submissions: Vec<Submission>,
}

impl CopyReport {
    /// Returns the submission that counts: the one that was chosen or has passed its checks.
    pub(super) fn counted(&self, copy: &RaceCopy) -> Option<&Submission> {
        let chosen = self.submissions.iter().find(|found| Some(found.id) == copy.submission);
        // The first one that has passed is the result.
        chosen.or_else(|| self.submissions.iter().rev().find(|found| found.state == SubmissionState::Proven))
    }

    fn facts(&self, copy: &RaceCopy) -> CopyFacts {
        let is_submitting =
            |found: &Submission| matches!(found.state, SubmissionState::Queued | SubmissionState::Checking);
        CopyFacts {
            number: copy.number,
            is_proven: self.counted(copy).is_some(),
            is_submitting: self.submissions.iter().any(is_submitting),
            is_busy: self.activity.is_busy,
            last_at: self.activity.last_at,
        }
    }
}

impl Races {
    /// Returns what is known of a copy.
    pub(super) async fn report(&self, race: &Race, copy: &RaceCopy) -> Result<CopyReport, RacesError> {
        let mut submissions = Vec::new();
        for (agent, _) in &copy.agents {
            let all = self.projects.of_racer(&race.project, agent).await?;
            submissions.extend(all.into_iter().filter(|found| found.created_at >= race.created_at));
        }
        if let Some(number) = copy.submission
            && !submissions.iter().any(|found| found.id == number)
        {
            // Its agent is gone, and what it delivered can still be looked at.
            submissions.extend(self.swarm.store().submissions().find(number).await?);
        }
        submissions.sort_by_key(|found| std::cmp::Reverse(found.id));
        let activity = self.swarm.store().races().activity(race.id, copy.number).await?;
        Ok(CopyReport { activity, submissions })
    }

    pub(super) fn race_facts(&self, race: &Race, now: i64) -> RaceFacts {
        RaceFacts {
            created_at: race.created_at,
            ends_at: race.ends_at,
            is_spent: race.spent_at.is_some(),
            idle: i64::try_from(self.swarm.config().race_idle.as_millis()).unwrap_or(i64::MAX),
            // The times are by the clocks of several gateways. None of them ends a copy too early.
            now: now.saturating_sub(self.swarm.ownership().clock_difference()),
        }
    }

    /// Returns what a copy has delivered.
    pub(super) async fn delivery(
        &self,
        race: &Race,
        copy: &RaceCopy,
        report: &CopyReport,
    ) -> Result<Option<Delivery>, RacesError> {
        let Some(found) = report.counted(copy) else { return Ok(None) };
        let lines = match self.projects.change_of(found).await {
            Ok(diff) => u64::try_from(diff.added + diff.removed).unwrap_or(u64::MAX),
            // What can't be read is not preferred for it.
            Err(error) => {
                tracing::warn!(race = race.id, error = chain(&error), "the change of a copy can't be read");
                u64::MAX
            }
        };
        Ok(Some(Delivery {
            submission: found.id,
            findings: found.reasons.len(),
            tests: self.tests(found).await?,
            lines,
            tokens: report.activity.used.tokens,
        }))
    }

    /// Returns the number of tests that ran in the checks of a submission.
    pub(super) async fn tests(&self, found: &Submission) -> Result<u64, RacesError> {
        let Some(id) = &found.receipt else { return Ok(0) };
        let stored = self.swarm.store().receipts().find(id).await?;
        let receipt = stored.first().and_then(|stored| Receipt::parse(stored.document.as_bytes()).ok());
        let counts = receipt.iter().flat_map(|receipt| &receipt.runs).flat_map(|run| &run.counts);
        Ok(counts.map(crate::receipt::test_count::TestCounts::run).sum())
    }

    /// Holds the copies that have delivered, and decides the race once no copy works any more. Returns the race if it was
    /// decided.
    pub(super) async fn decide(&self, race: &Race, now: i64) -> Result<Option<Race>, RacesError> {
        if matches!(self.projects.find(&race.project), Err(ProjectsError::Unknown(_))) {
            let choice = Choice {
                state: RaceState::Stopped,
                winner: None,
                why: format!("the project {} was removed", race.project),
                reasons: Vec::new(),
            };
            return self.write_decision(race, &[RaceState::Running], &Actor::system(), choice, &[]).await;
        }
        let facts = self.race_facts(race, now);
        let mut ended = Vec::new();
        for copy in &race.copies {
            let report = self.report(race, copy).await?;
            let own = report.facts(copy);
            if rule::is_held(facts, own) {
                self.hold_copy(race, copy, "it waits for the decision").await?;
            }
            if let Some(end) = rule::end(facts, own) {
                let delivery = self.delivery(race, copy, &report).await?;
                ended.push((copy.number, delivery, end));
            }
        }
        if ended.len() < race.copies.len() {
            return Ok(None);
        }
        let choice = rule::choose(&ended);
        self.write_decision(race, &[RaceState::Running], &Actor::system(), choice, &ended).await
    }

    async fn write_decision(
        &self,
        race: &Race,
        from: &'static [RaceState],
        by: &Actor,
        choice: Choice,
        ended: &[(u32, Option<Delivery>, CopyEnd)],
    ) -> Result<Option<Race>, RacesError> {
        let copies = race.copies.iter().map(|copy| {
            let found = ended.iter().find(|(number, ..)| *number == copy.number);
            let submission =
                found.and_then(|(_, delivery, _)| Some((*delivery)?.submission)).or(copy.submission);
            let end = found.map_or_else(|| copy.ended.clone(), |(.., end)| end.text().to_owned());
            let why = choice.reasons.iter().find(|(number, _)| *number == copy.number);
            (copy.number, submission, end, why.map_or_else(|| copy.why.clone(), |(_, why)| why.clone()))
        });
        let decision = RaceDecision {
            state: choice.state,
            winner: choice.winner,
            chosen_by: by.party.is_human().then(|| by.party.to_string()),
            why: choice.why.clone(),
            copies: copies.collect(),
        };
        let text = told(race, &choice);
        let post = NewPost::of_system(&race.channel, text.clone(), unix_ms());
        let detail = clean::summary(&text, 300);
        let entry = by.entry("race.decide", &race.id.to_string(), Level::Yellow, detail);
        let rows = Along { post: Some(post), ..Along::audit(entry) };
        let decided = self.swarm.store().races().decide(race.id, from, decision, rows, unix_ms()).await?;
        if let Some(decided) = &decided {
            self.publish(decided);
        }
        Ok(decided)
    }

    /// Ends a race without a winner.
    ///
    /// # Errors
    ///
    /// Returns [`RacesError::State`] if it has ended.
    pub(crate) async fn stop(&self, by: &Actor, number: i64) -> Result<Race, RacesError> {
        let race = self.find(number).await?;
        let choice = Choice {
            state: RaceState::Stopped,
            winner: None,
            why: format!("{} stopped it", by.party),
            reasons: Vec::new(),
        };
        let mut ended = Vec::new();
        for copy in &race.copies {
            let report = self.report(&race, copy).await?;
            if let Some(delivery) = self.delivery(&race, copy, &report).await? {
                ended.push((copy.number, Some(delivery), CopyEnd::Delivered));
            }
        }
        const FROM: &[RaceState] = &[RaceState::Running, RaceState::Person];
        let Some(stopped) = self.write_decision(&race, FROM, by, choice, &ended).await? else {
            let now = self.find(number).await?;
            return Err(RacesError::State { race: number, state: now.state, rest: "" });
        };
        self.settle(&stopped).await?;
        self.find(number).await
    }

    /// Lets a person choose the winner: the copy with this number, or the best one. What it delivered goes on as any other
    /// submission, so a review and a person's acceptance are asked for where they are needed.
    ///
    /// # Errors
    ///
    /// Returns [`RacesError::NothingDelivered`] if nothing of the copy passed its checks, [`RacesError::Merged`] if another
    /// one is merged, and [`RacesError::State`] if the race runs or its losers are dropped.
    pub(crate) async fn keep(&self, by: &Actor, number: i64, copy: Option<u32>) -> Result<Race, RacesError> {
        // Nothing is released or archived while the winner changes.
        let settling = self.settling.lock().await;
        let race = self.find(number).await?;
        if race.state == RaceState::Running || race.dropped_at.is_some() {
            let rest = if race.dropped_at.is_some() { ", and its losers are dropped" } else { "" };
            return Err(RacesError::State { race: number, state: race.state, rest });
        }
        let mut delivered = Vec::new();
        for one in &race.copies {
            let report = self.report(&race, one).await?;
            let is_open = report.counted(one).is_some_and(|found| found.state.is_open());
            let delivery = self.delivery(&race, one, &report).await?;
            if race.winner == Some(one.number)
                && report.counted(one).is_some_and(|found| found.state == SubmissionState::Merged)
            {
                return Err(RacesError::Merged(number));
            }
            delivered.push((one.number, delivery.filter(|_| is_open)));
        }
        let wanted = copy.or(race.winner).or_else(|| rule::best(&delivered)).unwrap_or(1);
        let Some((_, found)) = delivered.iter().find(|(one, _)| *one == wanted) else {
            return Err(RacesError::Invalid(format!("race {number} has no copy {wanted}")));
        };
        let Some(delivery) = found else {
            return Err(RacesError::NothingDelivered { race: number, number: wanted });
        };
        if let Some(before) = race.winner.filter(|before| *before != wanted)
            && let Some(submission) = race.copy(before).and_then(|copy| copy.submission)
        {
            match self.projects.hold_back(by, submission).await {
                Err(ProjectsError::State { .. }) => return Err(RacesError::Merged(number)),
                done => done?,
            }
        }
        let why = format!("{} chose it", by.party);
        let choice = Choice {
            state: RaceState::Decided,
            winner: Some(wanted),
            why: why.clone(),
            reasons: vec![(wanted, why)],
        };
        let chosen = [(wanted, Some(*delivery), CopyEnd::Delivered)];
        const FROM: &[RaceState] =
            &[RaceState::Person, RaceState::Decided, RaceState::Over, RaceState::Stopped];
        let Some(kept) = self.write_decision(&race, FROM, by, choice, &chosen).await? else {
            return Err(RacesError::State { race: number, state: race.state, rest: "" });
        };
        drop(settling);
        self.settle(&kept).await?;
        self.find(number).await
    }

    /// Removes the copies that did not win: their agents with all their files, and their branches. Their channels are
    /// archived.
    ///
    /// # Errors
    ///
    /// Returns [`RacesError::State`] if the race runs or its losers are dropped.
    pub(crate) async fn drop_losers(&self, by: &Actor, number: i64) -> Result<Race, RacesError> {
        let race = self.find(number).await?;
        let entry = by.entry("race.drop", &number.to_string(), Level::Yellow, String::new());
        let dropped = self.swarm.store().races().drop_losers(number, Along::audit(entry), unix_ms()).await?;
        let Some(dropped) = dropped else {
            let rest = if race.dropped_at.is_some() { ", and its losers are dropped" } else { "" };
            return Err(RacesError::State { race: number, state: race.state, rest });
        };
        Box::pin(self.settle(&dropped)).await?;
        self.find(number).await
    }
}

/// Returns what the original channel is told.
fn told(race: &Race, choice: &Choice) -> String {
    let id = race.id;
    match (choice.state, choice.winner) {
        (RaceState::Decided, Some(winner)) => {
            let channel = race.copy(winner).map(|copy| copy.channel.to_string()).unwrap_or_default();
            format!("Race {id} is decided: copy {winner} (#{channel}) has won: {}.", choice.why)
        }
        (RaceState::Person, _) => {
            format!("Race {id} waits for a person (flock race keep {id} COPY): {}.", choice.why)
        }
        _ => format!("Race {id} is {}: {}.", choice.state.as_str(), choice.why),
    }
}

//! The present activity of an agent, in one word with its reason: for the dashboard and for programs. Pure.

use serde::Serialize;

use super::driver::ActiveTurn;
use crate::id::{SessionKey, TurnId};
use crate::runtime::model_problem::ModelProblem;
use crate::store::{AgentState, Freeze, RequestRow, RequestState};
use crate::swarm::ParkedQuota;
use crate::swarm::pause::Pause;

/// The state of an agent, the one that matters most to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ActivityState {
    /// A person froze it, or the whole home.
    Frozen,
    /// A request of it waits for a person.
    Asking,
    /// The quota of its model's credential is used up, and its turns wait for more.
    Parked,
    /// A turn runs.
    Working,
    /// Its model can't be asked: a provider, a key or the model itself is missing.
    Blocked,
    /// A turn waits for its session or for a free slot.
    Queued,
    /// A budget is used up.
    Paused,
    /// It put itself to sleep.
    Asleep,
    /// It waits for something to do.
    Idle,
}

/// The present activity of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Activity {
    pub state: ActivityState,
    /// Unix milliseconds at which the state began, if that is known.
    pub since: Option<i64>,
    /// The reason: who froze it, the request, the credential whose quota is used up, the tool that runs, the used-up
    /// budget, why its model can't be asked, or why it sleeps.
    pub detail: Option<String>,
    /// The turn that runs or waits.
    pub turn: Option<TurnId>,
    /// Its session.
    pub session: Option<SessionKey>,
    /// The request that waits for a person.
    pub request: Option<String>,
}

/// The known facts about an agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentFacts<'a> {
    pub frozen: Option<&'a Freeze>,
    pub paused: Option<&'a Pause>,
    /// The used-up quota that it waits for.
    pub parked: Option<&'a ParkedQuota>,
    /// The reason for which its model can't be asked.
    pub problem: Option<&'a ModelProblem>,
    pub state: Option<&'a AgentState>,
    /// Its turns that run or wait.
    pub turns: Vec<&'a (TurnId, ActiveTurn)>,
    /// Its open requests.
    pub requests: Vec<&'a RequestRow>,
}

/// Returns what the agent does.
#[must_use]
pub(crate) fn activity(facts: &AgentFacts<'_>) -> Activity {
    // The oldest turn is the one that a person wonders about.
    let oldest = |waits: bool| {
        let turns = facts.turns.iter().filter(move |(_, turn)| turn.waits() == waits);
        turns.min_by_key(|(_, turn)| turn.since)
    };
    let (running, waiting) = (oldest(false), oldest(true));
    let request = facts.requests.iter().find(|row| row.state == RequestState::Waiting);
    let turn = running.or(waiting);
    let of = |state, since, detail: Option<String>| Activity {
        state,
        since,
        detail,
        turn: turn.map(|(id, _)| *id),
        session: turn.map(|(_, turn)| turn.session.clone()),
        request: request.map(|row| row.id.clone()),
    };
    if let Some(freeze) = facts.frozen {
        return of(ActivityState::Frozen, Some(freeze.at), Some(freeze.by.clone()));
    }
    if let Some(row) = request {
        return of(ActivityState::Asking, Some(row.created_at), Some(row.kind.clone()));
    }
    // A turn that runs a tool goes on until it asks its model again.
    let is_in_tool = running.is_some_and(|(_, turn)| turn.tool.is_some());
    if let Some(parked) = facts.parked.filter(|_| !is_in_tool) {
        return of(ActivityState::Parked, Some(parked.since), Some(parked.credential.clone()));
    }
    if let Some((_, turn)) = running {
        return of(ActivityState::Working, Some(turn.since), turn.tool.clone());
    }
    if let Some(pause) = facts.paused {
        return of(ActivityState::Paused, Some(pause.since), Some(pause.reason.clone()));
    }
    if let Some(problem) = facts.problem {
        return of(ActivityState::Blocked, None, Some(problem.message.clone()));
    }
    if let Some((_, turn)) = waiting {
        return of(ActivityState::Queued, Some(turn.since), None);
    }
    if let Some((state, at)) = facts.state.and_then(|state| Some((state, state.asleep_at?))) {
        return of(ActivityState::Asleep, Some(at), state.sleep_reason.clone());
    }
    of(ActivityState::Idle, facts.state.and_then(|state| state.last_turn_at), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_of(facts: &AgentFacts<'_>) -> (ActivityState, Option<i64>) {
        let found = activity(facts);
        (found.state, found.since)
    }

    #[test]
    fn the_state_that_matters_most_is_shown() {
        let freeze = Freeze { at: 1, by: "human:ann".to_owned(), reason: None };
        let pause = Pause {
            since: 2,
            until: None,
            reason: "the budget".to_owned(),
            day: String::new(),
            budget: String::new(),
        };
        let asleep = AgentState {
            agent: "coder".parse().unwrap(),
            asleep_at: Some(3),
            sleep_reason: Some("nothing to do".to_owned()),
            last_turn_at: Some(2),
        };
        let running = (TurnId::new(), ActiveTurn::for_test("agent:coder:flock:main:ann", 4, false));
        let waiting = (TurnId::new(), ActiveTurn::for_test("agent:coder:flock:main:bob", 5, true));
        let mut facts = AgentFacts::default();
        assert_eq!(state_of(&facts), (ActivityState::Idle, None));
        facts.state = Some(&asleep);
        assert_eq!(state_of(&facts), (ActivityState::Asleep, Some(3)));
        facts.turns = vec![&waiting];
        assert_eq!(state_of(&facts), (ActivityState::Queued, Some(5)));
        let problem = ModelProblem { message: "it has no key".to_owned(), hint: None };
        facts.problem = Some(&problem);
        assert_eq!(state_of(&facts), (ActivityState::Blocked, None));
        assert_eq!(activity(&facts).detail.as_deref(), Some("it has no key"));
        facts.paused = Some(&pause);
        assert_eq!(state_of(&facts), (ActivityState::Paused, Some(2)));
        facts.turns = vec![&waiting, &running];
        assert_eq!(state_of(&facts), (ActivityState::Working, Some(4)));
        assert_eq!(activity(&facts).session.as_ref(), Some(&running.1.session));
        let parked = ParkedQuota {
            credential: "openai".to_owned(),
            model: "openai/gpt".parse().unwrap(),
            since: 6,
            until: 7,
            named: true,
            refusals: 1,
            probing: false,
            reason: String::new(),
            agents: Vec::new(),
        };
        facts.parked = Some(&parked);
        assert_eq!(state_of(&facts), (ActivityState::Parked, Some(6)));
        assert_eq!(activity(&facts).detail.as_deref(), Some("openai"));
        let mut in_tool = running.clone();
        in_tool.1.tool = Some("exec".to_owned());
        facts.turns = vec![&in_tool];
        assert_eq!(state_of(&facts), (ActivityState::Working, Some(4)));
        facts.turns = vec![&running];
        facts.frozen = Some(&freeze);
        assert_eq!(state_of(&facts), (ActivityState::Frozen, Some(1)));
        assert_eq!(activity(&facts).detail.as_deref(), Some("human:ann"));
    }
}

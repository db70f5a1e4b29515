//! What a scheduler is told, and what it wants done.

use crate::id::{AgentId, SessionKey};

/// What starts an agent's turns; not whether it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Plain messages too, at its pace.
    Active,
    /// Only what is urgent; plain messages are delivered along with that.
    Reactive,
}

/// Whose turn takes a free place first: a person's before the team's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A person wrote.
    Human,
    /// A mention, a direct message, a change of membership.
    Mention,
    /// Any other message.
    Message,
}

/// When a session shall see what is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// At once, whatever the agent's mode and whether it sleeps or not.
    Now,
    /// With the agent's next tick.
    Tick,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An agent appeared or changed. Saying the same again changes nothing. An agent is announced before
    /// what is unseen for it: events about an unknown one are ignored.
    Agent {
        /// Which.
        agent: AgentId,
        /// What starts its turns.
        mode: Mode,
        /// Whether it sleeps: its ticks are rarer.
        asleep: bool,
        /// Whether a person froze it: nothing of it is started.
        frozen: bool,
        /// Whom its model is asked from. Agents of one provider share its breaker.
        provider: Option<String>,
        /// When its last turn began; of use only when the agent is new here.
        last_turn_at: Option<i64>,
    },
    /// The agent was removed. A turn of it that still runs keeps its place until it has ended.
    Gone(AgentId),
    /// Something undelivered is there for a session. Also said, before the end of a turn, of what that turn
    /// leaves undelivered.
    Unseen {
        /// For which.
        session: SessionKey,
        /// How it competes for a place.
        priority: Priority,
        /// When it shall be seen.
        urgency: Urgency,
    },
    /// Nothing undelivered is left for a session: it was steered into the running turn, read elsewhere, the
    /// agent left, the channel was archived. Said before the [`Event::Ended`] of a running turn. What that
    /// turn was started for is not concerned: it is delivered, or not, by how the turn ends.
    Seen(SessionKey),
    /// The model answered within a turn that still runs. Closes the breaker that the turn probes.
    Answered(SessionKey),
    /// A turn that was started has ended, or could not begin.
    Ended {
        /// Which.
        session: SessionKey,
        /// How.
        how: Ended,
    },
    /// The agent may start nothing until this time (ms), or until [`Event::Resumed`]: its budget is used up.
    Paused {
        /// Which.
        agent: AgentId,
        /// Until when; `None` for good.
        until: Option<i64>,
    },
    /// The pause is over.
    Resumed(AgentId),
}

impl Event {
    /// That messages of a channel are there for a session: whether a person wrote one, and whether one calls
    /// the agent or is for everybody at once.
    #[must_use]
    pub const fn messages(session: SessionKey, human: bool, at_once: bool) -> Self {
        let priority = match (human, at_once) {
            (true, _) => Priority::Human,
            (false, true) => Priority::Mention,
            (false, false) => Priority::Message,
        };
        let urgency = if at_once { Urgency::Now } else { Urgency::Tick };
        Self::Unseen { session, priority, urgency }
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Well: what it was started for is delivered.
    Done,
    /// It did not begin: nothing was undelivered any more. It says nothing about the agent or its provider.
    Empty,
    /// By an error of the agent's own. It is tried again, after a wait that grows.
    Failed,
    /// Because its provider is down. Nothing is held against the agent.
    Unavailable,
    /// It did not begin: there was no room. It is tried again.
    Refused,
    /// Somebody stopped it. It is not tried again by itself: whoever stopped it says [`Event::Unseen`]
    /// where something shall be delivered anew.
    Cancelled,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Run a turn of this session with what is undelivered, and say [`Event::Ended`] when it is over: at
    /// once, and as [`Ended::Empty`], where nothing is undelivered any more.
    Start {
        /// Which.
        session: SessionKey,
        /// What it was started for.
        priority: Priority,
    },
    /// A turn of this session runs and something new came: put it in, if there is a way.
    Steer {
        /// Which.
        session: SessionKey,
    },
}

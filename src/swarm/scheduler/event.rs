//! The scheduler's inputs (events) and outputs (effects).

use std::collections::BTreeSet;

use crate::id::{AgentId, SessionKey};

/// The messages that start an agent's turns. Independent of sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Plain messages also start turns, at the agent's pace.
    Active,
    /// Only urgent messages start turns. Plain messages are delivered together with them.
    Reactive,
}

/// The priority for a free slot. People come before the team itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    Human,
    /// A mention, a direct message, or a change of membership.
    Mention,
    /// Any other message.
    Message,
}

/// The time at which a session has to see new messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// At once, whatever the agent's mode is and even if it sleeps.
    Now,
    /// At the agent's next tick.
    Tick,
}

/// An input of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerEvent {
    /// An agent appeared or changed. A repeated event changes nothing. An agent must be announced before its unread
    /// messages: events about an unknown agent are ignored.
    Agent {
        agent: AgentId,
        /// The messages that start its turns.
        mode: Mode,
        /// `true` if it sleeps. Its ticks are rarer then.
        asleep: bool,
        /// `true` if a person froze it. None of its turns starts then.
        frozen: bool,
        /// The provider of its model. Agents of one provider share a circuit breaker.
        provider: Option<String>,
        /// Start of its last turn. Used only if the agent is new to the scheduler.
        last_turn_at: Option<i64>,
    },
    /// The agent was removed. A running turn of it keeps its slot until it ends.
    Gone(AgentId),
    /// A session has undelivered messages. Before the end of a turn, this also reports what the turn leaves
    /// undelivered.
    Unseen {
        session: SessionKey,
        /// The priority for a slot.
        priority: Priority,
        /// The time at which the messages have to be seen.
        urgency: Urgency,
    },
    /// A session has no undelivered messages left. They were steered into the running turn or read elsewhere, the agent
    /// left the channel, or the channel was archived. For a running turn this comes before its [`SchedulerEvent::Ended`]. It
    /// does not concern the messages for which the turn was started: the turn's outcome decides if those are delivered.
    Seen(SessionKey),
    /// The model answered within a turn that still runs. If the turn is a probe, this closes the breaker.
    Answered(SessionKey),
    /// A turn that was started has ended or could not begin.
    Ended { session: SessionKey, how: TurnEnd },
    /// The agent can start no turn until this time in milliseconds or until [`SchedulerEvent::Resumed`], because its budget is
    /// used up.
    Paused {
        agent: AgentId,
        /// End of the pause. `None` means without end.
        until: Option<i64>,
    },
    /// The pause is over.
    Resumed(AgentId),
    /// The quota of a credential is used up. These agents, and no others, can ask no model but with it. At the time in
    /// milliseconds one turn of them is started as a probe. A repeated event replaces the one before.
    Parked {
        /// The credential's id.
        credential: String,
        agents: BTreeSet<AgentId>,
        until: i64,
    },
    /// The quota can be used again. The agents go on one after the other.
    Unparked {
        /// The credential's id.
        credential: String,
    },
}

impl SchedulerEvent {
    /// Returns the event for messages of a channel. `human` tells if a person wrote one of them, `at_once` if one
    /// mentions the agent or wakes everybody.
    #[must_use]
    pub(crate) const fn messages(session: SessionKey, human: bool, at_once: bool) -> Self {
        let priority = match (human, at_once) {
            (true, _) => Priority::Human,
            (false, true) => Priority::Mention,
            (false, false) => Priority::Message,
        };
        // A person's message is urgent only with `at_once`. Its priority puts it before others of the same urgency.
        let urgency = if at_once { Urgency::Now } else { Urgency::Tick };
        Self::Unseen { session, priority, urgency }
    }
}

/// The outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The turn ended well. The messages for which it was started are delivered.
    Done,
    /// The turn did not begin, because nothing was undelivered any more. This says nothing about the agent or its
    /// provider.
    Empty,
    /// The turn failed by an error of its own. It is retried with exponential backoff.
    Failed,
    /// The turn failed because its provider is down. This does not count against the agent.
    Unavailable,
    /// The turn did not begin, because there was no room. It is retried.
    Refused,
    /// The quota of the agent's credential is used up. The turn goes on when the credential is no longer parked.
    Parked,
    /// Somebody stopped the turn. It is not retried: whoever stopped it sends [`SchedulerEvent::Unseen`] if something has to be
    /// delivered again.
    Cancelled,
}

/// An output of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start a turn of this session with its undelivered messages, and report [`SchedulerEvent::Ended`] when it is over. If
    /// nothing is undelivered any more, report [`TurnEnd::Empty`] at once.
    Start {
        session: SessionKey,
        /// The priority with which it was started.
        priority: Priority,
    },
    /// Something new arrived for a session whose turn runs. Add it to the turn if that is possible.
    Steer { session: SessionKey },
}

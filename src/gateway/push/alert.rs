//! The things that need a person now, each with the notification about it.

use serde_json::{Value, json};

use super::client::Urgency;
use crate::clock::unix_ms;
use crate::gateway::state::Gateway;
use crate::id::AgentId;
use crate::store::{StoreError, text_digest};
use crate::supervise::restart::CrashHistory;
use crate::supervise::supervised_process::remembered;
use crate::supervise::unit;
use crate::swarm::pause::Pause;

/// Most requests that a look takes in. The oldest come first.
const MAX_REQUESTS: u32 = 200;

/// Longest time for which a push service keeps a notification, in milliseconds.
const MAX_LIFETIME: i64 = 24 * 3600 * 1000;

/// The number of the gateway's own crashes, of which only those in quick succession are remembered, that people are told
/// about. It is below the number that opens the breaker.
const OWN_CRASHES: usize = 3;

/// Milliseconds after the last crash for which that is told.
const OWN_CRASH_LIFETIME: i64 = 600_000;

/// A thing that needs a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alert {
    /// Names the thing. A browser is told of each once.
    pub subject: String,
    pub kind: AlertKind,
    /// Unix milliseconds from which on nobody needs to know any more.
    pub ends_at: i64,
}

/// The kind of a thing that needs a person. It holds no text of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AlertKind {
    /// A request waits for a decision.
    Request { id: String, agent: String },
    /// A budget pauses an agent.
    Pause { agent: String },
    /// A supervised program crashes again and again.
    Crash { program: &'static str },
}

impl Alert {
    /// Returns the alert about a request that waits. `difference` is how far the clock that gave its end may be behind.
    fn request(id: String, agent: String, expires_at: i64, difference: i64) -> Self {
        let subject = format!("request {id}");
        let ends_at = expires_at.saturating_add(difference);
        Self { subject, kind: AlertKind::Request { id, agent }, ends_at }
    }

    fn pause(agent: &AgentId, pause: &Pause, now: i64) -> Self {
        Self {
            // A budget that is raised and used up again the same day is another thing.
            subject: format!("pause {agent} {} {}", pause.day, text_digest(&pause.budget)),
            kind: AlertKind::Pause { agent: agent.to_string() },
            ends_at: pause.until.unwrap_or(now + MAX_LIFETIME),
        }
    }

    /// Returns the text for the browser's worker, which says it in the browser's language.
    pub(crate) fn payload(&self) -> String {
        let mut payload = match &self.kind {
            AlertKind::Request { id, agent } => json!({"kind": "request", "agent": agent, "request": id}),
            AlertKind::Pause { agent } => json!({"kind": "pause", "agent": agent}),
            AlertKind::Crash { program } => json!({"kind": "crash", "program": program}),
        };
        // A message that arrives twice replaces itself on the screen.
        payload["tag"] = Value::from(self.topic());
        payload.to_string()
    }

    /// Returns a name for push services, which reveals nothing.
    pub(crate) fn topic(&self) -> String {
        // Of 32 hexadecimal digits, which is the longest that is allowed.
        text_digest(&self.subject)
    }

    pub(crate) const fn urgency(&self) -> Urgency {
        match self.kind {
            AlertKind::Request { .. } | AlertKind::Crash { .. } => Urgency::High,
            AlertKind::Pause { .. } => Urgency::Normal,
        }
    }

    /// Returns the seconds for which a push service keeps the notification for a device that is off.
    pub(crate) fn ttl(&self, now: i64) -> u64 {
        self.ends_at.saturating_sub(now).clamp(0, MAX_LIFETIME).unsigned_abs() / 1000
    }
}

/// Returns what needs a person now.
///
/// # Errors
///
/// Returns the store's error if the database can't be read.
pub(crate) async fn current(gateway: &Gateway) -> Result<Vec<Alert>, StoreError> {
    let waiting = gateway.swarm.store().requests().waiting(MAX_REQUESTS).await?;
    let difference = gateway.swarm.ownership().clock_difference();
    let requests = waiting.into_iter().map(|(id, agent, until)| Alert::request(id, agent, until, difference));
    let now = unix_ms();
    let pauses = gateway.swarm.paused().into_iter().map(|(agent, pause)| Alert::pause(&agent, &pause, now));
    let home = gateway.home().clone();
    let histories = tokio::task::spawn_blocking(move || {
        (remembered(&home, unit::GATEWAY), remembered(&home, unit::OPENCLAW))
    });
    let crashes = match histories.await {
        Ok((own, openclaw)) => crashes(&own, &openclaw, now),
        Err(_) => Vec::new(),
    };
    Ok(requests.chain(pauses).chain(crashes).collect())
}

/// Returns the alerts about programs that crash again and again.
///
/// Of OpenClaw it is known that its breaker is open. The gateway can't say that of itself, because it does not run then.
/// It therefore says so earlier, after [`OWN_CRASHES`] crashes.
fn crashes(own: &CrashHistory, openclaw: &CrashHistory, now: i64) -> Vec<Alert> {
    let alert = |program, since: i64, ends_at| Alert {
        subject: format!("crash {program} {since}"),
        kind: AlertKind::Crash { program },
        ends_at,
    };
    let own = match (own.crashes.first(), own.crashes.last()) {
        (Some(first), Some(last)) if own.crashes.len() >= OWN_CRASHES => {
            Some(alert(unit::GATEWAY, *first, last + OWN_CRASH_LIFETIME))
        }
        _ => None,
    };
    let openclaw = openclaw.opened_at.map(|at| alert(unit::OPENCLAW, at, at + MAX_LIFETIME));
    own.into_iter().chain(openclaw).filter(|alert| alert.ends_at > now).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_names_the_request_and_holds_nothing_of_it() {
        let alert = Alert::request("r-1".to_owned(), "coder".to_owned(), 5_000, 0);
        let payload: Value = serde_json::from_str(&alert.payload()).unwrap();
        let tag = alert.topic();
        assert_eq!(payload, json!({"kind": "request", "agent": "coder", "request": "r-1", "tag": tag}));
        assert!(tag.len() <= 32 && tag.chars().all(|c| c.is_ascii_alphanumeric()), "{tag}");
        assert_eq!([4_000, 5_000, 9_000].map(|now| alert.ttl(now)), [1, 0, 0]);
        let lasting = Alert { ends_at: i64::MAX, ..alert };
        assert_eq!(lasting.ttl(0), 24 * 3600);
    }

    #[test]
    fn a_gateway_whose_clock_is_ahead_tells_of_a_question_that_still_waits() {
        let (minute, now) = (60_000, 20 * 60_000);
        // It waits for five minutes, by a clock that is five minutes behind.
        let alert = Alert::request("r-1".to_owned(), "coder".to_owned(), now, crate::clock::MAX_DIFFERENCE);
        assert!(alert.ends_at > now);
        assert_eq!(alert.ttl(now + 5 * minute), 60);
    }

    #[test]
    fn a_pause_is_told_of_once_for_each_agent_budget_and_day() {
        let agent: AgentId = "coder".parse().unwrap();
        let pause = |day: &str, budget: &str, since| Pause {
            since,
            until: Some(5_000),
            reason: "secret of a budget".to_owned(),
            day: day.to_owned(),
            budget: budget.to_owned(),
        };
        let first = Alert::pause(&agent, &pause("2026-02-28", "day 10", 1), 0);
        assert_eq!((first.ends_at, first.urgency()), (5_000, Urgency::Normal));
        let payload: Value = serde_json::from_str(&first.payload()).unwrap();
        assert_eq!(payload, json!({"kind": "pause", "agent": "coder", "tag": first.topic()}));
        assert_eq!(first, Alert::pause(&agent, &pause("2026-02-28", "day 10", 2), 1), "the same thing");
        for other in [pause("2026-03-01", "day 10", 1), pause("2026-02-28", "day 20", 1)] {
            assert_ne!(first.topic(), Alert::pause(&agent, &other, 0).topic());
        }
    }

    #[test]
    fn a_program_is_told_of_when_it_crashes_again_and_again() {
        let history = |crashes: &[i64], opened_at| CrashHistory {
            crashes: crashes.to_vec(),
            opened_at,
            reason: Some("secret of a log".to_owned()),
        };
        let quiet = CrashHistory::default();
        assert_eq!(crashes(&history(&[1, 2], None), &history(&[1, 2, 3, 4], None), 5), []);
        let own = crashes(&history(&[1, 2, 3], None), &quiet, 5);
        assert_eq!(own[0].payload(), crashes(&history(&[1, 2, 3, 4], None), &quiet, 5)[0].payload(), "once");
        assert!(crashes(&history(&[1, 2, 3], None), &quiet, OWN_CRASH_LIFETIME + 3).is_empty());
        let openclaw = crashes(&quiet, &history(&[], Some(9)), 10);
        assert_eq!((openclaw.len(), &*openclaw[0].subject), (1, "crash openclaw 9"));
        assert!(!openclaw[0].payload().contains("secret"));
    }
}

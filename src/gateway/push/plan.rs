//! Decides which browser is told of what, and when a failed attempt is repeated. Pure.

use std::collections::HashMap;
use std::time::Duration;

use super::alert::Alert;
use crate::store::{PushNotice, PushSubscription};

/// Most attempts at one notification.
const MAX_ATTEMPTS: u32 = 5;

/// Longest wait that a push service can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Notifications that are to be sent now, and the time of the next look.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan<'a> {
    pub due: Vec<DuePush<'a>>,
    /// Unix milliseconds; `None` if nothing waits for a time.
    pub next_at: Option<i64>,
}

/// A notification that is to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DuePush<'a> {
    pub subscription: &'a PushSubscription,
    pub alert: &'a Alert,
    /// The number of this attempt, from 1.
    pub attempt: u32,
}

/// Decides what to send. `notices` is what was begun about the alerts.
pub(super) fn plan<'a>(
    subscriptions: &'a [PushSubscription],
    alerts: &'a [Alert],
    notices: &[PushNotice],
    now: i64,
) -> Plan<'a> {
    let begun: HashMap<(&str, &str), &PushNotice> =
        notices.iter().map(|notice| ((&*notice.subscription, &*notice.subject), notice)).collect();
    let mut plan = Plan { due: Vec::new(), next_at: None };
    for alert in alerts.iter().filter(|alert| alert.ends_at > now) {
        for subscription in subscriptions {
            let attempts = match begun.get(&(&*subscription.id, &*alert.subject)) {
                Some(notice) if notice.is_closed || notice.attempts >= MAX_ATTEMPTS => continue,
                Some(notice) if notice.next_at > now => {
                    plan.next_at = Some(plan.next_at.map_or(notice.next_at, |at| at.min(notice.next_at)));
                    continue;
                }
                Some(notice) => notice.attempts,
                None => 0,
            };
            plan.due.push(DuePush { subscription, alert, attempt: attempts + 1 });
        }
    }
    plan
}

/// Returns the wait after an attempt that failed, or `None` if it was the last one. `first` is the wait after the first
/// attempt, and `asked` what the push service asks for.
pub(super) fn wait(attempt: u32, first: Duration, asked: Option<Duration>) -> Option<Duration> {
    if attempt >= MAX_ATTEMPTS {
        return None;
    }
    let own = first.saturating_mul(4_u32.saturating_pow(attempt.saturating_sub(1)));
    Some(own.max(asked.unwrap_or_default()).min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::push::alert::AlertKind;

    fn subscription(id: &str) -> PushSubscription {
        PushSubscription {
            id: id.to_owned(),
            sign_in: id.to_owned(),
            endpoint: String::new(),
            p256dh: Vec::new(),
            auth: Vec::new(),
            created_at: 0,
            result: None,
            result_at: None,
            failures: 0,
        }
    }

    fn alert(subject: &str, ends_at: i64) -> Alert {
        Alert { subject: subject.to_owned(), kind: AlertKind::Pause { agent: "coder".to_owned() }, ends_at }
    }

    fn notice(subscription: &str, subject: &str, attempts: u32, next_at: i64, is_closed: bool) -> PushNotice {
        PushNotice {
            subscription: subscription.to_owned(),
            subject: subject.to_owned(),
            attempts,
            next_at,
            is_closed,
        }
    }

    #[test]
    fn every_browser_is_told_of_everything_once() {
        let (phones, alerts) = ([subscription("a"), subscription("b")], [alert("x", 100), alert("old", 10)]);
        let due = |notices: &[PushNotice]| {
            let plan = plan(&phones, &alerts, notices, 10);
            let due =
                plan.due.iter().map(|due| (due.subscription.id.clone(), due.attempt)).collect::<Vec<_>>();
            (due, plan.next_at)
        };
        assert_eq!(due(&[]), (vec![("a".into(), 1), ("b".into(), 1)], None));
        assert_eq!(due(&[notice("a", "x", 1, 0, true)]), (vec![("b".into(), 1)], None));
        let waiting = [notice("a", "x", 1, 30, false), notice("b", "x", 2, 20, false)];
        assert_eq!(due(&waiting), (vec![], Some(20)));
        let tried = [notice("a", "x", 4, 10, false), notice("b", "x", MAX_ATTEMPTS, 0, false)];
        assert_eq!(due(&tried), (vec![("a".into(), 5)], None));
    }

    #[test]
    fn waits_grow_and_the_service_can_ask_for_more_but_not_for_days() {
        let first = Duration::from_secs(15);
        let seconds = |attempt, asked: Option<u64>| {
            wait(attempt, first, asked.map(Duration::from_secs)).map(|wait| wait.as_secs())
        };
        assert_eq!(
            [1, 2, 3, 4, 5].map(|n| seconds(n, None)),
            [Some(15), Some(60), Some(240), Some(960), None]
        );
        assert_eq!(
            [Some(5), Some(90), Some(1 << 40)].map(|asked| seconds(1, asked)),
            [Some(15), Some(90), Some(3600)]
        );
    }
}

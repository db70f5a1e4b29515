//! Sends notifications as long as the gateway runs. It follows the gateway's events and reads the database, so nothing
//! waits for it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::alert;
use super::client::{PushAnswer, PushClient, PushMessage};
use super::encryption::{Recipient, encrypt};
use super::plan::{DuePush, plan, wait};
use super::vapid::VapidKey;
use super::{PushSettings, endpoint};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::gateway::events::EventRead;
use crate::gateway::state::Gateway;
use crate::store::{PushAttempt, Store, StoreError};

/// Longest time between two looks, for what is announced by no event.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Most messages that are sent at once.
const AT_ONCE: usize = 8;

/// Most events that are read at once.
const BATCH: usize = 256;

/// Sends notifications until `stop` is cancelled.
pub async fn run(gateway: Arc<Gateway>, stop: CancellationToken) {
    let mut changes = gateway.events.watch();
    let mut position = gateway.events.now();
    let mut tools = None;
    loop {
        let next_at = match look(&gateway, &mut tools).await {
            Ok(next_at) => next_at,
            Err(error) => {
                tracing::error!(error = chain(&error), "failed to look which notifications are to be sent");
                None
            }
        };
        let left = next_at.map(|at| Duration::from_millis((at - unix_ms()).max(0).unsigned_abs()));
        let pause = tokio::time::sleep(left.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE));
        tokio::pin!(pause);
        loop {
            changes.mark_unchanged();
            if concerns(&gateway, &mut position) {
                break;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = &mut pause => break,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// Reads the events after `position`. Returns `true` if one of them can mean that something needs a person.
fn concerns(gateway: &Gateway, position: &mut u64) -> bool {
    loop {
        match gateway.events.after(*position, BATCH) {
            EventRead::Lost => {
                *position = gateway.events.now();
                return true;
            }
            EventRead::Events(events) => {
                let Some(last) = events.last() else { return false };
                *position = last.position();
                if events.iter().any(|event| matches!(event.name(), "approval.waiting" | "agent.paused")) {
                    return true;
                }
            }
        }
    }
}

/// The parts that are made when there is something to send.
struct SendTools {
    key: Arc<VapidKey>,
    client: PushClient,
}

/// Sends what is due. Returns the Unix milliseconds of the next attempt that waits.
async fn look(gateway: &Arc<Gateway>, tools: &mut Option<SendTools>) -> Result<Option<i64>, StoreError> {
    let store = gateway.swarm.store();
    let now = unix_ms();
    let subscriptions = store.push_subscriptions().list(now).await?;
    if subscriptions.is_empty() {
        return Ok(None);
    }
    let alerts = alert::current(gateway).await?;
    let subjects: Vec<String> = alerts.iter().map(|alert| alert.subject.clone()).collect();
    let notices = store.push_subscriptions().notices(&subjects).await?;
    let planned = plan(&subscriptions, &alerts, &notices, now);
    if planned.due.is_empty() {
        return Ok(planned.next_at);
    }
    if tools.is_none() {
        *tools = make_tools(gateway).await;
    }
    let Some(tools) = tools else { return Ok(planned.next_at) };
    let contact = gateway.config().trusted_origins.first().map(ToString::to_string);
    let settings = gateway.limits.push;
    let (tools, contact) = (&*tools, contact.as_deref());
    let attempts = planned.due.into_iter().map(|due| Attempt { store, tools, settings, contact, due }.make());
    // Collected first: with a lazy iterator in it, the task would not be `Send`.
    let sent = stream::iter(attempts.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
    let ended: Vec<Result<Option<i64>, StoreError>> =
        gateway.stop.run_until_cancelled(sent.collect::<Vec<_>>()).await.unwrap_or_default();
    let mut next_at = planned.next_at;
    for end in ended {
        let retry = end?;
        next_at = next_at.into_iter().chain(retry).min();
    }
    Ok(next_at)
}

async fn make_tools(gateway: &Arc<Gateway>) -> Option<SendTools> {
    let owner = Arc::clone(gateway);
    let made = tokio::task::spawn_blocking(move || {
        let key = owner.vapid.get(owner.home()).map_err(|error| chain(&error))?;
        let client = PushClient::new(owner.limits.push)?;
        Ok::<_, String>(SendTools { key, client })
    });
    match made.await.map_err(|error| chain(&error)).flatten() {
        Ok(tools) => Some(tools),
        Err(error) => {
            tracing::error!(error, "no notification can be sent");
            None
        }
    }
}

/// One attempt at one notification.
struct Attempt<'a> {
    store: &'a Store,
    tools: &'a SendTools,
    settings: PushSettings,
    contact: Option<&'a str>,
    due: DuePush<'a>,
}

impl Attempt<'_> {
    /// Sends and records the end. Returns the Unix milliseconds of the next attempt, if there is one.
    async fn make(self) -> Result<Option<i64>, StoreError> {
        let DuePush { subscription, alert, attempt } = self.due;
        let subscriptions = self.store.push_subscriptions();
        // Recorded before it is sent. If the gateway is killed meanwhile, the next one tries again, and the topic and
        // the tag make the second message replace the first.
        let next_at = after(wait(attempt, self.settings.first_wait, Some(self.settings.timeout)));
        let begun = subscriptions.begin(
            subscription.id.clone(),
            alert.subject.clone(),
            next_at.unwrap_or_else(unix_ms),
        );
        if !begun.await? {
            return Ok(None);
        }
        let answer = match self.message() {
            Ok(message) => self.tools.client.send(message).await,
            Err(problem) => PushAnswer::Refused { problem },
        };
        let service = endpoint::service(&subscription.endpoint);
        let (problem, next_at) = match answer {
            PushAnswer::Accepted => (None, None),
            PushAnswer::Gone => {
                tracing::info!(
                    service,
                    id = subscription.id,
                    "a browser does not want notifications any more"
                );
                subscriptions.remove(subscription.id.clone()).await?;
                return Ok(None);
            }
            PushAnswer::Later { problem, after: asked } => {
                (Some(problem), after(wait(attempt, self.settings.first_wait, asked)))
            }
            PushAnswer::Refused { problem } => (Some(problem), None),
        };
        if let Some(problem) = &problem {
            tracing::warn!(service, id = subscription.id, problem, attempt, "a notification was not sent");
        }
        let conclusion = PushAttempt {
            subscription: subscription.id.clone(),
            subject: alert.subject.clone(),
            problem,
            next_at,
        };
        subscriptions.conclude(conclusion, unix_ms()).await?;
        Ok(next_at)
    }

    fn message(&self) -> Result<PushMessage, String> {
        let DuePush { subscription, alert, .. } = self.due;
        let url = endpoint::parse(&subscription.endpoint, self.settings)?;
        let recipient = Recipient { public: &subscription.p256dh, auth: &subscription.auth };
        let body = encrypt(alert.payload().as_bytes(), recipient).map_err(|error| chain(&error))?;
        let authorization =
            self.tools.key.authorization(&endpoint::origin(&url), self.contact, unix_ms() / 1000);
        Ok(PushMessage {
            authorization: authorization.map_err(|error| chain(&error))?,
            body,
            ttl: alert.ttl(unix_ms()),
            urgency: alert.urgency(),
            topic: alert.topic(),
            url,
        })
    }
}

fn after(wait: Option<Duration>) -> Option<i64> {
    let wait = i64::try_from(wait?.as_millis()).unwrap_or(i64::MAX);
    Some(unix_ms().saturating_add(wait))
}

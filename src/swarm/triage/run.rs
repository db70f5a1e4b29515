//! Runs a request in a task of its own, from its beginning to its stored result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{FiledRequest, MAX_RESULT, Request, Triage, messages, sysadmin, view};
use crate::clock::unix_ms;
use crate::generation::Origin;
use crate::id::AgentId;
use crate::store::{Along, Level, RequestRow, RequestStep, RequestTransition, StoreError};
use crate::swarm::write_retry::insist;
use crate::swarm::{Actor, SwarmError};
use crate::sync::lock;
use crate::tool::safe_text;

/// Time that the requesting agent waits for something that runs at once. After that, the result is sent to its session.
const PATIENCE: Duration = Duration::from_secs(90);

/// The text for the requesting agent.
type RequestOutcome = Result<String, String>;

impl Triage {
    /// Begins a request and waits a while for its result.
    pub(super) async fn attend(
        self: &Arc<Self>,
        id: &str,
        cancel: &CancellationToken,
    ) -> Result<String, SwarmError> {
        let (teller, mut told) = oneshot::channel();
        self.begin(id.to_owned(), Some(teller));
        tokio::select! {
            told = &mut told => match told {
                Ok(Ok(text)) => Ok(format!("{id}: {text}")),
                Ok(Err(text)) => Err(SwarmError::Refused(format!("{id}: {text}"))),
                // It did not begin here: another task has it, or its level was raised meanwhile.
                Err(_) => {
                    let state = self.swarm.store().requests().find(id).await?.map_or("gone", |row| row.state.as_str());
                    Ok(format!("{id}: it is {state}; you will be told the outcome"))
                }
            },
            // The request goes on. Its result is sent to the session, because nobody waits for it any more.
            () = tokio::time::sleep(PATIENCE) => Ok(format!("{id}: it is running; you will be told here")),
            () = cancel.cancelled() => Err(SwarmError::Refused(format!("{id}: stopped waiting; it continues"))),
        }
    }

    /// Carries out a request in a separate task. What has begun runs to its end, even if the requester stops waiting.
    pub(super) fn begin(self: &Arc<Self>, id: String, teller: Option<oneshot::Sender<RequestOutcome>>) {
        // A request that is under way already must not begin twice, for example by the sweep and by its approval.
        if self.stop.is_cancelled() || !lock(&self.underway).insert(id.clone()) {
            return;
        }
        let triage = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Err(error) = triage.run(&id, teller).await {
                tracing::error!(
                    request = id,
                    error = crate::error::chain(&error),
                    "a request could not be run"
                );
            }
            lock(&triage.underway).remove(&id);
        });
    }

    /// Returns the agents that must not be frozen while a request runs: the requester and, for a command, the sysadmin.
    fn involved(&self, row: &RequestRow) -> Vec<AgentId> {
        let config = self.swarm.config();
        let sysadmin = sysadmin(&config).filter(|_| row.kind == "command");
        [&row.agent].into_iter().chain(sysadmin.map(|agent| &agent.id)).cloned().collect()
    }

    async fn run(&self, id: &str, teller: Option<oneshot::Sender<RequestOutcome>>) -> Result<(), StoreError> {
        let store = self.swarm.store();
        let Some(row) = store.requests().find(id).await? else { return Ok(()) };
        let involved = self.involved(&row);
        // A frozen agent's request stays in its state and begins after the thaw, or at the next start.
        if self.stop.run_until_cancelled(self.swarm.wait_all_thawed(&involved)).await.is_none() {
            return Ok(());
        }
        // The gateway that takes care of the agent hears of the decision and begins it. An answer goes to a call, which may be
        // made at another gateway.
        let lease = self.swarm.ownership().enter_agent(&row.agent);
        if lease.is_none() && !self.is_asked(id) {
            return Ok(());
        }
        // The level may have been raised while the task waited for a thaw.
        let level = store.requests().find(id).await?.map_or(Level::Red, |row| row.level);
        let entry = Actor::system().entry("request.begin", id, level, String::new());
        let row = match store.requests().begin(id.to_owned(), entry, unix_ms()).await? {
            RequestTransition::Done(row) => row,
            RequestTransition::Changed(row) | RequestTransition::Expired(row) => {
                let text = row.result.clone().unwrap_or_else(|| "it has expired".to_owned());
                self.tell(&row, &format!("Your request {id} was not done: {text}.")).await?;
                return Ok(());
            }
            RequestTransition::Not(_) | RequestTransition::Unknown => return Ok(()),
        };
        let asked = FiledRequest::read(&row.body)
            // The body is what was approved. Columns that contradict it show that the row was changed.
            .filter(|asked| asked.agent == row.agent && asked.request.kind() == row.kind)
            .filter(|asked| asked.request.check().is_ok());
        let told: RequestOutcome = match &asked {
            None => Err("not run: it can't be read".to_owned()),
            Some(asked) => {
                // A freeze of an involved agent cancels what runs.
                let cancel = self.stop.child_token();
                let swarm = Arc::clone(&self.swarm);
                let (frozen, ends) = (cancel.clone(), cancel.clone().drop_guard());
                tokio::spawn(async move {
                    if frozen.run_until_cancelled(swarm.wait_any_frozen(&involved)).await.is_some() {
                        frozen.cancel();
                    }
                });
                // A panic must not leave the row in the state "running".
                let by = row.decided_by.clone().unwrap_or_else(|| "system".to_owned());
                let origin = Origin::new(by, format!("the request {id} of {}", row.agent));
                let work = origin.scope(self.carry_out(id, asked, &cancel));
                let done = AssertUnwindSafe(work).catch_unwind().await;
                drop(ends);
                done.unwrap_or_else(
                    |_| Err("it ended because of a defect; its outcome is unknown".to_owned()),
                )
            }
        };
        if let (Ok(_), Some(FiledRequest { request: Request::AgentRemove { id: gone }, .. })) =
            (&told, &asked)
        {
            // A later agent with the same id must not inherit the grants.
            insist(store, &self.stop, || {
                let entry =
                    Actor::system().entry("request.revoke", gone.as_str(), Level::Yellow, id.to_owned());
                Box::pin(store.grants().revoke(gone.clone(), None, entry, unix_ms()))
            })
            .await?;
        }
        self.finish(&row, asked.as_ref(), told, teller).await
    }

    async fn carry_out(&self, id: &str, asked: &FiledRequest, cancel: &CancellationToken) -> RequestOutcome {
        if let Request::McpQuestion { .. } = &asked.request {
            return self.deliver(id);
        }
        // A former agent's grants would pass to the new agent with its id.
        if let Request::AgentCreate { id, .. } = &asked.request {
            let granted =
                self.swarm.store().grants().agents().await.map_err(|error| crate::error::chain(&error))?;
            if granted.contains(id) {
                return Err(format!(
                    "a removed agent {id} still has grants; they are revoked at the next change of the configuration, or \
                     with flock restart"
                ));
            }
        }
        if let Request::Schedule { .. } = &asked.request {
            return self.swarm.add_agent_schedule(asked).await;
        }
        self.executor.carry_out(asked, cancel).await
    }

    async fn finish(
        &self,
        row: &RequestRow,
        asked: Option<&FiledRequest>,
        told: RequestOutcome,
        teller: Option<oneshot::Sender<RequestOutcome>>,
    ) -> Result<(), StoreError> {
        let now = unix_ms();
        let (step, text, how) = match &told {
            Ok(text) => (RequestStep::Finish, text, "done"),
            Err(text) => (RequestStep::Fail, text, "failed"),
        };
        // A command's output goes to a model and to terminals, so control characters are made harmless.
        let text = safe_text::middle_cut(&safe_text::harmless(text), MAX_RESULT);
        let what = asked.map(|asked| view::brief(&asked.request, &row.id)).unwrap_or_default();
        let news = format!("Your request {} ({what}) is {how}:\n{text}", row.id);
        let news = messages::results(row, &news, now);
        // If nobody waits any more, the result must be stored together with the end of the request.
        let teller = teller.filter(|teller| !teller.is_closed());
        let items = if teller.is_none() { news.clone() } else { Vec::new() };
        let action = if told.is_ok() { "request.done" } else { "request.failed" };
        // The request was carried out, even if the storage fails now. Its end must be recorded.
        let store = self.swarm.store();
        let moved = insist(store, &self.stop, || {
            let entry = Actor::system().entry(action, &row.id, row.level, what.clone());
            let along = Along { entry, items: items.clone(), post: None };
            let result = Some(text.clone());
            Box::pin(store.requests().step(row.id.clone(), step, result, along, now))
        })
        .await?;
        if let RequestTransition::Done(row) = &moved {
            self.publish("approval.ended", row);
        }
        self.ring(&items);
        if row.level == Level::Yellow {
            self.review(now).await?;
        }
        if let Some(teller) = teller
            && teller.send(told.map(|_| text.clone()).map_err(|_| text)).is_err()
        {
            // The requester stopped waiting in the meantime, so the result goes to its session.
            for item in &news {
                self.swarm.store().inbox().add(item.clone()).await?;
            }
            self.ring(&news);
        }
        Ok(())
    }
}

//! What happens without a caller: the recovery at a start, the sweep that expires old requests and begins those that were
//! granted elsewhere, and the look at each decision of another process.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{MAX_ROWS, SWEEP_INTERVAL, Triage, execution, messages, question, view};
use crate::clock::{MAX_DIFFERENCE, unix_ms};
use crate::home::scratch;
use crate::store::{
    Along, LeaseSubject, Notice, NoticeKind, RequestRow, RequestState, RequestStep, RequestTransition,
    StoreError,
};
use crate::swarm::scheduler::Priority;
use crate::swarm::{Actor, Swarm};
use crate::sync::lock;

impl Triage {
    /// Continues after a start of the gateway. Requests that were running when the last gateway ended are not run
    /// again, because it is unknown how far they came. Those that were granted but had not begun are begun now.
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<(), StoreError> {
        self.sweep().await?;
        // Before anything begins: such a request must not be run.
        self.swarm.expire_outdated().await?;
        self.list_older_grants().await?;
        self.remove_stale_folders().await;
        self.recover_orphans(Duration::ZERO).await
    }

    /// Removes the folders of commands that an earlier process ran. A folder of this process is never among them: its
    /// request is under way before the folder is made.
    async fn remove_stale_folders(&self) {
        let commands = self.swarm.home().commands();
        let above = commands.clone();
        let found = tokio::task::spawn_blocking(move || scratch::names(&above)).await.unwrap_or_default();
        let left: Vec<String> =
            found.into_iter().filter(|name| !lock(&self.underway).contains(name)).collect();
        if tokio::task::spawn_blocking(move || scratch::sweep(&commands, &left)).await.is_err() {
            tracing::warn!("the folders of commands that ran before could not be removed");
        }
    }

    /// Repeats the sweep until `stop`: it expires requests, begins those that were granted elsewhere, and ends those
    /// that were lost.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(SWEEP_INTERVAL)).await.is_some() {
            if self.swarm.store().trouble().is_some_and(|trouble| trouble.blocks) {
                // Nothing could be written now.
                continue;
            }
            // Of several gateways, one does what is not about a single agent's work.
            let is_clock = self.swarm.ownership().holds(&LeaseSubject::clock());
            let looked = async {
                // One failure must not keep the other tasks of the sweep from running.
                let swept = if is_clock { self.sweep().await } else { Ok(()) };
                self.settle().await?;
                swept?;
                if is_clock { self.review(unix_ms()).await } else { Ok(()) }
            };
            if let Err(error) = looked.await {
                tracing::error!(
                    error = crate::error::chain(&error),
                    "failed to look for requests that are over"
                );
            }
        }
    }

    /// Takes up decisions of other processes as soon as their notices come, until `stop`. If a notice is lost, the sweep
    /// finds the decision.
    pub(crate) async fn follow_decisions(self: Arc<Self>, stop: CancellationToken) {
        let mut notices = self.swarm.store().notices();
        while let Some(notice) = stop.run_until_cancelled(notices.next_of(&[NoticeKind::Request])).await {
            let taken_up = match notice {
                Notice::Change { name, .. } if !name.is_empty() => self.take_up_decision(&name).await,
                _ => self.settle().await,
            };
            if let Err(error) = taken_up {
                tracing::error!(
                    error = crate::error::chain(&error),
                    "failed to take up a decision about a request"
                );
            }
        }
    }

    /// Expires the requests that nobody decided in time. The time is by the clock of the gateway that made the request, so another
    /// one expires it only after it is over by every clock. A question is ended on time by the gateway where its call waits, and
    /// here only if that has not happened.
    pub(crate) async fn sweep(&self) -> Result<(), StoreError> {
        let (now, difference) = (unix_ms(), self.swarm.ownership().clock_difference());
        for row in self.swarm.store().requests().list(true, MAX_ROWS).await? {
            // What runs has begun in time, however long it takes.
            let margin = if row.kind == question::KIND { MAX_DIFFERENCE } else { difference };
            if row.expires_at.saturating_add(margin) > now || row.state == RequestState::Running {
                continue;
            }
            let news = messages::expired(&row.id);
            self.swarm.expire(&row, &news, None, now).await?;
        }
        Ok(())
    }
}

impl Swarm {
    /// Expires requests of older versions of flock for commands without a stored execution. They would run in another
    /// way than a person is shown. Their agents are told to ask again.
    pub(crate) async fn expire_outdated(&self) -> Result<(), StoreError> {
        let now = unix_ms();
        let open = self.store().requests().list(true, MAX_ROWS).await?;
        for row in open.iter().filter(|row| row.state != RequestState::Running && view::is_outdated(row)) {
            let text = execution::OUTDATED_REASON;
            let news = format!("Your request {} was {text}.", row.id);
            self.expire(row, &news, Some(text), now).await?;
        }
        Ok(())
    }

    /// Expires a request and tells its agent.
    async fn expire(
        &self,
        row: &RequestRow,
        news: &str,
        why: Option<&str>,
        now: i64,
    ) -> Result<(), StoreError> {
        let news = messages::results(row, news, now);
        let detail = why.unwrap_or_default().to_owned();
        let entry = Actor::system().entry("request.expire", &row.id, row.level, detail);
        let along = Along { entry, items: news.clone(), post: None };
        let (id, result) = (row.id.clone(), why.map(str::to_owned));
        let moved = self.store().requests().step(id, RequestStep::Expire, result, along, now).await?;
        if let RequestTransition::Done(_) = moved {
            for item in news {
                self.notifier().ring(item.session, Priority::Mention);
            }
        }
        Ok(())
    }
}

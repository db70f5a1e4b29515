//! Restarting the gateway at the sysadmin's word: its supervisor is asked, once the turn that wanted it has
//! ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{SwarmError, Triage};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::id::TurnId;
use crate::store::{Level, RequestState};
use crate::supervise::control::{Connection, Request};
use crate::swarm::By;
use crate::swarm::triage::request::shown;

/// How long a turn may go on after it asked for a restart.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(200);
/// How long the supervisor may take to hear it. The answer comes when the gateway is up again, to nobody.
const HEARD: Duration = Duration::from_secs(60);

impl Triage {
    /// Has the supervisor start the gateway anew once this turn has ended. Gives what the sysadmin is told.
    ///
    /// # Errors
    ///
    /// Where nothing supervises this gateway, or the database fails.
    pub async fn restart_gateway(self: &Arc<Self>, by: &By, reason: &str) -> Result<String, SwarmError> {
        if reason.trim().is_empty() || reason.len() > super::MAX_REASON {
            return Err(SwarmError::Invalid(format!(
                "`reason` is a text of 1 to {} bytes",
                super::MAX_REASON
            )));
        }
        if let Err(error) = Connection::open(self.swarm.home()).await {
            let text = format!("nothing can restart this gateway: {}", chain(&error));
            return Err(SwarmError::Refused(text));
        }
        let entry = by.entry("gateway.restart", "gateway", Level::Yellow, shown(reason));
        self.swarm.store().audit(entry, unix_ms()).await?;
        if self.restarting.swap(true, Ordering::SeqCst) {
            return Ok("a restart is on its way already".to_owned());
        }
        let triage = Arc::clone(self);
        let turn = by.turn;
        self.tasks.spawn(async move {
            // Its own stop is what it asks for, and nothing to wait for.
            triage.stop.run_until_cancelled(triage.restart_after(turn)).await;
            triage.restarting.store(false, Ordering::SeqCst);
        });
        Ok("the gateway restarts when this turn has ended, and the requests that run; end it now".to_owned())
    }

    /// Whether a request is being carried out.
    fn is_running(&self) -> bool {
        let open = self.swarm.store().requests(true, super::MANY);
        // What can't be looked up may be running.
        open.map_or(true, |open| open.iter().any(|row| row.state == RequestState::Running))
    }

    async fn restart_after(&self, turn: Option<TurnId>) {
        let runs = || {
            let running = self.swarm.store().running_turns();
            let is_of = |turn| running.map_or(true, |running| running.iter().any(|found| found.id == turn));
            turn.is_some_and(is_of) || self.is_running()
        };
        let ended = async {
            while runs() {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(PATIENCE, ended).await.is_err() {
            tracing::warn!(
                "the turn that wanted a restart of the gateway, or a request, goes on; there is none"
            );
            return;
        }
        let asked = async {
            let mut connection = Connection::open(self.swarm.home()).await?;
            connection.ask(Request::Restart, HEARD).await
        };
        // Where all goes well this process has ended before there is an answer.
        if let Err(error) = asked.await {
            tracing::error!(error = chain(&error), "the supervisor did not restart the gateway");
        }
    }
}

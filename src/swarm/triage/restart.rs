//! Restarts the gateway at the sysadmin's request, by its supervisor, after the requesting turn has ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Triage;
use crate::clock::unix_ms;
use crate::error::chain;
use crate::id::TurnId;
use crate::store::{Level, RequestRow, RequestState};
use crate::supervise::control::{ControlConnection, ControlRequest};
use crate::swarm::triage::request::shown;
use crate::swarm::{Actor, SwarmError};

/// Maximum time for which the turn may go on after its request.
const TURN_TIMEOUT: Duration = Duration::from_secs(600);
/// Interval between checks for the end of the turn.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit for the supervisor to accept the request. Its answer comes when the gateway is up again, and then nobody
/// waits for it.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(60);

impl Triage {
    /// Asks the supervisor to restart the gateway after this turn. Returns the text for the sysadmin.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if the reason is empty or too long, and [`SwarmError::Refused`] if no supervisor
    /// runs.
    pub(crate) async fn restart_gateway(
        self: &Arc<Self>,
        by: &Actor,
        reason: &str,
    ) -> Result<String, SwarmError> {
        if reason.trim().is_empty() || reason.len() > super::MAX_REASON {
            return Err(SwarmError::Invalid(format!("`reason` must have 1 to {} bytes", super::MAX_REASON)));
        }
        // Asking again does nothing, so it is not in the audit either.
        let under_way = || Ok("a restart is planned already".to_owned());
        if self.restarting.load(Ordering::SeqCst) {
            return under_way();
        }
        if let Err(error) = ControlConnection::open(self.swarm.home()).await {
            let text = format!("nothing can restart this gateway: {}", chain(&error));
            return Err(SwarmError::Refused(text));
        }
        let entry = by.entry("gateway.restart", "gateway", Level::Yellow, shown(reason));
        self.swarm.store().audit().append(entry, unix_ms()).await?;
        // Set only after the audit's row: if this call were dropped while it waits for that, the mark would stay.
        if self.restarting.swap(true, Ordering::SeqCst) {
            return under_way();
        }
        let triage = Arc::clone(self);
        let turn = by.turn;
        self.tasks.spawn(async move {
            // The restart stops this process, and with it this task. There is nothing to wait for then.
            triage.stop.run_until_cancelled(triage.restart_after(turn)).await;
            triage.restarting.store(false, Ordering::SeqCst);
        });
        Ok("the gateway restarts after this turn and all running requests; end the turn now".to_owned())
    }

    /// Returns `true` if this gateway is carrying out a request. Those of others go on while it restarts.
    async fn is_running(&self) -> bool {
        let ownership = self.swarm.ownership();
        let runs = |row: &RequestRow| row.state == RequestState::Running && ownership.holds_agent(&row.agent);
        let open = self.swarm.store().requests().list(true, super::MAX_ROWS).await;
        // If that can't be determined, one may be running.
        open.map_or(true, |open| open.iter().any(runs))
    }

    async fn restart_after(&self, turn: Option<TurnId>) {
        let runs = async || {
            let running = self.swarm.store().turns().running().await;
            let is_of = |turn| running.map_or(true, |running| running.iter().any(|found| found.id == turn));
            turn.is_some_and(is_of) || self.is_running().await
        };
        let ended = async {
            while runs().await {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        if tokio::time::timeout(TURN_TIMEOUT, ended).await.is_err() {
            tracing::warn!(
                "the turn that wanted a restart of the gateway, or a request, goes on; there is none"
            );
            return;
        }
        let asked = async {
            let mut connection = ControlConnection::open(self.swarm.home()).await?;
            connection.ask(ControlRequest::Restart, ACCEPT_TIMEOUT).await
        };
        // If the restart succeeds, this process ends before the answer arrives.
        if let Err(error) = asked.await {
            tracing::error!(error = chain(&error), "the supervisor did not restart the gateway");
        }
    }
}

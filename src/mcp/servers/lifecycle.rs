//! Starting and stopping a server: at the first call, when nobody uses it, and with a growing pause after failures.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::super::asks::Asks;
use super::super::error::McpError;
use super::super::oauth;
use super::super::package;
use super::super::running::Running;
use super::Servers;
use crate::config::McpServer;
use crate::error::chain;
use crate::id::McpServerName;
use crate::sync::lock;

/// The first pause after a failure, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The running time after which a server's end is no failure of its start.
const STABLE_TIME: Duration = Duration::from_secs(60);
/// The interval between two looks for servers that nobody uses.
const IDLE_LOOK: Duration = Duration::from_secs(5);

/// A server, whether it runs or not.
#[derive(Default)]
pub(super) struct Slot {
    /// Held while the server is started or stopped.
    starting: tokio::sync::Mutex<()>,
    pub(super) state: Mutex<SlotState>,
}

#[derive(Default)]
pub(super) struct SlotState {
    pub(super) running: Option<Arc<Running>>,
    failures: u32,
    /// The time before which it is not started, and the last reason.
    pub(super) paused: Option<(Instant, String)>,
    /// Set if the last start failed because nobody has signed in.
    pub(super) wants_sign_in: bool,
}

impl Servers {
    /// Lets the last look at the tools of a running server become so old that the next call looks again.
    #[cfg(test)]
    pub(in crate::mcp) async fn age_tools(&self, name: &McpServerName) {
        let running = lock(&self.slot(name).state).running.clone();
        running.unwrap().age_tools().await;
    }

    /// Returns the running server, which is started if it does not run or has other settings.
    pub(super) async fn running(&self, name: &McpServerName) -> Result<Arc<Running>, McpError> {
        let server = self.server(name)?;
        let slot = self.slot(name);
        let usable = |slot: &Slot| {
            let running = lock(&slot.state).running.clone()?;
            let home = self.live.home();
            let is_same = running.server == server
                && running.sign_in == oauth::current(home, &server)
                && running.package == package::placed(home, &server);
            // What the server may ask for is declared at the beginning. That it has changed interrupts no call.
            let declares = running.connection.asks.offers == self.offers(name, None) || running.is_used();
            (running.is_alive() && is_same && declares).then_some(running)
        };
        // A server that runs costs no lock of its start.
        if let Some(running) = usable(&slot) {
            return Ok(running);
        }
        let starting = slot.starting.lock().await;
        if let Some(running) = usable(&slot) {
            return Ok(running);
        }
        self.take_ended(&slot, &server).await?;
        if let Some((at, reason)) = lock(&slot.state).paused.clone()
            && let Some(left) = at.checked_duration_since(Instant::now())
        {
            let seconds = left.as_secs() + 1;
            return Err(McpError::Waits { server: name.clone(), seconds, reason });
        }
        let hold = self.enter(&server)?;
        let asks = Asks::new(self.this.clone(), name.clone(), self.offers(name, None));
        let started = Box::pin(Running::start(self.live.home(), &server, &self.launcher, &asks)).await;
        let started = match started {
            Ok(mut running) => {
                running.hold = hold;
                Arc::new(running)
            }
            Err(error) => {
                match &error {
                    // It is asked again at once when a person has signed in.
                    McpError::NotSignedIn { .. } => Self::note_no_sign_in(&slot, &chain(&error)),
                    // It is looked for again at once, which costs nothing, when a person has fetched it.
                    McpError::Package { .. } => {
                        lock(&slot.state).paused = Some((Instant::now(), chain(&error)));
                    }
                    error => Self::note_failure(&slot, &chain(error)),
                }
                return Err(error);
            }
        };
        {
            let mut state = lock(&slot.state);
            state.running = Some(Arc::clone(&started));
            state.paused = None;
            state.wants_sign_in = false;
        }
        drop(starting);
        let (tools, _) = started.tools().await?;
        self.compare(&server.name, &tools).await?;
        if let Some(this) = self.this.upgrade() {
            tokio::spawn(stop_when_idle(Arc::downgrade(&this), Arc::downgrade(&started)));
        }
        Ok(started)
    }

    /// Takes a server that has ended, or has to, out of its slot. One that ended soon after its start counts as failed.
    async fn take_ended(&self, slot: &Slot, server: &McpServer) -> Result<(), McpError> {
        let Some(ended) = lock(&slot.state).running.take() else { return Ok(()) };
        if ended.is_alive() {
            ended.end("its settings were changed");
            // The settings may be those of its sandbox.
            return self.release(&ended).await;
        }
        if ended.server != *server || ended.started.elapsed() > STABLE_TIME {
            lock(&slot.state).failures = 0;
            return Ok(());
        }
        let reason = ended.connection.flow.reason().unwrap_or_default();
        Self::note_failure(slot, &reason);
        Ok(())
    }

    fn note_no_sign_in(slot: &Slot, reason: &str) {
        let mut state = lock(&slot.state);
        state.paused = Some((Instant::now(), reason.to_owned()));
        state.wants_sign_in = true;
    }

    fn note_failure(slot: &Slot, reason: &str) {
        let mut state = lock(&slot.state);
        state.failures = state.failures.saturating_add(1);
        // The first failure is forgiven: a call may have ended a server that works otherwise.
        let doubled = FIRST_PAUSE.saturating_mul(1 << state.failures.saturating_sub(2).min(16));
        let pause = if state.failures < 2 { Duration::ZERO } else { doubled.min(LONGEST_PAUSE) };
        state.paused = Some((Instant::now() + pause, reason.to_owned()));
    }

    /// Removes what a server that has ended occupied. One at a URL occupied nothing.
    async fn release(&self, ended: &Running) -> Result<(), McpError> {
        match ended.server.remote {
            None => self.launcher.release(&ended.server.name).await,
            Some(_) => Ok(()),
        }
    }

    /// Ends a server and removes what it occupied. A failure to remove its sandbox is logged.
    async fn end(&self, running: &Running, reason: &str) {
        running.end(reason);
        if let Err(error) = self.release(running).await {
            let server = &running.server.name;
            tracing::warn!(%server, error = %chain(&error), "the sandbox of an MCP server could not be removed");
        }
    }

    /// Stops a server.
    pub(super) async fn stop(&self, name: &McpServerName, reason: &str) {
        let slot = self.slot(name);
        let _starting = slot.starting.lock().await;
        let running = std::mem::take(&mut *lock(&slot.state)).running;
        if let Some(running) = running {
            self.end(&running, reason).await;
        }
    }

    /// Ends the programs of all servers, without a wait. Their sandboxes stay.
    pub(crate) fn end_all(&self) {
        for slot in lock(&self.slots).values() {
            if let Some(running) = std::mem::take(&mut *lock(&slot.state)).running {
                running.end("flock is stopping");
            }
        }
    }

    /// Stops all servers.
    pub async fn stop_all(&self) {
        let names: Vec<McpServerName> = lock(&self.slots).keys().cloned().collect();
        for name in names {
            self.stop(&name, "flock is stopping").await;
        }
    }
}

/// Stops a server when nobody has used it for some time.
async fn stop_when_idle(servers: Weak<Servers>, running: Weak<Running>) {
    loop {
        tokio::time::sleep(IDLE_LOOK).await;
        let (Some(servers), Some(found)) = (servers.upgrade(), running.upgrade()) else { return };
        if !found.is_alive() {
            return;
        }
        if found.idle_for() < found.server.idle {
            continue;
        }
        let slot = servers.slot(&found.server.name);
        let _starting = slot.starting.lock().await;
        // A call may have come in before the lock.
        let is_current =
            lock(&slot.state).running.as_ref().is_some_and(|current| Arc::ptr_eq(current, &found));
        if !is_current {
            return;
        }
        if found.idle_for() < found.server.idle {
            continue;
        }
        lock(&slot.state).running = None;
        servers.end(&found, "nobody used it").await;
        return;
    }
}

//! Freezes and thaws pods. A cluster has no call for it, so all processes of the pod are stopped by a signal that none of them
//! can catch. The helper goes on, and flock sends it no commands meanwhile.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future;

use super::client::ObjectKind;
use super::objects::{self, AGENT, LABEL_HOME};
use super::slot::Slot;
use super::{KubernetesSandbox, brief_command};
use crate::clean;
use crate::error::chain;
use crate::home::instance;
use crate::id::AgentId;
use crate::sandbox::engines::PlacedCluster;
use crate::sandbox::helper::{HelperClient, HelperError};
use crate::sandbox::{CommandExit, CommandOutcome, FreezeCheck, SandboxError};
use crate::sync::lock;

impl KubernetesSandbox {
    pub(super) async fn freeze(&self, agent: &AgentId, frozen: bool) -> Result<(), SandboxError> {
        let slot = self.slot(agent);
        slot.set_frozen(frozen);
        self.settle(agent, &slot).await
    }

    /// Brings all sandboxes in line with `standing`, now and when they are created later.
    ///
    /// # Errors
    ///
    /// Returns the first failure. The other pods are frozen or thawed all the same.
    pub fn follow(&self, standing: FreezeCheck) -> impl Future<Output = Result<(), SandboxError>> + '_ {
        // The wish counts from the call on.
        *lock(&self.standing) = Arc::clone(&standing);
        let known: Vec<(AgentId, Arc<Slot>)> =
            lock(&self.slots).iter().map(|(agent, slot)| (agent.clone(), Arc::clone(slot))).collect();
        let mut changed: Vec<(AgentId, Arc<Slot>)> = Vec::new();
        for (agent, slot) in known {
            if slot.is_frozen() != standing(&agent) {
                slot.set_frozen(standing(&agent));
                changed.push((agent, slot));
            }
        }
        async move { self.follow_all(standing, changed).await }
    }

    async fn follow_all(
        &self,
        standing: FreezeCheck,
        mut changed: Vec<(AgentId, Arc<Slot>)>,
    ) -> Result<(), SandboxError> {
        // A gateway that was killed may have left pods running whose agents were frozen since.
        let listed =
            future::join_all(self.engines.clusters().into_iter().map(|placed| self.agents_in(placed))).await;
        for agent in listed.iter().flatten().flatten().filter(|agent| standing(agent)) {
            if !changed.iter().any(|(known, _)| known == agent) {
                changed.push((agent.clone(), self.slot(agent)));
            }
        }
        let settled = changed.iter().map(|(agent, slot)| self.settle(agent, slot));
        let settled = future::join_all(settled).await;
        settled.into_iter().chain(listed.into_iter().map(|found| found.map(drop))).collect()
    }

    /// Returns the agents that have pods in a cluster.
    pub(super) async fn agents_in(&self, placed: PlacedCluster) -> Result<Vec<AgentId>, SandboxError> {
        let Ok(instance) = instance::read(&self.home) else { return Ok(Vec::new()) };
        let home = objects::home_label(&instance);
        let pods = placed.client.list(ObjectKind::Pod, (LABEL_HOME, &home)).await?;
        let agent = |pod: &serde_json::Value| pod["metadata"]["annotations"][AGENT].as_str()?.parse().ok();
        Ok(pods.iter().filter_map(agent).collect())
    }

    /// Brings the agent's pod in line with the slot's wanted state. A pod that this process has no connection to gets one
    /// first if it has to be frozen; if it has to be thawed, the next connection does it.
    pub(super) async fn settle(&self, agent: &AgentId, slot: &Slot) -> Result<(), SandboxError> {
        // Held until the helper has answered, so that a freeze and a thaw can't overtake each other.
        let _freezing = slot.freezing.lock().await;
        let live = slot.live();
        let is_frozen = slot.is_frozen();
        match live {
            Some(live) if is_frozen => match stop(&live.client, agent).await {
                // An agent that is frozen must not run, and it may be its own processes that keep the signal away.
                Err(error) if slot.is_frozen() => {
                    let error = chain(&error);
                    tracing::warn!(%agent, error, "its pod is removed, because it is frozen and can't be stopped");
                    // The connection notices the end only later, and a thaw would use it.
                    slot.forget();
                    self.end_unreached(agent).await
                }
                stopped => stopped,
            },
            Some(live) => signal(&live.client, agent, &THAW).await,
            None if is_frozen => self.end_unreached(agent).await,
            None => Ok(()),
        }
    }

    /// Converts an error of the helper. If the connection is lost, the pod may have ended, and the cluster knows why.
    pub(super) async fn explained(&self, agent: &AgentId, error: HelperError) -> SandboxError {
        if error.is_lost()
            && let Ok(plan) = self.plan(agent).await
            && let Ok(found) =
                plan.cluster.client.get(ObjectKind::Pod, objects::name_of(&plan.objects.pod)).await
        {
            let reason = match found.as_ref().map(super::pod_state::PodState::of) {
                None | Some(super::pod_state::PodState::Leaving) => "its pod was removed".to_owned(),
                Some(super::pod_state::PodState::Ended(why)) => format!("its pod has ended: {why}"),
                Some(_) => return error.of(agent),
            };
            return SandboxError::Lost { agent: agent.clone(), reason };
        }
        error.of(agent)
    }
}

/// A signal that all processes of a pod get.
pub(super) struct PodSignal {
    /// The name that `kill` takes.
    name: &'static str,
    /// The processes afterwards, in a word.
    done: &'static str,
    /// Longest wait for the answer.
    limit: Duration,
}

const STOP: PodSignal = PodSignal { name: "STOP", done: "stopped", limit: brief_command::ANSWER_LIMIT };
/// The signal of a thaw. It waits for streams that broke meanwhile, which are resumed for a minute: without it, the frozen
/// commands would stand still although their connection goes on.
const THAW: PodSignal = PodSignal { name: "CONT", done: "continued", limit: Duration::from_secs(90) };
/// The signal for what a killed gateway has left stopped.
pub(super) const CONTINUE: PodSignal =
    PodSignal { name: "CONT", done: "continued", limit: brief_command::ANSWER_LIMIT };

async fn stop(client: &HelperClient, agent: &AgentId) -> Result<(), SandboxError> {
    signal(client, agent, &STOP).await?;
    // A command that was being sent when the freeze came has begun by now.
    signal(client, agent, &STOP).await
}

/// Sends a signal to all processes of a pod but the helper, which no signal from inside reaches.
///
/// # Errors
///
/// Returns [`SandboxError::NotSignalled`] if the signal did not arrive, or not in time, and [`SandboxError::Lost`] if the
/// connection breaks.
pub(super) async fn signal(
    client: &HelperClient,
    agent: &AgentId,
    signal: &PodSignal,
) -> Result<(), SandboxError> {
    let command = format!("kill -{} -1", signal.name);
    let reason = match brief_command::run(client, command, signal.limit).await {
        Ok(outcome) if has_arrived(&outcome) => return Ok(()),
        Ok(outcome) => failure(&outcome),
        Err(error @ (HelperError::Refused(_) | HelperError::Silent(_))) => chain(&error),
        Err(error) => return Err(error.of(agent)),
    };
    Err(SandboxError::NotSignalled { agent: agent.clone(), done: signal.done, reason })
}

/// Returns `true` if every process has the signal, or if there is none.
fn has_arrived(outcome: &CommandOutcome) -> bool {
    match outcome.end {
        CommandExit::Exited(0) => true,
        // The code alone does not tell it from a shell without a `kill` of its own that could not start one.
        CommandExit::Exited(1) => outcome.output.text().contains("No such process"),
        _ => false,
    }
}

fn failure(outcome: &CommandOutcome) -> String {
    match outcome.end {
        CommandExit::Exited(code) => {
            format!("kill ended with exit code {code}: {}", clean::summary(&outcome.output.text(), 200))
        }
        CommandExit::TimedOut => "something kept kill from ending in time".to_owned(),
        CommandExit::Signalled(_) | CommandExit::Cancelled => "something killed kill".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::Signal;
    use nix::unistd::Pid;
    use tokio::sync::watch;

    use super::*;
    use crate::sandbox::Output;
    use crate::sandbox::helper::PausableClock;
    use crate::sandbox::testing;

    /// A signal that does nothing: the helper of a test is in no sandbox, so another one would reach every process of this
    /// user.
    const NOTHING: PodSignal = PodSignal { name: "0", done: "asked", limit: Duration::from_secs(60) };

    fn outcome(end: CommandExit, text: &str) -> CommandOutcome {
        let output = Output { head: text.as_bytes().to_vec(), ..Output::default() };
        CommandOutcome { end, output, took: Duration::ZERO }
    }

    #[test]
    fn only_a_kill_that_ended_well_has_stopped_anything() {
        let nobody = "sh: 1: kill: No such process\n";
        assert!(has_arrived(&outcome(CommandExit::Exited(0), "")));
        assert!(has_arrived(&outcome(CommandExit::Exited(1), nobody)), "there was no process");
        for end in [CommandExit::TimedOut, CommandExit::Signalled(9), CommandExit::Exited(127)] {
            assert!(!has_arrived(&outcome(end, nobody)), "{end:?}");
        }
        assert!(!has_arrived(&outcome(CommandExit::Exited(1), "sh: 1: Cannot fork")));
    }

    #[tokio::test]
    async fn a_signal_that_does_not_arrive_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (_child, client) = testing::helper(folder.path(), folder.path()).await;
        let ada: AgentId = "ada".parse().unwrap();
        signal(&client, &ada, &NOTHING).await.unwrap();
        let error = signal(&client, &ada, &PodSignal { name: "NONE", ..NOTHING }).await.unwrap_err();
        assert!(matches!(error, SandboxError::NotSignalled { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_freeze_does_not_wait_for_ever_for_a_helper_that_does_not_answer() {
        let folder = tempfile::tempdir().unwrap();
        let (child, client) = testing::helper(folder.path(), folder.path()).await;
        // The slot is frozen before its processes are stopped, so no time passes for the connection.
        let (_frozen, clock) = watch::channel(true);
        let client = client.with_clock(PausableClock::new(clock));
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
        nix::sys::signal::kill(pid, Signal::SIGSTOP).unwrap();
        let soon = PodSignal { limit: Duration::from_millis(50), ..NOTHING };
        let ada: AgentId = "ada".parse().unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(60), signal(&client, &ada, &soon)).await;
        let error = answer.unwrap().unwrap_err();
        assert!(matches!(error, SandboxError::NotSignalled { .. }), "{error:?}");
    }
}

//! The pod that a connection to a helper belongs to. The connection survives short breaks of its streams.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncRead, DuplexStream, ReadBuf, ReadHalf};

use super::client::{ClusterClient, ObjectKind};
use super::deviations;
use super::objects::{CONTAINER, SandboxObjects, name_of};
use super::pod_state::PodState;
use super::stream::{Outcome, PodStreams};
use crate::sandbox::SandboxError;
use crate::sandbox::helper::{
    HelperClient, HelperError, HelperStreams, PausableClock, PortForward, Redial, Resumption,
};

/// A pod that was found as it must be, and what it must be.
pub(super) struct AttachedPod {
    cluster: Arc<ClusterClient>,
    wanted: Value,
    policy: Value,
    uid: Value,
}

impl AttachedPod {
    pub(super) fn new(cluster: &Arc<ClusterClient>, wanted: &SandboxObjects, found: &Value) -> Self {
        Self {
            cluster: Arc::clone(cluster),
            wanted: wanted.pod.clone(),
            policy: wanted.policy.clone(),
            uid: found["metadata"]["uid"].clone(),
        }
    }

    /// Attaches to the pod.
    pub(super) async fn attach(&self) -> Result<HelperStreams, SandboxError> {
        let streams = self.cluster.attach(name_of(&self.wanted), CONTAINER).await?;
        Ok(helper_streams(streams))
    }

    /// Connects to the helper over these streams, and over others if they break.
    pub(super) async fn greet(
        self,
        streams: HelperStreams,
        entrance: Option<PortForward>,
        patience: PausableClock,
    ) -> Result<HelperClient, HelperError> {
        let pod = Arc::new(self);
        let redial: Redial = Arc::new(move || -> BoxFuture<'static, io::Result<Option<HelperStreams>>> {
            let pod = Arc::clone(&pod);
            Box::pin(async move { pod.attach_again().await.map_err(io::Error::other) })
        });
        HelperClient::attach_resumable(streams, entrance, Resumption::new(redial, patience)).await
    }

    /// Attaches once more. Returns `None` if nothing may run there without a closer look, which the next command takes.
    async fn attach_again(&self) -> Result<Option<HelperStreams>, SandboxError> {
        if self.is_as_before().await? { self.attach().await.map(Some) } else { Ok(None) }
    }

    /// Returns `true` if the pod runs and neither it nor the policy of its network was changed.
    async fn is_as_before(&self) -> Result<bool, SandboxError> {
        let pod = self.cluster.get(ObjectKind::Pod, name_of(&self.wanted)).await?;
        let policy = self.cluster.get(ObjectKind::Policy, name_of(&self.policy)).await?;
        let (Some(pod), Some(policy)) = (pod, policy) else { return Ok(false) };
        Ok(pod["metadata"]["uid"] == self.uid
            && PodState::of(&pod) == PodState::Running
            && deviations::of_pod(&self.wanted, &pod).is_empty()
            && deviations::of_policy(&self.policy, &policy).is_empty())
    }
}

/// Returns the streams in the form that the helper's client takes.
pub(super) fn helper_streams(streams: PodStreams) -> HelperStreams {
    let output = AttachedOutput { output: streams.output, _outcome: streams.outcome };
    (Box::new(output), Box::new(streams.input))
}

/// The output of the helper. The connection lives as long as this does.
struct AttachedOutput {
    output: ReadHalf<DuplexStream>,
    _outcome: Outcome,
}

impl AsyncRead for AttachedOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_read(context, buffer)
    }
}

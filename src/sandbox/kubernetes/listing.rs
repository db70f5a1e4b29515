//! Lists the pods of a home in the words in which Docker engines tell of containers, and tells what they use.
//!
//! A cluster measures pods by a part of its own, the metrics server, which it need not have.

use std::time::Duration;

use futures_util::future;
use serde_json::Value;

use super::KubernetesSandbox;
use super::client::{ClusterError, ObjectKind};
use super::objects::{self, AGENT, LABEL_HOME, LABEL_SPEC, label, name_of};
use super::pod_state::PodState;
use crate::clean;
use crate::error::chain;
use crate::home::instance;
use crate::id::AgentId;
use crate::sandbox::SandboxError;
use crate::sandbox::containers::Container;
use crate::sandbox::engines::PlacedCluster;
use crate::sandbox::load::ContainerLoad;

/// Billionths of a one, the unit of [`billionths`].
const ONE: u128 = 1_000_000_000;

impl KubernetesSandbox {
    /// Returns the pods of the home in all clusters, as far as these answer within `limit`.
    pub(crate) async fn containers(&self, limit: Duration) -> Vec<Container> {
        let Ok(instance) = instance::read(&self.home) else { return Vec::new() };
        let home = objects::home_label(&instance);
        let clusters = self.engines.clusters();
        let listed = future::join_all(clusters.iter().map(|placed| pods(placed, &home, limit))).await;
        listed.into_iter().filter_map(Result::ok).flatten().map(|pod| self.container(&pod)).collect()
    }

    /// Returns what the pods of each cluster use, as the cluster has measured it last.
    pub(crate) async fn measure(&self, limit: Duration) -> Vec<Result<Vec<ContainerLoad>, SandboxError>> {
        let Ok(instance) = instance::read(&self.home) else { return Vec::new() };
        let home = objects::home_label(&instance);
        let asked = self.engines.clusters().into_iter().map(|placed| {
            let home = &home;
            async move {
                let measured = tokio::time::timeout(limit, placed.client.usage((LABEL_HOME, home)));
                let (found, measured) = tokio::join!(pods(&placed, home, limit), measured);
                let (found, usage) = match measured {
                    Ok(Ok(usage)) => (found?, Ok(usage)),
                    Ok(Err(error)) => (found?, Err(chain(&error))),
                    Err(_) => (found?, Err("the cluster has not told what its pods use in time".to_owned())),
                };
                let running = found.iter().map(|pod| (self.container(pod), pod));
                let running = running.filter(|(one, _)| one.is_running());
                Ok(running.map(|(one, pod)| load(one, pod, &usage)).collect())
            }
        });
        future::join_all(asked).await
    }

    fn container(&self, pod: &Value) -> Container {
        let agent = pod["metadata"]["annotations"][AGENT].as_str().map(|agent| clean::summary(agent, 80));
        let is_frozen = agent.as_ref().and_then(|agent| agent.parse::<AgentId>().ok()).is_some_and(|agent| {
            crate::sync::lock(&self.slots).get(&agent).is_some_and(|slot| slot.is_frozen())
        });
        let (state, status) = match PodState::of(pod) {
            PodState::Running if is_frozen => ("paused", "its processes are stopped".to_owned()),
            PodState::Running => ("running", "Running".to_owned()),
            PodState::Starting(why) | PodState::Stuck(why) => ("created", why),
            PodState::Leaving => ("removing", "Terminating".to_owned()),
            PodState::Ended(why) => ("exited", why),
        };
        let created = pod["metadata"]["creationTimestamp"].as_str();
        let created = created.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        Container {
            id: pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            name: name_of(pod).to_owned(),
            agent,
            build: None,
            check: None,
            state: state.to_owned(),
            status,
            created_at: created.map_or(0, jiff::Timestamp::as_millisecond),
            spec: label(pod, LABEL_SPEC).unwrap_or_default().to_owned(),
            runtime: pod["spec"]["runtimeClassName"].as_str().map(str::to_owned),
        }
    }
}

/// Returns the pods of a home in a cluster.
async fn pods(placed: &PlacedCluster, home: &str, limit: Duration) -> Result<Vec<Value>, SandboxError> {
    let listed = placed.client.list(ObjectKind::Pod, (LABEL_HOME, home));
    tokio::time::timeout(limit, listed).await.unwrap_or_else(|_| {
        let silent = format!("no answer within {} s", limit.as_secs());
        Err(placed.client.error("list pods", ClusterError::Unreachable(silent)))
    })
}

fn load(container: Container, pod: &Value, usage: &Result<Vec<Value>, String>) -> ContainerLoad {
    let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
    let (measured, problem) = match usage {
        Err(why) => (None, Some(why.clone())),
        Ok(all) => match all.iter().find(|one| name_of(one) == container.name) {
            Some(found) => (Some(&found["containers"][0]["usage"]), None),
            None => (None, Some("the cluster has not measured it yet".to_owned())),
        },
    };
    let amount = |of: &Value, unit: u128| {
        let found = billionths(of.as_str()?)? / unit;
        u64::try_from(found).ok()
    };
    ContainerLoad {
        agent: container.agent,
        container: container.name,
        state: container.state,
        memory_bytes: measured.and_then(|usage| amount(&usage["memory"], ONE)),
        memory_limit_bytes: amount(&limits["memory"], ONE),
        cpu_millis: measured.and_then(|usage| amount(&usage["cpu"], ONE / 1000)),
        cpu_limit_millis: amount(&limits["cpu"], ONE / 1000),
        problem,
    }
}

/// Reads an amount in the form of a cluster, as in `250m` or `64Mi`, in billionths.
fn billionths(text: &str) -> Option<u128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor = match suffix {
        "n" => 1,
        "u" => 1000,
        "m" => 1_000_000,
        "" => ONE,
        "k" => ONE * 1000,
        "M" => ONE * 1_000_000,
        "G" => ONE * ONE,
        "T" => ONE * ONE * 1000,
        "Ki" => ONE << 10,
        "Mi" => ONE << 20,
        "Gi" => ONE << 30,
        "Ti" => ONE << 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Whoever sends longer numbers does not mean them.
    if whole.len() + fraction.len() > 15 {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let places = u32::try_from(fraction.len()).ok()?;
    Some(digits.checked_mul(factor)? / 10_u128.pow(places))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_of_a_cluster_are_read() {
        for (text, amount) in [
            ("12345678n", Some(12_345_678)),
            ("250m", Some(ONE / 4)),
            ("1.5", Some(ONE * 3 / 2)),
            ("0", Some(0)),
            ("64Mi", Some(ONE << 26)),
            ("2G", Some(2 * ONE * ONE)),
            ("", None),
            ("x", None),
            ("1e3", None),
            ("1.2.3", None),
            ("9999999999999999", None),
        ] {
            assert_eq!(billionths(text), amount, "{text}");
        }
    }

    #[test]
    fn a_pod_that_was_not_measured_says_so() {
        let pod = json!({
            "metadata": {"name": "one"},
            "spec": {"containers": [{"resources": {"limits": {"cpu": "1500m", "memory": "128Mi"}}}]},
        });
        let container = || Container {
            id: String::new(),
            name: "one".to_owned(),
            agent: Some("ada".to_owned()),
            build: None,
            check: None,
            state: "running".to_owned(),
            status: String::new(),
            created_at: 0,
            spec: String::new(),
            runtime: None,
        };
        let measured =
            json!({"metadata": {"name": "one"}, "containers": [{"usage": {"cpu": "20m", "memory": "8Mi"}}]});
        let known = load(container(), &pod, &Ok(vec![measured]));
        assert_eq!((known.memory_bytes, known.memory_limit_bytes), (Some(8 << 20), Some(128 << 20)));
        assert_eq!((known.cpu_millis, known.cpu_limit_millis, known.problem), (Some(20), Some(1500), None));
        for usage in [Ok(Vec::new()), Err("no server".to_owned())] {
            let unknown = load(container(), &pod, &usage);
            assert!(unknown.memory_bytes.is_none() && unknown.problem.is_some());
            assert_eq!(unknown.memory_limit_bytes, Some(128 << 20));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_amount_is_read_or_refused(text in "[0-9.]{0,20}[a-zA-Z]{0,3}") {
            let _ = billionths(&text);
        }
    }
}

//! Reads how a pod is from what a cluster says about it.

use serde_json::Value;

use crate::clean;

/// Longest text of a cluster that is shown, in characters.
const MAX_TEXT: usize = 300;
/// Reasons for which a container does not start, and will not without a change.
const STUCK: [&str; 8] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
];

/// The state of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// Its container runs.
    Running,
    /// It is not ready yet, for this reason as far as the cluster tells one.
    Starting(String),
    /// It does not become ready without a change.
    Stuck(String),
    /// It is being removed.
    Leaving,
    /// It has ended. It was evicted, its container ended, or its node is gone.
    Ended(String),
}

impl PodState {
    /// Reads the state of a pod.
    #[must_use]
    pub fn of(pod: &Value) -> Self {
        let status = &pod["status"];
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            return Self::Leaving;
        }
        let container = &status["containerStatuses"][0]["state"];
        match status["phase"].as_str() {
            Some("Failed" | "Succeeded") => Self::Ended(end(status, container)),
            Some("Running") if container.get("running").is_some() => Self::Running,
            Some("Running") if container.get("terminated").is_some() => Self::Ended(end(status, container)),
            _ => {
                let waiting = &container["waiting"];
                let reason = waiting["reason"].as_str().unwrap_or_default();
                if STUCK.contains(&reason) {
                    return Self::Stuck(said(reason, waiting["message"].as_str()));
                }
                Self::Starting(
                    unscheduled(status).unwrap_or_else(|| said(reason, waiting["message"].as_str())),
                )
            }
        }
    }
}

/// Returns why no node has taken the pod.
fn unscheduled(status: &Value) -> Option<String> {
    let conditions = status["conditions"].as_array()?;
    let found =
        conditions.iter().find(|found| found["type"] == "PodScheduled" && found["status"] == "False")?;
    Some(said(found["reason"].as_str().unwrap_or("Unschedulable"), found["message"].as_str()))
}

fn end(status: &Value, container: &Value) -> String {
    let ended = &container["terminated"];
    let (reason, message) = match status["reason"].as_str() {
        // It says that the pod was evicted, for example.
        Some(reason) => (reason, status["message"].as_str()),
        None => (ended["reason"].as_str().unwrap_or("it ended"), ended["message"].as_str()),
    };
    said(reason, message)
}

/// A cluster's words, on one line and without control characters.
fn said(reason: &str, message: Option<&str>) -> String {
    let text = match message {
        Some(message) if !message.is_empty() => format!("{reason}: {message}"),
        _ => reason.to_owned(),
    };
    clean::summary(&text, MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_states_of_a_pod_are_told_apart() {
        let running =
            json!({"status": {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}});
        assert_eq!(PodState::of(&running), PodState::Running);
        let mut leaving = running;
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(PodState::of(&leaving), PodState::Leaving);
        let waiting = |reason: &str| {
            let state = json!({"waiting": {"reason": reason, "message": "because\nof \u{1b}[2Jthis"}});
            PodState::of(&json!({"status": {"phase": "Pending", "containerStatuses": [{"state": state}]}}))
        };
        assert!(matches!(waiting("ContainerCreating"), PodState::Starting(_)));
        match waiting("ImagePullBackOff") {
            PodState::Stuck(why) => {
                assert!(why.starts_with("ImagePullBackOff: because"), "{why}");
                assert!(!why.chars().any(char::is_control), "{why:?}");
            }
            other => panic!("{other:?}"),
        }
        let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}});
        assert_eq!(
            PodState::of(&evicted),
            PodState::Ended("Evicted: The node was low on memory.".to_owned())
        );
        let killed = json!({"status": {
            "phase": "Running",
            "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}],
        }});
        assert_eq!(PodState::of(&killed), PodState::Ended("OOMKilled".to_owned()));
        let pending = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"},
        ]}});
        assert_eq!(PodState::of(&pending), PodState::Starting("Unschedulable: no node fits".to_owned()));
        assert!(matches!(PodState::of(&Value::Null), PodState::Starting(_)));
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_cluster_says_is_read(phase: String, reason: String, message: String) {
            let state = json!({"waiting": {"reason": reason, "message": message}});
            let _ = PodState::of(&json!({"status": {
                "phase": phase, "reason": reason, "message": message, "containerStatuses": [{"state": state}],
            }}));
        }
    }
}

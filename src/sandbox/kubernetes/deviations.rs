//! Compares an object as a cluster has it with what was asked for. Admission controllers of a cluster can change what is
//! made, and everybody with the rights can change it later.

use serde_json::Value;

/// Fields of a pod that must not be there although flock does not name them: each brings in something from outside.
const FORBIDDEN: [&str; 8] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "initContainers",
    "ephemeralContainers",
    "hostAliases",
    "resourceClaims",
];
/// Fields of a container that must not be there.
const FORBIDDEN_IN_CONTAINER: [&str; 5] = ["env", "envFrom", "lifecycle", "volumeDevices", "ports"];
/// Limit on the findings, because more of them say nothing new.
const MAX_FINDINGS: usize = 20;

/// Returns the differences that matter between a pod and its specification. An empty list means that the pod is as confined
/// as the specification demands.
#[must_use]
pub fn of_pod(wanted: &Value, found: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    labels(wanted, found, &mut findings);
    compare("spec", &wanted["spec"], &found["spec"], &mut findings);
    for key in FORBIDDEN {
        forbid(&format!("spec.{key}"), &found["spec"][key], &mut findings);
    }
    for container in found["spec"]["containers"].as_array().into_iter().flatten() {
        for key in FORBIDDEN_IN_CONTAINER {
            forbid(&format!("the container's {key}"), &container[key], &mut findings);
        }
    }
    findings.truncate(MAX_FINDINGS);
    findings
}

/// Returns the differences between a policy of the network and the one that lets nothing pass.
#[must_use]
pub fn of_policy(wanted: &Value, found: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    compare("spec", &wanted["spec"], &found["spec"], &mut findings);
    for key in ["ingress", "egress"] {
        forbid(&format!("spec.{key}"), &found["spec"][key], &mut findings);
    }
    forbid(
        "spec.podSelector.matchExpressions",
        &found["spec"]["podSelector"]["matchExpressions"],
        &mut findings,
    );
    let selected = found["spec"]["podSelector"]["matchLabels"].as_object().map_or(0, serde_json::Map::len);
    // A further label would select fewer pods.
    if selected != 1 {
        findings.push("spec.podSelector has other labels".to_owned());
    }
    findings.truncate(MAX_FINDINGS);
    findings
}

fn labels(wanted: &Value, found: &Value, findings: &mut Vec<String>) {
    for (key, value) in wanted["metadata"]["labels"].as_object().into_iter().flatten() {
        if found["metadata"]["labels"][key] != *value {
            findings.push(format!("the label {key} is another one"));
        }
    }
}

/// Everything that is asked for must be there. Lists must be the same, so that nothing is added to them. Fields that are not
/// asked for are the cluster's defaults.
fn compare(path: &str, wanted: &Value, found: &Value, findings: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (key, value) in wanted {
                compare(&format!("{path}.{key}"), value, found.get(key).unwrap_or(&Value::Null), findings);
            }
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            for (at, (one, other)) in wanted.iter().zip(found).enumerate() {
                compare(&format!("{path}[{at}]"), one, other, findings);
            }
        }
        (Value::Array(_), Value::Array(found)) => {
            findings.push(format!("{path} has {} entries", found.len()));
        }
        // What is off by default may be left out.
        (Value::Bool(false), Value::Null) => {}
        _ if wanted == found => {}
        (_, Value::Null) => findings.push(format!("{path} is not set")),
        _ => findings.push(format!("{path} is another one")),
    }
}

fn forbid(what: &str, found: &Value, findings: &mut Vec<String>) {
    let is_nothing = match found {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        _ => false,
    };
    if !is_nothing {
        findings.push(format!("{what} is set"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted() -> Value {
        json!({
            "metadata": {"labels": {"flock.home": "h"}},
            "spec": {
                "automountServiceAccountToken": false,
                "containers": [{"image": "a", "tty": false, "securityContext": {"capabilities": {"drop": ["ALL"]}}}],
                "volumes": [{"name": "tmp"}],
            },
        })
    }

    #[test]
    fn what_the_cluster_adds_by_default_is_no_difference() {
        let mut found = wanted();
        found["spec"]["nodeName"] = json!("node-1");
        found["spec"]["tolerations"] = json!([{"key": "x"}]);
        found["spec"]["hostNetwork"] = json!(false);
        found["spec"]["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
        // The cluster leaves out what is off.
        found["spec"]["containers"][0].as_object_mut().unwrap().remove("tty");
        found["metadata"]["uid"] = json!("u");
        assert_eq!(of_pod(&wanted(), &found), Vec::<String>::new());
    }

    #[test]
    fn what_loosens_a_pod_is_found() {
        for (pointer, value, finding) in [
            ("/spec/hostNetwork", json!(true), "spec.hostNetwork is set"),
            ("/spec/initContainers", json!([{}]), "spec.initContainers is set"),
            ("/spec/ephemeralContainers", json!([{}]), "spec.ephemeralContainers is set"),
            ("/spec/containers", json!([{}, {}]), "spec.containers has 2 entries"),
            ("/spec/volumes", json!([{"name": "tmp"}, {"name": "token"}]), "spec.volumes has 2 entries"),
            ("/spec/containers/0/env", json!([{"name": "A"}]), "the container's env is set"),
            ("/spec/containers/0/image", json!("b"), "spec.containers[0].image is another one"),
            (
                "/spec/containers/0/securityContext/capabilities/drop",
                json!([]),
                "spec.containers[0].securityContext.capabilities.drop has 0 entries",
            ),
            (
                "/spec/automountServiceAccountToken",
                json!(true),
                "spec.automountServiceAccountToken is another one",
            ),
            ("/metadata/labels/flock.home", json!("x"), "the label flock.home is another one"),
        ] {
            let mut found = wanted();
            let (above, key) = pointer.rsplit_once('/').unwrap();
            found.pointer_mut(above).unwrap()[key] = value;
            let findings = of_pod(&wanted(), &found);
            assert!(findings.iter().any(|found| found == finding), "{pointer}: {findings:?}");
        }
        assert!(!of_pod(&wanted(), &Value::Null).is_empty());
    }

    #[test]
    fn a_policy_with_an_exception_is_found() {
        let wanted = json!({"spec": {
            "podSelector": {"matchLabels": {"flock.home": "h"}},
            "policyTypes": ["Ingress", "Egress"],
        }});
        assert_eq!(of_policy(&wanted, &wanted), Vec::<String>::new());
        for (pointer, value) in [
            ("/spec/egress", json!([{}])),
            ("/spec/ingress", json!([{}])),
            ("/spec/policyTypes", json!(["Ingress"])),
            ("/spec/podSelector/matchLabels/more", json!("x")),
            ("/spec/podSelector/matchExpressions", json!([{}])),
        ] {
            let mut found = wanted.clone();
            let (above, key) = pointer.rsplit_once('/').unwrap();
            found.pointer_mut(above).unwrap()[key] = value;
            assert!(!of_policy(&wanted, &found).is_empty(), "{pointer}");
        }
    }
}

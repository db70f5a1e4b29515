use jsonschema::Validator;

use super::*;
use crate::sandbox::testing;

/// The published definitions of the kinds that flock makes.
const DEFINITIONS: &str = include_str!("../../../tests/fixtures/kubernetes/definitions.json");

fn validator(kind: &str) -> Validator {
    let mut schema: Value = serde_json::from_str(DEFINITIONS).unwrap();
    schema["$ref"] = json!(format!("#/$defs/{kind}"));
    jsonschema::validator_for(&schema).unwrap()
}

fn is_valid(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap();
    let errors: Vec<String> = validator(kind)
        .iter_errors(object)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if !errors.is_empty() {
        eprintln!("{errors:#?}");
    }
    errors.is_empty()
}

fn cluster() -> ClusterSettings {
    ClusterSettings {
        image: "registry.example.org/flock:1".into(),
        storage: 10 << 30,
        storage_class: Some("fast".into()),
    }
}

fn identity() -> BTreeMap<String, String> {
    spec::IDENTITY_FILES.iter().map(|name| ((*name).to_owned(), format!("text of {name}"))).collect()
}

fn agent(id: &str) -> Agent {
    testing::agent(id, "/home/flock/workspaces/coder".into())
}

fn facts<'a>(
    agent: &'a Agent,
    cluster: &'a ClusterSettings,
    identity: &'a BTreeMap<String, String>,
    runtime: Option<&'a str>,
) -> SandboxFacts<'a> {
    SandboxFacts {
        instance: "0123abcd",
        files: "f1f1",
        agent,
        cluster,
        claim: "flock-ws-coder-0123",
        runtime,
        identity,
    }
}

fn built(agent: &Agent, runtime: Option<&str>) -> SandboxObjects {
    let (cluster, identity) = (cluster(), identity());
    SandboxObjects::build(&facts(agent, &cluster, &identity, runtime)).unwrap()
}

#[test]
fn the_objects_are_valid_by_the_published_definitions() {
    let objects = built(&agent("coder"), Some("gvisor"));
    for object in [&objects.policy, &objects.claim, &objects.identity, &objects.pod] {
        assert!(is_valid(object), "{object:#}");
    }
    // The definitions are strict: what flock does not know is refused, also what is only misspelled.
    let mut pod = objects.pod.clone();
    pod["spec"]["automountServiceAccountTokens"] = json!(false);
    assert!(!is_valid(&pod));
    let mut pod = objects.pod.clone();
    pod["spec"]["containers"][0]["securityContext"]["runAsUser"] = json!("root");
    assert!(!is_valid(&pod));
    let mut pod = objects.pod.clone();
    pod["spec"]["volumes"][1]["emptyDir"]["sizeLimit"] = json!("64 MB");
    assert!(!is_valid(&pod));
    // So is what lacks a field that it must have.
    let mut pod = objects.pod;
    pod["spec"]["volumes"][1] = json!({"name": "tmp", "hostPath": {}});
    assert!(!is_valid(&pod));
    let pod = built(&agent("coder"), None).pod;
    for (mut object, field) in [(pod, "containers"), (objects.policy, "podSelector")] {
        assert!(object["spec"].as_object_mut().unwrap().remove(field).is_some());
        assert!(!is_valid(&object), "{field}");
    }
}

/// The rules of the Pod Security Standards' profile "restricted", and what flock asks for beyond them.
#[test]
fn a_pod_is_restricted() {
    let pod = built(&agent("coder"), None).pod;
    let spec = &pod["spec"];
    for key in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "initContainers", "hostAliases"]
    {
        assert!(spec.get(key).is_none(), "{key}");
    }
    for volume in spec["volumes"].as_array().unwrap() {
        let kinds: Vec<&String> = volume.as_object().unwrap().keys().filter(|key| *key != "name").collect();
        assert!(
            matches!(kinds[..], [kind] if ["configMap", "emptyDir", "persistentVolumeClaim"].contains(&kind.as_str())),
            "{kinds:?}"
        );
    }
    let context = &spec["securityContext"];
    assert_eq!(context["runAsNonRoot"], true);
    assert_eq!(context["runAsUser"], 10001);
    assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
    let containers = spec["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    let context = &containers[0]["securityContext"];
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["privileged"], false);
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(
        containers[0]["command"],
        json!([HELPER_TARGET, "restrict"]),
        "with a filter of the helper's own"
    );
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["enableServiceLinks"], false);
    assert!(spec.get("runtimeClassName").is_none());
    assert!(containers[0].get("env").is_none(), "what commands get comes with each command");
    for mount in containers[0]["volumeMounts"].as_array().unwrap() {
        assert_eq!(mount["name"] == "identity", mount["readOnly"] == true, "{mount}");
    }
}

#[test]
fn all_traffic_of_the_homes_pods_is_denied() {
    let objects = built(&agent("coder"), None);
    let spec = &objects.policy["spec"];
    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    assert!(spec.get("ingress").is_none() && spec.get("egress").is_none(), "there is no exception");
    let selected = spec["podSelector"]["matchLabels"].as_object().unwrap();
    for (key, value) in selected {
        assert_eq!(objects.pod["metadata"]["labels"][key], *value, "it selects the pod");
    }
}

#[test]
fn a_volume_is_found_by_nothing_that_removes_what_a_home_has() {
    let objects = built(&agent("coder"), None);
    assert_eq!(label(&objects.claim, LABEL_HOME), None);
    assert_eq!(label(&objects.claim, LABEL_WORKSPACE), Some(home_label("f1f1").as_str()));
    assert_eq!(label(&objects.pod, LABEL_WORKSPACE), label(&objects.claim, LABEL_WORKSPACE));
    assert!(has_claim(&objects.pod, "flock-ws-coder-0123") && !has_claim(&objects.pod, "flock-ws-coder-012"));
}

#[test]
fn a_copy_of_a_home_does_not_use_the_volumes_of_the_original() {
    let (coder, cluster, identity) = (agent("coder"), cluster(), identity());
    let objects = |instance, files| {
        let facts = SandboxFacts { instance, files, ..facts(&coder, &cluster, &identity, None) };
        SandboxObjects::build(&facts).unwrap()
    };
    let original = objects("0123", "0123");
    assert!(!original.is_of_other_home(&original.claim));
    assert!(objects("4567", "4567").is_of_other_home(&original.claim));
    // A gateway of a group that has the volume from before the group.
    assert!(!objects("4567", "f1f1").is_of_other_home(&original.claim));
}

#[test]
fn every_change_has_another_digest_and_the_same_agent_the_same() {
    let coder = agent("coder");
    let one = built(&coder, None);
    assert_eq!(one, built(&coder, None));
    assert_eq!(one.digest().len(), 32);
    let mut larger = coder.clone();
    larger.docker.memory = Some(3 << 30);
    assert_ne!(one.digest(), built(&larger, None).digest());
    assert_ne!(one.digest(), built(&coder, Some("kata")).digest());
    let (cluster, mut files) = (cluster(), identity());
    files.insert("SOUL.md".into(), "another".into());
    let with = |facts: SandboxFacts<'_>| SandboxObjects::build(&facts).unwrap();
    assert_ne!(one.digest(), with(facts(&coder, &cluster, &files, None)).digest());
    let files = identity();
    let same = facts(&coder, &cluster, &files, None);
    assert_ne!(one.digest(), with(SandboxFacts { claim: "flock-ws-coder-9", ..same }).digest());
    assert_ne!(one.digest(), with(SandboxFacts { files: "f2f2", ..same }).digest());
    assert_eq!(one.digest(), with(same).digest());
}

#[test]
fn names_fit_and_are_nobody_elses() {
    let long = "a".repeat(63);
    let mut names = std::collections::BTreeSet::new();
    for id in ["coder", "a_b", "a-b", "a-", "a_", &long] {
        let id: AgentId = id.parse().unwrap();
        for instance in ["one", "two"] {
            for name in [pod_name(instance, &id), new_mark(&"far".parse().unwrap(), &id).volume] {
                assert!(name.len() <= 63 && name.ends_with(|c: char| c.is_ascii_alphanumeric()), "{name}");
                assert!(
                    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                    "{name}"
                );
                assert!(names.insert(name.clone()), "{name} twice");
            }
        }
    }
    let trial = AgentId::of_engine_trial(&"far".parse().unwrap());
    assert!(is_valid(&built(&Agent { id: trial, ..agent("coder") }, None).pod));
}

#[test]
fn what_needs_this_machine_is_refused() {
    for change in [
        (|agent: &mut Agent| agent.docker.binds = vec!["/data:/data:ro".into()]) as fn(&mut Agent),
        |agent| agent.docker.image = Some("own:1".into()),
        |agent| agent.docker.network = Some("host".into()),
        |agent| agent.docker.refused = vec!["privileged".into()],
    ] {
        let mut coder = agent("coder");
        change(&mut coder);
        let (cluster, identity) = (cluster(), identity());
        let error = SandboxObjects::build(&facts(&coder, &cluster, &identity, None)).unwrap_err();
        assert!(matches!(error, SandboxError::Refused { granted: false, .. }), "{error:?}");
    }
}

#[test]
fn sizes_have_the_form_in_which_a_cluster_gives_them_back() {
    for (bytes, text) in [
        (2 << 30, "2Gi"),
        (1 << 40, "1Ti"),
        (1536 << 20, "1536Mi"),
        ((1 << 30) + 1024, "1048577Ki"),
        (1000, "1Ki"),
    ] {
        assert_eq!(quantity(bytes), text);
    }
    assert_eq!((cpu(2000).as_str(), cpu(1500).as_str()), ("2", "1500m"));
}

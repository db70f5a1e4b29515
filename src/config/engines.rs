//! The `engines` block: container engines besides the machine's own, and the labels by which agents are placed on them.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value, json};

use super::ConfigError;
use super::cluster::{self, ClusterAddress, ClusterSettings};
use super::docker::{self, DockerSettings};
use super::engine_address::EngineAddress;
use super::model::{Agent, Autonomy, Network, Role, SandboxMode, SkillsMode};
use super::policy::CommandPolicy;
use super::view::{Problem, View};
use crate::home::Home;
use crate::id::{AgentId, EngineName};

/// The memory limit of the sandbox in which an engine is tried, in bytes.
const TRIAL_MEMORY: u64 = 256 << 20;

/// The silence after which the agents of an engine can be placed elsewhere. Nothing runs there any more after the shortest.
const LOST_AFTER: RangeInclusive<Duration> = Duration::from_secs(5 * 60)..=Duration::from_secs(30 * 86_400);

/// The settings of a container engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    pub name: EngineName,
    /// The address in the form of an [`EngineAddress`]. `None` for the machine's own engine only.
    pub address: Option<String>,
    /// The OCI runtime of agents that name none.
    pub runtime: Option<String>,
    /// Labels that agents can ask for, sorted, each once.
    pub labels: Vec<String>,
    /// Memory in bytes that the limits of the agents on it may add up to. `None` is no limit.
    pub memory: Option<u64>,
    /// Set while its agents move to other engines and no agent is placed on it.
    pub is_draining: bool,
    /// The silence after which its agents are placed on other engines, in whole minutes. `None` is never.
    pub lost_after: Option<Duration>,
    /// The settings of a Kubernetes cluster. `None` for every other engine.
    pub cluster: Option<ClusterSettings>,
}

impl EngineSettings {
    /// Returns an engine without labels and limits. The machine's own has no address.
    #[must_use]
    pub fn new(name: EngineName, address: Option<String>) -> Self {
        Self {
            name,
            address,
            runtime: None,
            labels: Vec::new(),
            memory: None,
            is_draining: false,
            lost_after: None,
            cluster: None,
        }
    }

    /// Returns the minutes of [`Self::lost_after`], as the configuration and the API have them.
    #[must_use]
    pub(crate) fn lost_after_minutes(&self) -> Option<u64> {
        self.lost_after.map(|after| after.as_secs() / 60)
    }

    /// Checks the silence after which the engine is lost. The error continues a sentence that begins with the setting.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine can't have it. One of this machine works on its files, also while it does not answer.
    pub(crate) fn check_lost_after(&self) -> Result<(), &'static str> {
        match self.lost_after {
            None => Ok(()),
            Some(_) if !self.is_remote() => Err("is for an engine on another machine only"),
            Some(after) if !LOST_AFTER.contains(&after) => Err("must be from 5 minutes to 30 days"),
            Some(_) => Ok(()),
        }
    }

    /// Returns `true` if the engine is on another machine.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        let address = self.address.as_ref().and_then(|text| text.parse::<EngineAddress>().ok());
        address.is_some_and(|address| address.is_remote())
    }

    /// Returns the address and the settings of a Kubernetes cluster, or `None` for every other engine.
    #[must_use]
    pub fn as_cluster(&self) -> Option<(ClusterAddress, &ClusterSettings)> {
        let address = self.address.as_ref()?.parse().ok()?;
        Some((address, self.cluster.as_ref()?))
    }

    /// Returns the sandbox in which the engine is tried, as that of an agent that has nothing else.
    #[must_use]
    pub(crate) fn trial(&self, home: &Home) -> Agent {
        let id = AgentId::of_engine_trial(&self.name);
        let folder = home.engine_trial(&self.name);
        Agent {
            role: Role::Worker,
            archetype: None,
            runtime: "native".to_owned(),
            on_host: false,
            autonomy: Autonomy::Readonly,
            model: None,
            effort: None,
            fallbacks: Vec::new(),
            workspace: folder.join("workspace"),
            identity: folder.join("identity"),
            sandbox: SandboxMode::All,
            allow: Vec::new(),
            profile: None,
            deny: Vec::new(),
            network: Network::None,
            egress: Vec::new(),
            docker: DockerSettings {
                memory: Some(TRIAL_MEMORY),
                runtime: self.runtime.clone(),
                ..DockerSettings::default()
            },
            policy: CommandPolicy::default(),
            persona: None,
            avatar: None,
            skills: SkillsMode::default(),
            language: None,
            has_project: false,
            labels: Vec::new(),
            id,
        }
    }

    fn is_default(&self) -> bool {
        *self == Self::new(self.name.clone(), None)
    }

    fn entry(&self) -> Value {
        let mut entry = json!({});
        let mut set = |key: &str, value: Value| entry[key] = value;
        if let Some(address) = &self.address {
            set("address", json!(address));
        }
        if let Some(runtime) = &self.runtime {
            set("runtime", json!(runtime));
        }
        if !self.labels.is_empty() {
            set("labels", json!(self.labels));
        }
        if let Some(memory) = self.memory {
            set("memory", json!(memory));
        }
        if self.is_draining {
            set("drain", json!(true));
        }
        if let Some(minutes) = self.lost_after_minutes() {
            set("lostAfterMinutes", json!(minutes));
        }
        if let Some(cluster) = &self.cluster {
            set("image", json!(cluster.image));
            set("storage", json!(cluster.storage));
            if let Some(class) = &cluster.storage_class {
                set("storageClass", json!(class));
            }
        }
        entry
    }
}

/// Reads `{<name>: {address, runtime, labels, memory, drain, lostAfterMinutes, image, storage, storageClass}}`.
pub(super) fn engines(view: &View<'_>) -> Result<Vec<EngineSettings>, Problem> {
    let mut engines = Vec::new();
    for (name, entry) in view.entries()? {
        engines.push(engine(&name, &entry)?);
    }
    engines.sort_by(|one: &EngineSettings, other| one.name.cmp(&other.name));
    Ok(engines)
}

fn engine(name: &str, view: &View<'_>) -> Result<EngineSettings, Problem> {
    view.only(&[
        "address",
        "runtime",
        "labels",
        "memory",
        "drain",
        "lostAfterMinutes",
        "image",
        "storage",
        "storageClass",
    ])?;
    let name: EngineName = name.parse().map_err(|error| view.problem(&format!("is not usable: {error}")))?;
    let address = view.get("address")?;
    let found = address.text()?;
    match &found {
        // `DOCKER_HOST` says where the machine's own engine is.
        Some(_) if name.is_local() => {
            return Err(address.problem("has no effect: local is the engine that DOCKER_HOST names"));
        }
        None if !name.is_local() => return Err(address.problem("is missing")),
        Some(text) => check_address(text).map_err(|message| address.problem(&message))?,
        None => {}
    }
    let cluster = cluster_settings(view, found.as_deref())?;
    let lost_after = view.get("lostAfterMinutes")?;
    let settings = EngineSettings {
        name,
        address: found,
        cluster,
        runtime: docker::runtime(&view.get("runtime")?)?,
        labels: labels(&view.get("labels")?)?,
        memory: docker::memory(&view.get("memory")?)?,
        is_draining: view.get("drain")?.flag()?.unwrap_or_default(),
        lost_after: lost_after.number()?.map(minutes),
    };
    settings.check_lost_after().map_err(|why| lost_after.problem(why))?;
    Ok(settings)
}

/// Returns the time of this many minutes.
#[must_use]
pub(crate) const fn minutes(number: u64) -> Duration {
    Duration::from_secs(number.saturating_mul(60))
}

/// Reads the settings that only a cluster has.
fn cluster_settings(view: &View<'_>, address: Option<&str>) -> Result<Option<ClusterSettings>, Problem> {
    let (image, storage, class) = (view.get("image")?, view.get("storage")?, view.get("storageClass")?);
    if address.is_none_or(|address| address.parse::<ClusterAddress>().is_err()) {
        let size = docker::memory(&storage)?.is_some();
        let set = [(&image, image.text()?.is_some()), (&storage, size), (&class, class.text()?.is_some())];
        return match set.iter().find(|(_, is_set)| *is_set) {
            Some((setting, _)) => {
                Err(setting.problem("is for a cluster only, whose address begins with k8s://"))
            }
            None => Ok(None),
        };
    }
    let settings = ClusterSettings {
        image: image.text()?.ok_or_else(|| image.problem("is missing"))?,
        storage: docker::memory(&storage)?.unwrap_or(cluster::DEFAULT_STORAGE),
        storage_class: class.text()?,
    };
    settings.check().map_err(|(key, why)| match key {
        "image" => image.problem(why),
        _ => class.problem(why),
    })?;
    Ok(Some(settings))
}

/// Checks the address of an engine. The error continues a sentence that begins with the address.
///
/// # Errors
///
/// Returns an error for what is not the address of an engine.
pub(crate) fn check_address(text: &str) -> Result<(), String> {
    text.parse::<EngineAddress>().map(drop)
}

/// Reads a list of labels, and returns them sorted.
pub(super) fn labels(view: &View<'_>) -> Result<Vec<String>, Problem> {
    let mut labels = view.texts()?;
    if labels.len() > MAX_LABELS || !labels.iter().all(|label| is_label(label)) {
        return Err(view.problem(&format!("must hold at most {MAX_LABELS} labels, {LABEL_FORM}")));
    }
    labels.sort();
    labels.dedup();
    Ok(labels)
}

/// The form of a label, which completes an error message.
pub(crate) const LABEL_FORM: &str = "each of 1 to 40 letters, digits, '.', '_' and '-'";
/// The most labels of one agent or engine.
const MAX_LABELS: usize = 32;

/// Returns `true` if a text can be a label.
#[must_use]
pub(crate) fn is_label(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=40).contains(&text.len()) && text.chars().all(allowed)
}

/// Writes the settings of an engine into the document, in place of those that it had.
///
/// The machine's own engine without settings has no entry, so that a home without other engines looks as before.
pub(crate) fn put(document: &mut Value, engine: &EngineSettings) {
    let block = block(document);
    if engine.is_default() {
        remove_from(block, &engine.name);
    } else {
        block[engine.name.as_str()] = engine.entry();
    }
}

/// Removes an engine from the configuration.
///
/// # Errors
///
/// Returns an error if the configuration can't be read or written.
pub(crate) fn remove(home: &Home, name: &EngineName) -> Result<(), ConfigError> {
    super::edit(home, |document| {
        let block = block(document);
        remove_from(block, name);
        Ok(())
    })
}

fn remove_from(block: &mut Value, name: &EngineName) {
    if let Some(engines) = block.as_object_mut() {
        engines.shift_remove(name.as_str());
    }
}

/// Sets or ends the draining of an engine. One that was removed meanwhile stays removed.
///
/// # Errors
///
/// Returns an error if the configuration can't be read or written.
pub(crate) fn set_draining(home: &Home, name: &EngineName, is_draining: bool) -> Result<(), ConfigError> {
    super::edit(home, |document| {
        put_draining(document, name, is_draining);
        Ok(())
    })
}

/// Writes only the draining: somebody may have edited the other settings since the caller read them.
fn put_draining(document: &mut Value, name: &EngineName, is_draining: bool) {
    let block = block(document);
    // The machine's own engine is there without an entry, too.
    if name.is_local() && is_draining && block.get(name.as_str()).is_none() {
        block[name.as_str()] = json!({});
    }
    let Some(entry) = block.get_mut(name.as_str()).and_then(Value::as_object_mut) else { return };
    if is_draining {
        entry.insert("drain".to_owned(), Value::Bool(true));
    } else {
        entry.shift_remove("drain");
    }
    if name.is_local() && entry.is_empty() {
        remove_from(block, name);
    }
}

fn block(document: &mut Value) -> &mut Value {
    &mut document["plugins"]["entries"]["flock"]["config"]["engines"]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(block: &Value) -> Result<Vec<EngineSettings>, Problem> {
        engines(&View::new(Some(block), "engines", None))
    }

    #[test]
    fn settings_are_read_as_they_are_written() {
        let second = EngineSettings {
            runtime: Some("runsc".into()),
            labels: vec!["gpu".into(), "large".into()],
            memory: Some(8 << 30),
            is_draining: true,
            ..EngineSettings::new("second".parse().unwrap(), Some("unix:///run/second/docker.sock".into()))
        };
        let local =
            EngineSettings { labels: vec!["here".into()], ..EngineSettings::new(EngineName::local(), None) };
        let far = EngineSettings {
            cluster: Some(ClusterSettings {
                image: "registry.example.org/flock:1".into(),
                storage: 20 << 30,
                storage_class: Some("fast".into()),
            }),
            lost_after: Some(minutes(30)),
            ..EngineSettings::new("far".parse().unwrap(), Some("k8s://work/flock".into()))
        };
        assert!(far.as_cluster().is_some() && second.as_cluster().is_none() && far.is_remote());
        let mut document = json!({});
        put(&mut document, &far);
        put(&mut document, &second);
        put(&mut document, &local);
        assert_eq!(read(block(&mut document)).unwrap(), [far, local, second]);
        put(&mut document, &EngineSettings::new(EngineName::local(), None));
        assert!(block(&mut document).get("local").is_none(), "it has no settings any more");
    }

    #[test]
    fn draining_changes_no_other_setting_and_brings_back_no_engine() {
        let (local, second) = (EngineName::local(), "second".parse().unwrap());
        let before = json!({"second": {"address": "unix:///run/d.sock", "labels": ["gpu"]}});
        let mut document = json!({});
        *block(&mut document) = before.clone();
        put_draining(&mut document, &second, true);
        put_draining(&mut document, &local, true);
        let drained = read(block(&mut document)).unwrap();
        assert_eq!(drained.iter().filter(|engine| engine.is_draining).count(), 2);
        put_draining(&mut document, &second, false);
        put_draining(&mut document, &local, false);
        put_draining(&mut document, &"gone".parse().unwrap(), true);
        assert_eq!(*block(&mut document), before);
    }

    #[test]
    fn unusable_settings_are_refused_with_their_place() {
        for (block, at, message) in [
            (json!({"b": {}}), "engines.b.address", "is missing"),
            (json!({"b": {"address": "/run/docker.sock"}}), "engines.b.address", "must be the address"),
            (json!({"b": {"address": "unix://run/docker.sock"}}), "engines.b.address", "must be the address"),
            (
                json!({"b": {"address": "unix:///run/../docker.sock"}}),
                "engines.b.address",
                "must be the address",
            ),
            (json!({"b": {"address": "http://10.0.0.1:2375"}}), "engines.b.address", "write tcp://"),
            (json!({"b": {"address": "ssh://-l@gpu"}}), "engines.b.address", "has no usable user name"),
            (json!({"local": {"address": "unix:///run/d.sock"}}), "engines.local.address", "has no effect"),
            (json!({"b": {"address": "k8s://work/f"}}), "engines.b.image", "is missing"),
            (
                json!({"b": {"address": "k8s://work/f", "image": "a b"}}),
                "engines.b.image",
                "the reference of an image",
            ),
            (json!({"b": {"address": "ssh://gpu", "image": "a"}}), "engines.b.image", "for a cluster only"),
            (
                json!({"b": {"address": "unix:///run/d.sock", "lostAfterMinutes": 30}}),
                "engines.b.lostAfterMinutes",
                "is for an engine on another machine only",
            ),
            (
                json!({"b": {"address": "ssh://gpu", "lostAfterMinutes": 4}}),
                "engines.b.lostAfterMinutes",
                "must be from 5 minutes to 30 days",
            ),
            (
                json!({"b": {"address": "ssh://gpu", "lostAfterMinutes": u64::MAX}}),
                "engines.b.lostAfterMinutes",
                "must be from 5 minutes to 30 days",
            ),
            (json!({"B": {"address": "unix:///run/d.sock"}}), "engines.B", "is not usable"),
            (json!({"local": {"labels": ["a b"]}}), "engines.local.labels", "labels, each of 1 to 40"),
            (json!({"local": {"memory": "1k"}}), "engines.local.memory", "must be a size"),
            (json!({"local": {"label": []}}), "engines.local.label", "did you mean labels?"),
        ] {
            let problem = read(&block).unwrap_err();
            assert_eq!(problem.at, at);
            assert!(problem.message.contains(message), "{}", problem.message);
        }
    }
}

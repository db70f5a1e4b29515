//! The `sandbox.docker` block of an agent and of the defaults.

use std::collections::BTreeMap;

use serde_json::Value;

use super::view::{Problem, View};

/// The settings of an agent's container that a person may change. Everything else is fixed or refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerSettings {
    /// Environment variables of its commands.
    pub env: BTreeMap<String, String>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// CPU limit in thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Bind mounts as `source:target[:ro|rw]`, as written. The sandbox code checks them and may refuse.
    pub binds: Vec<String>,
    /// Network mode as written, e.g. `none`. The sandbox code checks it and may refuse.
    pub network: Option<String>,
    /// A custom image.
    pub image: Option<String>,
    /// The engine's name of an OCI runtime, as in `runsc`. `None` uses the engine's default.
    pub runtime: Option<String>,
    /// Largest size of the workspace in bytes. `None` is no limit. This is flock's own setting, not Docker's: flock
    /// measures the workspace itself.
    pub disk: Option<u64>,
    /// Keys of the docker block that flock does not support, as in `privileged`. A sandbox with any of them is refused.
    pub refused: Vec<String>,
}

/// Keys of a docker block that weaken a sandbox. Unset or empty, they only repeat what flock does anyway.
const WEAKENING_KEYS: [&str; 18] = [
    "privileged",
    "capAdd",
    "devices",
    "deviceRequests",
    "securityOpt",
    "seccompProfile",
    "apparmorProfile",
    "pidMode",
    "ipcMode",
    "usernsMode",
    "cgroupParent",
    "volumesFrom",
    "extraHosts",
    "mounts",
    "gpus",
    "dangerouslyAllowReservedContainerTargets",
    "dangerouslyAllowExternalBindSources",
    "dangerouslyAllowContainerNamespaceJoin",
];

/// Keys of a docker block that flock reads.
const SUPPORTED_KEYS: [&str; 7] = ["binds", "cpus", "env", "image", "memory", "network", "runtime"];

/// Returns `true` if a key that flock does not read asks only for what every sandbox has anyway.
fn is_redundant(name: &str, value: &Value, block: &Value) -> bool {
    // An OpenClaw configuration that is as strict as flock's sandbox must not be refused.
    match (name, value) {
        (_, Value::Null) => true,
        ("readOnlyRoot", value) => *value == Value::Bool(true),
        ("capDrop", Value::Array(names)) => {
            names.iter().any(|name| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case("all")))
        }
        ("workdir", value) => value == "/workspace",
        ("pidsLimit", value) => value.as_u64() == Some(256),
        ("tmpfs", Value::Array(places)) => places.iter().all(|place| place == "/tmp"),
        ("memorySwap", value) => block.get("memory") == Some(value),
        (name, value) if WEAKENING_KEYS.contains(&name) => match value {
            Value::Bool(is_set) => !is_set,
            Value::Array(items) => items.is_empty(),
            Value::Object(items) => items.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        },
        _ => false,
    }
}

/// Returns `true` if an engine may know an OCI runtime under this name.
fn is_runtime_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with(['.', '-'])
}

/// Reads the settings of an agent from its own block and the default one.
pub(super) fn docker(own: &View<'_>, default: &View<'_>) -> Result<DockerSettings, Problem> {
    // The agent's own block comes last and wins. Mounts and unsupported keys of both blocks add up.
    let mut settings = DockerSettings::default();
    for block in [default, own] {
        for (name, value) in block.get("env")?.entries()? {
            settings.env.insert(name, value.required_text()?.to_owned());
        }
        settings.binds.extend(block.get("binds")?.texts()?);
        settings.network = block.get("network")?.text()?.or(settings.network);
        settings.image = block.get("image")?.text()?.or(settings.image);
        settings.memory = block.get("memory")?.convert(bytes, MEMORY_FORM)?.or(settings.memory);
        settings.cpu_millis = block.get("cpus")?.convert(cpu_millis, CPUS_FORM)?.or(settings.cpu_millis);
        settings.runtime = block.get("runtime")?.text_if(is_runtime_name, RUNTIME_FORM)?.or(settings.runtime);
        let whole = block.value.cloned().unwrap_or_default();
        // Unsupported keys are collected, not refused here: the configuration stays readable, and only the sandbox is
        // refused.
        for (name, value) in block.entries()? {
            let holds = SUPPORTED_KEYS.contains(&name.as_str())
                || is_redundant(&name, value.value.unwrap_or(&Value::Null), &whole);
            if !holds && !settings.refused.contains(&name) {
                settings.refused.push(name);
            }
        }
    }
    Ok(settings)
}

/// Reads the limits, the image and the runtime of a sandbox that has nothing else to set.
pub(super) fn limits(block: &View<'_>) -> Result<DockerSettings, Problem> {
    Ok(DockerSettings {
        memory: block.get("memory")?.convert(bytes, MEMORY_FORM)?,
        cpu_millis: block.get("cpus")?.convert(cpu_millis, CPUS_FORM)?,
        image: block.get("image")?.text()?,
        runtime: block.get("runtime")?.text_if(is_runtime_name, RUNTIME_FORM)?,
        ..DockerSettings::default()
    })
}

/// The forms of values, which complete an error message.
const MEMORY_FORM: &str = "must be a size as in \"512m\" or \"2g\", at least 32m";
const CPUS_FORM: &str = "must be a number of cores as in 1.5, at least 0.1";
const RUNTIME_FORM: &str = "must be the engine's name of a runtime, as in \"runsc\"";

/// Stands for a size limit that is `none`.
pub(super) const NO_LIMIT: u64 = u64::MAX;

/// Reads the name of an OCI runtime.
pub(super) fn runtime(view: &View<'_>) -> Result<Option<String>, Problem> {
    view.text_if(is_runtime_name, RUNTIME_FORM)
}

/// Reads a size of memory in bytes.
pub(super) fn memory(view: &View<'_>) -> Result<Option<u64>, Problem> {
    view.convert(bytes, MEMORY_FORM)
}

/// Reads the size limit of a workspace.
pub(super) fn disk(view: &View<'_>) -> Result<Option<u64>, Problem> {
    let size = |value: &Value| if value == "none" { Some(NO_LIMIT) } else { bytes(value) };
    view.convert(size, "must be a size as in \"512m\" or \"20g\", at least 32m, or \"none\"")
}

/// Converts a size to bytes: a number, or a text with the unit k, m or g. Returns `None` for less than 32 MiB.
#[must_use]
pub fn bytes(value: &Value) -> Option<u64> {
    let size = match value {
        Value::Number(number) => number.as_u64()?,
        Value::String(text) => {
            let text = text.trim().to_ascii_lowercase();
            // Docker writes `512mb` as well as `512m`.
            let text = text.strip_suffix('b').unwrap_or(&text);
            let (digits, shift) = match text.chars().last()? {
                'k' => (&text[..text.len() - 1], 10),
                'm' => (&text[..text.len() - 1], 20),
                'g' => (&text[..text.len() - 1], 30),
                _ => (text, 0),
            };
            digits.parse::<u64>().ok()?.checked_mul(1 << shift)?
        }
        _ => return None,
    };
    (size >= 32 << 20).then_some(size)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked before the cast"
)]
pub(crate) fn cpu_millis(value: &Value) -> Option<u64> {
    let cpus = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (0.1..=1024.0).contains(&cpus).then(|| (cpus * 1000.0).round() as u64)
}

//! The `mcpServers` block: MCP servers whose tools agents can be granted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::choices::{Autonomy, Network, Role, SandboxMode, SkillsMode};
use super::docker::{self, DockerSettings};
use super::mcp_package::{self, McpPackage};
use super::model::Agent;
use super::parse::PLUGIN;
use super::policy::CommandPolicy;
use super::secret;
use super::view::{Problem, View};
use super::{ConfigError, agents};
use crate::home::Home;
use crate::id::{AgentId, McpServerName};

/// The most servers of a home.
const MAX_SERVERS: usize = 64;
/// The most words of a server's command, and the most bytes of one of them.
const MAX_WORDS: usize = 128;
const MAX_WORD: usize = 8 << 10;
/// The time of a call if the configuration sets none, and the longest one.
const CALL_SECONDS: u64 = 60;
const MAX_CALL_SECONDS: u64 = 600;
/// The time after which an idle server is stopped if the configuration sets none, and the longest one.
const IDLE_MINUTES: u64 = 10;
const MAX_IDLE_MINUTES: u64 = 24 * 60;
/// The number of calls of one turn if the configuration sets none, and the largest one.
const CALLS_PER_TURN: u64 = 200;
const MAX_CALLS_PER_TURN: u64 = 10_000;
/// The number of requests to an agent's model (sampling) in one call and on one day if the configuration sets none, and the
/// largest ones.
const SAMPLES_PER_CALL: u64 = 4;
const MAX_SAMPLES_PER_CALL: u64 = 100;
const SAMPLES_PER_DAY: u64 = 100;
const MAX_SAMPLES_PER_DAY: u64 = 100_000;
/// The most tokens of one such answer if the configuration sets none, and the largest number.
const SAMPLE_TOKENS: u64 = 2_048;
const MAX_SAMPLE_TOKENS: u64 = 65_536;

/// The most bytes of a server's address.
const MAX_URL: usize = 2 << 10;
/// The most headers of a server.
const MAX_HEADERS: usize = 32;

/// An MCP server: a program that runs in a sandbox of its own and speaks over its standard streams, or a server at a URL.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServer {
    pub name: McpServerName,
    /// The program and its arguments. Empty for a server at a URL.
    pub command: Vec<String>,
    /// The package that the program comes from if flock has fetched it.
    pub package: Option<McpPackage>,
    /// The address of the server if flock runs no program for it.
    pub remote: Option<McpRemote>,
    /// Variables of its environment. They are not secret.
    pub env: BTreeMap<String, String>,
    /// Variables whose values are secrets: the variable, and the name of the secret.
    pub secrets: BTreeMap<String, String>,
    pub network: Network,
    /// Hosts that it may reach, `HOST[:PORT]` as written.
    pub egress: Vec<String>,
    /// The limits of its sandbox.
    pub docker: DockerSettings,
    /// The longest time of one call.
    pub call_time: Duration,
    /// The most calls of its tools in one turn.
    pub calls_per_turn: u32,
    /// The most times that it can ask an agent's model during one call, if that was granted.
    pub samples_per_call: u32,
    /// The most times that it can ask the model of one agent on one day.
    pub samples_per_day: u32,
    /// The most tokens of an answer of the model.
    pub sample_tokens: u32,
    /// The time without a call after which it is stopped.
    pub idle: Duration,
}

/// An MCP server at a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpRemote {
    /// The address, http or https.
    pub url: String,
    /// Headers whose values are secrets: the header in lower case, and the name of the secret.
    pub headers: BTreeMap<String, String>,
    /// Set if the server may be on this machine or its networks, and without TLS.
    pub allow_local: bool,
}

/// Reads `{<name>: {command or url, package, headers, allowLocal, env, secrets, network, egress, memory, cpus, image, runtime, callSeconds, callsPerTurn,
/// idleMinutes, samplesPerCall, samplesPerDay, sampleTokens}}`.
pub(super) fn servers(view: &View<'_>) -> Result<Vec<McpServer>, Problem> {
    let entries = view.entries()?;
    if entries.len() > MAX_SERVERS {
        return Err(view.problem(&format!("must hold at most {MAX_SERVERS} servers")));
    }
    let mut servers =
        entries.iter().map(|(name, entry)| server(name, entry)).collect::<Result<Vec<_>, _>>()?;
    servers.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(servers)
}

/// The keys of a server.
const KEYS: [&str; 19] = [
    "allowLocal",
    "callSeconds",
    "callsPerTurn",
    "command",
    "cpus",
    "egress",
    "env",
    "headers",
    "idleMinutes",
    "image",
    "memory",
    "network",
    "package",
    "runtime",
    "sampleTokens",
    "samplesPerCall",
    "samplesPerDay",
    "secrets",
    "url",
];

/// The keys that only a server with a program has.
const PROGRAM_KEYS: [&str; 10] =
    ["command", "cpus", "egress", "env", "image", "memory", "network", "package", "runtime", "secrets"];
/// The keys that only a server at a URL has.
const REMOTE_KEYS: [&str; 2] = ["headers", "allowLocal"];

fn server(name: &str, view: &View<'_>) -> Result<McpServer, Problem> {
    view.only(&KEYS)?;
    let name: McpServerName =
        name.parse().map_err(|error| view.problem(&format!("is not usable: {error}")))?;
    let remote = remote(view)?;
    let command_at = view.get("command")?;
    let command = command_at.texts()?;
    let fits = |word: &String| word.len() <= MAX_WORD && !word.contains('\0');
    if remote.is_none() && command.is_empty() || command.len() > MAX_WORDS || !command.iter().all(fits) {
        return Err(command_at.problem("must be a program and its arguments, as a list of texts"));
    }
    let package = mcp_package::package(&view.get("package")?)?;
    let env = variables(&view.get("env")?)?;
    let secrets_at = view.get("secrets")?;
    let secrets = variables(&secrets_at)?;
    for (variable, secret) in &secrets {
        if !secret::is_name(secret) {
            return Err(secrets_at.get(variable)?.problem("must be the name of a secret"));
        }
        if env.contains_key(variable) {
            return Err(secrets_at.get(variable)?.problem("is also in env"));
        }
    }
    let network = view.get("network")?.word::<Network>("none or proxy")?;
    let egress = view.get("egress")?.texts()?;
    // The block has Docker's keys for limits, with the same rules as those of agents.
    let docker = docker::limits(view)?;
    let call_seconds = view.get("callSeconds")?.within(1..=MAX_CALL_SECONDS, "a number of seconds")?;
    let calls = view.get("callsPerTurn")?.within(1..=MAX_CALLS_PER_TURN, "a number of calls")?;
    let per_call = view.get("samplesPerCall")?.within(1..=MAX_SAMPLES_PER_CALL, "a number of requests")?;
    let per_day = view.get("samplesPerDay")?.within(1..=MAX_SAMPLES_PER_DAY, "a number of requests")?;
    let tokens = view.get("sampleTokens")?.within(1..=MAX_SAMPLE_TOKENS, "a number of tokens")?;
    let count = |set: Option<u64>, default| u32::try_from(set.unwrap_or(default)).unwrap_or(u32::MAX);
    let idle = view.get("idleMinutes")?.within(1..=MAX_IDLE_MINUTES, "a number of minutes")?;
    Ok(McpServer {
        name,
        command,
        package,
        remote,
        env,
        secrets,
        network: network.unwrap_or(if egress.is_empty() { Network::None } else { Network::Proxy }),
        egress,
        docker,
        call_time: Duration::from_secs(call_seconds.unwrap_or(CALL_SECONDS)),
        calls_per_turn: count(calls, CALLS_PER_TURN),
        samples_per_call: count(per_call, SAMPLES_PER_CALL),
        samples_per_day: count(per_day, SAMPLES_PER_DAY),
        sample_tokens: count(tokens, SAMPLE_TOKENS),
        idle: Duration::from_secs(idle.unwrap_or(IDLE_MINUTES) * 60),
    })
}

/// Reads where the server is, if it is at a URL.
fn remote(view: &View<'_>) -> Result<Option<McpRemote>, Problem> {
    let is_there = |key: &str| view.get(key).map(|part| part.value.is_some());
    let url_at = view.get("url")?;
    let Some(url) = url_at.text()? else {
        for key in REMOTE_KEYS {
            if is_there(key)? {
                return Err(view.get(key)?.problem("is only for a server with a url"));
            }
        }
        return Ok(None);
    };
    for key in PROGRAM_KEYS {
        if is_there(key)? {
            return Err(view
                .get(key)?
                .problem("is only for a server with a command, and this one has a url"));
        }
    }
    if !is_address(&url) {
        return Err(url_at.problem("must be an http or https address, without a user and a fragment"));
    }
    let headers_at = view.get("headers")?;
    let mut headers = BTreeMap::new();
    for (name, value) in headers_at.entries()? {
        let lower = name.to_ascii_lowercase();
        if !is_header(&lower) {
            return Err(value.problem("is no header that can be set"));
        }
        let secret = value.required_text()?.to_owned();
        if !secret::is_name(&secret) {
            return Err(value.problem("must be the name of a secret"));
        }
        if headers.insert(lower, secret).is_some() || headers.len() > MAX_HEADERS {
            return Err(headers_at.problem("must hold each header once, and at most 32"));
        }
    }
    let allow_local = view.get("allowLocal")?.flag()?.unwrap_or(false);
    if !allow_local && url.starts_with("http://") {
        return Err(url_at.problem("must begin with https:// unless allowLocal is true"));
    }
    Ok(Some(McpRemote { url, headers, allow_local }))
}

/// Returns `true` if a text can be the address of a server. The connection checks where it leads.
#[must_use]
pub(crate) fn is_address(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let fits = |rest: &str| {
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        !host.is_empty() && !host.contains('@') && !rest.contains('#')
    };
    url.len() <= MAX_URL && url.chars().all(|c| c.is_ascii_graphic()) && rest.is_some_and(fits)
}

/// Returns `true` if a server's configuration may set this header, in lower case. Others belong to the protocol.
#[must_use]
pub(crate) fn is_header(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let reserved = [
        "accept",
        "connection",
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        // Not a header of anything: the secret of this name holds the tokens of a sign-in.
        "oauth",
    ];
    (1..=100).contains(&name.len())
        && name.chars().all(allowed)
        && !name.starts_with("mcp-")
        && !reserved.contains(&name)
}

fn variables(view: &View<'_>) -> Result<BTreeMap<String, String>, Problem> {
    let mut variables = BTreeMap::new();
    for (name, value) in view.entries()? {
        if !is_variable(&name) {
            return Err(value.problem("must have the name of a variable: letters, digits and '_'"));
        }
        let text = value.text()?.unwrap_or_default();
        if text.contains('\0') || text.len() > MAX_WORD {
            return Err(value.problem("must be a text of at most 8192 bytes without zero bytes"));
        }
        variables.insert(name, text);
    }
    Ok(variables)
}

/// Returns `true` if a text can name a variable that a shell can set.
#[must_use]
pub(crate) fn is_variable(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.len() <= 128 && name.starts_with(first) && name.chars().all(|c| first(c) || c.is_ascii_digit())
}

impl McpServer {
    /// Returns a server with this command and the defaults.
    #[must_use]
    pub(crate) fn new(name: McpServerName, command: Vec<String>) -> Self {
        Self {
            name,
            command,
            package: None,
            remote: None,
            env: BTreeMap::new(),
            secrets: BTreeMap::new(),
            network: Network::None,
            egress: Vec::new(),
            docker: DockerSettings::default(),
            call_time: Duration::from_secs(CALL_SECONDS),
            calls_per_turn: u32::try_from(CALLS_PER_TURN).unwrap_or(u32::MAX),
            samples_per_call: u32::try_from(SAMPLES_PER_CALL).unwrap_or(u32::MAX),
            samples_per_day: u32::try_from(SAMPLES_PER_DAY).unwrap_or(u32::MAX),
            sample_tokens: u32::try_from(SAMPLE_TOKENS).unwrap_or(u32::MAX),
            idle: Duration::from_secs(IDLE_MINUTES * 60),
        }
    }

    /// Returns a server at a URL with the defaults.
    #[must_use]
    pub(crate) fn at(name: McpServerName, remote: McpRemote) -> Self {
        Self { remote: Some(remote), ..Self::new(name, Vec::new()) }
    }

    /// Returns all secrets of the server: the variable or the header that gets one, and the secret's name.
    pub(crate) fn all_secrets(&self) -> impl Iterator<Item = (&String, &String)> {
        let headers = self.remote.as_ref().map(|remote| remote.headers.iter());
        self.secrets.iter().chain(headers.into_iter().flatten())
    }

    /// Returns what a person calls the place where the server is: its command line or its URL.
    #[must_use]
    pub(crate) fn place(&self) -> String {
        self.remote.as_ref().map_or_else(|| self.command.join(" "), |remote| remote.url.clone())
    }

    /// Returns the server's sandbox as that of an agent that has nothing else. So the same code specifies, confines and
    /// probes it.
    #[must_use]
    pub(crate) fn sandbox(&self, home: &Home) -> Agent {
        let id = AgentId::of_mcp_server(&self.name);
        let mut docker = self.docker.clone();
        docker.env.insert("PATH".to_owned(), agents::sandbox_path(&id));
        Agent {
            role: Role::Worker,
            archetype: None,
            runtime: "native".to_owned(),
            on_host: false,
            autonomy: Autonomy::Readonly,
            model: None,
            effort: None,
            fallbacks: Vec::new(),
            workspace: home.mcp_workspace(&self.name),
            identity: home.mcp_identity(&self.name),
            sandbox: SandboxMode::All,
            allow: Vec::new(),
            profile: None,
            deny: Vec::new(),
            network: self.network,
            egress: self.egress.clone(),
            docker,
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

    /// Returns the entry of the configuration, without what is at its default.
    fn entry(&self) -> Value {
        let mut entry = match &self.remote {
            None => json!({"command": self.command}),
            Some(remote) => json!({"url": remote.url}),
        };
        let default = Self::new(self.name.clone(), Vec::new());
        let mut set = |key: &str, value: Value| entry[key] = value;
        if let Some(package) = &self.package {
            set("package", package.entry());
        }
        if let Some(remote) = &self.remote {
            if !remote.headers.is_empty() {
                set("headers", json!(remote.headers));
            }
            if remote.allow_local {
                set("allowLocal", json!(true));
            }
        }
        if !self.env.is_empty() {
            set("env", json!(self.env));
        }
        if !self.secrets.is_empty() {
            set("secrets", json!(self.secrets));
        }
        if self.network != Network::None {
            set("network", json!(self.network));
        }
        if !self.egress.is_empty() {
            set("egress", json!(self.egress));
        }
        if let Some(memory) = self.docker.memory {
            set("memory", json!(memory));
        }
        if let Some(millis) = self.docker.cpu_millis {
            set("cpus", json!(f64::from(u32::try_from(millis).unwrap_or(u32::MAX)) / 1000.0));
        }
        if let Some(image) = &self.docker.image {
            set("image", json!(image));
        }
        if let Some(runtime) = &self.docker.runtime {
            set("runtime", json!(runtime));
        }
        if self.call_time != default.call_time {
            set("callSeconds", json!(self.call_time.as_secs()));
        }
        if self.calls_per_turn != default.calls_per_turn {
            set("callsPerTurn", json!(self.calls_per_turn));
        }
        for (key, own, usual) in [
            ("samplesPerCall", self.samples_per_call, default.samples_per_call),
            ("samplesPerDay", self.samples_per_day, default.samples_per_day),
            ("sampleTokens", self.sample_tokens, default.sample_tokens),
        ] {
            if own != usual {
                set(key, json!(own));
            }
        }
        if self.idle != default.idle {
            set("idleMinutes", json!(self.idle.as_secs() / 60));
        }
        entry
    }
}

/// Adds servers to the configuration.
///
/// # Errors
///
/// Returns [`ConfigError::McpServerExists`] if there is one with the same name, and an error if the configuration can't
/// be read or written.
pub(crate) fn add(home: &Home, servers: &[McpServer]) -> Result<(), ConfigError> {
    super::edit(home, |document| {
        let block = block(document)?;
        for server in servers {
            if block.contains_key(server.name.as_str()) {
                return Err(ConfigError::McpServerExists(server.name.clone()));
            }
            block.insert(server.name.to_string(), server.entry());
        }
        Ok(())
    })
}

/// Replaces the package of a server with its command line.
///
/// # Errors
///
/// Returns [`ConfigError::NoMcpServer`] if there is no such server any more, and an error if the configuration can't be
/// read or written.
pub(crate) fn repin(
    home: &Home,
    name: &McpServerName,
    command: &[String],
    package: &McpPackage,
) -> Result<(), ConfigError> {
    super::edit(home, |document| {
        let entry = block(document)?.get_mut(name.as_str()).and_then(Value::as_object_mut);
        let entry = entry.ok_or_else(|| ConfigError::NoMcpServer(name.clone()))?;
        entry.insert("command".to_owned(), json!(command));
        entry.insert("package".to_owned(), package.entry());
        Ok(())
    })
}

/// Removes a server from the configuration. Returns `false` if there is none.
///
/// # Errors
///
/// Returns an error if the configuration can't be read or written.
pub(crate) fn remove(home: &Home, name: &McpServerName) -> Result<bool, ConfigError> {
    super::edit(home, |document| {
        let servers = block(document)?;
        let was_there = servers.shift_remove(name.as_str()).is_some();
        if servers.is_empty() {
            let own = &mut document["plugins"]["entries"]["flock"]["config"];
            own.as_object_mut().map(|own| own.shift_remove(KEY));
        }
        Ok(was_there)
    })
}

/// The key of the block.
const KEY: &str = "mcpServers";

fn block(document: &mut Value) -> Result<&mut Map<String, Value>, ConfigError> {
    let at = format!("{}.{KEY}", PLUGIN.join("."));
    let refused = || ConfigError::Refused { at, message: "is not an object".to_owned() };
    let servers = &mut document["plugins"]["entries"]["flock"]["config"][KEY];
    if servers.is_null() {
        *servers = json!({});
    }
    servers.as_object_mut().ok_or_else(refused)
}

/// A server that a file of another program describes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Imported {
    /// A program that can run in a sandbox. The variables of its environment may be secret.
    Program(Box<McpServer>),
    /// A server at a URL, with the values of its headers. They may be secret.
    Remote(Box<McpServer>, BTreeMap<String, String>),
    /// Something that flock can't run, with the reason.
    Unusable(String, String),
}

/// Reads the servers of `{"mcpServers": {<name>: {"command": …, "args": […], "env": {…}}}}`, the form that other programs
/// use. The outer object may be missing.
///
/// # Errors
///
/// Returns the reason if the text has another form.
pub(crate) fn read_usual(text: &str) -> Result<Vec<Imported>, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let servers = ["mcpServers", "servers"].iter().find_map(|key| document.get(*key)).unwrap_or(&document);
    let servers = servers.as_object().ok_or("it has no object \"mcpServers\"")?;
    if servers.len() > MAX_SERVERS {
        return Err(format!("it has more than {MAX_SERVERS} servers"));
    }
    Ok(servers.iter().map(|(name, entry)| imported(name, entry)).collect())
}

fn imported(name: &str, entry: &Value) -> Imported {
    let unusable = |why: &str| Imported::Unusable(name.to_owned(), why.to_owned());
    // Other programs allow any name, so the common differences are taken away.
    let plain = name.to_lowercase().replace(['_', ' ', '.', '/', '@'], "-");
    let Ok(id) = plain.trim_matches('-').parse::<McpServerName>() else {
        return unusable("its name can't be used; add it with `flock mcp add`");
    };
    let Some(command) = entry["command"].as_str() else {
        return match imported_remote(id, entry) {
            Ok((server, values)) => Imported::Remote(Box::new(server), values),
            Err(why) => unusable(why),
        };
    };
    let texts = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|word| Some(word.as_str()?.to_owned())).collect()
    };
    let Some(arguments) = entry.get("args").map_or(Some(Vec::new()), texts) else {
        return unusable("its `args` is no list of texts");
    };
    let mut server = McpServer::new(id, std::iter::once(command.to_owned()).chain(arguments).collect());
    for (variable, value) in entry["env"].as_object().into_iter().flatten() {
        let Some(value) = value.as_str().filter(|_| is_variable(variable)) else {
            return unusable("its `env` has something that is no variable");
        };
        server.env.insert(variable.clone(), value.to_owned());
    }
    Imported::Program(Box::new(server))
}

fn imported_remote(
    name: McpServerName,
    entry: &Value,
) -> Result<(McpServer, BTreeMap<String, String>), &'static str> {
    // The programs that have this form call the key differently.
    let url = ["url", "serverUrl", "httpUrl"].iter().find_map(|key| entry[*key].as_str());
    let url = url.ok_or("it has neither a command nor a url")?;
    // The older transport, with two addresses. Servers that have it alone are rare.
    if entry["type"].as_str().or(entry["transport"].as_str()) == Some("sse") {
        return Err("it speaks over SSE alone, which flock does not");
    }
    if !is_address(url) {
        return Err("its url is no http or https address");
    }
    let mut remote = McpRemote { url: url.to_owned(), headers: BTreeMap::new(), allow_local: false };
    if url.starts_with("http://") {
        return Err("its url does not begin with https://; add it with `flock mcp add --allow-local`");
    }
    let mut values = BTreeMap::new();
    for (header, value) in entry["headers"].as_object().into_iter().flatten() {
        let header = header.to_ascii_lowercase();
        let Some(value) = value.as_str().filter(|_| is_header(&header)) else {
            return Err("its `headers` has something that is no header");
        };
        values.insert(header, value.to_owned());
    }
    if values.len() > MAX_HEADERS {
        return Err("it has more than 32 headers");
    }
    remote.headers = values.keys().map(|header| (header.clone(), String::new())).collect();
    Ok((McpServer::at(name, remote), values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn parsed(block: &Value) -> Result<Vec<McpServer>, Problem> {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let document = json!({
            "gateway": {"auth": {"token": "t"}},
            "plugins": {"entries": {"flock": {"config": {"mcpServers": block}}}},
        });
        parse::config(&document, &home).map(|config| config.mcp_servers)
    }

    #[test]
    fn a_server_is_read_with_its_defaults_and_written_back() {
        let read = parsed(&json!({"files": {"command": ["python3", "-m", "x"]}})).unwrap();
        assert_eq!(
            read[0],
            McpServer::new("files".parse().unwrap(), vec!["python3".into(), "-m".into(), "x".into()])
        );
        assert_eq!(read[0].entry(), json!({"command": ["python3", "-m", "x"]}));
        let full = json!({"command": ["x"], "env": {"A": ""}, "secrets": {"KEY": "files-key"}, "network": "proxy",
            "egress": ["a.example"], "memory": 268_435_456, "cpus": 1.5, "callSeconds": 5, "callsPerTurn": 3,
            "samplesPerCall": 2, "samplesPerDay": 9, "sampleTokens": 64, "idleMinutes": 1});
        let read = parsed(&json!({"files": full})).unwrap();
        assert_eq!(read[0].entry(), full);
        assert_eq!(parsed(&json!({"files": read[0].entry()})).unwrap(), read);
        let far = json!({"url": "https://a.example/mcp", "headers": {"authorization": "far-key"}, "allowLocal": true});
        let read = parsed(&json!({"far": far})).unwrap();
        assert_eq!(read[0].entry(), far);
        let secrets: Vec<_> = read[0].all_secrets().collect();
        assert_eq!(secrets, [(&"authorization".to_owned(), &"far-key".to_owned())]);
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for (block, part) in [
            (json!({"Files": {"command": ["x"]}}), "not the name of an MCP server"),
            (json!({"a_b": {"command": ["x"]}}), "not the name of an MCP server"),
            (json!({"a": {}}), "a program and its arguments"),
            (json!({"a": {"command": []}}), "a program and its arguments"),
            (json!({"a": {"command": ["x"], "comand": 1}}), "did you mean command"),
            (json!({"a": {"command": ["x"], "secrets": {"K": "../x"}}}), "the name of a secret"),
            (json!({"a": {"command": ["x"], "secrets": {"K": "x"}, "env": {"K": "y"}}}), "also in env"),
            (json!({"a": {"command": ["x"], "env": {"A-B": "y"}}}), "the name of a variable"),
            (json!({"a": {"command": ["x"], "network": "host"}}), "none or proxy"),
            (json!({"a": {"command": ["x"], "callSeconds": 0}}), "from 1 to 600"),
            (json!({"a": {"command": ["x"], "sampleTokens": 0}}), "from 1 to 65536"),
            (json!({"a": {"command": ["x"], "url": "https://a.example/mcp"}}), "this one has a url"),
            (json!({"a": {"url": "https://a.example/mcp", "egress": ["b.example"]}}), "this one has a url"),
            (json!({"a": {"command": ["x"], "headers": {"a": "b"}}}), "only for a server with a url"),
            (json!({"a": {"url": "http://a.example/mcp"}}), "allowLocal"),
            (json!({"a": {"url": "https://u:p@a.example/mcp"}}), "http or https address"),
            (json!({"a": {"url": "file:///etc/passwd"}}), "http or https address"),
            (json!({"a": {"url": "https://a.example/mcp", "headers": {"Mcp-Session-Id": "x"}}}), "no header"),
            (json!({"a": {"url": "https://a.example/mcp", "headers": {"Host": "x"}}}), "no header"),
            (
                json!({"a": {"url": "https://a.example/mcp", "headers": {"X-Key": "../x"}}}),
                "the name of a secret",
            ),
        ] {
            let problem = parsed(&block).unwrap_err();
            assert!(problem.message.contains(part), "{problem:?} for {block}");
        }
    }

    #[test]
    fn the_usual_file_is_read_and_what_can_not_run_is_named() {
        let text = json!({"mcpServers": {
            "Every_Thing": {"command": "npx", "args": ["-y", "x"], "env": {"TOKEN": "t"}},
            "far": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer x"}},
            "old": {"type": "sse", "url": "https://a.example/sse"},
            "odd": {"command": "x", "args": [1]},
        }});
        let read = read_usual(&text.to_string()).unwrap();
        let Imported::Program(server) = &read[0] else { panic!("{read:?}") };
        assert_eq!(
            (server.name.as_str(), server.command.len(), &*server.env["TOKEN"]),
            ("every-thing", 3, "t")
        );
        let Imported::Remote(server, values) = &read[1] else { panic!("{read:?}") };
        assert_eq!(
            (server.place().as_str(), values["authorization"].as_str()),
            ("https://a.example/mcp", "Bearer x")
        );
        assert!(matches!(&read[2], Imported::Unusable(name, _) if name == "old"));
        assert!(matches!(&read[3], Imported::Unusable(name, _) if name == "odd"));
        assert!(read_usual("[]").is_err() && read_usual("{").is_err());
    }

    #[test]
    fn a_servers_sandbox_is_known_by_an_id_that_no_agent_can_have() {
        let home = Home::new("/srv/flock".into(), None);
        let sandbox = McpServer::new("files".parse().unwrap(), vec!["x".to_owned()]).sandbox(&home);
        assert_eq!(sandbox.id.mcp_server(), Some("files"));
        assert!(sandbox.id.as_str().parse::<AgentId>().is_err());
        assert!(sandbox.docker.env["PATH"].starts_with("/nix/var/nix/profiles/per-agent/mcp.files/bin:"));
    }
}

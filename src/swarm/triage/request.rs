//! The requests that an agent can make for things that it may not do itself. They are a closed list with typed fields,
//! so that exactly what was decided is carried out.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::execution::Execution;
use crate::clean::{self, spelled, spelled_lines};
use crate::id::{AgentId, ChannelId, FolderName, McpServerName, ModelRef};
use crate::mcp::QuestionField;
use crate::nix_store::{self, Attribute};
use crate::sandbox::egress::EgressRule;
use crate::sandbox::mount;
use crate::store::{EVERYONE, Scope};
use crate::tool::safe_text;

/// Maximum size of a command in bytes. A person has to read it.
pub(crate) const MAX_COMMAND: usize = 8 * 1024;
/// Maximum size of a text for the sysadmin in bytes.
pub(crate) const MAX_TEXT: usize = 16 * 1024;
/// Default time limit of a command in seconds.
pub(crate) const TIMEOUT: u32 = 120;
/// Maximum time limit of a command in seconds.
pub(crate) const MAX_TIMEOUT: u32 = 3600;
const MAX_PATH: usize = 1024;
const MAX_REFERENCE: usize = 300;
/// Largest number of accounts and roles that a requested link hears. A person has to read them.
pub(crate) const MAX_LINK_HEARS: usize = 50;

/// The change of a package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageAction {
    #[default]
    Install,
    Remove,
}

/// A request of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// A package in the agent's own profile.
    Package {
        #[serde(default)]
        action: PackageAction,
        /// An attribute of the pinned flake, or a complete reference to another flake.
        package: String,
        /// The conditions under which a package of another flake is evaluated and built. flock sets them, so that they
        /// are part of what is approved.
        #[serde(skip_serializing_if = "Option::is_none")]
        runs: Option<String>,
    },
    /// Access to a host through the proxy.
    Egress {
        /// A name, an address, or `*.` followed by a name.
        host: String,
        /// `None` means 80 and 443.
        #[serde(skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
    },
    /// Read access to a folder or file of the host.
    Mount {
        path: String,
        /// Path in the sandbox. `None` means the path's last component below `/mnt`.
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// A command on the host itself.
    Command {
        /// The text that is given to `sh -c`.
        command: String,
        /// Time limit in seconds. `None` means [`TIMEOUT`].
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout: Option<u32>,
        /// The conditions under which the command runs. flock sets them when the request is stored. A command without
        /// them is never run.
        #[serde(skip_serializing_if = "Option::is_none")]
        execution: Option<Execution>,
    },
    /// Creation of a worker.
    AgentCreate {
        id: AgentId,
        #[serde(skip_serializing_if = "Option::is_none")]
        archetype: Option<FolderName>,
        /// `None` means the default model.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
    },
    AgentRemove {
        id: AgentId,
    },
    /// A link of a channel with a channel of another platform.
    BridgeLink {
        /// The name of the bridge.
        bridge: String,
        channel: ChannelId,
        /// The platform's id of its channel.
        external: String,
        /// The name of the platform's channel for people.
        title: String,
        /// Those who are heard: accounts, `role:ID`, and `*` for everybody there.
        hears: Vec<String>,
        /// Set if others are heard than those who are in a private channel anyway.
        widens: bool,
    },
    /// A changed definition of a granted tool of an MCP server.
    McpTool {
        server: McpServerName,
        /// The server's own name of the tool.
        tool: String,
        /// The SHA-256 of the new definition, in hex.
        sha256: String,
        /// The difference from the definition that was granted. flock sets it, so that it is part of what is approved.
        #[serde(default)]
        changes: Vec<String>,
    },
    /// A question of an MCP server to a person, during a call of the agent.
    McpQuestion {
        server: McpServerName,
        /// The server's words.
        message: String,
        fields: Vec<QuestionField>,
    },
    /// A schedule for the agent itself or for a channel of its own.
    Schedule {
        /// The recipient, as in `#dev` or `@coder`.
        to: String,
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cron: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        every: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tz: Option<String>,
    },
    /// Any other text, for the sysadmin to answer. Nothing is run for it.
    Other {
        /// The request in the agent's own words.
        request: String,
    },
}

/// A request with its requester. The digest that a person approves is computed over this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FiledRequest {
    pub agent: AgentId,
    pub request: Request,
}

impl FiledRequest {
    /// Serializes it as canonical JSON: equal requests give equal texts.
    #[must_use]
    pub fn body(&self) -> String {
        // Values of these types can always be serialized.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses a body. Returns `None` if it is not valid or not canonical.
    #[must_use]
    pub(crate) fn read(body: &str) -> Option<Self> {
        // A text that can be written in two ways would have two digests, so only the canonical one counts.
        serde_json::from_str::<Self>(body).ok().filter(|asked| asked.body() == body)
    }
}

impl Request {
    /// Returns the name of the request's kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Package { .. } => "package",
            Self::Egress { .. } => "egress",
            Self::Mount { .. } => "mount",
            Self::Command { .. } => "command",
            Self::AgentCreate { .. } => "agent-create",
            Self::AgentRemove { .. } => "agent-remove",
            Self::BridgeLink { .. } => "bridge-link",
            Self::McpTool { .. } => "mcp-tool",
            Self::McpQuestion { .. } => super::question::KIND,
            Self::Schedule { .. } => "schedule",
            Self::Other { .. } => "other",
        }
    }

    /// Returns how long a grant lasts.
    #[must_use]
    pub(crate) const fn scope(&self) -> Scope {
        match self {
            // Access lasts until it is revoked or the agent is removed. Everything else is done once and uses the
            // approval up.
            Self::Egress { .. } | Self::Mount { .. } => Scope::Agent,
            _ => Scope::Once,
        }
    }

    /// Adds the fields that follow from the request and are part of what a person decides about.
    pub(crate) fn complete(&mut self) {
        if let Self::Package { action: PackageAction::Install, package, runs } = self
            && package.parse::<Attribute>().is_err()
        {
            *runs = Some(nix_store::confinement());
        }
    }

    /// Describes the request on one line, for people and agents. Everything except printable ASCII is escaped. In a
    /// text for the sysadmin, letters of other scripts stay.
    #[must_use]
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Other { request } => shown(request),
            // A person has to understand it, so letters of other scripts stay here too.
            Self::McpQuestion { .. } => shown(&self.text()),
            _ => spelled(&self.text()),
        }
    }

    /// Returns everything that a person decides about, one item per line, escaped as by [`Self::describe`]. Nothing is
    /// cut off.
    #[must_use]
    pub(crate) fn lines(&self) -> Vec<String> {
        if let Self::McpTool { changes, .. } = self {
            let changes = changes.iter().map(|line| format!("| {}", spelled(line)));
            return std::iter::once(self.describe()).chain(changes).collect();
        }
        if let Self::McpQuestion { server, message, fields } = self {
            // Each line gets a mark, so that no line of the server can look like a line of flock.
            let first = format!("answer a question of the MCP server {server}, in its own words:");
            let fields = fields.iter().map(|field| format!("| field {}", shown(&field.describe())));
            return [first, format!("| {}", shown(message))].into_iter().chain(fields).collect();
        }
        let Self::Command { command, timeout, execution } = self else { return vec![self.describe()] };
        let mut lines = vec!["run on the host:".to_owned()];
        // Each line gets a mark, so that no line of the command can look like a line of flock.
        lines.extend(spelled_lines(command).map(|line| format!("| {line}")));
        let seconds = timeout.unwrap_or(TIMEOUT);
        lines.push(format!("time: {seconds} seconds"));
        let Some(execution) = execution else { return lines };
        lines.push(format!("folder: {} (empty, made for this command)", spelled(&execution.cwd)));
        lines.extend(
            execution
                .env
                .iter()
                .map(|(name, value)| format!("variable: {}={}", spelled(name), spelled(value))),
        );
        lines.extend(execution.files.iter().map(|bound| format!("an agent can write: {}", bound.describe())));
        lines
    }

    /// Returns the request in plain words. A command stays as it is.
    fn text(&self) -> String {
        match self {
            Self::Package { action: PackageAction::Install, package, runs: None } => {
                format!("install the package {package}")
            }
            Self::Package { action: PackageAction::Install, package, runs: Some(runs) } => {
                format!("install the package {package}: it is {runs}")
            }
            Self::Package { action: PackageAction::Remove, package, .. } => {
                format!("remove the package {package}")
            }
            Self::Egress { host, port: Some(port) } => format!("reach {host}:{port}"),
            Self::Egress { host, port: None } => format!("reach {host} (80, 443)"),
            Self::Mount { path, target } => {
                format!("read {path} of the host as {}", target.clone().unwrap_or_else(|| mounted_at(path)))
            }
            Self::Command { command, .. } => format!("run on the host: {command}"),
            Self::AgentCreate { id, archetype, model } => {
                let archetype = archetype.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
                let model = model.as_ref().map(|model| format!(" with {model}")).unwrap_or_default();
                format!("create the worker {id}{archetype}{model}")
            }
            Self::AgentRemove { id } => format!("remove the agent {id}"),
            Self::BridgeLink { bridge, channel, external, title, hears, .. } => {
                let heard = match hears.as_slice() {
                    [] => "nobody".to_owned(),
                    names if names.iter().any(|name| name == EVERYONE) => "everyone there".to_owned(),
                    names => names.join(", "),
                };
                format!(
                    "link channel #{channel} with the channel {external} ({title}) of the bridge {bridge}; heard from there: \
                     {heard}"
                )
            }
            Self::McpTool { server, tool, sha256, .. } => {
                format!(
                    "use the tool {tool} of the MCP server {server} as the server describes it now ({sha256})"
                )
            }
            Self::McpQuestion { server, message, fields } => {
                let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
                let asks = if names.is_empty() { String::new() } else { format!(" [{}]", names.join(", ")) };
                format!("answer the MCP server {server}, which asks: {message}{asks}")
            }
            Self::Schedule { to, text, cron, every, at, tz } => {
                let zone = tz.as_ref().map(|tz| format!(" ({tz})")).unwrap_or_default();
                let when = match (cron, every, at) {
                    (Some(cron), ..) => format!("at the times {cron}{zone}"),
                    (None, Some(every), _) => format!("every {every}"),
                    (None, None, at) => format!("at {}{zone}", at.as_deref().unwrap_or_default()),
                };
                format!("give {to} a text {when}: {text}")
            }
            Self::Other { request } => request.clone(),
        }
    }

    /// Returns `true` if both ask for the same. For a command only its text counts, because flock sets how it runs.
    #[must_use]
    pub(crate) fn is_repeat_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Command { command, .. }, Self::Command { command: other, .. }) => command == other,
            (one, other) => one == other,
        }
    }

    /// Returns `true` if this request includes everything that `other` asks for. The web ports 80 and 443 count as one,
    /// any other port is separate.
    #[must_use]
    pub(crate) fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Egress { host, port }, Self::Egress { host: other, port: other_port }) => {
                let parsed = |host: &str, port: &Option<u16>| rule(host, *port).parse::<EgressRule>().ok();
                let (one, other) = (parsed(host, port), parsed(other, other_port));
                one.zip(other)
                    .is_some_and(|(one, other)| one.covers_hosts(&other) && one.shares_ports(&other))
            }
            // By components and not by text: `/a/bc` is not below `/a/b`.
            (Self::Mount { path, .. }, Self::Mount { path: other, .. }) => Path::new(other).starts_with(path),
            // Another model or archetype does not make it a different agent.
            (Self::AgentCreate { id, .. }, Self::AgentCreate { id: other, .. }) => id == other,
            (one, other) => one.is_repeat_of(other),
        }
    }

    /// Checks the form of the request.
    ///
    /// # Errors
    ///
    /// Returns a text for the model that says what to write instead.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            // An agent must not write the conditions that a person is shown.
            Self::Package { runs: Some(runs), .. } if *runs != nix_store::confinement() => {
                Err("flock sets `runs`: omit it".to_owned())
            }
            Self::Package { action, package, .. } => check_package(*action, package),
            Self::Egress { host, port } => {
                if *port == Some(0) {
                    return Err("`port` must be 1 to 65535".to_owned());
                }
                check_host(host, *port)
            }
            Self::Mount { path, target } => {
                check_path("path", path)?;
                let named = |target: &String| target.strip_prefix("/mnt/").is_some_and(mount::is_name);
                if target.as_ref().is_none_or(named) {
                    return Ok(());
                }
                Err("`target` must be /mnt/ and a name of letters, digits and . _ -".to_owned())
            }
            Self::Command { command, timeout, .. } => {
                if timeout.is_some_and(|timeout| timeout == 0 || timeout > MAX_TIMEOUT) {
                    return Err(format!("`timeout` must be 1 to {MAX_TIMEOUT} seconds"));
                }
                check_text("command", command, MAX_COMMAND)
            }
            Self::Schedule { to, text, cron, every, at, tz } => {
                let others = [cron, every, at, tz].into_iter().flatten().chain([to]);
                if others.into_iter().any(|part| part.len() > MAX_REFERENCE) {
                    return Err(format!("a time and a recipient have at most {MAX_REFERENCE} bytes"));
                }
                check_text("text", text, MAX_TEXT)
            }
            Self::Other { request } => check_text("request", request, MAX_TEXT),
            Self::BridgeLink { external, title, hears, .. } => {
                // flock makes all of them from the platform's answer. A longer one could not be read by a person.
                let is_short = |text: &String| text.len() <= MAX_REFERENCE;
                let fits =
                    hears.len() <= MAX_LINK_HEARS && hears.iter().chain([external, title]).all(is_short);
                if fits { Ok(()) } else { Err("the names of the platform's channel are too long".to_owned()) }
            }
            // flock makes all of it.
            Self::AgentCreate { .. }
            | Self::AgentRemove { .. }
            | Self::McpTool { .. }
            | Self::McpQuestion { .. } => Ok(()),
        }
    }
}

/// Escapes a text on one line, so that every character is visible. Letters of other scripts stay. Texts that a person
/// approves use [`spelled`] instead.
#[must_use]
pub(crate) fn shown(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' ' => line.push(' '),
            // A backslash is doubled, so that a text can't imitate an escaped character.
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            c if clean::is_ignorable(c) || c.is_whitespace() => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// Returns the default path of a host folder in a sandbox.
#[must_use]
pub(crate) fn mounted_at(path: &str) -> String {
    // A trailing slash would give an empty name.
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    format!("/mnt/{name}")
}

fn check_package(action: PackageAction, package: &str) -> Result<(), String> {
    if package.parse::<Attribute>().is_ok() {
        return Ok(());
    }
    // For a reference to another flake, allow only schemes that fetch from the network and characters without a meaning
    // in a shell. A local path would name something in the store's own container.
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/:#?=&%@~".contains(c);
    let fetched = ["github:", "gitlab:", "sourcehut:", "git+https:", "https:"];
    let source = package.split('#').next().unwrap_or_default();
    let attribute = package.split_once('#').map(|(_, attribute)| attribute.parse::<Attribute>());
    if package.len() <= MAX_REFERENCE
        && package.chars().all(plain)
        && fetched.iter().any(|scheme| source.starts_with(scheme) && source.len() > scheme.len())
        && matches!(attribute, Some(Ok(_)))
    {
        if action == PackageAction::Remove || is_fixed(source) {
            return Ok(());
        }
        return Err("`package` must name the revision of the flake: github:owner/repository/COMMIT#name, \
                    git+https://…?rev=COMMIT#name with all 40 digits of the commit, or https://…?narHash=sha256-…#name"
            .to_owned());
    }
    Err("`package` must be a package name such as ripgrep or python3Packages.numpy, or a reference such as \
         github:owner/repository/COMMIT#name, which a person must approve"
        .to_owned())
}

/// Returns `true` if a reference can have only one content, so that exactly what was approved is built.
fn is_fixed(source: &str) -> bool {
    let (place, query) = source.split_once('?').unwrap_or((source, ""));
    let (scheme, rest) = place.split_once(':').unwrap_or_default();
    let is_commit = |text: &str| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut said = query.split('&').filter_map(|pair| pair.split_once('='));
    match scheme {
        "github" | "gitlab" | "sourcehut" => {
            let parts: Vec<&str> = rest.split('/').collect();
            // A second revision in the query could contradict the commit in the path.
            let more = said.any(|(key, _)| key == "ref" || key == "rev");
            matches!(parts[..], [_, _, commit] if is_commit(commit)) && !more
        }
        // Exactly one `rev`: of two, it would be open which one counts.
        "git+https" => {
            let revs: Vec<&str> = said.filter(|(key, _)| *key == "rev").map(|(_, value)| value).collect();
            matches!(revs[..], [commit] if is_commit(commit))
        }
        // An archive has no commit, so its content hash must be given: `sha256-` and 44 characters of Base64.
        _ => said.any(|(key, value)| key == "narHash" && value.len() == 51 && value.starts_with("sha256-")),
    }
}

fn check_host(host: &str, port: Option<u16>) -> Result<(), String> {
    let wrong = |why: String| {
        Err(format!(
            "`host` must be a public name in lower case such as static.crates.io, without scheme, path or port: {why}"
        ))
    };
    let rule = rule(host, port);
    match rule.parse::<EgressRule>() {
        // Only the canonical form is accepted, so that comparing, showing and approving all use the same text.
        Ok(parsed) if parsed.to_string() == rule && (host.contains('.') || host.contains(':')) => Ok(()),
        Ok(_) => wrong("write it in full and plainly".to_owned()),
        Err(error) => wrong(shown(&error.to_string())),
    }
}

/// Returns a host and port as a rule of the proxy.
#[must_use]
pub(crate) fn rule(host: &str, port: Option<u16>) -> String {
    // An IPv6 address needs brackets, so that its colons differ from the port's.
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
}

fn check_path(name: &str, path: &str) -> Result<(), String> {
    let plain = path.starts_with('/')
        && path.len() <= MAX_PATH
        && !path.contains(':')
        && !path.chars().any(safe_text::is_unseen)
        && path.split('/').all(|part| part != "..");
    if plain { Ok(()) } else { Err(format!("`{name}` must be an absolute path without `..` and `:`")) }
}

/// Checks a text that a person decides about. Invisible characters are refused, because the person would see something
/// else than the text contains.
fn check_text(name: &str, text: &str, limit: usize) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err(format!("`{name}` is empty"));
    }
    if text.len() > limit {
        return Err(format!("`{name}` has {} bytes; at most {limit} are possible", text.len()));
    }
    if text.chars().any(|c| c != '\n' && c != '\t' && safe_text::is_unseen(c)) {
        return Err(format!("`{name}` contains invisible characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_canonical_and_reads_back() {
        let asked = FiledRequest {
            agent: "coder".parse().unwrap(),
            request: serde_json::from_value(json!({"kind": "package", "package": "hello"})).unwrap(),
        };
        let body = asked.body();
        assert_eq!(
            body,
            r#"{"agent":"coder","request":{"kind":"package","action":"install","package":"hello"}}"#
        );
        assert_eq!(FiledRequest::read(&body), Some(asked));
        for other in [
            body.replace("hello", "hello "),
            body.replace(r#""kind":"package","#, r#""kind":"package", "#),
            body.replace(r#""package":"hello""#, r#""package":"hello","more":1"#),
            String::new(),
        ] {
            let read = FiledRequest::read(&other);
            assert!(read.is_none() || read.unwrap().request.check().is_err(), "{other}");
        }
    }

    #[test]
    fn a_foreign_flake_request_states_its_confinement() {
        let read = |package: &str| -> Request {
            serde_json::from_value(json!({"kind": "package", "package": package})).unwrap()
        };
        let mut request = read("github:a/b/50ab793786d9de88ee30ec4e4c24fb4236fc2674#c");
        request.complete();
        assert_eq!(request.check(), Ok(()));
        let asked = FiledRequest { agent: "coder".parse().unwrap(), request };
        assert!(asked.body().contains("throw-away containers as user 30001"), "{}", asked.body());
        assert!(asked.request.describe().contains("throw-away containers"), "{}", asked.request.describe());
        let mut plain = read("hello");
        plain.complete();
        assert_eq!(plain, read("hello"));
    }

    #[test]
    fn escaping_keeps_different_texts_different() {
        assert_eq!(shown("a\nb"), r"a\nb");
        assert_eq!(shown(r"a\nb"), r"a\\nb");
        assert_eq!(shown("a\tb\u{202e}"), r"a\tb\u{202e}");
        assert_eq!(shown(r"a\u{202e}"), r"a\\u{202e}");
    }

    #[test]
    fn malformed_requests_are_refused() {
        let unknown = json!({"kind": "egress", "host": "a.example", "agent": "other"});
        assert!(serde_json::from_value::<Request>(unknown).is_err());
        assert!(serde_json::from_value::<Request>(json!({"kind": "sudo", "command": "id"})).is_err());
        let good = [
            json!({"kind": "package", "package": "python3Packages.numpy"}),
            json!({"kind": "package", "package": "github:a/b/50ab793786d9de88ee30ec4e4c24fb4236fc2674#c"}),
            json!({"kind": "package", "package": "git+https://a.example/b?rev=50ab793786d9de88ee30ec4e4c24fb4236fc2674#c"}),
            json!({"kind": "package", "package": "https://a.example/b.tar.gz?narHash=sha256-/bVBlRpECLVzjV19t5KMdMFWSwKLtb5RyXdjz3LJT+g=#c"}),
            json!({"kind": "egress", "host": "static.crates.io"}),
            json!({"kind": "egress", "host": "*.crates.io", "port": 443}),
            json!({"kind": "egress", "host": "1.1.1.1"}),
            json!({"kind": "mount", "path": "/srv/data"}),
            json!({"kind": "command", "command": "df -h\n"}),
        ];
        for value in good {
            let request: Request = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(request.check(), Ok(()), "{value}");
        }
        let bad = [
            json!({"kind": "package", "package": "path:/etc#x"}),
            json!({"kind": "package", "package": "a b"}),
            json!({"kind": "package", "package": "github:a/b#c"}),
            json!({"kind": "package", "package": "github:a/b/main#c"}),
            json!({"kind": "package", "package": "github:a/b/50ab793786d9de88ee30ec4e4c24fb4236fc2674?ref=main#c"}),
            json!({"kind": "package", "package": "git+https://a.example/b?ref=main#c"}),
            json!({"kind": "package", "package": "https://a.example/b.tar.gz#c"}),
            json!({"kind": "package", "package": "hello", "runs": "nowhere"}),
            json!({"kind": "package", "package": "github:a/b"}),
            json!({"kind": "package", "package": "github:a/b#c;id"}),
            json!({"kind": "egress", "host": "localhost"}),
            json!({"kind": "egress", "host": "https://a.example"}),
            json!({"kind": "egress", "host": "A.example"}),
            json!({"kind": "egress", "host": "a.example/x"}),
            json!({"kind": "egress", "host": "*.1.2.3.4"}),
            json!({"kind": "egress", "host": "0x7f.1"}),
            json!({"kind": "egress", "host": "127.1"}),
            json!({"kind": "egress", "host": "a.example", "port": 0}),
            json!({"kind": "mount", "path": "data"}),
            json!({"kind": "mount", "path": "/a/../etc"}),
            json!({"kind": "mount", "path": "/a:/b"}),
            json!({"kind": "command", "command": " "}),
            json!({"kind": "command", "command": "echo \u{202e}dlrow"}),
            json!({"kind": "command", "command": "echo a\u{1b}[2K"}),
            json!({"kind": "command", "command": "x".repeat(MAX_COMMAND + 1)}),
            json!({"kind": "command", "command": "id", "timeout": 0}),
            json!({"kind": "other", "request": "x".repeat(1 << 20)}),
        ];
        for value in bad {
            let request: Request = serde_json::from_value(value.clone()).unwrap();
            assert!(request.check().is_err(), "{}", &value.to_string()[..80.min(value.to_string().len())]);
        }
    }
}

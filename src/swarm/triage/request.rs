//! What an agent can ask for that is not its own to do: a closed list of things with typed fields, so that
//! what is decided about is exactly what is done.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, FolderName, ModelRef};
use crate::nix::Attribute;
use crate::sandbox::egress::EgressRule;
use crate::sandbox::mount;
use crate::store::Scope;
use crate::tool::bounded;

/// The longest command, in bytes: a person has to read it.
pub const MAX_COMMAND: usize = 8 * 1024;
/// The longest text for the sysadmin, in bytes.
pub const MAX_TEXT: usize = 16 * 1024;
/// The longest a command may run, in seconds.
pub const MAX_TIMEOUT: u32 = 3600;
const MAX_PATH: usize = 1024;
const MAX_REFERENCE: usize = 300;

/// What becomes of a package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is installed.
    #[default]
    Install,
    /// It is removed.
    Remove,
}

/// What an agent asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// A package of its own profile.
    Package {
        /// What becomes of it.
        #[serde(default)]
        action: Change,
        /// An attribute of the pinned flake, or a whole reference of another one.
        package: String,
    },
    /// A host to reach.
    Egress {
        /// A name, an address, or `*.` and a name.
        host: String,
        /// 80 and 443 where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
    },
    /// A folder or file of the host to read.
    Mount {
        /// Where it is on the host.
        path: String,
        /// Where in the sandbox; below `/mnt` where nothing is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// A command on the host itself.
    Command {
        /// Run by `sh -c`.
        command: String,
        /// How long it may run, in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<u32>,
    },
    /// A new worker.
    AgentCreate {
        /// Its id.
        id: AgentId,
        /// Its archetype.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        archetype: Option<FolderName>,
        /// Its model; the default one where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
    },
    /// An agent's end.
    AgentRemove {
        /// Which.
        id: AgentId,
    },
    /// Anything else, for the sysadmin to read and answer. Nothing is run for it.
    Other {
        /// In the agent's words.
        request: String,
    },
}

/// A request with who asked for it: what the digest that a person approves is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Who.
    pub agent: AgentId,
    /// For what.
    pub request: Request,
}

impl Asked {
    /// Canonical JSON: the same request has the same text.
    #[must_use]
    pub fn body(&self) -> String {
        // A value of these types always has one.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a body, if it is one and canonical.
    #[must_use]
    pub fn read(body: &str) -> Option<Self> {
        serde_json::from_str::<Self>(body).ok().filter(|asked| asked.body() == body)
    }
}

impl Request {
    /// The word for its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Package { .. } => "package",
            Self::Egress { .. } => "egress",
            Self::Mount { .. } => "mount",
            Self::Command { .. } => "command",
            Self::AgentCreate { .. } => "agent-create",
            Self::AgentRemove { .. } => "agent-remove",
            Self::Other { .. } => "other",
        }
    }

    /// How long a permission holds.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        match self {
            Self::Egress { .. } | Self::Mount { .. } => Scope::Agent,
            _ => Scope::Once,
        }
    }

    /// In one line, for people and agents: what it says is escaped where it could not be seen as it is.
    #[must_use]
    pub fn describe(&self) -> String {
        let text = match self {
            Self::Package { action: Change::Install, package } => format!("install the package {package}"),
            Self::Package { action: Change::Remove, package } => format!("remove the package {package}"),
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
            Self::Other { request } => request.clone(),
        };
        shown(&text)
    }

    /// What is wrong with it by its form alone, for the model.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Package { package, .. } => check_package(package),
            Self::Egress { host, port } => {
                if *port == Some(0) {
                    return Err("`port` is a number from 1 to 65535".to_owned());
                }
                check_host(host, *port)
            }
            Self::Mount { path, target } => {
                check_path("path", path)?;
                let named = |target: &String| target.strip_prefix("/mnt/").is_some_and(mount::is_name);
                if target.as_ref().is_none_or(named) {
                    return Ok(());
                }
                Err("`target` is /mnt/ and a name of letters, digits and . _ -; give one".to_owned())
            }
            Self::Command { command, timeout } => {
                if timeout.is_some_and(|timeout| timeout == 0 || timeout > MAX_TIMEOUT) {
                    return Err(format!("`timeout` is a number of seconds from 1 to {MAX_TIMEOUT}"));
                }
                check_text("command", command, MAX_COMMAND)
            }
            Self::Other { request } => check_text("request", request, MAX_TEXT),
            Self::AgentCreate { .. } | Self::AgentRemove { .. } => Ok(()),
        }
    }
}

/// A text on one line in which everything that could not be seen as it is, is spelled out.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            c if bounded::is_unseen(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// Where a folder of the host is in a sandbox where nothing else is said.
#[must_use]
pub fn mounted_at(path: &str) -> String {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    format!("/mnt/{name}")
}

fn check_package(package: &str) -> Result<(), String> {
    if package.parse::<Attribute>().is_ok() {
        return Ok(());
    }
    // A reference of another flake: nothing of the store's own container, and nothing that needs a shell.
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/:#?=&%@~".contains(c);
    let fetched = ["github:", "gitlab:", "sourcehut:", "git+https:", "https:"];
    let source = package.split('#').next().unwrap_or_default();
    let attribute = package.split_once('#').map(|(_, attribute)| attribute.parse::<Attribute>());
    if package.len() <= MAX_REFERENCE
        && package.chars().all(plain)
        && fetched.iter().any(|scheme| source.starts_with(scheme) && source.len() > scheme.len())
        && matches!(attribute, Some(Ok(_)))
    {
        return Ok(());
    }
    Err("`package` is the name of one package as in ripgrep or python3Packages.numpy, or a reference as in \
         github:owner/repository#name, which a person has to approve"
        .to_owned())
}

fn check_host(host: &str, port: Option<u16>) -> Result<(), String> {
    let wrong = |why: String| {
        Err(format!(
            "`host` is a public name in lower case as in static.crates.io, without scheme, path or port: {why}"
        ))
    };
    let rule = rule(host, port);
    match rule.parse::<EgressRule>() {
        // What is written in one way only is compared, shown and approved as what it is.
        Ok(parsed) if parsed.to_string() == rule && (host.contains('.') || host.contains(':')) => Ok(()),
        Ok(_) => wrong("write it in full and plainly".to_owned()),
        Err(error) => wrong(shown(&error.to_string())),
    }
}

/// A host and its port as one rule of the proxy.
#[must_use]
pub fn rule(host: &str, port: Option<u16>) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
}

fn check_path(name: &str, path: &str) -> Result<(), String> {
    let plain = path.starts_with('/')
        && path.len() <= MAX_PATH
        && !path.contains(':')
        && !path.chars().any(bounded::is_unseen)
        && path.split('/').all(|part| part != "..");
    if plain { Ok(()) } else { Err(format!("`{name}` is an absolute path without `..` and `:`")) }
}

/// A person decides about what they see: a text that shows something else than it holds is refused.
fn check_text(name: &str, text: &str, limit: usize) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err(format!("`{name}` is empty"));
    }
    if text.len() > limit {
        return Err(format!("`{name}` has {} bytes; at most {limit} are taken", text.len()));
    }
    if text.chars().any(|c| c != '\n' && c != '\t' && bounded::is_unseen(c)) {
        return Err(format!("`{name}` holds characters that can't be seen"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_canonical_and_reads_back() {
        let asked = Asked {
            agent: "coder".parse().unwrap(),
            request: serde_json::from_value(json!({"kind": "package", "package": "hello"})).unwrap(),
        };
        let body = asked.body();
        assert_eq!(
            body,
            r#"{"agent":"coder","request":{"kind":"package","action":"install","package":"hello"}}"#
        );
        assert_eq!(Asked::read(&body), Some(asked));
        for other in [
            body.replace("hello", "hello "),
            body.replace(r#""kind":"package","#, r#""kind":"package", "#),
            body.replace(r#""package":"hello""#, r#""package":"hello","more":1"#),
            String::new(),
        ] {
            let read = Asked::read(&other);
            assert!(read.is_none() || read.unwrap().request.check().is_err(), "{other}");
        }
    }

    #[test]
    fn texts_that_differ_are_shown_differently() {
        assert_eq!(shown("a\nb"), r"a\nb");
        assert_eq!(shown(r"a\nb"), r"a\\nb");
        assert_eq!(shown("a\tb\u{202e}"), r"a\tb\u{202e}");
        assert_eq!(shown(r"a\u{202e}"), r"a\\u{202e}");
    }

    #[test]
    fn what_is_not_of_the_form_is_refused() {
        let unknown = json!({"kind": "egress", "host": "a.example", "agent": "other"});
        assert!(serde_json::from_value::<Request>(unknown).is_err());
        assert!(serde_json::from_value::<Request>(json!({"kind": "sudo", "command": "id"})).is_err());
        let good = [
            json!({"kind": "package", "package": "python3Packages.numpy"}),
            json!({"kind": "package", "package": "github:a/b#c"}),
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

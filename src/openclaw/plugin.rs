//! flock's plugin for OpenClaw: a folder with its code, its manifest and its tool descriptions, all written from this
//! binary.
//!
//! The code is one file that is the same for every home. The tool descriptions are generated from flock's own tools, so
//! that the two can't differ. The plugin's configuration says which agent gets which tools and where flock's gateway
//! is.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::state::failed;
use super::write_if_changed;
use crate::config::Config;
use crate::home::{Home, HomeError};
use crate::provider::ToolSpec;
use crate::tool::{catalog, policy};

/// The plugin's id. Its folder has the same name, because OpenClaw requires that.
pub const ID: &str = "flock";
/// Name of the secret with which the plugin authenticates to flock's gateway.
pub const SECRET: &str = "openclaw-plugin";
/// The runtime name of agents whose turns OpenClaw runs.
pub(crate) const RUNTIME: &str = "openclaw";

/// Names of the two tools by which OpenClaw's agents use the tools of MCP servers. OpenClaw registers tools when it starts,
/// and grants change while it runs, so the granted tools themselves can't be registered.
pub(crate) const LIST_MCP_TOOLS: &str = "flock_mcp_tools";
const CALL_MCP_TOOL: &str = "flock_mcp_call";

const CODE: &str = include_str!("plugin/index.js");

/// Returns the plugin's folder in this home.
#[must_use]
pub fn folder(home: &Home) -> PathBuf {
    home.extension(ID)
}

/// Writes the plugin's files that differ, with these tools, and returns `true` if any file changed. Each file is
/// replaced atomically. The manifest, which turns the folder into a plugin, comes last.
///
/// # Errors
///
/// Returns [`HomeError`] if the folder or a file can't be written.
pub fn install(home: &Home, tools: &[ToolSpec]) -> Result<bool, HomeError> {
    let folder = folder(home);
    fs_err::create_dir_all(&folder).map_err(failed("make", &folder))?;
    // OpenClaw has its own tools for files and commands. Only flock's are added.
    let of_mcp = mcp_tools();
    let own = tools.iter().filter(|tool| policy::is_flocks_own(&tool.name));
    let ours: Vec<&ToolSpec> = own.chain(&of_mcp).collect();
    let mut changed = false;
    for (name, text) in [
        ("index.js", CODE.to_owned()),
        ("tools.json", format!("{:#}\n", described(&ours))),
        ("openclaw.plugin.json", format!("{:#}\n", manifest(&ours))),
    ] {
        // No secret is in these files: the token is in a file of its own, which the settings name.
        changed |= write_if_changed(&folder.join(name), text.as_bytes(), 0o644)?;
    }
    Ok(changed)
}

/// Returns the plugin's configuration (`plugins.entries.flock.config` in OpenClaw's own file): the address of this
/// home's gateway, the file with the token, and the tools that each of OpenClaw's agents is offered.
#[must_use]
pub fn settings(home: &Home, config: &Config) -> Value {
    let agents = config.agents.iter().filter(|agent| agent.runtime == RUNTIME);
    let offered: Map<String, Value> = agents
        .map(|agent| {
            let names = catalog::flocks_own().map(|tool| tool.name);
            let names = names.filter(|name| policy::offers(agent, name));
            let names: Vec<&str> = names.chain([LIST_MCP_TOOLS, CALL_MCP_TOOL]).collect();
            (agent.id.to_string(), json!(names))
        })
        .collect();
    json!({
        "gateway": format!("http://127.0.0.1:{}", config.port),
        "tokenFile": home.secrets().join(SECRET),
        "tools": offered,
    })
}

fn mcp_tools() -> [ToolSpec; 2] {
    let text = |about: &str| json!({"type": "string", "description": about});
    let tool = |name: &str, description: &str, properties: Value, required: Value| {
        let parameters = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters: parameters.into() }
    };
    [
        tool(
            LIST_MCP_TOOLS,
            "Lists the tools of MCP servers that you may call with flock_mcp_call. With `tool`, it shows the parameters of one.",
            json!({"tool": text("Name of a tool, mcp_SERVER_TOOL")}),
            json!([]),
        ),
        tool(
            CALL_MCP_TOOL,
            "Calls a tool of an MCP server.",
            json!({
                "tool": text("Name of the tool, mcp_SERVER_TOOL"),
                "arguments": {"type": "object", "description": "Its arguments"},
            }),
            json!(["tool", "arguments"]),
        ),
    ]
}

fn described(tools: &[&ToolSpec]) -> Value {
    let one = |tool: &&ToolSpec| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    tools.iter().map(one).collect()
}

fn manifest(tools: &[&ToolSpec]) -> Value {
    json!({
        "id": ID,
        "name": "Flock",
        "description": "The tools of a flock team, and its record of tool calls.",
        "version": env!("CARGO_PKG_VERSION"),
        "configSchema": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "gateway": {"type": "string"},
                "tokenFile": {"type": "string"},
                "tools": {
                    "type": "object",
                    "additionalProperties": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
        "contracts": {"tools": tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>()},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        (dir, home)
    }

    fn tool(name: &str) -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        ToolSpec {
            name: name.to_owned(),
            description: format!("Does {name}."),
            parameters: parameters.into(),
        }
    }

    fn read(home: &Home, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(folder(home).join(name)).unwrap()).unwrap()
    }

    #[test]
    fn it_is_written_with_flocks_own_tools_and_only_where_it_differs() {
        let (_dir, home) = home();
        let tools = [tool("flock_status"), tool("exec"), tool("triage_decision")];
        assert!(install(&home, &tools).unwrap());
        assert!(!install(&home, &tools).unwrap());
        let manifest = read(&home, "openclaw.plugin.json");
        assert_eq!(manifest["id"], folder(&home).file_name().unwrap().to_str().unwrap());
        let all = json!(["flock_status", "triage_decision", LIST_MCP_TOOLS, CALL_MCP_TOOL]);
        assert_eq!(manifest["contracts"]["tools"], all);
        let described = read(&home, "tools.json");
        assert_eq!(described[0]["name"], "flock_status");
        assert_eq!(described[0]["parameters"]["properties"]["text"]["type"], "string");
        for file in ["index.js", "tools.json", "openclaw.plugin.json"] {
            std::fs::write(folder(&home).join(file), "an older one").unwrap();
            assert!(install(&home, &tools).unwrap(), "{file}");
            assert!(!install(&home, &tools).unwrap(), "{file}");
        }
        assert_eq!(std::fs::read_to_string(folder(&home).join("index.js")).unwrap(), CODE);
    }

    #[test]
    fn each_openclaw_agent_is_offered_the_tools_of_its_role() {
        let (_dir, home) = home();
        let model = "script/demo".parse().unwrap();
        let mut document = crate::config::starter::document(&home, Some(&model), "t", 4321);
        for (id, role, runtime) in [
            ("boss", crate::config::Role::Orchestrator, RUNTIME),
            ("coder", crate::config::Role::Worker, RUNTIME),
            ("tester", crate::config::Role::Worker, "native"),
        ] {
            let mut agent = crate::config::agents::NewAgent::new(id.parse().unwrap(), role);
            agent.runtime = runtime.to_owned();
            crate::config::agents::add(&mut document, &home, &agent).unwrap();
        }
        crate::home::atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        let config = crate::config::Live::open(home.clone()).unwrap().current();
        let settings = settings(&home, &config);
        assert_eq!(settings["gateway"], "http://127.0.0.1:4321");
        assert_eq!(settings["tokenFile"], json!(home.secrets().join("openclaw-plugin")));
        let has = |agent: &str, tool: &str| {
            settings["tools"][agent].as_array().unwrap().iter().any(|name| name == tool)
        };
        assert!(has("boss", "flock_create_agent") && !has("coder", "flock_create_agent"));
        assert!(has("coder", "flock_channel_post") && !has("coder", "exec"));
        assert!(settings["tools"].get("tester").is_none());
    }
}

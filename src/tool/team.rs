//! The definitions of flock's own tools. They are here and not beside their functions in `swarm::tools`, because the
//! policy and OpenClaw's plugin, in lower layers, decide by them.

use serde_json::{Value, json};

use super::ToolDefinition;
use super::definition::{Effect, ToolGroup};
use super::policy::Roles;

// Descriptions are short here, because every request of every agent contains them.
const TEAM: ToolDefinition = ToolDefinition::TEAM;
const CHANNEL: ToolDefinition = ToolDefinition { group: ToolGroup::Channels, ..TEAM };
const VAULT: ToolDefinition = ToolDefinition { group: ToolGroup::Vaults, ..TEAM };

fn text() -> Value {
    json!({"type": "string"})
}

fn texts() -> Value {
    json!({"type": "array", "items": text()})
}

fn number() -> Value {
    json!({"type": "integer"})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

pub(crate) static CHANNEL_POST: ToolDefinition = ToolDefinition {
    name: "flock_channel_post",
    description: "Post to a channel. @id wakes a member at once; notify false wakes nobody.",
    properties: || json!({"channelId": text(), "message": text(), "notify": flag()}),
    required: &["channelId", "message"],
    effect: Effect::Adds,
    reaches_out: true,
    ..CHANNEL
};

pub(crate) static CHANNEL_READ: ToolDefinition = ToolDefinition {
    name: "flock_channel_read",
    description: "Read a channel: the newest messages, those after or before a number, or those with all words of query. offset continues a long message.",
    properties: || {
        json!({
            "channelId": text(), "after": number(), "before": number(), "limit": number(), "query": text(),
            "offset": number()
        })
    },
    required: &["channelId"],
    effect: Effect::Reads,
    parallel: true,
    ..CHANNEL
};

pub(crate) static CHANNEL_LIST: ToolDefinition = ToolDefinition {
    name: "flock_channel_list",
    description: "List channels with state, size and topic.",
    properties: || json!({"member": text(), "archived": flag()}),
    effect: Effect::Reads,
    parallel: true,
    ..CHANNEL
};

pub(crate) static ARCHIVE_READY: ToolDefinition = ToolDefinition {
    name: "flock_archive_ready",
    description: "Report that you are ready for a channel's archiving.",
    properties: || json!({"channelId": text()}),
    required: &["channelId"],
    effect: Effect::Sets,
    ..CHANNEL
};

pub(crate) static CHANNEL_CREATE: ToolDefinition = ToolDefinition {
    name: "flock_channel_create",
    description: "Create a channel. members: agent ids or human:name; you are a member only if named.",
    properties: || json!({"channelId": text(), "topic": text(), "members": texts(), "message": text()}),
    required: &["channelId", "topic", "members"],
    roles: Some(Roles::Orchestrator),
    changes: true,
    effect: Effect::Adds,
    ..CHANNEL
};

pub(crate) static ASSIGN_MEMBERS: ToolDefinition = ToolDefinition {
    name: "flock_assign_members",
    description: "Add or remove members of a channel.",
    properties: || json!({"channelId": text(), "add": texts(), "remove": texts()}),
    required: &["channelId"],
    roles: Some(Roles::Orchestrator),
    changes: true,
    effect: Effect::Replaces,
    ..CHANNEL
};

pub(crate) static CHANNEL_ARCHIVE: ToolDefinition = ToolDefinition {
    name: "flock_channel_archive",
    description: "Archive a channel. action: begin (default, asks its agents to get ready), force, cancel, reopen.",
    properties: || json!({"channelId": text(), "action": text(), "force": flag()}),
    required: &["channelId"],
    roles: Some(Roles::Orchestrator),
    changes: true,
    effect: Effect::Replaces,
    ..CHANNEL
};

pub static STATUS: ToolDefinition = ToolDefinition {
    name: "flock_status",
    description: "Show the state of all agents or one.",
    properties: || json!({"agentId": text()}),
    effect: Effect::Reads,
    parallel: true,
    ..TEAM
};

pub(crate) static SLEEP: ToolDefinition = ToolDefinition {
    name: "flock_sleep",
    description: "Sleep until somebody calls you; plain messages wait longer.",
    properties: || json!({"reason": text()}),
    effect: Effect::Sets,
    ..TEAM
};

pub(crate) static MESSAGE: ToolDefinition = ToolDefinition {
    name: "flock_message",
    description: "Send another agent a message; the answer comes to this session later. With project, it is done only \
                  when its work is merged there.",
    properties: || json!({"to": text(), "message": text(), "contextData": {"type": "object"}, "project": text()}),
    required: &["to", "message"],
    effect: Effect::Adds,
    ..TEAM
};

pub(crate) static TASKS: ToolDefinition = ToolDefinition {
    name: "flock_tasks",
    description: "List tasks you sent or received, with state and answer.",
    properties: || {
        json!({
            "direction": {"type": "string", "enum": ["sent", "received", "all"]},
            "state": text(), "limit": number()
        })
    },
    effect: Effect::Reads,
    parallel: true,
    ..TEAM
};

pub(crate) static TASK_RESPOND: ToolDefinition = ToolDefinition {
    name: "flock_task_respond",
    description: "Ask a task's sender a question before you go on, or answer one in a task you sent.",
    properties: || json!({"taskId": text(), "response": text()}),
    required: &["taskId", "response"],
    effect: Effect::Adds,
    ..TEAM
};

pub static HISTORY: ToolDefinition = ToolDefinition {
    name: "flock_history",
    description: "List the team's tasks; since is in Unix ms.",
    properties: || json!({"agentId": text(), "state": text(), "since": number(), "limit": number()}),
    effect: Effect::Reads,
    parallel: true,
    ..TEAM
};

pub(crate) static DISCOVER: ToolDefinition = ToolDefinition {
    name: "flock_discover",
    description: "Find agents by words, role or skill. Returns skills and task counts.",
    properties: || {
        json!({
            "query": text(),
            "role": {"type": "string", "enum": ["orchestrator", "sysadmin", "worker"]},
            "skill": text(),
            "limit": number()
        })
    },
    effect: Effect::Reads,
    parallel: true,
    ..TEAM
};

pub(crate) static UPDATE_CARD: ToolDefinition = ToolDefinition {
    name: "flock_update_card",
    description: "Describe your purpose and skills. skills replaces all: [{id, name, description?, tags?, examples?}].",
    properties: || json!({"name": text(), "description": text(), "skills": {"type": "array", "items": {"type": "object"}}}),
    effect: Effect::Replaces,
    ..TEAM
};

pub(crate) static AUDIT: ToolDefinition = ToolDefinition {
    name: "flock_audit",
    description: "Read who did what, newest first; level: GREEN, YELLOW or RED.",
    properties: || json!({"agentId": text(), "level": text(), "limit": number()}),
    roles: Some(Roles::Sysadmin),
    effect: Effect::Reads,
    parallel: true,
    ..TEAM
};

pub(crate) static WORKSPACE_LIST: ToolDefinition = ToolDefinition {
    name: "flock_workspace_list",
    description: "List vaults (shared notes), or a vault's files.",
    properties: || json!({"workspace": text()}),
    effect: Effect::Reads,
    parallel: true,
    ..VAULT
};

pub(crate) static WORKSPACE_READ: ToolDefinition = ToolDefinition {
    name: "flock_workspace_read",
    description: "Read a text file of a vault; offset and limit count lines.",
    properties: || json!({"workspace": text(), "path": text(), "offset": number(), "limit": number()}),
    required: &["workspace", "path"],
    effect: Effect::Reads,
    parallel: true,
    ..VAULT
};

pub(crate) static WORKSPACE_WRITE: ToolDefinition = ToolDefinition {
    name: "flock_workspace_write",
    description: "Write a text file of a vault, or append to it.",
    properties: || json!({"workspace": text(), "path": text(), "content": text(), "append": flag()}),
    required: &["workspace", "path", "content"],
    changes: true,
    ..VAULT
};

pub(crate) static WORKSPACE_TREE: ToolDefinition = ToolDefinition {
    name: "flock_workspace_tree",
    description: "Show a vault's folders and files.",
    properties: || json!({"workspace": text(), "maxDepth": number()}),
    required: &["workspace"],
    effect: Effect::Reads,
    parallel: true,
    ..VAULT
};

pub(crate) static READ_SKILL: ToolDefinition = ToolDefinition {
    name: "flock_read_skill",
    aliases: &["read_skill"],
    description: "Read a skill.",
    properties: || json!({"name": text(), "arguments": text(), "offset": number()}),
    required: &["name"],
    effect: Effect::Reads,
    parallel: true,
    ..VAULT
};

pub(crate) static MEMORY_SEARCH: ToolDefinition = ToolDefinition {
    name: "flock_memory_search",
    description: "Search memory, findings, sessions, vaults, channels (in: some).",
    properties: || json!({"query": text(), "in": texts(), "limit": number()}),
    required: &["query"],
    effect: Effect::Reads,
    parallel: true,
    ..TEAM
};

/// A call may run in parallel although it changes something, because it waits long for others.
pub(crate) static SCHEDULE: ToolDefinition = ToolDefinition {
    name: "flock_schedule",
    description: "Schedules: list, remove (name), request (text; when: cron, 2h, time; to: channel).",
    properties: || json!({"action": text(), "name": text(), "to": text(), "text": text(), "when": text()}),
    roles: Some(Roles::All),
    changes: true,
    ..TEAM
};

pub(crate) static SYSADMIN_REQUEST: ToolDefinition = ToolDefinition {
    name: "flock_sysadmin_request",
    description: "Request what you may not do yourself: package (name in nixpkgs; action install or remove), egress (host, \
                  port), mount (host path, read-only), command (on the host) or other (request: text). Returns the \
                  result, or who decides.",
    properties: || {
        json!({
            "kind": {"enum": ["package", "egress", "mount", "command", "other"]},
            "reason": text(), "package": text(), "action": text(), "host": text(), "port": number(), "path": text(),
            "target": text(), "command": text(), "timeout": number(), "request": text(), "urgency": text()
        })
    },
    required: &["kind", "reason"],
    roles: Some(Roles::NotSysadmin),
    reaches_out: true,
    parallel: true,
    ..TEAM
};

pub(crate) static TRIAGE_DECISION: ToolDefinition = ToolDefinition {
    name: "triage_decision",
    description: "Confirm or raise the level of a request that has not begun. YELLOW carries out one that waits for you. \
                  revoke refuses that one, or takes back what was done without a person.",
    properties: || {
        json!({
            "request_id": text(), "level": {"enum": ["GREEN", "YELLOW", "RED"]}, "reasoning": text(),
            "revoke": flag(), "action_plan": text(), "risk_factors": texts()
        })
    },
    required: &["request_id", "level", "reasoning"],
    roles: Some(Roles::Sysadmin),
    reaches_out: true,
    ..TEAM
};

pub(crate) static RESTART_GATEWAY: ToolDefinition = ToolDefinition {
    name: "flock_restart_gateway",
    description: "Restart the gateway after this turn has ended.",
    properties: || json!({"reason": text()}),
    required: &["reason"],
    roles: Some(Roles::Sysadmin),
    changes: true,
    ..TEAM
};

pub(crate) static CREATE_AGENT: ToolDefinition = ToolDefinition {
    name: "flock_create_agent",
    description: "Create a worker, if a person asked for one.",
    properties: || json!({"newAgentId": text(), "archetype": text(), "model": text(), "reason": text()}),
    required: &["newAgentId", "reason"],
    roles: Some(Roles::Orchestrator),
    changes: true,
    effect: Effect::Adds,
    ..TEAM
};

pub(crate) static DECOMMISSION_AGENT: ToolDefinition = ToolDefinition {
    name: "flock_decommission_agent",
    description: "Request the removal of an agent; a person must approve it.",
    properties: || json!({"targetAgentId": text(), "reason": text()}),
    required: &["targetAgentId", "reason"],
    roles: Some(Roles::Orchestrator),
    changes: true,
    ..TEAM
};

pub(crate) static BRIDGE: ToolDefinition = ToolDefinition {
    name: "flock_bridge",
    description: "Links of channels with other platforms. create asks to link channelId with external, a channel of a bridge; \
                  allow: accounts to be heard. remove, pause and resume end or stop a link.",
    properties: || {
        json!({
            "action": {"enum": ["create", "remove", "list", "pause", "resume"]}, "bridge": text(), "external": text(),
            "channelId": text(), "allow": texts(), "reason": text()
        })
    },
    required: &["action"],
    roles: Some(Roles::Orchestrator),
    changes: true,
    reaches_out: true,
    ..CHANNEL
};

pub(crate) static PROJECT_STATUS: ToolDefinition = ToolDefinition {
    name: "flock_project_status",
    description: "Show a git project you work on: your clone, checks, branches, submissions, who claims what.",
    properties: || json!({"project": text()}),
    effect: Effect::Reads,
    parallel: true,
    ..TEAM
};

pub(crate) static PROJECT_SUBMIT: ToolDefinition = ToolDefinition {
    name: "flock_project_submit",
    description: "Submit a pushed branch (default flock/YOU/work): flock joins it with the tip, runs the checks and tells you. \
                  taskId: default the task of this session. answers: {finding number: text} after a review.",
    properties: || {
        json!({
            "project": text(), "branch": text(), "title": text(), "taskId": text(), "answers": {"type": ["object", "string"]}
        })
    },
    required: &["title"],
    changes: true,
    effect: Effect::Adds,
    ..TEAM
};

pub(crate) static PROJECT_CLAIM: ToolDefinition = ToolDefinition {
    name: "flock_project_claim",
    description: "Tell others which paths of a project you work on. release ends it.",
    properties: || json!({"project": text(), "paths": texts(), "minutes": number(), "release": flag()}),
    changes: true,
    effect: Effect::Replaces,
    ..TEAM
};

pub(crate) static PROJECT_REVIEW: ToolDefinition = ToolDefinition {
    name: "flock_project_review",
    description: "Review a submission you were asked about (default: that of this session). findings: [{text, path?, line?, blocking?}].",
    properties: || json!({"submission": number(), "approve": flag(), "findings": {"type": "array", "items": {"type": "object"}}}),
    required: &["approve"],
    changes: true,
    effect: Effect::Adds,
    ..TEAM
};

/// The tools of agents that work on a project.
pub(crate) static PROJECT_TOOLS: [&ToolDefinition; 4] =
    [&PROJECT_STATUS, &PROJECT_SUBMIT, &PROJECT_CLAIM, &PROJECT_REVIEW];

//! The agent program Claude Code.

mod events;

use std::path::Path;

use serde_json::json;

use super::environment::{self, MCP_TOKEN, SERVER};
use super::executable;
use super::interface::{
    ConversationStart, Invocation, Parser, Program, ProgramFacts, ProgramFiles, RequiredOptions, RunLocation,
    TurnSpec, relay_path,
};
use crate::config::{Api, Effort};
use crate::provider::anthropic;
use crate::tool::policy::DisabledTools;

pub struct Claude;

/// The program's own tools that are offered beside flock's: those that work in the folder. Sub-agents, schedules and
/// web access are not offered, because nobody would see what they do.
const COMMAND_TOOLS: [&str; 1] = ["Bash"];
const WRITE_TOOLS: [&str; 3] = ["Edit", "NotebookEdit", "Write"];
const READ_TOOLS: [&str; 3] = ["Glob", "Grep", "Read"];
/// Its to-do notes. They affect nothing else, so no policy applies to them.
const NOTE_TOOLS: [&str; 5] = ["TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];

/// Settings that keep it from using the network beyond its model, from asking a person, and from reading files that
/// others have put into the working folder.
const SWITCHES: [(&str, &str); 14] = [
    ("CLAUDE_CODE_MAX_RETRIES", "2"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_UPDATES", "1"),
    ("CLAUDE_CODE_DISABLE_CLAUDE_MDS", "1"),
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
    ("CLAUDE_CODE_DISABLE_FILE_MENTIONS", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    ("CLAUDE_CODE_DISABLE_CRON", "1"),
    ("CLAUDE_CODE_DISABLE_WORKFLOWS", "1"),
    ("CLAUDE_CODE_DISABLE_TERMINAL_TITLE", "1"),
    // Otherwise flock's tools would be hidden behind a search.
    ("ENABLE_TOOL_SEARCH", "false"),
];

/// The variable with the folder of its settings, login and conversations.
const CONFIG_DIR_VARIABLE: &str = "CLAUDE_CONFIG_DIR";

/// The entries of its folder that it needs to continue a conversation. Everything else is removed, because the agent
/// may have written it and it steers the program or may do so in a later version: settings, instructions, logins, and
/// `.claude.json`, which sets its environment.
const RETAINED_PATHS: [&str; 7] =
    ["file-history", "projects", "session-env", "sessions", "shell-snapshots", "tasks", "todos"];

/// Smallest context window, in tokens, that it accepts for a model that it knows by name.
const MIN_CONTEXT_WINDOW: u64 = 100_000;
/// Smallest thinking budget in tokens. It counts as a part of the answer.
const MIN_THINKING_BUDGET: u64 = 1_024;

impl Program for Claude {
    fn facts(&self) -> ProgramFacts<'static> {
        ProgramFacts {
            name: "claude",
            title: "Claude Code",
            command: "claude",
            package: "@anthropic-ai/claude-code",
            oldest: "2.1.330",
            options: RequiredOptions {
                help: &["--help"],
                names: &[
                    "--print",
                    "--output-format",
                    "--verbose",
                    "--include-partial-messages",
                    "--dangerously-skip-permissions",
                    "--disable-slash-commands",
                    "--no-chrome",
                    "--setting-sources",
                    "--tools",
                    "--model",
                    "--effort",
                    "--strict-mcp-config",
                    "--mcp-config",
                    "--system-prompt-snapshot",
                    "--session-id",
                    "--resume",
                ],
            },
            takes_names: true,
            renews_prompt: true,
            // 384 MiB: below this it is killed when it runs a command.
            least_memory: 384 << 20,
            withholds: true,
            places: &[".local/bin", ".claude/local"],
            variables: &[CONFIG_DIR_VARIABLE],
            logins: &[".claude", ".claude.json"],
            headers: &["x-app", "x-claude-code-"],
            call_id: Some("claudecode/toolUseId"),
            ..ProgramFacts::default()
        }
    }

    fn speaks(&self, api: Api) -> bool {
        api == Api::AnthropicMessages
    }

    fn parts(&self, command: &Path) -> Result<ProgramFiles, String> {
        let package = format!("claude-code-linux-{}/claude", executable::npm_arch());
        let places = [
            "bin/claude.exe".to_owned(),
            format!("node_modules/@anthropic-ai/{package}"),
            format!("@anthropic-ai/{package}"),
            package,
        ];
        let file = executable::native(command, &places)?;
        Ok(executable::single(self.name(), &file))
    }

    fn refuses_host(&self, is_root: bool) -> Option<&'static str> {
        // As root it refuses to skip its permission questions.
        is_root.then_some("as root it asks a person about each step, and nobody is there to answer")
    }

    fn invocation(&self, turn: &TurnSpec<'_>) -> Result<Invocation, String> {
        let mut run = Invocation { input: environment::prompt(turn), ..Invocation::default() };
        let tools = tools(turn.withheld);
        let mut arguments: Vec<&str> = vec![
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--include-partial-messages",
            "--dangerously-skip-permissions",
            "--disable-slash-commands",
            "--no-chrome",
            "--setting-sources",
            "",
            "--tools",
            &tools,
        ];
        if !turn.model.is_empty() {
            arguments.extend(["--model", turn.model]);
        }
        if let Some(effort) = turn.effort.filter(|effort| *effort != Effort::Off) {
            arguments.extend(["--effort", effort.as_str()]);
        }
        // One server, by HTTP. `--strict-mcp-config` excludes all others.
        let config = json!({"mcpServers": {SERVER: {
            "type": "http",
            "url": format!("{}/mcp", turn.origin),
            // The program puts the variable's value here, so the token itself is in no file.
            "headers": {"Authorization": format!("Bearer ${{{MCP_TOKEN}}}")},
            "timeout": environment::program_timeout_ms(),
        }}});
        let mcp = environment::file(&mut run, turn, "mcp.json", config.to_string());
        arguments.extend(["--strict-mcp-config", "--mcp-config", &mcp]);
        let system;
        if !turn.system.is_empty() {
            system = environment::file(&mut run, turn, "system.md", turn.system.to_owned());
            // Otherwise a resumed conversation keeps the system prompt with which it began.
            arguments.extend(["--append-system-prompt-file", &system, "--system-prompt-snapshot", "off"]);
        }
        let name;
        match turn.conversation {
            ConversationStart::New(id) => {
                name = id.to_string();
                arguments.extend(["--session-id", &name]);
            }
            ConversationStart::Resumed(id) => arguments.extend(["--resume", id]),
        }
        run.arguments = arguments.into_iter().map(str::to_owned).collect();

        run.environment = environment::environment(&SWITCHES);
        let mut set = |name: &str, value: &str| run.environment.push((name.to_owned(), value.to_owned()));
        set(MCP_TOKEN, turn.mcp_token);
        match turn.effort {
            Some(Effort::Off) => set("CLAUDE_CODE_DISABLE_THINKING", "1"),
            // The program ignores the effort for models without effort levels, and lets those think for the whole
            // length of an answer.
            Some(effort) => {
                if let Some(budget) = anthropic::thinking_budget(turn.model, effort, turn.max_tokens) {
                    set("MAX_THINKING_TOKENS", &budget.to_string());
                }
            }
            None => {}
        }
        if let Some(token) = turn.relay_token {
            set("ANTHROPIC_BASE_URL", &format!("{}{}", turn.origin, relay_path(Api::AnthropicMessages)));
            set("ANTHROPIC_API_KEY", token);
            set_limits(turn, &mut set);
        }
        if turn.place == RunLocation::Sandbox {
            // Otherwise it refuses to skip its permission questions as root. In a sandbox that is safe.
            set("IS_SANDBOX", "1");
        }
        // Without a folder of flock's it uses its user's, with the login there.
        if let Some(state) = turn.state {
            set(CONFIG_DIR_VARIABLE, state);
            run.kept = Some(&RETAINED_PATHS);
        }
        Ok(run)
    }

    fn parser(&self, conversation: ConversationStart<'_>) -> Box<dyn Parser> {
        Box::new(events::ClaudeParser::new(matches!(conversation, ConversationStart::Resumed(_))))
    }
}

/// Returns the tools that it may use. It refuses all others even if its model calls them.
fn tools(withheld: DisabledTools) -> String {
    let kinds: [(&[&str], bool); 4] = [
        (&COMMAND_TOOLS, withheld.commands),
        (&WRITE_TOOLS, withheld.writing),
        (&READ_TOOLS, withheld.reading),
        (&NOTE_TOOLS, false),
    ];
    let offered = kinds.iter().filter(|(_, is_withheld)| !is_withheld);
    offered.flat_map(|(names, _)| names.iter().copied()).collect::<Vec<_>>().join(",")
}

/// Sets the size of the context and of the answer. For a model that it does not know by name it would assume a million
/// tokens.
fn set_limits(turn: &TurnSpec<'_>, set: &mut impl FnMut(&str, &str)) {
    set("CLAUDE_CODE_MAX_OUTPUT_TOKENS", &turn.max_tokens.to_string());
    // The first variable applies to unknown models. The second applies to known ones, if it is smaller than their own
    // window.
    set("CLAUDE_CODE_MAX_CONTEXT_TOKENS", &turn.context_window.to_string());
    set("CLAUDE_CODE_AUTO_COMPACT_WINDOW", &turn.context_window.max(MIN_CONTEXT_WINDOW).to_string());
    // An answer this short has no room for the smallest thinking budget.
    if turn.max_tokens <= MIN_THINKING_BUDGET && turn.effort != Some(Effort::Off) {
        set("CLAUDE_CODE_DISABLE_THINKING", "1");
    }
}

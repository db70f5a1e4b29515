//! Claude Code.

mod events;

use std::path::Path;

use serde_json::json;

use super::handed::{self, MCP_TOKEN, SERVER};
use super::native;
use super::program::{
    Conversation, Habits, Invocation, Options, Parser, Parts, Place, Program, Turn, relay_path,
};
use crate::config::{Api, Effort};
use crate::provider::anthropic;
use crate::sandbox::policy::Withheld;

/// Claude Code.
pub struct Claude;

/// The tools that are offered beside flock's: those that work in the folder. Sub-agents, schedules and what goes into
/// the web are not among them: nobody would see what they do.
const COMMANDS: [&str; 1] = ["Bash"];
const WRITING: [&str; 3] = ["Edit", "NotebookEdit", "Write"];
const READING: [&str; 3] = ["Glob", "Grep", "Read"];
/// Its notes of what is to be done, which reach nothing: no policy is about them.
const NOTES: [&str; 5] = ["TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];

/// What keeps it from the network beside its model, from asking for a person, and from what others have put into the
/// working folder.
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
    // Flock's tools would be hidden behind a search else.
    ("ENABLE_TOOL_SEARCH", "false"),
];

/// The variable with the folder of its settings, its login and its conversations.
const FOLDER: &str = "CLAUDE_CONFIG_DIR";

/// What in its folder it goes on with. All else there steers it or may some day, had the agent put it there: settings and
/// instructions, logins, and `.claude.json`, which sets its environment.
const KEPT: [&str; 7] =
    ["file-history", "projects", "session-env", "sessions", "shell-snapshots", "tasks", "todos"];

/// Tokens below which it takes no window for its conversation, of a model whose name it knows.
const LEAST_WINDOW: u64 = 100_000;
/// The fewest tokens that a model can be let think in; they count among those of its answer.
const LEAST_THINKING: u64 = 1_024;

impl Program for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn title(&self) -> &'static str {
        "Claude Code"
    }

    fn command(&self) -> &'static str {
        "claude"
    }

    fn package(&self) -> &'static str {
        "@anthropic-ai/claude-code"
    }

    fn oldest(&self) -> &'static str {
        "2.1.330"
    }

    fn options(&self) -> Options {
        Options {
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
        }
    }

    fn speaks(&self, api: Api) -> bool {
        api == Api::AnthropicMessages
    }

    fn parts(&self, command: &Path) -> Result<Parts, String> {
        let package = format!("claude-code-linux-{}/claude", native::npm_arch());
        let places = [
            "bin/claude.exe".to_owned(),
            format!("node_modules/@anthropic-ai/{package}"),
            format!("@anthropic-ai/{package}"),
            package,
        ];
        let file = native::native(command, &places)?;
        Ok(native::single(self.name(), &file))
    }

    fn habits(&self) -> Habits {
        Habits { takes_names: true, renews_prompt: true, least_memory: 384 << 20 }
    }

    fn withholds(&self) -> bool {
        true
    }

    fn refuses_host(&self, is_root: bool) -> Option<&'static str> {
        is_root.then_some("as root it asks a person about each step, and nobody is there to answer")
    }

    fn invocation(&self, turn: &Turn<'_>) -> Result<Invocation, String> {
        let mut run = Invocation { input: handed::prompt(turn), ..Invocation::default() };
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
        // A server by HTTP, and no other than this one.
        let config = json!({"mcpServers": {SERVER: {
            "type": "http",
            "url": format!("{}/mcp", turn.origin),
            "headers": {"Authorization": format!("Bearer ${{{MCP_TOKEN}}}")},
            "timeout": handed::patience_ms(),
        }}});
        let mcp = handed::file(&mut run, turn, "mcp.json", config.to_string());
        arguments.extend(["--strict-mcp-config", "--mcp-config", &mcp]);
        let system;
        if !turn.system.is_empty() {
            system = handed::file(&mut run, turn, "system.md", turn.system.to_owned());
            // A resumed conversation would go on with the text that it began with.
            arguments.extend(["--append-system-prompt-file", &system, "--system-prompt-snapshot", "off"]);
        }
        let name;
        match turn.conversation {
            Conversation::New(id) => {
                name = id.to_string();
                arguments.extend(["--session-id", &name]);
            }
            Conversation::Resumed(id) => arguments.extend(["--resume", id]),
        }
        run.arguments = arguments.into_iter().map(str::to_owned).collect();

        run.environment = handed::environment(&SWITCHES);
        let mut set = |name: &str, value: &str| run.environment.push((name.to_owned(), value.to_owned()));
        set(MCP_TOKEN, turn.mcp_token);
        match turn.effort {
            Some(Effort::Off) => set("CLAUDE_CODE_DISABLE_THINKING", "1"),
            // It passes the word over where the model knows none, and has that think with all that an answer may be long.
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
            limits(turn, &mut set);
        }
        if turn.place == Place::Sandbox {
            // Else it refuses to run as root without questions, which it may do there.
            set("IS_SANDBOX", "1");
        }
        if let Some(state) = turn.state {
            set(FOLDER, state);
            run.kept = Some(&KEPT);
        }
        Ok(run)
    }

    fn parser(&self, conversation: Conversation<'_>) -> Box<dyn Parser> {
        Box::new(events::Events::new(matches!(conversation, Conversation::Resumed(_))))
    }

    fn places(&self) -> &'static [&'static str] {
        &[".local/bin", ".claude/local"]
    }

    fn variables(&self) -> &'static [&'static str] {
        &[FOLDER]
    }

    fn logins(&self) -> &'static [&'static str] {
        &[".claude", ".claude.json"]
    }

    fn headers(&self) -> &'static [&'static str] {
        &["x-app", "x-claude-code-"]
    }

    fn call_id(&self) -> Option<&'static str> {
        Some("claudecode/toolUseId")
    }
}

/// The tools that it has, others not even when its model calls them.
fn tools(withheld: Withheld) -> String {
    let kinds: [(&[&str], bool); 4] = [
        (&COMMANDS, withheld.commands),
        (&WRITING, withheld.writing),
        (&READING, withheld.reading),
        (&NOTES, false),
    ];
    let offered = kinds.iter().filter(|(_, is_withheld)| !is_withheld);
    offered.flat_map(|(names, _)| names.iter().copied()).collect::<Vec<_>>().join(",")
}

/// What the model takes and gives: of one that it does not know by its name it would believe a million tokens.
fn limits(turn: &Turn<'_>, set: &mut impl FnMut(&str, &str)) {
    set("CLAUDE_CODE_MAX_OUTPUT_TOKENS", &turn.max_tokens.to_string());
    // Of a model that it does not know it takes this window; of one that it knows the other, where that is less.
    set("CLAUDE_CODE_MAX_CONTEXT_TOKENS", &turn.context_window.to_string());
    set("CLAUDE_CODE_AUTO_COMPACT_WINDOW", &turn.context_window.max(LEAST_WINDOW).to_string());
    if turn.max_tokens <= LEAST_THINKING && turn.effort != Some(Effort::Off) {
        set("CLAUDE_CODE_DISABLE_THINKING", "1");
    }
}

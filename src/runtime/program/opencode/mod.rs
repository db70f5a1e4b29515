//! The agent program OpenCode.

mod events;
mod settings;

use std::path::Path;

use super::environment::{self, MCP_TOKEN, RELAY_KEY, SERVER};
use super::executable;
use super::interface::{
    ConversationStart, Invocation, Parser, Program, ProgramFacts, ProgramFiles, RequiredOptions, TurnSpec,
};
use crate::config::{Api, Effort};

pub struct OpenCode;

/// Settings that keep it from using the network beyond its model, and from reading files that others have put into the
/// working folder.
const SWITCHES: [(&str, &str); 8] = [
    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
    ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
    ("OPENCODE_DISABLE_PROJECT_CONFIG", "1"),
    ("OPENCODE_DISABLE_CLAUDE_CODE", "1"),
    ("OPENCODE_DISABLE_EXTERNAL_SKILLS", "1"),
    ("OPENCODE_DISABLE_SHARE", "1"),
    ("OPENCODE_DISABLE_TERMINAL_TITLE", "1"),
];

/// Entries of its folder that could change how it works. They are removed, because the agent may have written them.
const REMOVED_PATHS: [&str; 9] = [
    ".agents",
    ".claude",
    ".opencode",
    "cache/opencode/skills",
    "config",
    "data/opencode/auth.json",
    "data/opencode/mcp-auth.json",
    "state/opencode/model.json",
    "state/opencode/plugin-meta.json",
];

impl Program for OpenCode {
    fn facts(&self) -> ProgramFacts<'static> {
        ProgramFacts {
            name: "opencode",
            title: "OpenCode",
            command: "opencode",
            package: "opencode-ai",
            oldest: "1.18.33",
            options: RequiredOptions {
                help: &["run", "--help"],
                names: &[
                    "--format",
                    "--thinking",
                    "--auto",
                    "--title",
                    "--model",
                    "--session",
                    "--variant",
                    "--print-logs",
                    "--log-level",
                ],
            },
            takes_names: false,
            renews_prompt: true,
            // 1 GiB: below this it is killed when it runs a command.
            least_memory: 1 << 30,
            withholds: true,
            places: &[".opencode/bin"],
            logins: &[".local/share/opencode"],
            headers: &["x-session-affinity", "x-session-id"],
            ..ProgramFacts::default()
        }
    }

    fn speaks(&self, api: Api) -> bool {
        settings::sdk_package(api).is_some()
    }

    fn parts(&self, command: &Path) -> Result<ProgramFiles, String> {
        let package = format!("opencode-linux-{}", executable::npm_arch());
        let places = [
            "bin/opencode.exe".to_owned(),
            format!("node_modules/{package}/bin/opencode"),
            format!("{package}/bin/opencode"),
            // The baseline build is for older processors.
            format!("node_modules/{package}-baseline/bin/opencode"),
            format!("{package}-baseline/bin/opencode"),
        ];
        let file = executable::native(command, &places)?;
        Ok(executable::single(self.name(), &file))
    }

    fn invocation(&self, turn: &TurnSpec<'_>) -> Result<Invocation, String> {
        let mut run = Invocation { input: environment::prompt(turn), ..Invocation::default() };
        run.environment = environment::environment(&SWITCHES);
        if let Some(state) = turn.state {
            for (name, folder) in [
                ("XDG_DATA_HOME", "data"),
                ("XDG_CONFIG_HOME", "config"),
                ("XDG_STATE_HOME", "state"),
                ("XDG_CACHE_HOME", "cache"),
            ] {
                run.environment.push((name.to_owned(), format!("{state}/{folder}")));
            }
            run.state = environment::absent(&REMOVED_PATHS).collect();
            if turn.withheld.commands {
                // It searches with programs that are there. An agent that once could run commands may have replaced
                // them.
                run.state.extend(environment::absent(&["cache/opencode/bin"]));
            }
        } else {
            // The user's settings and AGENTS.md would be found in the usual place. The login is in another folder.
            run.environment.push(("XDG_CONFIG_HOME".to_owned(), format!("{}/config", turn.files)));
        }
        // The path of this file is a part of the prompt, so it must not change between turns.
        let system = (!turn.system.is_empty())
            .then(|| environment::file(&mut run, turn, "system.md", turn.system.to_owned()));

        let (config, model) = settings::of(turn, system.as_deref())?;
        let mut arguments = vec!["run", "--format", "json", "--thinking", "--auto", "--title", SERVER];
        // Its events do not say that a model's server refuses, for as long as it asks again by itself.
        arguments.extend(["--print-logs", "--log-level", "ERROR"]);
        if !turn.model.is_empty() {
            arguments.extend(["-m", &model]);
        }
        // It has no variant for no thinking. The model's settings below turn it off.
        if let Some(effort) = turn.effort.filter(|effort| *effort != Effort::Off) {
            arguments.extend(["--variant", effort.as_str()]);
        }
        if let ConversationStart::Resumed(id) = turn.conversation {
            arguments.extend(["-s", id]);
        }
        run.arguments = arguments.into_iter().map(str::to_owned).collect();

        let mut set = |name: &str, value: String| run.environment.push((name.to_owned(), value));
        set("OPENCODE_CONFIG_CONTENT", config.to_string());
        set(MCP_TOKEN, turn.mcp_token.to_owned());
        if let Some(token) = turn.relay_token {
            set(RELAY_KEY, token.to_owned());
            // Otherwise it would download the list of models, which its settings already contain.
            set("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned());
        }
        Ok(run)
    }

    fn parser(&self, conversation: ConversationStart<'_>) -> Box<dyn Parser> {
        Box::new(events::OpenCodeParser::new(matches!(conversation, ConversationStart::Resumed(_))))
    }
}

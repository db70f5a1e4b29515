//! The agent program Codex.

mod catalog;
mod events;
mod settings;

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use super::environment::{self, MCP_TOKEN, RELAY_KEY};
use super::executable;
use super::interface::{
    ConversationStart, Invocation, Parser, Program, ProgramFacts, ProgramFiles, ProgramProbe,
    RequiredOptions, StateFile, TurnSpec,
};
use crate::config::Api;

pub struct Codex;

/// Features besides its shell and its patches. They are turned off, because nobody would see what they do.
const DISABLED_FEATURES: [&str; 12] = [
    "apps",
    "plugins",
    "remote_plugin",
    "goals",
    "multi_agent",
    "image_generation",
    "hooks",
    "memories",
    "shell_snapshot",
    "api_key_model_discovery",
    "skill_mcp_dependency_install",
    "tool_suggest",
];

/// The variable with the folder of its settings, login and conversations.
const CONFIG_DIR_VARIABLE: &str = "CODEX_HOME";

/// Entries of its folder that could change how it works. They are removed, because the agent may have written them.
const REMOVED_PATHS: [&str; 16] = [
    ".agents",
    ".credentials.json",
    ".env",
    "AGENTS.md",
    "AGENTS.override.md",
    "auth.json",
    "hooks",
    "hooks.json",
    "instructions.md",
    "managed_config.toml",
    "memories",
    "plugins",
    "prompts",
    "requirements.toml",
    "rules",
    "skills",
];

/// Longest setting on a command line, in bytes. The kernel allows 128 KiB for one argument.
const MAX_SETTING: usize = 100 << 10;

impl Program for Codex {
    fn facts(&self) -> ProgramFacts<'static> {
        ProgramFacts {
            name: "codex",
            title: "Codex",
            command: "codex",
            package: "@openai/codex",
            oldest: "0.169.0",
            options: RequiredOptions {
                help: &["exec", "--help"],
                names: &[
                    "--json",
                    "--skip-git-repo-check",
                    "--dangerously-bypass-approvals-and-sandbox",
                    "--ignore-rules",
                    "--ignore-user-config",
                    "--model",
                    "--disable",
                    "--config",
                ],
            },
            takes_names: false,
            renews_prompt: false,
            // 128 MiB: below this it is killed when it runs a command.
            least_memory: 128 << 20,
            withholds: true,
            variables: &[CONFIG_DIR_VARIABLE],
            logins: &[".codex"],
            headers: &[
                "originator",
                "session-id",
                "session_id",
                "thread-id",
                "x-codex-",
                "x-openai-internal-codex-",
            ],
            call_id: Some("callId"),
            ..ProgramFacts::default()
        }
    }

    fn speaks(&self, api: Api) -> bool {
        api == Api::OpenAiResponses
    }

    fn parts(&self, command: &Path) -> Result<ProgramFiles, String> {
        // npm's command is a launcher that runs on Node. Next to the native program there are helper programs that it
        // starts.
        let vendor = format!("vendor/{}-unknown-linux-musl/bin/codex", std::env::consts::ARCH);
        let package = format!("codex-linux-{}/{vendor}", executable::npm_arch());
        let places =
            [format!("node_modules/@openai/{package}"), format!("@openai/{package}"), package, vendor];
        let file = executable::native(command, &places)?;
        // The whole folder is mounted if it holds helper programs.
        let folder = file.parent().filter(|bin| bin.ends_with("bin")).and_then(Path::parent);
        match folder.filter(|folder| folder.join("codex-resources").is_dir()) {
            Some(folder) => Ok(ProgramFiles {
                mounts: vec![(folder.to_owned(), "/opt/flock/codex/native".to_owned())],
                host: vec![file.display().to_string()],
                sandbox: vec!["/opt/flock/codex/native/bin/codex".to_owned()],
            }),
            None => Ok(executable::single(self.name(), &file)),
        }
    }

    fn probe(&self, turn: &TurnSpec<'_>) -> Option<ProgramProbe> {
        let words = ["debug", "models", "--bundled"];
        let arguments = words.into_iter().map(str::to_owned).collect();
        let home = turn.state.map(|state| (CONFIG_DIR_VARIABLE.to_owned(), state.to_owned()));
        let environment = home.into_iter().collect();
        // The folder is set here too, so that the question reads no settings of the user.
        let invocation = Invocation { arguments, environment, ..Invocation::default() };
        Some(ProgramProbe { invocation, file: None, take: catalog::taken })
    }

    fn invocation(&self, turn: &TurnSpec<'_>) -> Result<Invocation, String> {
        let mut run = Invocation { input: environment::prompt(turn), ..Invocation::default() };
        let models = turn.probe_answer.and_then(|all| catalog::of(all, turn));
        // Without the list nothing could turn the withheld tools off.
        if models.is_none() && turn.withheld.is_any() {
            return Err(
                "Codex can't be kept from its tools: the models that it knows are not known".to_owned()
            );
        }
        let catalog = models.as_ref().map(|models| {
            environment::file(&mut run, turn, "models.json", json!({"models": models}).to_string())
        });
        let settings = settings::of(turn, catalog.as_deref(), models.as_deref());

        let mut arguments = vec!["exec".to_owned()];
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
        if let ConversationStart::Resumed(_) = turn.conversation {
            add(&["resume"]);
        }
        add(&[
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "--ignore-rules",
        ]);
        if !turn.model.is_empty() {
            add(&["-m", turn.model]);
        }
        let withheld = [("shell_tool", turn.withheld.commands), ("view_image", turn.withheld.reading)];
        let withheld =
            withheld.into_iter().filter(|(_, is_withheld)| *is_withheld).map(|(feature, _)| feature);
        for feature in DISABLED_FEATURES.into_iter().chain(withheld) {
            add(&["--disable", feature]);
        }
        if let Some(state) = turn.state {
            // The settings go into a file, because every user can see a command line, and it has no room for a long
            // prompt.
            run.environment.push((CONFIG_DIR_VARIABLE.to_owned(), state.to_owned()));
            let config = settings.iter().fold(String::new(), |mut text, (name, value)| {
                let _ = writeln!(text, "{name} = {value}");
                text
            });
            run.state = environment::absent(&REMOVED_PATHS)
                .chain([StateFile { path: "config.toml".to_owned(), content: Some(config) }])
                .collect();
        } else {
            // The user's own settings are neither read nor written. Only their login is used.
            add(&["--ignore-user-config"]);
            for (name, value) in settings {
                if value.len() > MAX_SETTING {
                    return Err(format!(
                        "Codex can't be told {name} of {} bytes with its own login; shorten the agent's files, or \
                         give its model's provider in models.providers",
                        value.len()
                    ));
                }
                add(&["-c", &format!("{name}={value}")]);
            }
        }
        // The conversation's name and `-` for standard input are positional, so they come last.
        if let ConversationStart::Resumed(thread) = turn.conversation {
            add(&[thread]);
        }
        add(&["-"]);
        run.arguments = arguments;
        if let Some(token) = turn.relay_token {
            run.environment.push((RELAY_KEY.to_owned(), token.to_owned()));
        }
        run.environment.push((MCP_TOKEN.to_owned(), turn.mcp_token.to_owned()));
        Ok(run)
    }

    fn parser(&self, conversation: ConversationStart<'_>) -> Box<dyn Parser> {
        Box::new(events::CodexParser::new(matches!(conversation, ConversationStart::Resumed(_))))
    }
}

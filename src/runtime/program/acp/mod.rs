//! Any program that speaks the Agent Client Protocol: the runtime `acp:COMMAND`, as in `acp:qwen --acp`.
//!
//! flock knows nothing of such a program but its command. It is run only in sandboxes, is told where its model and
//! flock's tools are by the variables that such programs commonly read and by the protocol, and is answered by a
//! [`dialogue`] on its standard input.

mod command;
mod dialogue;
mod parts;
mod python;

use std::path::Path;

use super::environment;
use super::interface::{
    ConversationStart, Invocation, Parser, Program, ProgramFacts, ProgramFiles, TurnSpec, relay_path,
};
use crate::config::Api;

pub(crate) use command::{PREFIX, check};

/// Least memory of the programs that are known to work.
const LEAST_MEMORY: u64 = 1 << 30;

/// A program that a runtime's name describes. It may not exist.
pub(super) struct AcpProgram {
    /// The whole name, as in `acp:qwen --acp`.
    name: String,
    /// The name for people.
    title: String,
    command: String,
    /// The arguments of the command.
    arguments: Vec<String>,
    folder: String,
}

/// Returns the program that a runtime's name describes, or `None` if it describes none.
pub(super) fn named(name: &str) -> Option<AcpProgram> {
    let words = check(name).ok()?;
    let (command, arguments) = words.split_first()?;
    let short =
        Path::new(command).file_name().map_or(command.clone(), |name| name.to_string_lossy().into_owned());
    Some(AcpProgram {
        name: name.to_owned(),
        title: format!("{short} (by ACP)"),
        command: command.clone(),
        arguments: arguments.to_vec(),
        folder: command::folder(name),
    })
}

impl Program for AcpProgram {
    fn facts(&self) -> ProgramFacts<'_> {
        ProgramFacts {
            name: &self.name,
            title: &self.title,
            command: &self.command,
            least_memory: LEAST_MEMORY,
            converses: true,
            ..ProgramFacts::default()
        }
    }

    fn folder(&self) -> &str {
        &self.folder
    }

    fn speaks(&self, _: Api) -> bool {
        // What it speaks shows when it asks: the relay passes on only the model's own wire format.
        true
    }

    fn parts(&self, command: &Path) -> Result<ProgramFiles, String> {
        let mut files = parts::of(&self.folder, command)?;
        files.sandbox.extend(self.arguments.iter().cloned());
        files.host.extend(self.arguments.iter().cloned());
        Ok(files)
    }

    fn refuses_host(&self, _is_root: bool) -> Option<&'static str> {
        Some("a program that is only known by its protocol is run in sandboxes alone")
    }

    fn invocation(&self, turn: &TurnSpec<'_>) -> Result<Invocation, String> {
        let state = turn.state.ok_or("it needs a folder of its own")?;
        let mut environment = environment::environment(&[("NO_COLOR", "1"), ("TERM", "dumb"), ("CI", "1")]);
        let mut set = |name: &str, value: String| environment.push((name.to_owned(), value));
        set("HOME", state.to_owned());
        set("XDG_CONFIG_HOME", format!("{state}/.config"));
        set("XDG_DATA_HOME", format!("{state}/.local/share"));
        set("XDG_STATE_HOME", format!("{state}/.local/state"));
        set("XDG_CACHE_HOME", format!("{state}/.cache"));
        set("PATH", parts::search_path(&self.folder));
        let (api, token) = turn.api.zip(turn.relay_token).ok_or("it has no login of its own")?;
        let base = format!("{}{}", turn.origin, relay_path(api));
        for (name, value) in model_variables(api, &base, token, turn.model) {
            set(name, value);
        }
        Ok(Invocation { environment, input: dialogue::first_line(), ..Invocation::default() })
    }

    fn parser(&self, conversation: ConversationStart<'_>) -> Box<dyn Parser> {
        Box::new(dialogue::Dialogue::without_turn(&self.title, conversation))
    }

    fn parser_of(&self, turn: &TurnSpec<'_>) -> Box<dyn Parser> {
        Box::new(dialogue::Dialogue::new(&self.title, turn))
    }
}

/// Returns the variables in which programs commonly look for a model of this wire format.
fn model_variables(api: Api, base: &str, token: &str, model: &str) -> Vec<(&'static str, String)> {
    let names: [&[&str]; 3] = match api {
        Api::AnthropicMessages => [&["ANTHROPIC_BASE_URL"], &["ANTHROPIC_API_KEY"], &["ANTHROPIC_MODEL"]],
        Api::GoogleGenerativeAi => {
            [&["GOOGLE_GEMINI_BASE_URL"], &["GEMINI_API_KEY"], &["GEMINI_MODEL", "GOOGLE_MODEL"]]
        }
        _ => [&["OPENAI_BASE_URL", "OPENAI_API_BASE"], &["OPENAI_API_KEY"], &["OPENAI_MODEL"]],
    };
    let values = [base, token, model];
    let pairs = names.into_iter().zip(values);
    pairs.flat_map(|(names, value)| names.iter().map(move |name| (*name, value.to_owned()))).collect()
}

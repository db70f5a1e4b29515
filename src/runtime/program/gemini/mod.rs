//! The agent program Gemini CLI.

mod duplicate_results;
mod events;
mod login;
mod settings;

use std::path::Path;

use bytes::Bytes;
use serde_json::{Value, json};

use super::environment::{self, MCP_TOKEN};
use super::interface::{
    ConversationStart, HiddenEntry, Invocation, Login, Parser, Program, ProgramFacts, ProgramFiles,
    ProgramProbe, RequiredOptions, StateFile, TurnSpec, relay_path,
};
use super::{executable, node};
use crate::config::Api;

pub struct Gemini;

/// Settings that keep it from asking questions, from using the network beyond its model, and from starting itself a
/// second time.
const SWITCHES: [(&str, &str); 6] = [
    ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
    ("GEMINI_CLI_NO_RELAUNCH", "true"),
    ("GEMINI_TELEMETRY_ENABLED", "false"),
    ("NO_COLOR", "1"),
    // It prints a warning for terminals with fewer colours.
    ("TERM", "xterm-256color"),
    ("COLORTERM", "truecolor"),
];

/// Entries of its folder that it needs to continue, besides [`OWN_PROMPT`]. Everything else is removed, because the
/// agent may have written it and it steers the program or may do so in a later version.
const RETAINED_PATHS: [&str; 6] = [
    // The compiled code of the program. An agent that once could run commands may have changed it, so it is dropped
    // when commands are withheld.
    ".cache",
    ".gemini/history",
    ".gemini/installation_id",
    ".gemini/projects.json",
    ".gemini/tmp",
    OWN_PROMPT,
];

/// Number of an internal experiment flag. It sets how many seconds a model may take until it begins to answer. The
/// default is 60, no setting changes it, and some models think for longer.
const TIMEOUT_FLAG: u32 = 45_773_134;
/// Value of the flag: an hour. The relay and the time limit of the turn end requests that take too long.
const TIMEOUT_SECS: &str = "3600";

/// The file in its folder to which it writes its own system prompt.
const OWN_PROMPT: &str = "own-system.md";

/// The variable that names the folder above its own.
const HOME_VARIABLE: &str = "GEMINI_CLI_HOME";

/// Path of its settings in that folder.
const SETTINGS_PATH: &str = ".gemini/settings.json";

/// An address where nothing listens, for a request that is meant to fail.
const DEAD_ADDRESS: &str = "http://127.0.0.1:9";

impl Program for Gemini {
    fn facts(&self) -> ProgramFacts<'static> {
        ProgramFacts {
            name: "gemini",
            title: "Gemini CLI",
            command: "gemini",
            package: "@google/gemini-cli",
            oldest: "0.61.0",
            options: RequiredOptions {
                help: &["--help"],
                names: &[
                    "--output-format",
                    "--approval-mode",
                    "--model",
                    "--session-id",
                    "--prompt",
                    "--resume",
                ],
            },
            takes_names: true,
            renews_prompt: true,
            // 1 GiB: below this it is killed when it runs a command.
            least_memory: 1 << 30,
            withholds: true,
            covered: &[
                HiddenEntry { name: "GEMINI.md", is_folder: false },
                HiddenEntry { name: ".gemini", is_folder: true },
            ],
            // It has one folder for its login and its settings, including the list of MCP servers. It would prefer settings
            // from another place, but only from one that root alone can write.
            login: Some(Login { variable: HOME_VARIABLE, files: &login::FILES, settings: SETTINGS_PATH }),
            logins: &[".gemini"],
            ..ProgramFacts::default()
        }
    }

    fn speaks(&self, api: Api) -> bool {
        api == Api::GoogleGenerativeAi
    }

    fn parts(&self, command: &Path) -> Result<ProgramFiles, String> {
        let script = Path::new("bundle/gemini.js");
        let package = command
            .ancestors()
            .skip(1)
            .find(|folder| folder.join("package.json").is_file() && folder.join(script).is_file())
            .ok_or_else(|| executable::INCOMPLETE.to_owned())?;
        let node = node::find(package)?;
        Ok(ProgramFiles {
            mounts: vec![
                (node.clone(), "/opt/flock/gemini/node".to_owned()),
                (package.to_owned(), "/opt/flock/gemini/gemini-cli".to_owned()),
            ],
            host: vec![node.display().to_string(), package.join(script).display().to_string()],
            sandbox: vec![
                "/opt/flock/gemini/node".to_owned(),
                "/opt/flock/gemini/gemini-cli/bundle/gemini.js".to_owned(),
            ],
        })
    }

    fn probe(&self, turn: &TurnSpec<'_>) -> Option<ProgramProbe> {
        // flock's system prompt replaces the program's own. The program needs both, so its own is asked for first.
        let state = turn.state.filter(|_| !turn.system.is_empty())?;
        let mut run = Invocation { arguments: arguments(turn), ..Invocation::default() };
        // Any prompt will do, because the request to the model fails.
        run.arguments.extend(["-p".to_owned(), "x".to_owned()]);
        run.environment = environment(state);
        for (name, value) in [
            // The program writes its prompt before it asks its model.
            ("GEMINI_WRITE_SYSTEM_MD", format!("{state}/{OWN_PROMPT}").as_str()),
            ("GOOGLE_GEMINI_BASE_URL", DEAD_ADDRESS),
            ("GEMINI_API_KEY", "none"),
        ] {
            run.environment.push((name.to_owned(), value.to_owned()));
        }
        run.kept = Some(kept(turn));
        run.state = files(&settings::of(turn, false));
        run.state.extend(environment::absent(&[OWN_PROMPT]));
        Some(ProgramProbe { invocation: run, file: Some(OWN_PROMPT.to_owned()), take: own_prompt })
    }

    fn invocation(&self, turn: &TurnSpec<'_>) -> Result<Invocation, String> {
        let state = turn.state.ok_or("Gemini CLI needs a folder of its own")?;
        let mut settings = settings::of(turn, true);
        if turn.relay_token.is_none() {
            // With its own login the program needs the kind of login that its user has chosen.
            settings["security"]["auth"] = login::kind(turn.user_settings)?;
        }
        let mut run = Invocation {
            arguments: arguments(turn),
            environment: environment(state),
            // Otherwise it reads files into the prompt wherever one is named after this sign.
            input: environment::prompt(turn).replace('@', "\\@"),
            files: Vec::new(),
            state: files(&settings),
            kept: Some(kept(turn)),
            links: if turn.relay_token.is_some() { &[] } else { &login::FILES },
        };
        let (word, name) = match turn.conversation {
            ConversationStart::New(id) => ("--session-id", id.to_string()),
            ConversationStart::Resumed(id) => ("--resume", id.to_owned()),
        };
        // The prompt comes on standard input. Without `-p` the program would not read only that.
        run.arguments.extend([word.to_owned(), name, "-p".to_owned(), String::new()]);
        let mut set = |name: &str, value: &str| run.environment.push((name.to_owned(), value.to_owned()));
        if let Some(token) = turn.relay_token {
            set("GEMINI_API_KEY", token);
            set("GOOGLE_GEMINI_BASE_URL", &format!("{}{}", turn.origin, relay_path(Api::GoogleGenerativeAi)));
        }
        set(MCP_TOKEN, turn.mcp_token);
        // With a Google account the program gets all flags from Google's server, and this file would replace them.
        if turn.relay_token.is_some() || login::is_key(&settings["security"]["auth"]) {
            let switches =
                json!({"flags": [{"flagId": TIMEOUT_FLAG, "intValue": TIMEOUT_SECS}], "experimentIds": []});
            let path = environment::file(&mut run, turn, "switches.json", switches.to_string());
            run.environment.push(("GEMINI_EXP".to_owned(), path));
        }
        if !turn.system.is_empty() {
            let own = turn.probe_answer.ok_or("Gemini CLI's own system prompt is not known")?;
            // A system prompt file replaces the built-in prompt, so it begins with that.
            let whole = format!("{}\n\n{}", own.trim_end(), escape_placeholders(turn.system));
            let path = environment::file(&mut run, turn, "system.md", whole);
            run.environment.push(("GEMINI_SYSTEM_MD".to_owned(), path));
        }
        Ok(run)
    }

    fn parser(&self, conversation: ConversationStart<'_>) -> Box<dyn Parser> {
        Box::new(events::GeminiParser::new(matches!(conversation, ConversationStart::Resumed(_))))
    }

    fn mended(&self, request: &[u8], api: Api) -> Option<Bytes> {
        duplicate_results::once(request, api)
    }
}

fn arguments(turn: &TurnSpec<'_>) -> Vec<String> {
    let mut words = vec!["-o", "stream-json", "--approval-mode", "yolo"];
    if !turn.model.is_empty() {
        words.extend(["-m", turn.model]);
    }
    words.into_iter().map(str::to_owned).collect()
}

fn environment(state: &str) -> Vec<(String, String)> {
    let mut environment = environment::environment(&SWITCHES);
    environment.push((HOME_VARIABLE.to_owned(), state.to_owned()));
    environment.push(("NODE_COMPILE_CACHE".to_owned(), format!("{state}/.cache/node")));
    environment
}

/// Returns the entries of its folder that it keeps in this turn.
fn kept(turn: &TurnSpec<'_>) -> &'static [&'static str] {
    let [_compiled, others @ ..] = &RETAINED_PATHS;
    if turn.withheld.commands { others } else { &RETAINED_PATHS }
}

fn files(settings: &Value) -> Vec<StateFile> {
    vec![StateFile { path: SETTINGS_PATH.to_owned(), content: Some(settings.to_string()) }]
}

/// Checks the prompt that it wrote.
fn own_prompt(written: &str) -> Option<String> {
    let text = written.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Breaks up the words that it would replace in a system prompt, such as `${AvailableTools}`.
fn escape_placeholders(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut parts = text.split("${");
    whole.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let word = part.split('}').next().unwrap_or_default();
        let is_its =
            matches!(word, "AvailableTools" | "AgentSkills" | "SubAgents") || word.ends_with("_ToolName");
        whole.push_str(if is_its { "$ {" } else { "${" });
        whole.push_str(part);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_escaped() {
        for (text, expected) in [
            ("a ${AvailableTools} ${HOME_VARIABLE} $x ${", "a $ {AvailableTools} ${HOME_VARIABLE} $x ${"),
            ("${AgentSkills}${SubAgents}", "$ {AgentSkills}$ {SubAgents}"),
            ("${read_file_ToolName} ${${AvailableTools}}", "$ {read_file_ToolName} ${$ {AvailableTools}}"),
            ("no words", "no words"),
        ] {
            assert_eq!(escape_placeholders(text), expected);
        }
    }
}

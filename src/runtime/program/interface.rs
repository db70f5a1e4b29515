//! Everything that flock knows about an agent program: the command line, environment and files of a turn, and how to
//! parse the output. All functions are pure, except those that look for the program's files.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use super::extract;
use crate::config::{Api, Effort};
use crate::provider::wire_format;
use crate::runtime::ProgramEvent;
use crate::tool::policy::DisabledTools;

/// An agent program.
pub trait Program: Send + Sync {
    /// Returns the facts about it that are the same for every turn.
    fn facts(&self) -> ProgramFacts<'_>;

    /// Returns the name in an agent's `runtime` setting, such as `claude`.
    fn name(&self) -> &str {
        self.facts().name
    }

    /// Returns the name of the folders for its conversations.
    fn folder(&self) -> &str {
        self.facts().name
    }

    /// Returns the name for people, such as `Claude Code`.
    fn title(&self) -> &str {
        self.facts().title
    }

    /// Returns `true` if it supports this wire format.
    fn speaks(&self, api: Api) -> bool;

    /// Returns the files of the host that the program needs. `command` is the file to which its command leads, with all
    /// links followed.
    ///
    /// # Errors
    ///
    /// Returns the missing part. The text completes "can't be used: …".
    fn parts(&self, command: &Path) -> Result<ProgramFiles, String>;

    /// Parses the version that it prints.
    fn version(&self, printed: &str) -> Option<String> {
        extract::version(printed)
    }

    /// Returns the reason why it refuses to run on the host, as root or as another user. `None` if it does not refuse.
    fn refuses_host(&self, _is_root: bool) -> Option<&'static str> {
        None
    }

    /// Returns a question that it must be asked once before its turns, if any. The answer is stored as long as its
    /// version, the model and the question stay the same.
    fn probe(&self, _turn: &TurnSpec<'_>) -> Option<ProgramProbe> {
        None
    }

    /// Builds one run of the program.
    ///
    /// # Errors
    ///
    /// Returns the part of the turn that the program does not support, and what a person can do about it.
    fn invocation(&self, turn: &TurnSpec<'_>) -> Result<Invocation, String>;

    /// Returns a parser for the output of one run in this conversation.
    fn parser(&self, conversation: ConversationStart<'_>) -> Box<dyn Parser>;

    /// Returns a parser for the output of this run. Only a program that [converses](ProgramFacts::converses) needs to know
    /// more of the turn than its conversation.
    fn parser_of(&self, turn: &TurnSpec<'_>) -> Box<dyn Parser> {
        self.parser(turn.conversation)
    }

    /// Returns a corrected request if the program has built one that its model would refuse. `None` if the request is
    /// correct: it is then sent byte for byte. The method also sees requests of other programs.
    fn mended(&self, _request: &[u8], _api: Api) -> Option<Bytes> {
        None
    }
}

/// The facts about a program that are the same for every turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramFacts<'a> {
    /// The name in an agent's `runtime` setting, such as `claude`.
    pub name: &'a str,
    /// The name for people, such as `Claude Code`.
    pub title: &'a str,
    /// The name of its command.
    pub command: &'a str,
    /// The name of its npm package.
    pub package: &'static str,
    /// The oldest version that flock supports.
    pub oldest: &'static str,
    /// The options without which no turn can run.
    pub options: RequiredOptions,
    /// Set if it begins a conversation under a given name. Other programs choose the name and report it.
    pub takes_names: bool,
    /// Set if it accepts another system prompt when a conversation continues. Otherwise another prompt needs a new
    /// conversation.
    pub renews_prompt: bool,
    /// Bytes of memory below which it is killed when it runs a command.
    pub least_memory: u64,
    /// Set if it is answered on its standard input while it runs, with [`Parser::replies`].
    pub converses: bool,
    /// Set if its tools can be restricted as in [`TurnSpec::withheld`]. Another program runs no turn of an agent that may
    /// not use all tools.
    pub withholds: bool,
    /// The entries of the workspace that it reads by itself, and cannot be told to ignore. In a sandbox, empty entries
    /// cover them.
    pub covered: &'static [HiddenEntry],
    /// The files of its user's login, for a program that cannot ignore the other files beside the login. A turn with
    /// this login then has a folder of flock's with links to these files. Other programs use the user's folder itself.
    pub login: Option<Login>,
    /// The folders, below a user's home, in which its own installer puts its command.
    pub places: &'static [&'static str],
    /// The variables that tell it where its settings and its login are. On the host it gets them from flock's
    /// environment.
    pub variables: &'static [&'static str],
    /// The files and folders, below a user's home, that hold its login. They are never mounted into a sandbox. The list
    /// that decides about mounts is in a lower layer, and a test checks that it contains these.
    pub logins: &'static [&'static str],
    /// The headers, in lower case, that its requests may keep on their way to the provider, which uses them to find a
    /// session's cached prompt. A name that ends in `-` is a prefix. Headers that grant access or name an account are
    /// never among them.
    pub headers: &'static [&'static str],
    /// The key in the `_meta` of its MCP calls that holds the model's own id of the call.
    pub call_id: Option<&'static str>,
}

/// Parses the output of one run of a program. It never panics, whatever the output is, and skips what it does not know.
pub trait Parser: Send {
    /// Takes one JSON line of standard output, and adds its reports to `said`.
    fn line(&mut self, line: &Value, said: &mut Vec<ProgramEvent>);

    /// Takes one line of standard error, and adds its reports to `said`.
    fn error_line(&mut self, line: &str, said: &mut Vec<ProgramEvent>) {
        let _ = (line, said);
    }

    /// Returns `true` once the program has reported how its run went, and only has to exit.
    fn is_over(&self) -> bool {
        false
    }

    /// Takes the lines that are now to be written to the program's standard input, without their ends.
    fn replies(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the result when the program has exited. An exit code of 0 alone proves nothing.
    fn end(&mut self, exit: &ProgramExit<'_>) -> RunOutcome;
}

/// The end of a program's process.
#[derive(Clone, Copy, Debug)]
pub struct ProgramExit<'a> {
    /// The exit code, or 128 plus the signal.
    pub code: i32,
    /// The end of its standard error.
    pub stderr: &'a str,
}

/// The files of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFiles {
    /// Files and folders of the host, each with its path in a sandbox, below `/opt/flock/<name>`.
    pub mounts: Vec<(PathBuf, String)>,
    /// The first words of its command line on the host.
    pub host: Vec<String>,
    /// The first words of its command line in a sandbox.
    pub sandbox: Vec<String>,
}

/// The options with which flock starts a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequiredOptions {
    /// The arguments that print its help.
    pub help: &'static [&'static str],
    /// The options, as the help writes them.
    pub names: &'static [&'static str],
}

impl RequiredOptions {
    /// Returns the options that this help does not list. `None` if the text is not a help text.
    #[must_use]
    pub fn missing_in(&self, help: &str) -> Option<Vec<&'static str>> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        // A word may be preceded by the end of a colour code.
        let words = help.split(|c| !is_part(c));
        let listed: Vec<&str> = words.filter_map(|word| word.get(word.find("--")?..)).collect();
        let missing = || self.names.iter().copied().filter(|name| !listed.contains(name)).collect();
        (!listed.is_empty()).then(missing)
    }
}

/// An entry of the workspace that a program must not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenEntry {
    pub name: &'static str,
    pub is_folder: bool,
}

/// The files of the login of a program's user. Paths are relative to the user's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// The variable that sets this folder. The default is the user's home.
    pub variable: &'static str,
    /// The files of the login. Some of them may not exist.
    pub files: &'static [&'static str],
    /// The settings file of the user, which names the kind of login.
    pub settings: &'static str,
}

/// The place in which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLocation {
    /// In its agent's sandbox.
    Sandbox,
    /// On the machine itself, as the user who runs flock.
    Host,
}

/// A conversation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversationStart<'a> {
    /// A new one. It gets this name if the program takes names.
    New(Uuid),
    /// The one that the program knows by this name.
    Resumed(&'a str),
}

/// The description of one run of a program. Paths are as the program sees them.
#[derive(Clone, Debug)]
pub struct TurnSpec<'a> {
    /// The model's provider, by its name in the configuration.
    pub provider: &'a str,
    pub place: RunLocation,
    /// The provider's name of the model. Empty if the program must choose its own.
    pub model: &'a str,
    /// The wire format. `None` if the program uses its own login.
    pub api: Option<Api>,
    /// The model's context in tokens. 0 if the program uses its own login.
    pub context_window: u64,
    /// The model's longest answer in tokens. 0 if the program uses its own login.
    pub max_tokens: u64,
    /// The amount of thinking. `None` leaves it to the program.
    pub effort: Option<Effort>,
    /// Text for the program's system prompt, and for no other place.
    pub system: &'a str,
    /// Tools of the program that the agent may not use, whoever asks for them.
    pub withheld: DisabledTools,
    /// The new messages, and before them the earlier messages that the program lacks. It begins with a line of its own.
    pub prompt: &'a str,
    pub conversation: ConversationStart<'a>,
    /// flock's address, without a slash at the end: `http://127.0.0.1:3128`. The relay is at `/relay/<api>`, as in
    /// [`relay_path`], and MCP is at `/mcp`.
    pub origin: &'a str,
    /// The token for the relay, in place of the provider's key. `None` if the program uses its own login.
    pub relay_token: Option<&'a str>,
    /// The token for MCP.
    pub mcp_token: &'a str,
    /// Absolute path of a folder for the program's own data. `None` on the host with its own login, because the program
    /// then uses the user's folder, unless it has a [`ProgramFacts::login`].
    pub state: Option<&'a str>,
    /// Contents of [`Login::settings`], if the program uses that login and the file exists. A turn takes only the kind
    /// of login from it.
    pub user_settings: Option<&'a str>,
    /// Absolute path of the folder with [`Invocation::files`]. The program cannot change them.
    pub files: &'a str,
    /// Absolute path of the working folder.
    pub workspace: &'a str,
    /// The answer to [`Program::probe`], if it was asked.
    pub probe_answer: Option<&'a str>,
}

/// Returns the path of the relay for a wire format, see [`crate::provider::RelayFormat::path`]. Empty if the relay does not pass the
/// format on.
#[must_use]
pub fn relay_path(api: Api) -> &'static str {
    wire_format::of(api).relay.map_or("", |relay| relay.path)
}

/// One run of a program, ready to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// Its arguments, after the words of [`ProgramFiles`]. They contain no secret.
    pub arguments: Vec<String>,
    /// Its environment, in addition to that of the place.
    pub environment: Vec<(String, String)>,
    /// Its standard input.
    pub input: String,
    /// Files of this turn alone, in [`TurnSpec::files`].
    pub files: Vec<TurnFile>,
    /// Files in [`TurnSpec::state`] that steer the program. The agent may have changed them, so they are written or removed
    /// before each turn.
    pub state: Vec<StateFile>,
    /// The files and folders in [`TurnSpec::state`] that the program needs to continue. Everything else there is removed.
    /// `None` if they are not known. Other turns of the agent may use the same folder, so the list includes what they
    /// need.
    pub kept: Option<&'static [&'static str]>,
    /// Files of the user's folder that appear in [`TurnSpec::state`] under the same names, as links. The login is never
    /// copied, and a token that the program renews is renewed for its user too.
    pub links: &'static [&'static str],
}

/// A file of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFile {
    pub name: String,
    pub content: String,
}

/// A file in a program's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// The path below the folder.
    pub path: String,
    /// The contents. With `None` the file must not exist. If there is a folder at the path, it is removed with its
    /// contents.
    pub content: Option<String>,
}

/// A run of a program that is not a turn, and the answer that is taken from it.
#[derive(Clone, Debug)]
pub struct ProgramProbe {
    pub invocation: Invocation,
    /// The file in [`TurnSpec::state`] with the answer. `None` takes the standard output. The exit code is ignored.
    pub file: Option<String>,
    /// Converts the answer to the stored form. `None` if the answer is not usable.
    pub take: fn(&str) -> Option<String>,
}

/// The result of a run, by the program's own report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// The run is complete.
    Well {
        /// `true` if the answer was cut at the token limit.
        cut: bool,
    },
    /// The program reports a failure.
    Failed {
        /// The HTTP status of the model's server, if the program reports it.
        status: Option<u16>,
        /// The program's message, on one line.
        message: String,
    },
    /// The program does not know the conversation that it should continue. Nothing was done.
    Unknown,
    /// The program ended without a report.
    Broken {
        /// The way in which the program ended, as far as flock saw it.
        message: String,
    },
}

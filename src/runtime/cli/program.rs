//! What flock has to know of an agent program: its command line, environment and files for a turn, and how to read
//! what it prints. All of it is pure.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use super::reading;
use crate::config::{Api, Effort};
pub use crate::runtime::Said;
use crate::sandbox::policy::Withheld;

/// An agent program.
pub trait Program: Send + Sync {
    /// As in an agent's `runtime`: `claude`.
    fn name(&self) -> &'static str;

    /// As people call it: `Claude Code`.
    fn title(&self) -> &'static str;

    /// What it is called as on a command line.
    fn command(&self) -> &'static str;

    /// Its package on npm.
    fn package(&self) -> &'static str;

    /// The oldest version that what is known of it holds for.
    fn oldest(&self) -> &'static str;

    /// How it is asked for its options, and those without which no turn can be run that its help lists.
    fn options(&self) -> Options {
        Options { help: &["--help"], names: &[] }
    }

    /// Whether it can ask a model that is asked this way.
    fn speaks(&self, api: Api) -> bool;

    /// What the login of its user is made of, where a turn with it has a folder of flock's: for a program that can't be told
    /// to pass over what else its user has where the login is. The others use that place as it is.
    fn login(&self) -> Option<Login> {
        None
    }

    /// What of the host it consists of; `command` is the file that its name leads to, with all links followed.
    ///
    /// # Errors
    ///
    /// What is missing; the text completes "can't be used: …".
    fn parts(&self, command: &Path) -> Result<Parts, String>;

    /// Its version, from what it prints when asked for it.
    fn version(&self, printed: &str) -> Option<String> {
        reading::version(printed)
    }

    /// How it treats its conversations.
    fn habits(&self) -> Habits;

    /// Whether it can be without what [`Turn::withheld`] says. One that can't runs no turn of an agent that is not to have
    /// all of its tools.
    fn withholds(&self) -> bool {
        false
    }

    /// Why it would not run a turn on a machine itself, as root or as somebody else; nothing where it would.
    fn refuses_host(&self, _is_root: bool) -> Option<&'static str> {
        None
    }

    /// What of the workspace it would read by itself and can't be told not to: in a sandbox, something empty lies over
    /// it.
    fn covered(&self) -> &'static [Covered] {
        &[]
    }

    /// What it has to be asked once before its turns, if anything; the answer is kept as long as its version, the model
    /// and this request stay the same.
    fn learned(&self, _turn: &Turn<'_>) -> Option<Learned> {
        None
    }

    /// One run of it.
    ///
    /// # Errors
    ///
    /// What such a turn can't have, and what can be done about it.
    fn invocation(&self, turn: &Turn<'_>) -> Result<Invocation, String>;

    /// A reader for what one run of it in this conversation prints.
    fn parser(&self, conversation: Conversation<'_>) -> Box<dyn Parser>;

    /// The folders, below a person's home, where its own installer puts its command.
    fn places(&self) -> &'static [&'static str] {
        &[]
    }

    /// The variables by which a person tells it where its settings and its login are: on the host it gets them.
    fn variables(&self) -> &'static [&'static str] {
        &[]
    }

    /// The files and folders, below a person's home, that keep its login: they are mounted into no sandbox. The list that
    /// mounts are judged by is below this layer, and a test holds it to these.
    fn logins(&self) -> &'static [&'static str] {
        &[]
    }

    /// The headers of its own that its requests may have on their way to the provider, which finds a session's prompt by
    /// them; in small letters. One that ends in `-` is the beginning of all their names. Nothing that lets in or names an
    /// account.
    fn headers(&self) -> &'static [&'static str] {
        &[]
    }

    /// The key in the `_meta` of its calls over MCP that the model's own id of the call is at.
    fn call_id(&self) -> Option<&'static str> {
        None
    }

    /// A request to its model that it has written wrong, put right before that refuses it; `None` where nothing is wrong
    /// with it, which is then sent byte for byte. Others' requests are shown to it too.
    fn mended(&self, _request: &[u8], _api: Api) -> Option<Bytes> {
        None
    }
}

/// Reads what one run of a program prints. Whatever that is, it never panics, and what it does not know it passes over.
pub trait Parser: Send {
    /// A line of its standard output, which was JSON.
    fn line(&mut self, line: &Value, said: &mut Vec<Said>);

    /// Whether it has told how its run went: it has only to exit.
    fn is_over(&self) -> bool {
        false
    }

    /// It has ended. An exit code of 0 alone proves nothing.
    fn end(&mut self, exit: &Exit<'_>) -> Ended;
}

/// How a program's process ended.
#[derive(Clone, Copy, Debug)]
pub struct Exit<'a> {
    /// Its code, or 128 and the signal.
    pub code: i32,
    /// The last of what it wrote to its standard error.
    pub stderr: &'a str,
}

/// What a program is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Files and folders of the host, each with its place in a sandbox, below `/opt/flock/<name>`.
    pub mounts: Vec<(PathBuf, String)>,
    /// The first words of its command line on the host.
    pub host: Vec<String>,
    /// The first words of its command line in a sandbox.
    pub sandbox: Vec<String>,
}

/// The options that flock starts a program with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The words for which it prints its help.
    pub help: &'static [&'static str],
    /// The options, as they stand in it.
    pub names: &'static [&'static str],
}

impl Options {
    /// The options that this help does not list; `None` for a text that is no help.
    #[must_use]
    pub fn missing_in(&self, help: &str) -> Option<Vec<&'static str>> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        // A word may begin with the end of what colours it.
        let words = help.split(|c| !is_part(c));
        let listed: Vec<&str> = words.filter_map(|word| word.get(word.find("--")?..)).collect();
        let missing = || self.names.iter().copied().filter(|name| !listed.contains(name)).collect();
        (!listed.is_empty()).then(missing)
    }
}

/// How a program treats its conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// It begins a conversation under a name that it is given. Others tell the name that they chose.
    pub takes_names: bool,
    /// It takes another system prompt when a conversation goes on. Where it does not, another prompt needs another
    /// conversation.
    pub renews_prompt: bool,
    /// Bytes of memory below which it is killed when it runs a command.
    pub least_memory: u64,
}

/// Something in the workspace that a program is not to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// Its name.
    pub name: &'static str,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// What the login that a program's user has is made of. Paths are below the folder of the program's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// The variable by which that folder is another than the user's home.
    pub variable: &'static str,
    /// Its files, so far as they are there.
    pub files: &'static [&'static str],
    /// The settings of the program's user, which say of which kind the login is.
    pub settings: &'static str,
}

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In its agent's sandbox.
    Sandbox,
    /// On the machine itself, as the user who runs flock.
    Host,
}

/// A conversation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversation<'a> {
    /// A new one; under this name where the program takes names.
    New(Uuid),
    /// The one that the program knows by this name.
    Resumed(&'a str),
}

/// One run of a program, as flock wants it. Paths are as the program sees them.
#[derive(Clone, Debug)]
pub struct Turn<'a> {
    /// The model's provider, by its name in the configuration.
    pub provider: &'a str,
    /// Where it runs.
    pub place: Place,
    /// The provider's name of the model; empty where the program is to take its own.
    pub model: &'a str,
    /// How the model is asked; `None` where the program asks with its own login.
    pub api: Option<Api>,
    /// Tokens that the model takes in all; 0 where the program asks with its own login.
    pub context_window: u64,
    /// Tokens that it may answer with; 0 likewise.
    pub max_tokens: u64,
    /// How much the model is to think; `None` leaves it to the program.
    pub effort: Option<Effort>,
    /// What the program is to be told by its own channel for such things, and nowhere else.
    pub system: &'a str,
    /// What the agent is not to have of the program's own tools, whoever asks for them.
    pub withheld: Withheld,
    /// What is new, and before it what it needs of before; it begins with a line of its own.
    pub prompt: &'a str,
    /// In which of its conversations.
    pub conversation: Conversation<'a>,
    /// Where flock is, without a slash at the end: `http://127.0.0.1:3128`. The relay is at `/relay/<api>` there, as in
    /// [`relay_path`], and MCP at `/mcp`.
    pub origin: &'a str,
    /// What opens the relay, in the place of the provider's key; `None` where the program asks with its own login.
    pub relay_token: Option<&'a str>,
    /// What opens MCP.
    pub mcp_token: &'a str,
    /// A folder for what the program keeps, absolute. On the host with its own login the program's own one is used
    /// instead, and this is `None`, but for one with a [`Program::login`].
    pub state: Option<&'a str>,
    /// What stands in [`Login::settings`], where the program asks with that login and they are there. Nothing of them but
    /// the kind of login is for a turn.
    pub user_settings: Option<&'a str>,
    /// The folder where [`Invocation::files`] are, absolute; the program can't change them.
    pub files: &'a str,
    /// The folder that it works in, absolute.
    pub workspace: &'a str,
    /// What [`Program::learned`] gave, if it was asked for.
    pub learned: Option<&'a str>,
}

/// Where the relay of a wire format is below the origin. Programs put what the provider's own base URL would have
/// after it: `/v1/messages`, `/responses`, `/v1beta/models/…`, `/chat/completions`.
#[must_use]
pub const fn relay_path(api: Api) -> &'static str {
    match api {
        Api::AnthropicMessages => "/relay/anthropic",
        Api::GoogleGenerativeAi => "/relay/google",
        Api::OpenAiResponses | Api::OpenAiCodexResponses => "/relay/responses/v1",
        _ => "/relay/completions/v1",
    }
}

/// One run of a program, ready to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// Its arguments, after the words of [`Parts`]. Nothing secret is among them.
    pub arguments: Vec<String>,
    /// Its environment beside what the place has.
    pub environment: Vec<(String, String)>,
    /// Its standard input.
    pub input: String,
    /// Files of this turn alone, in [`Turn::files`].
    pub files: Vec<TurnFile>,
    /// Files in [`Turn::state`] that steer the program. The agent could have written them, so they are written or removed
    /// before each turn.
    pub state: Vec<StateFile>,
    /// Where it is known what the program goes on with: files and folders in [`Turn::state`], and nothing else there is
    /// left to it. Other turns of the agent may run with the same folder, so what they need is among them.
    pub kept: Option<&'static [&'static str]>,
    /// Files of the folder of the program's user that are to be found in [`Turn::state`] under the same names, by links: the
    /// login is copied nowhere, and what the program renews of it is renewed for its user.
    pub links: &'static [&'static str],
}

/// A file of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFile {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub content: String,
}

/// A file in a program's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// Where, below the folder.
    pub path: String,
    /// What is in it; with `None` it is not to be there, or, if a folder is, nothing of that.
    pub content: Option<String>,
}

/// A run of a program that is no turn, and what is taken of it.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The run.
    pub invocation: Invocation,
    /// The file in [`Turn::state`] that it writes; without one, its standard output is taken. The exit code means
    /// nothing.
    pub file: Option<String>,
    /// Makes of that what is kept; `None` where it is of no use.
    pub take: fn(&str) -> Option<String>,
}

/// How a run went, by its own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// To its end.
    Well {
        /// Whether the answer was cut at the limit of tokens.
        cut: bool,
    },
    /// It says that it failed.
    Failed {
        /// The status of the model's server, where it tells one.
        status: Option<u16>,
        /// What it says, on one line.
        message: String,
    },
    /// It does not know the conversation that it was to go on with; nothing was done.
    Unknown,
    /// It ended without a word of how.
    Broken {
        /// What was seen.
        message: String,
    },
}

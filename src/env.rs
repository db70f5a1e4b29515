//! The environment variables that flock reads, each defined once.
//!
//! Nothing else in the program reads the environment. A variable that is not listed here has no effect, unless the
//! configuration names it as the source of a key.

use std::ffi::OsString;

/// A variable that flock reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Var {
    pub name: &'static str,
    /// One line for the reference in docs/.
    pub doc: &'static str,
}

macro_rules! vars {
    // The text of a variable is both its doc comment and the line in the reference, so the two cannot differ.
    ($($ident:ident = $name:literal, $doc:literal;)*) => {
        $(#[doc = $doc] pub const $ident: Var = Var { name: $name, doc: $doc };)*
        /// Every variable, for the reference.
        pub const ALL: &[Var] = &[$($ident),*];
    };
}

vars! {
    // flock's own settings.
    HOME_DIR = "FLOCK_HOME", "The home to use instead of `~/.flock`. `--home` takes precedence";
    LOG = "FLOCK_LOG", "Log filter of the gateway, as in `debug` or `flock=debug,hyper=info`. Default: `info` for flock itself, `warn` for everything else";
    DEBUG = "FLOCK_DEBUG", "Switch: the gateway also logs raw events of providers and agent programs";
    ANY_DEBUG = "DEBUG", "Switch: the same as `FLOCK_DEBUG`";
    BACKTRACE = "RUST_BACKTRACE", "Switch: adds a backtrace to the message of an internal error";
    NO_PROGRESS = "FLOCK_NO_PROGRESS", "Switch: prints plain lines instead of progress bars";
    NO_COLOR = "NO_COLOR", "Any value turns colour off";
    TERM = "TERM", "`dumb` turns off colour and progress bars; `dumb`, `cons25`, `emacs` and no value turn off the line editor of `flock chat`; `flock top` needs a value that is not `dumb`";
    PATH = "PATH", "The folders in which flock looks for programs";
    USER = "USER", "The name under which a person posts in channels, decides requests and has a chat session. Default: the login name of the process's user";
    NODE = "FLOCK_NODE", "Path of the Node.js that builds and runs OpenClaw. Default: `openclaw.node` in flock's part of the configuration, else the first one on `PATH` that fits OpenClaw";
    OPENCLAW_START_LIMIT = "FLOCK_OPENCLAW_START_LIMIT", "Number of seconds that a new version of OpenClaw may take from its start to its first answer during an update. Default: 180";
    MAX_STAGED_FILES = "FLOCK_CONTEXT_COMPRESSION_MAX_STAGED_FILES", "Largest number of staged files that the marker of a compacted conversation names. Takes precedence over the configuration";
    DOCKER_HOST = "DOCKER_HOST", "Address of the Docker engine, as in `unix:///run/user/1000/docker.sock`";
    RUNTIME_DIR = "XDG_RUNTIME_DIR", "The folder for the control socket if the home's path is too long for one, and for the socket of a rootless Docker engine if the system has no engine";
    DISPLAY = "DISPLAY", "Any value tells `flock dashboard` that there is a screen on which it can open a browser";
    WAYLAND_DISPLAY = "WAYLAND_DISPLAY", "The same as `DISPLAY`";
    OLLAMA_HOST = "OLLAMA_HOST", "The port on which `flock init` looks for an Ollama server on this machine, as in `127.0.0.1:11434`";
    NPM_REGISTRY = "FLOCK_NPM_REGISTRY", "Address of the npm registry from which packages of MCP servers are fetched. Default: `https://registry.npmjs.org/`";
    PYPI_INDEX = "FLOCK_PYPI_INDEX", "Address of the Python package index from which packages of MCP servers are fetched, with the index in JSON. Default: `https://pypi.org/simple/`";

    // Tokens of bridges.
    DISCORD_BOT_TOKEN = "DISCORD_BOT_TOKEN", "Token that `flock bridge add discord` offers, or takes with `--from-env`";
    SLACK_BOT_TOKEN = "SLACK_BOT_TOKEN", "Bot token that `flock bridge add slack` offers, or takes with `--from-env`, together with `SLACK_APP_TOKEN`";
    SLACK_APP_TOKEN = "SLACK_APP_TOKEN", "App-level token of Slack, together with `SLACK_BOT_TOKEN`";
    TELEGRAM_BOT_TOKEN = "TELEGRAM_BOT_TOKEN", "Token that `flock bridge add telegram` offers, or takes with `--from-env`";

    // Keys of providers.
    ANTHROPIC_API_KEY = "ANTHROPIC_API_KEY", "Key of the provider `anthropic`";
    OPENAI_API_KEY = "OPENAI_API_KEY", "Key of the provider `openai`";
    OPENROUTER_API_KEY = "OPENROUTER_API_KEY", "Key of the provider `openrouter`";
    MISTRAL_API_KEY = "MISTRAL_API_KEY", "Key of the provider `mistral`";
    GEMINI_API_KEY = "GEMINI_API_KEY", "Key of the provider `google`";
    GOOGLE_API_KEY = "GOOGLE_API_KEY", "Key of the provider `google` if `GEMINI_API_KEY` is not set";
    MINIMAX_API_KEY = "MINIMAX_API_KEY", "Key of the provider `minimax`";
    GROQ_API_KEY = "GROQ_API_KEY", "Key of the provider `groq`";
    DEEPSEEK_API_KEY = "DEEPSEEK_API_KEY", "Key of the provider `deepseek`";
    XAI_API_KEY = "XAI_API_KEY", "Key of the provider `xai`";
    AWS_BEARER_TOKEN_BEDROCK = "AWS_BEARER_TOKEN_BEDROCK", "Key of the provider `amazon-bedrock`. Takes precedence over a pair of AWS keys";
    AWS_ACCESS_KEY_ID = "AWS_ACCESS_KEY_ID", "Id of the pair of AWS keys that signs requests to `amazon-bedrock`";
    AWS_SECRET_ACCESS_KEY = "AWS_SECRET_ACCESS_KEY", "Secret of that pair";
    AWS_SESSION_TOKEN = "AWS_SESSION_TOKEN", "Session token of that pair, if the pair is temporary";
    AWS_REGION = "AWS_REGION", "Region of `amazon-bedrock` if neither its base URL nor `models.bedrockDiscovery.region` names one";
    AWS_DEFAULT_REGION = "AWS_DEFAULT_REGION", "The same, if `AWS_REGION` is not set";

    // The network.
    HTTPS_PROXY = "HTTPS_PROXY", "Proxy for requests to model APIs and package registries on other machines. The HTTP client reads it, and `HTTP_PROXY` and `ALL_PROXY` as well";
    NO_PROXY = "NO_PROXY", "Hosts that are reached without that proxy. `127.0.0.1` always is";
    SSL_CERT_FILE = "SSL_CERT_FILE", "Certificates to trust for HTTPS instead of the system's";

    // Set by flock itself, for processes that it starts.
    SUPERVISED = "FLOCK_SUPERVISED", "Set by the supervisor for the processes that it runs: the process's name and the home";
    TURN = "FLOCK_TURN", "Set by flock for agent programs on the host and the processes that they start: an id of the home and of the turn";
    MCP_URL = "FLOCK_MCP_URL", "Set by flock for agent programs: the address at which `flock mcp` finds flock's tools";
    MCP_TOKEN = "FLOCK_MCP_TOKEN", "Set by flock for agent programs: the token for flock's tools, valid for one turn";
    HANDED_OVER = "FLOCK_HANDED_OVER", "Set by flock when it hands a call over to util-linux's `flock`: the copies of flock that the call has passed through";
}

/// Returns the value of a variable that the configuration names, as in `env:NAME`. `None` if it is unset, empty or not
/// UTF-8.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub fn named(name: &str) -> Option<String> {
    // `var_os` panics on such names, and the configuration may hold any text.
    if name.is_empty() || name.contains(['=', '\0']) {
        return None;
    }
    std::env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}

impl Var {
    /// Returns the value, or `None` if it is unset, empty or not UTF-8.
    #[must_use]
    pub fn get(self) -> Option<String> {
        self.get_os().and_then(|value| value.into_string().ok())
    }

    /// Returns the value, or `None` if it is unset or empty.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub(crate) fn get_os(self) -> Option<OsString> {
        // Shells and service files often unset a variable by giving it an empty value.
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }

    /// Returns `true` if the value switches something on: any value but `0` and `false`.
    #[must_use]
    pub(crate) fn is_on(self) -> bool {
        self.get().is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

/// Variables that say how a program started by flock reaches the network: its proxy, and the certificates it trusts.
pub(crate) const NETWORK_VARS: [&str; 11] = [
    // Both spellings are in use. curl, for example, reads only the lower-case `http_proxy`.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Returns the whole environment, for a program that is started on the user's behalf. Every variable is passed on,
/// because the configuration may name any of them as the source of a key.
pub fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

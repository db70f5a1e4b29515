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
    HOME_DIR = "FLOCK_HOME", "The home to use instead of ~/.flock; --home wins over it";
    LOG = "FLOCK_LOG", "What the gateway and the supervisor log, as in info or flock=debug";
    DEBUG = "FLOCK_DEBUG", "1 logs raw events of providers and agent programs as well";
    ANY_DEBUG = "DEBUG", "1 does what FLOCK_DEBUG=1 does";
    NO_PROGRESS = "FLOCK_NO_PROGRESS", "1 turns progress bars into plain lines";
    NO_COLOR = "NO_COLOR", "Any value turns colour off";
    TERM = "TERM", "dumb turns colour and progress bars off";
    BACKTRACE = "RUST_BACKTRACE", "1 adds a backtrace to the message of an internal error";
    HANDED_OVER = "FLOCK_HANDED_OVER", "Set by flock itself: the copies of it that a call of util-linux flock has passed through";
    PATH = "PATH", "Where programs are looked for";
    USER = "USER", "The login a person's chat session is named after, and their name in channels";
    NODE = "FLOCK_NODE", "The Node that builds and runs OpenClaw, instead of the first on PATH that fits it";
    OPENCLAW_START_LIMIT = "FLOCK_OPENCLAW_START_LIMIT", "How many seconds OpenClaw may take from its start to its first answer when it is updated, instead of 180";
    DOCKER_HOST = "DOCKER_HOST", "The Docker engine to use, as in unix:///run/user/1000/docker.sock";
    RUNTIME_DIR = "XDG_RUNTIME_DIR", "Where the control socket goes when the home's path is too long for one";
    ANTHROPIC_API_KEY = "ANTHROPIC_API_KEY", "Key of the provider anthropic";
    OPENAI_API_KEY = "OPENAI_API_KEY", "Key of the provider openai";
    OPENROUTER_API_KEY = "OPENROUTER_API_KEY", "Key of the provider openrouter";
    MISTRAL_API_KEY = "MISTRAL_API_KEY", "Key of the provider mistral";
    GEMINI_API_KEY = "GEMINI_API_KEY", "Key of the provider google";
    GOOGLE_API_KEY = "GOOGLE_API_KEY", "Key of the provider google where GEMINI_API_KEY is not set";
    MINIMAX_API_KEY = "MINIMAX_API_KEY", "Key of the provider minimax";
    AWS_BEARER_TOKEN_BEDROCK = "AWS_BEARER_TOKEN_BEDROCK", "Key of the provider amazon-bedrock; goes before a pair of AWS keys";
    AWS_ACCESS_KEY_ID = "AWS_ACCESS_KEY_ID", "The id of the pair of AWS keys that requests to amazon-bedrock are signed with";
    AWS_SECRET_ACCESS_KEY = "AWS_SECRET_ACCESS_KEY", "The secret of that pair";
    AWS_SESSION_TOKEN = "AWS_SESSION_TOKEN", "The token of that pair's session, if it is of one";
    AWS_REGION = "AWS_REGION", "The region of amazon-bedrock where neither its base URL nor models.bedrockDiscovery.region says it";
    AWS_DEFAULT_REGION = "AWS_DEFAULT_REGION", "As AWS_REGION, where that is not set";
    GROQ_API_KEY = "GROQ_API_KEY", "Key of the provider groq";
    DEEPSEEK_API_KEY = "DEEPSEEK_API_KEY", "Key of the provider deepseek";
    SUPERVISED = "FLOCK_SUPERVISED", "Set by the supervisor for what it runs: its name and its home";
    XAI_API_KEY = "XAI_API_KEY", "Key of the provider xai";
    HTTPS_PROXY = "HTTPS_PROXY", "The proxy to model APIs on other machines; read by the HTTP client, as HTTP_PROXY and ALL_PROXY are";
    NO_PROXY = "NO_PROXY", "Hosts to reach without that proxy; 127.0.0.1 always is";
    SSL_CERT_FILE = "SSL_CERT_FILE", "Certificates to trust for https instead of the system's";
    MAX_STAGED_FILES = "FLOCK_CONTEXT_COMPRESSION_MAX_STAGED_FILES", "The most staged files that the marker of a compacted conversation names; wins over the configuration";
    MCP_URL = "FLOCK_MCP_URL", "Set by flock for the programs that run agents' turns: where flock mcp finds flock's tools";
    MCP_TOKEN = "FLOCK_MCP_TOKEN", "Set by flock for the same programs: what opens flock's tools in that one turn";
    TURN = "FLOCK_TURN", "Set by flock for programs that run agents' turns on the host, and what these start: which home's turn it is";
    OLLAMA_HOST = "OLLAMA_HOST", "Where init looks for an Ollama server";
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
    pub fn get_os(self) -> Option<OsString> {
        // Shells and service files often unset a variable by giving it an empty value.
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }

    /// Returns `true` if the value switches something on: any value but `0` and `false`.
    #[must_use]
    pub fn is_on(self) -> bool {
        self.get().is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

/// Variables that say how a program started by flock reaches the network: its proxy, and the certificates it trusts.
pub const NETWORK: [&str; 11] = [
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

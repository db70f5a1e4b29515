//! Identifiers and their grammars. A value of one of these types has been checked. Code that uses it never checks it
//! again, and a path or label built from it cannot leave its folder.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Explain, Kind};

/// The reason why a text is not a valid id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum IdError {
    /// Does not match the grammar of agent ids.
    #[error(
        "{0:?} is not an agent id: use 1 to 63 of a-z, 0-9, '-' and '_', starting with a letter or a digit"
    )]
    Agent(String),
    /// A word that flock reserves for itself.
    #[error("{0:?} is a reserved word and can't be an agent id")]
    Reserved(String),
    /// Does not match the grammar of channel ids.
    #[error(
        "{0:?} is not a channel id: use 1 to 64 letters, digits and '-', starting with a letter or a digit"
    )]
    Channel(String),
    /// Does not match the grammar of vault and skill names.
    #[error(
        "{0:?} is not the name of a vault or a skill: use 1 to 64 letters, digits, '.', '_' and '-', starting with \
         a letter or a digit"
    )]
    Folder(String),
    /// Does not match the grammar of project names.
    #[error(
        "{0:?} is not the name of a project: use 1 to 32 of a-z, 0-9 and '-', starting with a letter or a digit"
    )]
    Project(String),
    /// Does not match the grammar of MCP servers' names.
    #[error(
        "{0:?} is not the name of an MCP server: use 1 to 24 of a-z, 0-9 and '-', starting with a letter or a digit"
    )]
    McpServer(String),
    /// Does not match the grammar of schedules' names.
    #[error(
        "{0:?} is not the name of a schedule: use 1 to 40 of a-z, 0-9 and '-', starting with a letter or a digit"
    )]
    Schedule(String),
    /// Does not match the grammar of webhooks' names.
    #[error(
        "{0:?} is not the name of a webhook: use 1 to 40 of a-z, 0-9 and '-', starting with a letter or a digit"
    )]
    Hook(String),
    /// Does not match the grammar of engines' names.
    #[error(
        "{0:?} is not the name of an engine: use 1 to 24 of a-z, 0-9 and '-', starting with a letter or a digit"
    )]
    Engine(String),
    /// Does not match the grammar of session keys.
    #[error("{0:?} is not a session key: use agent:<agent>:flock:<channel|dm|request|main>:<peer>")]
    Session(String),
    #[error("{0:?} is not a turn id")]
    Turn(String),
    #[error(
        "{0:?} is neither an agent id nor human:<name>, with a name of 1 to 64 letters, digits, '.', '_', '@' and '-'"
    )]
    Party(String),
    #[error("{0:?} is not a model: write provider/model, as in anthropic/claude-opus-4-5")]
    Model(String),
}

impl Explain for IdError {
    fn kind(&self) -> Kind {
        Kind::Usage
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Agent(_) | Self::Reserved(_) => Some("flock add coder".to_owned()),
            _ => None,
        }
    }
}

/// Words that can never be an agent's id, because other parts of the system use them.
pub(crate) const RESERVED_AGENT_IDS: [&str; 7] =
    ["main", "unknown", "all", "human", "system", "flock", "openclaw"];

macro_rules! text_id {
    ($name:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

/// Implements the conversions by which serde stores a type as its text.
macro_rules! stored_as_text {
    ($($name:ident),*) => {$(
        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            // What is deserialized goes through the same check as what is typed.
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }
    )*};
}

stored_as_text!(
    AgentId,
    ChannelId,
    EngineName,
    FolderName,
    HookName,
    McpServerName,
    Party,
    ProjectName,
    ScheduleName,
    SessionKey,
    ModelRef
);

text_id!(AgentId, "An agent's id: `[a-z0-9][a-z0-9_-]{0,62}`, not reserved.");
text_id!(ChannelId, "A channel's id: `[A-Za-z0-9][A-Za-z0-9-]{0,63}`, unique without regard to case.");
text_id!(ProjectName, "The name of a project: `[a-z0-9][a-z0-9-]{0,31}`.");
text_id!(EngineName, "The name of a container engine: `[a-z0-9][a-z0-9-]{0,23}`.");
text_id!(HookName, "The name of a webhook: `[a-z0-9][a-z0-9-]{0,39}`.");
text_id!(McpServerName, "The name of an MCP server: `[a-z0-9][a-z0-9-]{0,23}`.");
text_id!(ScheduleName, "The name of a schedule: `[a-z0-9][a-z0-9-]{0,39}`.");
text_id!(FolderName, "The name of a vault or a skill: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.");

/// Returns `true` for 1 to `longest` lower-case letters, digits and hyphens that do not begin with a hyphen.
fn is_lowercase_name(text: &str, longest: usize) -> bool {
    let first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= longest && text.starts_with(first) && text.chars().all(|c| first(c) || c == '-')
}

impl FromStr for ProjectName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // It names a folder on the host and in the sandboxes, and a part of an address.
        if !is_lowercase_name(text, 32) {
            return Err(IdError::Project(truncate(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for HookName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // It is a part of an address and of a file's name.
        if !is_lowercase_name(text, 40) {
            return Err(IdError::Hook(truncate(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for McpServerName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // It is a part of the names of tools. Without `_` in it, the end of the server's name is clear there, and its
        // length leaves room for the tool's own name.
        if !is_lowercase_name(text, 24) {
            return Err(IdError::McpServer(truncate(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The name of the engine that every home has without an entry in the configuration.
const LOCAL_ENGINE: &str = "local";

impl EngineName {
    /// Returns the name of the machine's own engine.
    #[must_use]
    pub fn local() -> Self {
        Self(LOCAL_ENGINE.to_owned())
    }

    /// Returns `true` for the machine's own engine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0 == LOCAL_ENGINE
    }
}

impl FromStr for EngineName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // It is a part of an address, of a container's name and of a file's name.
        if !is_lowercase_name(text, 24) {
            return Err(IdError::Engine(truncate(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for ScheduleName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // It is a part of a session's key and of an address.
        if !is_lowercase_name(text, 40) {
            return Err(IdError::Schedule(truncate(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Begins the id under which the sandbox of an MCP server is known. It has a character that no agent's id can have.
const MCP_SANDBOX: &str = "mcp.";
/// Begins the id of the sandbox in which an engine is tried.
const ENGINE_TRIAL: &str = "engine.";

impl AgentId {
    /// Returns the id under which the sandbox of an MCP server is known. No agent can have it, and it can't be read
    /// back from its text.
    #[must_use]
    pub(crate) fn of_mcp_server(server: &McpServerName) -> Self {
        Self(format!("{MCP_SANDBOX}{server}"))
    }

    /// Returns the id of the sandbox in which an engine is tried before agents are placed on it. No agent can have it,
    /// and it can't be read back from its text.
    #[must_use]
    pub(crate) fn of_engine_trial(engine: &EngineName) -> Self {
        Self(format!("{ENGINE_TRIAL}{engine}"))
    }

    /// Returns `true` if this is the id of a sandbox without an agent: that of an MCP server, or of an engine's trial.
    #[must_use]
    pub(crate) fn is_nobody(&self) -> bool {
        self.mcp_server().is_some() || self.0.starts_with(ENGINE_TRIAL)
    }

    /// Returns the name of the MCP server if this is the id of one's sandbox.
    #[must_use]
    pub(crate) fn mcp_server(&self) -> Option<&str> {
        self.0.strip_prefix(MCP_SANDBOX)
    }
}

impl FromStr for FolderName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let first = |c: char| c.is_ascii_alphanumeric();
        let rest = |c: char| first(c) || matches!(c, '.' | '_' | '-');
        // The first character rules out `.` and `..`: the name becomes the name of a folder.
        if text.len() > 64 || !text.starts_with(first) || !text.chars().all(rest) {
            return Err(IdError::Folder(truncate(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for AgentId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let rest = |c: char| first(c) || c == '-' || c == '_';
        if text.len() > 63 || !text.starts_with(first) || !text.chars().all(rest) {
            return Err(IdError::Agent(truncate(text)));
        }
        // Reserved words are reported apart, because such a text looks like a valid id.
        if RESERVED_AGENT_IDS.contains(&text) {
            return Err(IdError::Reserved(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for ChannelId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let first = |c: char| c.is_ascii_alphanumeric();
        if text.len() > 64 || !text.starts_with(first) || !text.chars().all(|c| first(c) || c == '-') {
            return Err(IdError::Channel(truncate(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A participant of a channel, or the author of a message in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Party {
    Agent(AgentId),
    /// A person, by the name after `human:`, or the client of an API token, as `human:token:NAME`.
    Human(String),
    /// flock itself. It writes messages but is never a member.
    System,
}

impl Party {
    /// Returns the person with this name. Characters that a name cannot hold become `-`, because a login may hold any
    /// character.
    #[must_use]
    pub fn human(name: &str) -> Self {
        // Two different logins can become the same name.
        let name: String =
            name.chars().map(|c| if is_name_char(c) { c } else { '-' }).take(MAX_HUMAN_NAME).collect();
        Self::Human(if name.is_empty() { "-".to_owned() } else { name })
    }

    /// Returns the client whose token has this name, or `None` if no token can have it. A client acts for a person. No
    /// person can have its name, because names of people hold no colon.
    #[must_use]
    pub fn client(name: &str) -> Option<Self> {
        let fits = (1..=MAX_CLIENT_NAME).contains(&name.len()) && name.chars().all(is_name_char);
        fits.then(|| Self::Human(format!("{CLIENT_PREFIX}{name}")))
    }

    #[must_use]
    pub const fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Human(_) | Self::System => None,
        }
    }

    /// Returns `true` for a person or a client of a token.
    #[must_use]
    pub(crate) const fn is_human(&self) -> bool {
        matches!(self, Self::Human(_))
    }
}

const MAX_HUMAN_NAME: usize = 64;
const MAX_CLIENT_NAME: usize = 40;
/// Prefix of the name of a token's client.
const CLIENT_PREFIX: &str = "token:";

const fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '@' | '-')
}

impl FromStr for Party {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text == "system" {
            return Ok(Self::System);
        }
        let error = || IdError::Party(truncate(text));
        match text.strip_prefix("human:") {
            // This arm comes first: the colon of `token:` is allowed only here.
            Some(name) if name.starts_with(CLIENT_PREFIX) => {
                name.strip_prefix(CLIENT_PREFIX).and_then(Self::client).ok_or_else(error)
            }
            Some(name)
                if !name.is_empty() && name.len() <= MAX_HUMAN_NAME && name.chars().all(is_name_char) =>
            {
                Ok(Self::Human(name.to_owned()))
            }
            Some(_) => Err(error()),
            None => text.parse().map(Self::Agent).map_err(|_| error()),
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => agent.fmt(f),
            Self::Human(name) => write!(f, "human:{name}"),
            Self::System => f.write_str("system"),
        }
    }
}

/// The purpose of a session, and the fourth part of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionKind {
    /// A channel that the agent is a member of.
    Channel,
    /// A conversation with one other agent or person.
    Dm,
    /// A single request, whose body holds the whole conversation.
    Request,
    /// A conversation with a person at the command line.
    Main,
}

impl SessionKind {
    const ALL: [Self; 4] = [Self::Channel, Self::Dm, Self::Request, Self::Main];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Dm => "dm",
            Self::Request => "request",
            Self::Main => "main",
        }
    }
}

/// The name of one isolated conversation of one agent: `agent:<agent>:flock:<kind>:<peer>`, at most 200 bytes of
/// `[A-Za-z0-9:._@-]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionKey {
    text: String,
    agent: AgentId,
    kind: SessionKind,
}

impl SessionKey {
    /// Makes the key of an agent's session with a peer. Characters that a key cannot hold become `-`, and a name that
    /// is too long is cut, because a login or a display name may be any text.
    #[must_use]
    pub fn new(agent: &AgentId, kind: SessionKind, peer: &str) -> Self {
        let mut text = format!("agent:{agent}:flock:{}:", kind.as_str());
        // The prefix is at most 84 bytes long, since an agent id has at most 63, so the subtraction cannot underflow.
        let room = MAX_SESSION_KEY - text.len();
        let peer: String = peer.chars().map(|c| if is_peer_char(c) { c } else { '-' }).take(room).collect();
        // An empty peer would give a key that does not parse again.
        text.push_str(if peer.is_empty() { "-" } else { &peer });
        Self { text, agent: agent.clone(), kind }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the agent that the session belongs to.
    #[must_use]
    pub const fn agent(&self) -> &AgentId {
        &self.agent
    }

    #[must_use]
    pub const fn kind(&self) -> SessionKind {
        self.kind
    }

    /// Returns the channel of the session, or `None` if the session is not a channel's.
    #[must_use]
    pub fn channel(&self) -> Option<ChannelId> {
        (self.kind == SessionKind::Channel).then(|| self.peer().parse().ok()).flatten()
    }

    /// Returns the person, agent, channel or request that the session is held with.
    #[must_use]
    pub fn peer(&self) -> &str {
        // The peer may hold colons itself, as in `human:ann`.
        self.text.splitn(5, ':').nth(4).unwrap_or_default()
    }
}

const MAX_SESSION_KEY: usize = 200;

const fn is_peer_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '_' | '@' | '-')
}

impl FromStr for SessionKey {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // The length is checked before anything else, so that a huge text costs nothing.
        let error = || IdError::Session(truncate(text));
        if text.len() > MAX_SESSION_KEY || !text.chars().all(is_peer_char) {
            return Err(error());
        }
        // Everything after the fourth colon is the peer, which may hold colons itself.
        let mut parts = text.splitn(5, ':');
        let (Some("agent"), Some(agent), Some("flock"), Some(kind), Some(peer)) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(error());
        };
        let known = SessionKind::ALL.into_iter().find(|known| known.as_str() == kind);
        let kind = known.ok_or_else(error)?;
        // A key that ends in a colon splits into five parts too.
        if peer.is_empty() {
            return Err(error());
        }
        Ok(Self { text: text.to_owned(), agent: agent.parse()?, kind })
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The id of one run of a session. It is a UUIDv7, so ids sort by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(uuid::Uuid);

impl TurnId {
    /// Makes a new id from the current time.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two calls give two ids; a default would hide that")]
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7())
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TurnId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        uuid::Uuid::parse_str(text).map(Self).map_err(|_| IdError::Turn(truncate(text)))
    }
}

/// A model in the form `provider/model`. The model's own name may hold further slashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelRef {
    // `provider/model` as it was written.
    text: String,
    // Byte offset of the first slash.
    slash: usize,
}

impl ModelRef {
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.text[..self.slash]
    }

    /// Returns the provider's name for the model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.text[self.slash + 1..]
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns `true` if a scripted conversation answers instead of a model.
    #[must_use]
    pub(crate) fn is_script(&self) -> bool {
        self.provider() == "script"
    }
}

impl FromStr for ModelRef {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // A model's name goes into request paths and log lines, so white space and control characters are refused.
        let valid = |c: char| !c.is_whitespace() && !c.is_control();
        // Only the first slash separates: names of models at OpenRouter hold slashes themselves.
        match text.find('/') {
            Some(slash)
                if slash > 0 && slash + 1 < text.len() && text.len() <= 300 && text.chars().all(valid) =>
            {
                Ok(Self { text: text.to_owned(), slash })
            }
            _ => Err(IdError::Model(truncate(text))),
        }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns bytes as lower-case hex digits, the form in which digests are named.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the bytes that [`hex`] wrote. `None` for any other text.
#[must_use]
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Cuts a rejected text to 80 characters, so that the error message stays readable.
fn truncate(text: &str) -> String {
    const LIMIT: usize = 80;
    if text.chars().count() <= LIMIT {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(LIMIT).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_ids_follow_the_grammar() {
        for good in ["a", "coder", "dev-code", "a_b", "0x", &"a".repeat(63)] {
            assert!(good.parse::<AgentId>().is_ok(), "{good}");
        }
        let long = "a".repeat(300);
        for bad in [
            "", "-a", "_a", "A", "a b", "a/b", "..", "a..b", "human:x", "é", "a\n", "a\0", "main", "flock",
            &long,
        ] {
            assert!(bad.parse::<AgentId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn session_keys_parse_back() {
        let agent: AgentId = "dev-code".parse().unwrap();
        let key = SessionKey::new(&agent, SessionKind::Main, "O'Brien München");
        assert_eq!(key.as_str().parse::<SessionKey>().unwrap(), key);
        assert_eq!(key.peer(), "O-Brien-M-nchen");
        let long = SessionKey::new(&agent, SessionKind::Dm, &"x".repeat(500));
        assert_eq!(long.as_str().len(), MAX_SESSION_KEY);
        for bad in [
            "",
            "main",
            "agent:main:flock:dm:x",
            "agent:a:flock:dm:",
            "agent:a:web:dm:x",
            "agent:a:flock:dm:a b",
        ] {
            assert!(bad.parse::<SessionKey>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn parties_are_agents_people_and_flock() {
        for good in ["coder", "human:ann", "human:Ann.B@example", "system"] {
            assert_eq!(good.parse::<Party>().unwrap().to_string(), good);
        }
        let long = format!("human:{}", "x".repeat(65));
        for bad in ["", "human:", "human:a b", "human:\u{202e}x", "human", "all", "Coder", "a\nb", &long] {
            assert!(bad.parse::<Party>().is_err(), "{bad:?}");
        }
        assert_eq!(Party::human("O'Brien\n").to_string(), "human:O-Brien-");
        let client = Party::client("ci").unwrap();
        assert_eq!(("human:token:ci", Ok(client.clone())), (&*client.to_string(), "human:token:ci".parse()));
        assert_ne!(Party::human("token:ci"), client);
        for bad in ["", "a b", "a:b", &"x".repeat(41)] {
            assert_eq!(Party::client(bad), None, "{bad}");
            assert!(format!("human:token:{bad}").parse::<Party>().is_err(), "{bad}");
        }
        assert_eq!(Party::human("").to_string(), "human:-");
    }

    #[test]
    fn models_need_both_parts() {
        let model: ModelRef = "openrouter/meta-llama/llama-3".parse().unwrap();
        assert_eq!((model.provider(), model.model()), ("openrouter", "meta-llama/llama-3"));
        for bad in ["", "gpt", "/x", "x/", "a b/c", "a/b\n"] {
            assert!(bad.parse::<ModelRef>().is_err(), "{bad:?}");
        }
    }
}

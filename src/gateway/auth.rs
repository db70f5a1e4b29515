//! Checks who may send a request: its Host and Origin headers, and the credential that it carries.
//!
//! A web page in a browser on this machine can send requests to loopback. The check of Host refuses names that somebody
//! else resolves to 127.0.0.1. The check of Origin refuses pages of other sites.

use std::sync::Arc;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::channels::person;
use super::error::ApiError;
use super::{person_access, scope};
use crate::config::TrustedOrigin;
use crate::id::{AgentId, ChannelId, Party, SessionKey};
use crate::store::{Channel, ClientToken, Level, Person, RequestRow, SignIn, Task};
use crate::swarm::token::PREFIX;
use crate::swarm::{Actor, SwarmError};

/// The sender of a request, as identified by its credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The owner of the home, who may do everything that a person may.
    Owner,
    /// flock's plugin in OpenClaw. It calls tools as OpenClaw's agents and reports what they do, and nothing else.
    Plugin,
    /// A client with a token of its own, which may do what the token allows.
    Client(Arc<ClientToken>),
    /// A browser that is signed in to the dashboard. It may do what the owner may, as the person who signed in.
    Browser(Arc<BrowserCaller>),
    /// A person of the home beside the owner, with a token or a browser. The person may do what their role allows.
    Person(Arc<PersonCaller>),
}

/// A browser that is signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrowserCaller {
    /// The id of the sign-in.
    pub sign_in: String,
    /// The person who signed in, without `human:`.
    pub person: String,
}

/// A person of the home beside the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PersonCaller {
    pub person: Person,
    /// The name as the sender of requests.
    pub sender: String,
    /// The id of the sign-in, for a browser.
    pub sign_in: Option<String>,
    /// The name of the token with which the person came. `None` for a browser that came otherwise.
    pub token: Option<String>,
    /// The issuer and the subject of the account with which a browser signed in.
    pub account: Option<(String, String)>,
}

impl PersonCaller {
    /// Returns a person who came with this token.
    pub(crate) fn with_token(person: Person, token: String) -> Self {
        Self { sender: person.sender(), person, sign_in: None, token: Some(token), account: None }
    }

    /// Returns a person whose browser is signed in.
    pub(crate) fn with_browser(person: Person, browser: SignIn) -> Self {
        let SignIn { id, token, account, .. } = browser;
        Self { sender: person.sender(), person, sign_in: Some(id), token, account }
    }
}

/// Prefix of the plugin's paths. Only the plugin's token opens them, and it opens no other path, so nobody can call a
/// tool as an agent just by claiming to be one.
const PLUGIN_PREFIX: &str = "/api/plugin/";

/// The services that the tokens of an agent program's turn open. Each service has its own token, no other token opens
/// it, and these tokens open nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnService {
    /// The relay to the agent's model.
    Relay,
    /// flock's tools, over MCP.
    Mcp,
}

impl TurnService {
    /// Returns the service at this path, if it is one of the two.
    #[must_use]
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            "/mcp" => Some(Self::Mcp),
            path if path.starts_with("/relay/") => Some(Self::Relay),
            _ => None,
        }
    }

    /// Returns the error for a token that is good for other paths only.
    #[must_use]
    pub(crate) fn out_of_scope(self) -> ApiError {
        let what = match self {
            Self::Relay => "may ask a model here",
            Self::Mcp => "may call tools here",
        };
        let message =
            format!("only the program that runs an agent's turn {what}, with the token of that turn");
        ApiError::forbidden("out_of_scope", message)
    }

    /// Returns the token of a request.
    ///
    /// For the relay it is in the header in which the program sends the key of its model's API.
    ///
    /// # Errors
    ///
    /// Returns 401 if there is no token.
    pub(crate) fn token(self, headers: &HeaderMap) -> Result<&[u8], ApiError> {
        let named = |name| headers.get(name).map(|value| value.as_bytes().trim_ascii());
        let token = match self {
            Self::Mcp => bearer(headers),
            // The order covers Anthropic's header, Google's header and the bearer token of OpenAI's API.
            Self::Relay => named("x-api-key").or_else(|| named("x-goog-api-key")).or_else(|| bearer(headers)),
        };
        token.filter(|token| !token.is_empty()).ok_or_else(|| {
            ApiError::new(StatusCode::UNAUTHORIZED, "no_token", "this needs the token of a running turn")
        })
    }
}

/// Returns `true` if a path belongs to the plugin.
#[must_use]
pub(crate) fn is_plugin_path(path: &str) -> bool {
    path.starts_with(PLUGIN_PREFIX)
}

impl Caller {
    /// Returns the caller's name as the sender of a request. Idempotency keys and tasks belong to this name.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Owner | Self::Browser(_) => "owner",
            Self::Plugin => "plugin",
            Self::Client(token) => &token.client,
            Self::Person(caller) => &caller.sender,
        }
    }

    /// Returns the person if the caller is one of the home beside the owner.
    #[must_use]
    pub(crate) fn home_person(&self) -> Option<&Person> {
        match self {
            Self::Person(caller) => Some(&caller.person),
            Self::Owner | Self::Plugin | Self::Client(_) | Self::Browser(_) => None,
        }
    }

    /// Returns the id of the sign-in if the request comes from a browser.
    #[must_use]
    pub(crate) fn sign_in(&self) -> Option<&str> {
        match self {
            Self::Browser(browser) => Some(&browser.sign_in),
            Self::Person(caller) => caller.sign_in.as_deref(),
            Self::Owner | Self::Plugin | Self::Client(_) => None,
        }
    }

    /// Returns the party that acts, for the audit and as an author.
    ///
    /// # Errors
    ///
    /// Returns 403 if the caller is no person and speaks for none.
    pub(crate) fn party(&self) -> Result<Party, ApiError> {
        let party = match self {
            Self::Owner => Some(Party::human("owner")),
            Self::Browser(browser) => Some(Party::human(&browser.person)),
            Self::Plugin => None,
            Self::Client(token) => Party::client(&token.name),
            Self::Person(caller) => Some(Party::human(&caller.person.name)),
        };
        party.ok_or_else(|| {
            let message = "only the owner and clients with a token speak as persons";
            ApiError::forbidden("name_of_another", message)
        })
    }

    /// Returns the party that acts under a name that the request gives. The owner may speak for any person. A client
    /// has the name of its token and no other, and a browser the name of the person who signed in.
    ///
    /// # Errors
    ///
    /// Returns 403 if a client or a browser gives another name or the caller speaks for no person, and
    /// [`crate::swarm::SwarmError::Invalid`] if the text is not a valid name.
    pub(crate) fn speaks(&self, given: Option<&str>) -> Result<Actor, ApiError> {
        match (self, given) {
            (Self::Client(token), Some(given)) if given != token.name => {
                let message = format!("the token {} may speak only under its own name", token.name);
                Err(ApiError::forbidden("name_of_another", message))
            }
            (Self::Browser(browser), Some(given)) if given != browser.person => {
                let message = format!("this browser may speak only as {}", browser.person);
                Err(ApiError::forbidden("name_of_another", message))
            }
            (Self::Person(caller), Some(given)) if given != caller.person.name => {
                let message = format!("{} may speak only under that name", caller.person.name);
                Err(ApiError::forbidden("name_of_another", message))
            }
            (Self::Owner, given) => Ok(person(given)?),
            _ => self.party().map(Actor::party),
        }
    }

    /// Returns the person who acts, under the login name that the request of an owner gives. A login name may contain any
    /// character, so it is not checked as in [`Self::speaks`]. Others than the owner act under the name of their credential.
    ///
    /// # Errors
    ///
    /// Returns 403 if the caller is no person and speaks for none, or gives a name that is not its own.
    pub(crate) fn person(&self, given: Option<&str>) -> Result<Party, ApiError> {
        match self {
            Self::Owner => Ok(Party::human(given.unwrap_or("owner"))),
            _ => Ok(self.speaks(given)?.party),
        }
    }

    /// Returns the name under which a request acts whose route asks for one. A person acts under their own.
    ///
    /// # Errors
    ///
    /// Returns 403 if a person gives another name.
    pub(crate) fn acts_as(&self, given: Option<String>) -> Result<Option<String>, ApiError> {
        let Self::Person(caller) = self else { return Ok(given) };
        self.speaks(given.as_deref())?;
        Ok(Some(caller.person.name.clone()))
    }

    /// Refuses the plugin, whose token is only for tool calls. The scope check has already established what a client's
    /// token opens.
    ///
    /// # Errors
    ///
    /// Returns an [`ApiError`] with status 403 and this message if the caller is the plugin.
    pub(crate) fn refuse_plugin(&self, message: &str) -> Result<(), ApiError> {
        match self {
            Self::Owner | Self::Client(_) | Self::Browser(_) | Self::Person(_) => Ok(()),
            Self::Plugin => Err(ApiError::forbidden("owner_only", message)),
        }
    }

    /// Returns `true` if the caller may see this agent.
    #[must_use]
    pub(crate) fn covers(&self, agent: &AgentId) -> bool {
        match self {
            Self::Client(token) => token.covers(agent),
            Self::Person(caller) => caller.person.covers(agent),
            Self::Owner | Self::Plugin | Self::Browser(_) => true,
        }
    }

    /// Returns the agents that the caller is limited to, or `None` for all of them.
    #[must_use]
    pub(crate) fn agents(&self) -> Option<&Vec<AgentId>> {
        match self {
            Self::Client(token) => token.agents.as_ref(),
            Self::Person(caller) => caller.person.agents.as_ref(),
            Self::Owner | Self::Plugin | Self::Browser(_) => None,
        }
    }

    /// Returns `true` if the caller may see a channel.
    #[must_use]
    pub(crate) fn covers_channel(&self, channel: &Channel) -> bool {
        match self {
            Self::Client(token) => scope::covers_channel(token, channel),
            Self::Person(caller) => caller.person.is_on(&channel.id),
            Self::Owner | Self::Plugin | Self::Browser(_) => true,
        }
    }

    /// Refuses a channel that the caller may not see. `channel` is the channel, or `None` if there is none with this id.
    /// They read what the caller posts, and the caller reads what they post.
    ///
    /// # Errors
    ///
    /// Returns 403 for a client and, as for a channel that does not exist, 404 for a person.
    pub(crate) fn check_channel(&self, id: &ChannelId, channel: &Channel) -> Result<(), ApiError> {
        match self {
            Self::Client(token) if !scope::covers_channel(token, channel) => {
                Err(scope::agent_not_covered(token))
            }
            Self::Person(caller) if !caller.person.is_on(&channel.id) => {
                Err(SwarmError::NoChannel(id.clone()).into())
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if the caller may see a task.
    #[must_use]
    pub(crate) fn covers_task(&self, task: &Task) -> bool {
        match self {
            Self::Client(token) => scope::covers_task(token, task),
            Self::Person(caller) => person_access::sees_task(&caller.person, task),
            Self::Owner | Self::Plugin | Self::Browser(_) => true,
        }
    }

    /// Returns `true` if the caller may see a request of an agent.
    #[must_use]
    pub(crate) fn covers_request(&self, row: &RequestRow) -> bool {
        match self {
            Self::Person(caller) => person_access::sees_request(&caller.person, row),
            _ => self.covers(&row.agent),
        }
    }

    /// Returns `true` if the caller may read a session of an agent that it may see.
    #[must_use]
    pub(crate) fn sees_session(&self, session: &SessionKey) -> bool {
        match self {
            Self::Person(caller) => person_access::sees_session(&caller.person, session),
            _ => self.covers(session.agent()),
        }
    }

    /// Refuses a decision about a request of this level.
    ///
    /// # Errors
    ///
    /// Returns 403 if the role of a person does not allow it.
    pub(crate) fn check_level(&self, level: Level) -> Result<(), ApiError> {
        match self {
            Self::Person(caller) if !person_access::may_decide(caller.person.role, level) => {
                Err(person_access::level_not_decided(&caller.person, level))
            }
            _ => Ok(()),
        }
    }

    /// Returns the begin of the peers of sessions that the caller begins with requests, or `None` if they have no mark.
    #[must_use]
    pub(crate) fn request_peer(&self) -> Option<String> {
        match self {
            Self::Client(token) => Some(scope::peer(token)),
            Self::Person(caller) => Some(caller.person.request_peer()),
            Self::Owner | Self::Plugin | Self::Browser(_) => None,
        }
    }

    /// Returns `true` if an event may be shown to the caller. `is_covered` says whether a client's token covers the
    /// channel of the event.
    #[must_use]
    pub(crate) fn sees_event(&self, data: &Value, is_covered: bool) -> bool {
        match self {
            Self::Client(token) => scope::may_see_event(token, data, |_| is_covered),
            Self::Person(caller) => person_access::sees_event(&caller.person, data),
            Self::Owner | Self::Plugin | Self::Browser(_) => true,
        }
    }

    /// Returns the token if the caller is a client.
    #[must_use]
    pub(crate) fn client(&self) -> Option<&ClientToken> {
        match self {
            Self::Client(token) => Some(token),
            Self::Owner | Self::Plugin | Self::Browser(_) | Self::Person(_) => None,
        }
    }

    /// Refuses an agent that the caller may not see.
    ///
    /// # Errors
    ///
    /// Returns 403 if a client's token does not cover the agent. For a person it is 404, as for an agent that does not
    /// exist.
    pub(crate) fn check_agent(&self, agent: &AgentId) -> Result<(), ApiError> {
        match self {
            Self::Client(token) if !token.covers(agent) => Err(scope::agent_not_covered(token)),
            Self::Person(caller) if !caller.person.covers(agent) => {
                Err(person_access::unknown_agent(agent.as_str()))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a turn in a session that is not the caller's own.
    ///
    /// # Errors
    ///
    /// Returns 403 if the session does not belong to the client or the person.
    pub(crate) fn check_session(&self, session: &SessionKey) -> Result<(), ApiError> {
        match self {
            Self::Client(token) if !scope::is_own(token, session) => Err(scope::session_not_owned(token)),
            Self::Person(caller) if !caller.person.owns(session) => {
                Err(person_access::session_not_owned(&caller.person))
            }
            _ => Ok(()),
        }
    }

    /// Refuses to stop or change a session that a person may not control. The scope check has already refused clients.
    ///
    /// # Errors
    ///
    /// Returns 403 if the session is another person's, or the role does not allow it.
    pub(crate) fn check_control(&self, session: &SessionKey) -> Result<(), ApiError> {
        match self {
            Self::Person(caller) if !person_access::controls_session(&caller.person, session) => {
                Err(person_access::session_not_owned(&caller.person))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a path or method that the credential is not for.
    ///
    /// # Errors
    ///
    /// Returns 403 if the credential does not open the path.
    pub(crate) fn check_scope(&self, method: &Method, path: &str) -> Result<(), ApiError> {
        let message = match (self, is_plugin_path(path)) {
            (Self::Owner | Self::Browser(_), false) | (Self::Plugin, true) => return Ok(()),
            (Self::Client(token), false) => return scope::check(token, method, path),
            (Self::Person(caller), false) => return person_access::check(&caller.person, method, path),
            (Self::Owner | Self::Client(_) | Self::Browser(_) | Self::Person(_), true) => {
                "only flock's plugin in OpenClaw may call tools here"
            }
            (Self::Plugin, false) => "this token is only for the tool calls of OpenClaw's agents",
        };
        Err(ApiError::forbidden("out_of_scope", message))
    }
}

/// Refuses a request that names another host than this gateway, or that comes from another site. `trusted` has the
/// origins at which the owner lets browsers reach the gateway from elsewhere.
///
/// # Errors
///
/// Returns 403 for a foreign Host or Origin.
pub(crate) fn check_source(parts: &Parts, port: u16, trusted: &[TrustedOrigin]) -> Result<(), ApiError> {
    let is_ours = |authority: &str| {
        is_own_authority(authority, port) || trusted.iter().any(|origin| origin.has_authority(authority))
    };
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    // More than one Host is refused, because two readers could take different ones. An absolute URI names a host too.
    let is_foreign = hosts.next().is_some()
        || !is_ours(host)
        || parts.uri.authority().is_some_and(|authority| !is_ours(authority.as_str()));
    if is_foreign {
        return Err(ApiError::forbidden(
            "foreign_host",
            "the Host header of this request does not name this gateway",
        )
        .with_hint(format!("use http://127.0.0.1:{port}")));
    }
    // A request without an Origin passes. Browsers send one, and it must be this gateway's own.
    let mut origins = parts.headers.get_all(header::ORIGIN).iter();
    let is_foreign = origins.any(|origin| {
        let origin = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
        !origin.is_some_and(|origin| {
            origin.authority().is_some_and(|authority| match origin.scheme_str() {
                Some("http") => is_same_origin(authority.as_str(), port),
                Some("https") => trusted.iter().any(|trusted| trusted.has_authority(authority.as_str())),
                _ => false,
            })
        })
    });
    if is_foreign {
        return Err(ApiError::forbidden("foreign_origin", "requests from pages of other sites are refused"));
    }
    Ok(())
}

/// Returns `true` if `name[:port]` is this gateway in the form in which a browser names the origin of its pages. An
/// origin without a port has port 80.
fn is_same_origin(authority: &str, port: u16) -> bool {
    let has_port = authority.rsplit_once(':').is_some_and(|(_, digits)| !digits.contains(']'));
    is_own_authority(authority, port) && (has_port || port == 80)
}

/// Returns `true` if `name[:port]` is a loopback name or address with the gateway's port or without a port.
fn is_own_authority(authority: &str, port: u16) -> bool {
    let (name, given) = match authority.rsplit_once(':') {
        Some((name, digits)) if !name.is_empty() && !digits.contains(']') => (name, Some(digits)),
        _ => (authority, None),
    };
    let name_is_ours = ["127.0.0.1", "localhost", "[::1]"].iter().any(|ours| name.eq_ignore_ascii_case(ours));
    name_is_ours && given.is_none_or(|digits| digits.parse() == Ok(port))
}

/// Returns the caller that the credential in these headers belongs to.
///
/// `owner` is the owner's token, `plugin` looks up the plugin's token, and `client` looks up a valid client token. An
/// empty token authenticates nobody.
///
/// # Errors
///
/// Returns 401 if there is no token or a wrong one, and any error of `client`.
pub(crate) async fn authenticate(
    headers: &HeaderMap,
    owner: &str,
    plugin: impl FnOnce() -> Option<String>,
    client: impl AsyncFnOnce(&[u8]) -> Result<Option<ClientToken>, ApiError>,
) -> Result<Caller, ApiError> {
    let unauthorised = |code, message: &str| {
        ApiError::new(StatusCode::UNAUTHORIZED, code, message)
            .with_hint("flock config get gateway.auth.token")
    };
    let Some(token) = bearer(headers) else {
        return Err(unauthorised("no_token", "this needs the header Authorization: Bearer <token>"));
    };
    // The owner's token needs no look-up, so it comes first.
    if matches_token(token, owner) {
        return Ok(Caller::Owner);
    }
    // The prefix distinguishes a client's token from the others.
    if token.starts_with(PREFIX.as_bytes()) {
        // The lookup is by hash, so its timing reveals nothing about the token.
        let known = client(token).await?.map(|known| Caller::Client(Arc::new(known)));
        return known.ok_or_else(unknown_token);
    }
    // This comes last, because it reads a file.
    if plugin().is_some_and(|plugin| matches_token(token, &plugin)) {
        return Ok(Caller::Plugin);
    }
    Err(unauthorised("wrong_token", "the token is not the one of this home"))
}

/// Returns the refusal for a token that is not good (any more).
pub(crate) fn unknown_token() -> ApiError {
    let message = "the token is unknown, revoked or expired";
    ApiError::new(StatusCode::UNAUTHORIZED, "wrong_token", message).with_hint("flock token list")
}

/// Compares a token in constant time. Both digests have the same length, so the time reveals neither the content nor
/// the length of the token.
fn matches_token(token: &[u8], known: &str) -> bool {
    let same = Sha256::digest(token).ct_eq(&Sha256::digest(known.as_bytes()));
    !known.is_empty() && bool::from(same)
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii();
    // The scheme ignores case, as HTTP requires.
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn parts(uri: &str, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_loopback_with_our_port_is_this_gateway() {
        for good in ["127.0.0.1:3779", "localhost", "LOCALHOST:3779", "[::1]:3779", "[::1]", "127.0.0.1"] {
            assert!(check_source(&parts("/", &[("host", good)]), 3779, &[]).is_ok(), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "127.0.0.1:80",
            "127.0.0.1.evil.example",
            "localhost.",
            "10.0.0.1:3779",
            "127.0.0.1:3779@evil",
            "[::1",
            "localhost:",
            "0.0.0.0:3779",
        ] {
            let error = check_source(&parts("/", &[("host", bad)]), 3779, &[]).unwrap_err();
            assert_eq!(error.status, StatusCode::FORBIDDEN, "{bad:?}");
        }
        assert!(check_source(&parts("/", &[]), 3779, &[]).is_err(), "no Host at all");
        assert!(
            check_source(&parts("/", &[("host", "localhost"), ("host", "localhost")]), 3779, &[]).is_err()
        );
        assert!(check_source(&parts("http://evil.example/", &[("host", "localhost")]), 3779, &[]).is_err());
    }

    #[test]
    fn an_origin_is_absent_or_ours() {
        let with = |origin| parts("/", &[("host", "127.0.0.1:3779"), ("origin", origin)]);
        assert!(check_source(&with("http://127.0.0.1:3779"), 3779, &[]).is_ok());
        assert!(check_source(&with("http://localhost:3779"), 3779, &[]).is_ok());
        assert!(check_source(&with("http://[::1]:3779"), 3779, &[]).is_ok());
        let on_80 = parts("/", &[("host", "127.0.0.1"), ("origin", "http://127.0.0.1")]);
        assert!(check_source(&on_80, 80, &[]).is_ok(), "its port is 80");
        for bad in [
            "null",
            "https://127.0.0.1:3779",
            "http://127.0.0.1:80",
            "http://127.0.0.1",
            "http://localhost",
            "http://[::1]",
            "http://127.0.0.1:3780",
            "http://evil.example",
            "file://",
        ] {
            let error = check_source(&with(bad), 3779, &[]).unwrap_err();
            assert_eq!(error.code, "foreign_origin", "{bad}");
        }
    }

    #[test]
    fn an_origin_that_the_owner_trusts_is_ours_too() {
        let trusted = ["https://flock.example.org".parse().unwrap()];
        let with = |host, origin: Option<&'static str>| {
            let origin = origin.map(|origin| ("origin", origin));
            let headers: Vec<_> = [Some(("host", host)), origin].into_iter().flatten().collect();
            check_source(&parts("/", &headers), 3779, &trusted).map_err(|error| error.code.into_owned())
        };
        let ours = Some("https://flock.example.org");
        assert_eq!(with("flock.example.org", ours), Ok(()));
        assert_eq!(with("flock.example.org:443", ours), Ok(()));
        assert_eq!(with("127.0.0.1:3779", None), Ok(()));
        for other in ["http://flock.example.org", "https://example.org", "https://flock.example.org:444"] {
            assert_eq!(with("flock.example.org", Some(other)), Err("foreign_origin".to_owned()), "{other}");
        }
        assert_eq!(with("evil.example.org", None), Err("foreign_host".to_owned()));
    }

    #[test]
    fn a_browser_acts_as_the_person_who_signed_in() {
        let browser =
            Caller::Browser(Arc::new(BrowserCaller { sign_in: "1".to_owned(), person: "ann".to_owned() }));
        assert_eq!(browser.name(), "owner");
        assert_eq!(browser.party().unwrap().to_string(), "human:ann");
        assert_eq!(browser.speaks(None).unwrap().party.to_string(), "human:ann");
        assert_eq!(browser.speaks(Some("ann")).unwrap().party.to_string(), "human:ann");
        assert_eq!(browser.speaks(Some("bob")).unwrap_err().code, "name_of_another");
        assert!(browser.check_scope(&Method::POST, "/api/freeze").is_ok());
        assert!(browser.check_scope(&Method::POST, "/api/plugin/events").is_err());
    }

    #[tokio::test]
    async fn only_the_whole_token_is_the_owner() {
        let with = |value| parts("/", &[("authorization", value)]).headers;
        assert_eq!(
            authenticate(&with("Bearer abc"), "abc", || None, async |_: &[u8]| Ok(None)).await.unwrap(),
            Caller::Owner
        );
        assert_eq!(
            authenticate(&with("bearer  abc "), "abc", || None, async |_: &[u8]| Ok(None)).await.unwrap(),
            Caller::Owner
        );
        for bad in ["", "abc", "Basic abc", "Bearer", "Bearer ", "Bearer ab", "Bearer abcd", "Bearer abc abc"]
        {
            let error =
                authenticate(&with(bad), "abc", || None, async |_: &[u8]| Ok(None)).await.unwrap_err();
            assert_eq!(error.status, StatusCode::UNAUTHORIZED, "{bad:?}");
        }
        assert!(
            authenticate(&with("Bearer "), "", || None, async |_: &[u8]| Ok(None)).await.is_err(),
            "an empty token lets nobody in"
        );
        assert!(authenticate(&HeaderMap::new(), "", || None, async |_: &[u8]| Ok(None)).await.is_err());
    }

    #[tokio::test]
    async fn the_plugins_token_is_for_its_paths_and_the_owners_for_all_others() {
        let with = |value| parts("/", &[("authorization", value)]).headers;
        let plugin = || Some("plug".to_owned());
        let who = async |value| authenticate(&with(value), "abc", plugin, async |_: &[u8]| Ok(None)).await;
        assert_eq!(who("Bearer abc").await.unwrap(), Caller::Owner);
        assert_eq!(who("Bearer plug").await.unwrap(), Caller::Plugin);
        for bad in ["Bearer plugg", "Bearer plu", "Bearer "] {
            assert_eq!(who(bad).await.unwrap_err().status, StatusCode::UNAUTHORIZED, "{bad}");
        }
        assert!(
            authenticate(&with("Bearer x"), "abc", || Some(String::new()), async |_: &[u8]| Ok(None))
                .await
                .is_err()
        );
        for path in ["/api/plugin/tools/flock_status", "/api/plugin/events"] {
            assert!(Caller::Plugin.check_scope(&Method::POST, path).is_ok());
            assert_eq!(
                Caller::Owner.check_scope(&Method::POST, path).unwrap_err().status,
                StatusCode::FORBIDDEN
            );
        }
        for path in [
            "/",
            "/api/agents",
            "/api/plugin",
            "/api/approvals/x/approve",
            "/v1/chat/completions",
            "/metrics",
        ] {
            assert!(Caller::Owner.check_scope(&Method::POST, path).is_ok());
            assert_eq!(
                Caller::Plugin.check_scope(&Method::POST, path).unwrap_err().code,
                "out_of_scope",
                "{path}"
            );
        }
    }

    #[tokio::test]
    async fn a_clients_token_is_known_by_its_beginning_and_speaks_under_its_own_name() {
        let with = |value| parts("/", &[("authorization", value)]).headers;
        let known = async |token: &[u8]| {
            let token = (token == b"flk_good").then(|| ClientToken {
                name: "ci".to_owned(),
                client: "ci".to_owned(),
                agents: Some(vec!["coder".parse().unwrap()]),
                rights: vec![crate::store::Right::Chat],
                created_at: 0,
                expires_at: None,
                revoked_at: None,
                person: None,
                used_at: None,
            });
            Ok(token)
        };
        let plugin = || Some("flk_plug".to_owned());
        let who = async |value| authenticate(&with(value), "abc", plugin, known).await;
        let client = who("Bearer flk_good").await.unwrap();
        let said = |caller: &Caller, name| caller.speaks(name).map(|by| by.party.to_string());
        assert_eq!((client.name(), &*said(&client, None).unwrap()), ("ci", "human:token:ci"));
        assert_eq!(said(&client, Some("ci")).unwrap(), "human:token:ci");
        for other in ["ann", "owner", "token:ci"] {
            assert_eq!(said(&client, Some(other)).unwrap_err().code, "name_of_another", "{other}");
        }
        assert!(client.check_agent(&"coder".parse().unwrap()).is_ok());
        assert_eq!(client.check_agent(&"tester".parse().unwrap()).unwrap_err().code, "out_of_scope");
        assert_eq!(client.check_scope(&Method::POST, "/api/plugin/events").unwrap_err().code, "out_of_scope");
        for bad in ["Bearer flk_", "Bearer flk_plug", "Bearer flk_goo"] {
            assert_eq!(who(bad).await.unwrap_err().status, StatusCode::UNAUTHORIZED, "{bad}");
        }
        assert_eq!(said(&Caller::Owner, Some("ann")).unwrap(), "human:ann");
        assert!(said(&Caller::Owner, Some("token:ci")).is_err(), "the owner gives no client's name");
        assert!(said(&Caller::Plugin, None).is_err());
    }
}

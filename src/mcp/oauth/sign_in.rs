//! A sign-in: the address that a person opens in a browser, and the answer that the browser brings back.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::answer::AuthorizationAnswer;
use super::discovery::{self, Found};
use super::metadata::AuthorizationMetadata;
use super::requests::{Requests, shown};
use super::scopes;
use super::tokens::{ClientAuth, OAuthClient, StoredSignIn, TokenFile, Tokens};
use crate::config::McpServer;
use crate::home::Home;
use crate::id::McpServerName;
use crate::mcp::error::McpError;
use crate::mcp::remote;

/// The most bytes of the id or the secret of a client.
const MAX_CLIENT: usize = 2 << 10;
/// The scope for a refresh token at servers that have a scope for it.
const OFFLINE: &str = "offline_access";

/// The choices of the person for a sign-in.
#[derive(Clone, Default)]
pub(crate) struct SignInChoice {
    /// The id of a client that was registered beforehand, or the https address of a document that describes one.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<String>,
    /// The scopes to ask for. The server's own proposal if it is empty.
    pub scopes: Vec<String>,
}

/// A sign-in that waits for a person.
pub(crate) struct SignIn {
    server: McpServerName,
    file: TokenFile,
    requests: Requests,
    found: Found,
    token_endpoint: String,
    client: OAuthClient,
    redirect: String,
    scopes: Vec<String>,
    address: Url,
    state: String,
    verifier: String,
}

/// A code that the browser has brought back for this sign-in.
pub(crate) struct AuthorizationCode(String);

impl SignIn {
    /// Begins a sign-in. The browser is led back to `redirect`.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has no sign-in, or if flock can't be a client of it.
    pub(crate) async fn begin(
        home: &Home,
        server: &McpServer,
        redirect: &str,
        choice: SignInChoice,
    ) -> Result<Self, McpError> {
        let failed = |reason: String| McpError::SignIn { server: server.name.clone(), reason };
        let remote = server.remote.as_ref().ok_or_else(|| failed("it has no URL".to_owned()))?;
        let http = remote::client_for(&server.name, remote).await?;
        let requests = Requests::with(http.clone(), remote);
        let found = discovery::find(home, server, remote, (http, &requests)).await.map_err(failed)?;
        let file = TokenFile::new(home, &server.name, remote);
        let scopes = wanted_scopes(&file, &found, &choice)?;
        let metadata = &found.metadata;
        let missing = |what: &str| failed(format!("the authorization server names no {what}"));
        let place = metadata.authorization_endpoint.as_deref();
        let place = place.ok_or_else(|| missing("place to sign in at"))?;
        let mut address = requests.place(place).map_err(failed)?;
        let token_endpoint = metadata.token_endpoint.clone().ok_or_else(|| missing("place for tokens"))?;
        requests.place(&token_endpoint).map_err(failed)?;
        let client = client(metadata, &requests, (redirect, &scopes), choice).await.map_err(failed)?;
        let (state, verifier) = (random(), random());
        let challenge = challenge(&verifier);
        address
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", redirect)
            .append_pair("state", &state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &found.resource);
        if !scopes.is_empty() {
            address.query_pairs_mut().append_pair("scope", &scopes.join(" "));
        }
        Ok(Self {
            server: server.name.clone(),
            file,
            requests,
            found,
            token_endpoint,
            client,
            redirect: redirect.to_owned(),
            scopes,
            address,
            state,
            verifier,
        })
    }

    /// Returns the address that the person opens in a browser.
    #[must_use]
    pub(crate) fn address(&self) -> &str {
        self.address.as_str()
    }

    /// Returns the name of the authorization server, which the person should know.
    #[must_use]
    pub(crate) fn authorization_server(&self) -> String {
        match self.found.issuer.as_str() {
            "" => self.address.origin().ascii_serialization(),
            issuer => issuer.to_owned(),
        }
    }

    /// Returns the scopes that are asked for. Empty if the server decides.
    #[must_use]
    pub(crate) fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Reads the address that the browser was led back to. Returns `None` if it is not the answer to this sign-in: any web
    /// page and any program can ask for an address of this machine.
    ///
    /// # Errors
    ///
    /// Returns an error if the sign-in was refused, or if the answer is from another authorization server.
    pub(crate) fn answer(&self, back: &str) -> Result<Option<AuthorizationCode>, McpError> {
        let Some(query) = back.strip_prefix(&self.redirect).and_then(|rest| rest.strip_prefix('?')) else {
            return Ok(None);
        };
        let Some(answer) = AuthorizationAnswer::parse(query) else { return Ok(None) };
        let part = |name: &str| answer.part(name);
        let is_own =
            part("state").is_some_and(|state| bool::from(state.as_bytes().ct_eq(self.state.as_bytes())));
        if !is_own {
            return Ok(None);
        }
        // Without this check, one authorization server could be given the code of another (RFC 9207).
        match part("iss") {
            Some(issuer) if issuer != self.found.issuer => {
                let text =
                    format!("the answer is from another authorization server, {:?}", shown(issuer, &[]));
                return Err(self.failed(text));
            }
            None if self.found.metadata.names_issuer() => {
                return Err(
                    self.failed("the answer does not say which authorization server it is from".to_owned())
                );
            }
            _ => {}
        }
        if let Some(error) = part("error") {
            let why =
                part("error_description").map(|text| format!(": {}", shown(text, &[]))).unwrap_or_default();
            return Err(self.failed(format!("it was refused: {}{why}", shown(error, &[]))));
        }
        let code = part("code").filter(|code| !code.is_empty());
        let code = code.ok_or_else(|| self.failed("the answer has no code".to_owned()))?;
        Ok(Some(AuthorizationCode(code.to_owned())))
    }

    /// Exchanges the code for tokens and stores them.
    ///
    /// # Errors
    ///
    /// Returns an error if the authorization server gives no tokens, or if they can't be stored.
    pub(crate) async fn finish(self, code: AuthorizationCode) -> Result<(), McpError> {
        let code = code.0.as_str();
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &*self.redirect),
            ("code_verifier", &*self.verifier),
            ("resource", &*self.found.resource),
        ];
        let answer = self.requests.post_form(&self.token_endpoint, &form, &self.client).await;
        let answer = answer.map_err(|why| self.failed(why))?;
        if !answer.is_success() {
            let sent = [code, &*self.verifier, self.client.secret.as_deref().unwrap_or_default()];
            return Err(
                self.failed(format!("the authorization server gave no token: {}", answer.reason(&sent)))
            );
        }
        let read = Tokens::read(&answer.json::<Value>().unwrap_or_default());
        let (tokens, given) = read.map_err(|why| self.failed(why.to_owned()))?;
        let stored = StoredSignIn {
            id: random(),
            url: self.file.url().to_owned(),
            issuer: self.found.issuer.clone(),
            token_endpoint: self.token_endpoint.clone(),
            revocation_endpoint: self.found.metadata.revocation_endpoint.clone(),
            resource: self.found.resource.clone(),
            client: self.client.clone(),
            tokens: Some(tokens),
            // Without a word about scopes, they are those that were asked for (RFC 6749, section 5.1).
            scopes: given.unwrap_or_else(|| self.scopes.clone()),
            missing: Vec::new(),
            ended: None,
        };
        let _lock = self.file.lock().await?;
        Ok(self.file.write(&stored)?)
    }

    fn failed(&self, reason: String) -> McpError {
        McpError::SignIn { server: self.server.clone(), reason }
    }
}

/// Returns the scopes to ask for: those of the person; otherwise those that the server wants, with those that the present
/// sign-in has if it has too few.
fn wanted_scopes(file: &TokenFile, found: &Found, choice: &SignInChoice) -> Result<Vec<String>, McpError> {
    let mut wanted = Vec::new();
    if !choice.scopes.is_empty() {
        scopes::add(&mut wanted, choice.scopes.iter().cloned());
        return Ok(wanted);
    }
    if let Some(stored) = file.read()?.filter(|stored| !stored.missing.is_empty()) {
        scopes::add(&mut wanted, stored.scopes.into_iter().chain(stored.missing));
    }
    scopes::add(&mut wanted, found.scopes.iter().cloned());
    let supported = found.metadata.scopes_supported.as_deref().unwrap_or_default();
    if !wanted.is_empty() && supported.iter().any(|scope| scope == OFFLINE) {
        scopes::add(&mut wanted, [OFFLINE.to_owned()]);
    }
    Ok(wanted)
}

/// Returns what flock is to the authorization server: the client of the person's choice, or one that it registers now
/// (RFC 7591).
async fn client(
    metadata: &AuthorizationMetadata,
    requests: &Requests,
    (redirect, scopes): (&str, &[String]),
    choice: SignInChoice,
) -> Result<OAuthClient, String> {
    let supported = metadata.token_endpoint_auth_methods_supported.as_deref();
    let supports = |method: &str| supported.is_some_and(|list| list.iter().any(|listed| listed == method));
    let with_secret = metadata.auth_with_secret();
    if let Some(id) = choice.client_id {
        if id.starts_with("https://") && metadata.client_id_metadata_document_supported != Some(true) {
            return Err("the authorization server does not support addresses as ids of clients".to_owned());
        }
        let auth = if choice.client_secret.is_some() { with_secret } else { ClientAuth::None };
        return Ok(OAuthClient { id, secret: choice.client_secret, auth });
    }
    let place = metadata.registration_endpoint.as_deref().ok_or(
        "the authorization server does not let flock register itself; register a client there, and name it with --client-id",
    )?;
    let asked = match supported {
        Some(_) if !supports("none") => with_secret,
        _ => ClientAuth::None,
    };
    let mut document = json!({
        "client_name": "flock",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": asked,
        "application_type": "native",
    });
    if !scopes.is_empty() {
        document["scope"] = scopes.join(" ").into();
    }
    let answer = requests.post_json(place, &document).await?;
    if !answer.is_success() {
        return Err(format!("the authorization server did not register flock: {}", answer.reason(&[])));
    }
    let registered = answer.json::<Value>().unwrap_or_default();
    let text = |name: &str| {
        let fits = |text: &&str| {
            (1..=MAX_CLIENT).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, 0x20..=0x7e))
        };
        registered[name].as_str().filter(fits).map(str::to_owned)
    };
    let id = text("client_id").ok_or("the authorization server registered flock, but gave it no id")?;
    let secret = text("client_secret");
    let auth = match registered["token_endpoint_auth_method"].as_str() {
        Some("none") => ClientAuth::None,
        Some("client_secret_basic") => ClientAuth::Basic,
        Some("client_secret_post") => ClientAuth::Post,
        Some(_) => {
            return Err(
                "the authorization server wants a proof of the client that flock does not know".to_owned()
            );
        }
        // It gave what was asked for, unless it gave a secret to a client that it let choose.
        None if asked == ClientAuth::None && (supports("none") || secret.is_none()) => ClientAuth::None,
        None => with_secret,
    };
    if auth != ClientAuth::None && secret.is_none() {
        return Err("the authorization server registered flock, but gave it no secret".to_owned());
    }
    Ok(OAuthClient { id, secret: secret.filter(|_| auth != ClientAuth::None), auth })
}

/// Returns the challenge of a proof key (RFC 7636) by the method S256.
pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// Returns 256 random bits as a text for addresses.
pub(crate) fn random() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

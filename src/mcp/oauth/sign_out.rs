//! The end of a sign-in: the tokens are revoked where the authorization server offers that (RFC 7009), and removed.

use super::requests::Requests;
use super::tokens::{StoredSignIn, TokenFile};
use crate::config::McpServer;
use crate::home::Home;
use crate::mcp::error::McpError;

/// The fate of the tokens at the authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenRevocation {
    Done,
    /// The authorization server does not offer it, so it accepts them until they end.
    NotOffered,
    /// It failed for this reason, so they may be accepted until they end.
    Failed(String),
}

/// Ends the sign-in to a server. The tokens are removed here whatever the authorization server says. Returns `None` if there
/// was no sign-in.
///
/// # Errors
///
/// Returns an error if the file can't be read or removed.
pub(crate) async fn sign_out(home: &Home, server: &McpServer) -> Result<Option<TokenRevocation>, McpError> {
    let Some(remote) = &server.remote else { return Ok(None) };
    let file = TokenFile::new(home, &server.name, remote);
    let _lock = file.lock().await?;
    let stored = file.read_any()?;
    file.remove()?;
    let Some(stored) = stored else { return Ok(None) };
    let revoked = match Requests::new(server, remote).await {
        Ok(requests) => revoke(&requests, &stored).await,
        Err(error) => TokenRevocation::Failed(error.to_string()),
    };
    Ok(Some(revoked))
}

async fn revoke(requests: &Requests, stored: &StoredSignIn) -> TokenRevocation {
    let Some(tokens) = &stored.tokens else { return TokenRevocation::Done };
    let Some(place) = stored.revocation_endpoint.as_deref() else { return TokenRevocation::NotOffered };
    // The refresh token first: many servers end the access tokens with it.
    let refresh = tokens.refresh_token.as_deref().map(|token| (token, "refresh_token"));
    for (token, kind) in refresh.into_iter().chain([(&*tokens.access_token, "access_token")]) {
        let form = [("token", token), ("token_type_hint", kind)];
        match requests.post_form(place, &form, &stored.client).await {
            Ok(answer) if answer.is_success() => {}
            Ok(answer) => {
                let sent = [token, stored.client.secret.as_deref().unwrap_or_default()];
                return TokenRevocation::Failed(answer.reason(&sent));
            }
            Err(reason) => return TokenRevocation::Failed(reason),
        }
    }
    TokenRevocation::Done
}

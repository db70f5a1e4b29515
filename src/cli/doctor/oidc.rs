//! Checks of the sign-in at a provider of OpenID Connect: the provider, the secret of the client, the addresses to which
//! browsers come back, and the people who have an account there.

use std::sync::Arc;

use super::check::Check;
use crate::cli::database;
use crate::config::{Config, OidcSettings};
use crate::gateway::sign_in::oidc::{Provider, RETURN_PATH};
use crate::home::Home;
use crate::mcp::oauth::Requests;
use crate::provider::key;
use crate::store::Person;

const NAME: &str = "sign-in";
/// The command that shows the setting.
const SHOW: &str = "flock config get plugins.entries.flock.config.dashboard.oidc";
/// The command that sets the secret of the client.
const SET_SECRET: &str = "flock config set plugins.entries.flock.config.dashboard.oidc.clientSecret -";

/// Checks the sign-in. Nothing is checked if there is no provider. `port` is that of the running gateway.
pub(super) async fn all(home: &Home, config: &Config, port: Option<u16>) -> Vec<Check> {
    let Some(settings) = &config.oidc else { return Vec::new() };
    let mut checks = vec![provider(settings, config).await];
    if let Some(reference) = &settings.client_secret
        && let Err(problem) = key::named(home, reference)
    {
        let text = format!("flock can't prove to {} which client it is: {problem}", settings.issuer);
        checks.push(Check::warn(NAME, text, SET_SECRET));
    }
    checks.extend(accounts(home, settings));
    if let Some(port) = port {
        for origin in origins(config, port) {
            checks.extend(way_back(&origin).await);
        }
    }
    checks
}

/// Reads the document and the keys of the provider.
async fn provider(settings: &Arc<OidcSettings>, config: &Config) -> Check {
    let issuer = &settings.issuer;
    let found = async {
        let provider = Provider::discover(Arc::clone(settings)).await?;
        provider.keys(None).await
    };
    match found.await {
        Ok(keys) if keys.len() == 0 => {
            let text = format!("{issuer} has no key for RS256, ES256 or EdDSA, so nobody can sign in there");
            Check::warn(NAME, text, SHOW)
        }
        Ok(_) => {
            let back: Vec<String> =
                origins(config, config.port).iter().map(|origin| format!("{origin}{RETURN_PATH}")).collect();
            Check::ok(NAME, format!("people sign in at {issuer}; they come back to {}", back.join(" or ")))
        }
        Err(problem) => {
            let text = format!("nobody can sign in at {issuer}: {problem}; the other ways to sign in work");
            Check::warn(NAME, text, SHOW)
        }
    }
}

/// Returns the origins at which browsers reach the gateway.
fn origins(config: &Config, port: u16) -> Vec<String> {
    let own = format!("http://127.0.0.1:{port}");
    std::iter::once(own).chain(config.trusted_origins.iter().map(ToString::to_string)).collect()
}

/// Warns if an address to which browsers come back does not lead to the gateway.
async fn way_back(origin: &str) -> Option<Check> {
    let place = format!("{origin}{RETURN_PATH}");
    let asked = async {
        let requests = Requests::beginning_at(origin, true).await?;
        requests.get(&requests.place(&place)?).await
    };
    let problem = match asked.await {
        // The gateway knows no sign-in that this request would end.
        Ok(answer) if answer.status == 401 => return None,
        Ok(answer) => format!("something else answers there (HTTP {})", answer.status),
        Err(problem) => problem,
    };
    let text = format!("a browser that has signed in does not come back by {place}: {problem}");
    Some(Check::warn(NAME, text, "flock config get plugins.entries.flock.config.dashboard"))
}

/// Warns if nobody has an account at the provider.
fn accounts(home: &Home, settings: &OidcSettings) -> Option<Check> {
    let read = database::read_view(home, async |reader| reader.people().list().await);
    let people = match read {
        Ok(people) => people.unwrap_or_default(),
        Err(error) => return Some(Check::failed(NAME, error.into())),
    };
    let is_bound = |person: &Person| {
        person.is_active() && person.oidc.as_ref().is_some_and(|account| account.issuer == settings.issuer)
    };
    let text = format!("nobody of this home has an account at {}", settings.issuer);
    let hint = "flock person set NAME --oidc-subject SUBJECT";
    (!people.iter().any(is_bound)).then(|| Check::warn(NAME, text, hint))
}

//! Checks and stores the subscription of a browser.

use serde::{Deserialize, Serialize};

use super::encryption::{AUTH_SECRET, is_public_key};
use super::{PushSettings, alert, base64url, endpoint};
use crate::clock::unix_ms;
use crate::gateway::state::Gateway;
use crate::store::{Level, PushSubscription, StoreError};
use crate::swarm::Actor;

/// A subscription as a browser describes it (`PushSubscription.toJSON()`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BrowserSubscription {
    /// The address at the push service.
    pub endpoint: String,
    pub keys: BrowserKeys,
}

/// The keys of a browser, in base64 for addresses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BrowserKeys {
    /// The public key, an uncompressed point of P-256.
    pub p256dh: String,
    /// The authentication secret, 16 bytes.
    pub auth: String,
}

/// The reason why a subscription is refused: the field and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadSubscription {
    pub field: &'static str,
    pub problem: &'static str,
}

/// Checks a subscription for the browser of this sign-in.
///
/// # Errors
///
/// Returns the field that is wrong.
pub(crate) fn checked(
    sign_in: &str,
    described: &BrowserSubscription,
    settings: PushSettings,
    now: i64,
) -> Result<PushSubscription, BadSubscription> {
    let url = endpoint::parse(&described.endpoint, settings)
        .map_err(|problem| BadSubscription { field: "endpoint", problem })?;
    let p256dh = base64url::decode(&described.keys.p256dh).filter(|key| is_public_key(key));
    let p256dh =
        p256dh.ok_or(BadSubscription { field: "keys.p256dh", problem: "it is not a point of P-256" })?;
    let auth = base64url::decode(&described.keys.auth).filter(|secret| secret.len() == AUTH_SECRET);
    let auth = auth.ok_or(BadSubscription { field: "keys.auth", problem: "it is not 16 bytes in base64" })?;
    Ok(PushSubscription {
        id: crate::id::hex(&rand::random::<[u8; 4]>()),
        sign_in: sign_in.to_owned(),
        endpoint: url.into(),
        p256dh,
        auth,
        created_at: now,
        result: None,
        result_at: None,
        failures: 0,
    })
}

/// Stores a subscription. Its person sees what waits now, so they are told only of what comes later. Returns `false` if
/// there are too many subscriptions.
///
/// # Errors
///
/// Returns the store's error if the database can't be read or written.
pub(crate) async fn add(gateway: &Gateway, person: &str, new: PushSubscription) -> Result<bool, StoreError> {
    let seen = alert::current(gateway).await?.into_iter().map(|alert| alert.subject).collect();
    let service = endpoint::service(&new.endpoint);
    let entry = Actor::human(person).entry("dashboard.subscribe", &new.sign_in, Level::Yellow, service);
    gateway.swarm.store().push_subscriptions().add(new, seen, entry, unix_ms()).await
}

/// Ends the subscription of a sign-in. Returns `false` if there is none.
///
/// # Errors
///
/// Returns the store's error if the database can't be written.
pub(crate) async fn end(gateway: &Gateway, person: &str, sign_in: &str) -> Result<bool, StoreError> {
    let entry = Actor::human(person).entry("dashboard.unsubscribe", sign_in, Level::Green, String::new());
    gateway.swarm.store().push_subscriptions().end(sign_in.to_owned(), entry, unix_ms()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_nothing_can_be_encrypted_for_are_refused() {
        let good = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
        let field = |endpoint: &str, p256dh: &str, auth: &str| {
            let keys = BrowserKeys { p256dh: p256dh.to_owned(), auth: auth.to_owned() };
            let described = BrowserSubscription { endpoint: endpoint.to_owned(), keys };
            checked("s", &described, PushSettings::default(), 1).err().map(|bad| bad.field)
        };
        let (address, auth) = ("https://push.example.com/x", "BTBZMqHH6r4Tts7J_aSIgg");
        assert_eq!(field(address, good, auth), None);
        assert_eq!(field(address, &format!("{good}="), &format!("{auth}==")), None, "padded");
        assert_eq!(field("https://127.0.0.1/x", good, auth), Some("endpoint"));
        assert_eq!(field(address, &good[1..], auth), Some("keys.p256dh"));
        assert_eq!(field(address, "", auth), Some("keys.p256dh"));
        assert_eq!(field(address, good, "AAAA"), Some("keys.auth"));
        assert_eq!(field(address, good, "!"), Some("keys.auth"));
    }
}

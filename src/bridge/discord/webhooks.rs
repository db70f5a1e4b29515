//! The webhooks of flock's bot: each lets messages appear under the name of their author.
//!
//! A webhook's id and token are all that is needed to write with it, so both are kept in `secrets/`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::model;
use super::refusal::{Failure, code};
use super::rest::{Client, Request};
use crate::bridge::platform::PlatformError;
use crate::config::bridges::BridgeSecret;
use crate::config::secret;
use crate::error::chain;
use crate::home::Home;

/// The name of a webhook in the channel's settings.
const NAME: &str = "flock";
/// Largest number of webhooks that are kept. A secret has at most 64 KiB.
const MAX: usize = 250;
/// Time after which flock looks again whether it may make a webhook.
const AGAIN: Duration = Duration::from_secs(600);

/// A webhook with its token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Webhook {
    pub(super) id: String,
    pub(super) token: String,
}

/// The webhooks of one bridge, by the channel's id.
pub(super) struct Webhooks {
    home: Home,
    secret: String,
    /// Read from the secret when they are first needed.
    known: Mutex<Option<BTreeMap<String, Webhook>>>,
    /// Channels in which no webhook can be made, and the time at which that was seen.
    without: Mutex<HashMap<String, Instant>>,
    /// Held while webhooks change, so that a channel does not get two and the secret has the last state.
    making: tokio::sync::Mutex<()>,
}

impl Webhooks {
    pub(super) fn new(home: &Home, bridge: &str) -> Self {
        Self {
            home: home.clone(),
            secret: BridgeSecret::Webhooks.name(bridge),
            known: Mutex::default(),
            without: Mutex::default(),
            making: tokio::sync::Mutex::default(),
        }
    }

    /// Reads the webhooks, if that was not done yet.
    pub(super) async fn load(&self) -> Result<(), PlatformError> {
        if self.lock().is_none() {
            let read = self.read().await?;
            self.lock().get_or_insert(read);
        }
        Ok(())
    }

    /// Returns the webhook of a channel if there is one already.
    pub(super) async fn known(&self, channel: &str) -> Result<Option<Webhook>, PlatformError> {
        self.load().await?;
        Ok(self.lock().as_ref().and_then(|known| known.get(channel).cloned()))
    }

    /// Returns `true` for the id of one of these webhooks.
    pub(super) fn is_own(&self, id: &str) -> bool {
        self.lock().as_ref().is_some_and(|known| known.values().any(|webhook| webhook.id == id))
    }

    /// Returns the webhook of a channel, and makes one if there is none. `None` if that is not permitted.
    pub(super) async fn of(
        &self,
        client: &Client,
        application: &str,
        channel: &str,
    ) -> Result<Option<Webhook>, PlatformError> {
        if let Some(known) = self.known(channel).await? {
            return Ok(Some(known));
        }
        let _making = self.making.lock().await;
        if let Some(known) = self.known(channel).await? {
            return Ok(Some(known));
        }
        if self.lock().as_ref().is_some_and(|known| known.len() >= MAX) || self.is_without(channel) {
            return Ok(None);
        }
        match make(client, application, channel).await {
            Ok(webhook) => {
                self.change(|known| known.insert(channel.to_owned(), webhook.clone())).await?;
                Ok(Some(webhook))
            }
            Err(failure) if is_not_permitted(failure.code) => {
                let mut without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
                if without.len() >= MAX {
                    without.clear();
                }
                without.insert(channel.to_owned(), Instant::now());
                Ok(None)
            }
            Err(failure) => Err(failure.error),
        }
    }

    /// Forgets a webhook that is there no more.
    pub(super) async fn forget(&self, channel: &str, webhook: &Webhook) -> Result<(), PlatformError> {
        let _making = self.making.lock().await;
        self.change(|known| {
            if known.get(channel) == Some(webhook) {
                known.remove(channel);
            }
        })
        .await
    }

    fn is_without(&self, channel: &str) -> bool {
        let without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
        without.get(channel).is_some_and(|since| since.elapsed() < AGAIN)
    }

    async fn read(&self) -> Result<BTreeMap<String, Webhook>, PlatformError> {
        let (home, name) = (self.home.clone(), self.secret.clone());
        let read = blocking(move || secret::get(&home, &name)).await?;
        // What somebody has changed in the file until it can't be read is made anew.
        Ok(read.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Changes the webhooks, and stores them.
    async fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Webhook>) -> T,
    ) -> Result<(), PlatformError> {
        let text = {
            let mut known = self.lock();
            let known = known.get_or_insert_default();
            change(known);
            json!(known).to_string()
        };
        let (home, name) = (self.home.clone(), self.secret.clone());
        blocking(move || secret::set(&home, &name, &text)).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<BTreeMap<String, Webhook>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files are read and written on a thread for blocking work.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, crate::home::HomeError> + Send + 'static,
) -> Result<T, PlatformError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| PlatformError::Unavailable(error.to_string()))?;
    done.map_err(|error| PlatformError::Unavailable(chain(&error)))
}

/// Returns the webhook that the bot has in a channel, or makes one.
async fn make(client: &Client, application: &str, channel: &str) -> Result<Webhook, Failure> {
    let request = Request::get("/channels/{}/webhooks", &[channel]).needs("Manage Webhooks");
    let there: Vec<Value> = client.call(request).await?;
    // A webhook that was made before a crash was not stored. Its token is shown to the bot that made it.
    let own = there.into_iter().filter(|one| one["application_id"] == application);
    if let Some(webhook) = model::each::<Webhook>(own.collect()).into_iter().next() {
        return Ok(webhook);
    }
    let request = Request::new(reqwest::Method::POST, "/channels/{}/webhooks", &[channel]);
    client.call(request.json(json!({"name": NAME})).needs("Manage Webhooks")).await
}

/// Returns `true` for the refusals after which messages go out under the bot's own name.
fn is_not_permitted(code: u64) -> bool {
    matches!(code, code::MISSING_PERMISSIONS | code::TOO_MANY_WEBHOOKS | code::OTHER_KIND_OF_CHANNEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhooks(folder: &std::path::Path) -> Webhooks {
        fs_err::create_dir_all(folder.join("secrets")).unwrap();
        Webhooks::new(&Home::new(folder.canonicalize().unwrap(), None), "d")
    }

    #[tokio::test]
    async fn webhooks_are_kept_in_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let (first, webhook) =
            (webhooks(folder.path()), Webhook { id: "1".to_owned(), token: "t".to_owned() });
        assert!(first.known("c").await.unwrap().is_none() && !first.is_own("1"));
        first.change(|known| known.insert("c".to_owned(), webhook.clone())).await.unwrap();
        let again = webhooks(folder.path());
        assert!(again.known("c").await.unwrap() == Some(webhook.clone()) && again.is_own("1"));
        let other = Webhook { id: "2".to_owned(), token: "t".to_owned() };
        again.forget("c", &other).await.unwrap();
        assert!(again.known("c").await.unwrap().is_some());
        again.forget("c", &webhook).await.unwrap();
        assert!(webhooks(folder.path()).known("c").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_secret_that_is_no_list_of_webhooks_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let webhooks = webhooks(folder.path());
        secret::set(&webhooks.home, &webhooks.secret, "[1]").unwrap();
        assert!(webhooks.known("c").await.unwrap().is_none());
    }
}

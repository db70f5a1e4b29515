//! Webhooks: what other services send to a channel.
//!
//! | file | subject |
//! |---|---|
//! | [`signature`] | who sent a delivery |
//! | [`template`] | the text that a delivery becomes |
//! | [`receive`] | a delivery is taken, or refused |
//! | [`view`] | what is shown of a hook |
//!
//! The signature is checked before anything else is read. What a sender wrote is quoted in its channel and calls nobody:
//! the members are called by the template, which is the owner's.

pub(crate) mod receive;
pub(crate) mod signature;
pub(crate) mod template;
pub(crate) mod view;

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::person::{self, Payer};
use super::{Actor, Swarm, SwarmError};
use crate::clock::unix_ms;
use crate::config::secret;
use crate::id::{ChannelId, HookName};
use crate::store::{ChannelState, Hook, HookAdded, HookKind, HookState, Level, NewHook, StoreError};

/// The most hooks of a home.
pub(crate) const MOST: u32 = 100;
/// The most rows of a history in one answer.
pub(crate) const MOST_HISTORY: u32 = 200;
/// Fewest characters of a secret that a person chooses.
const SHORTEST_SECRET: usize = 16;
/// Most characters of a secret.
const LONGEST_SECRET: usize = 512;

/// A hook that somebody wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HookWish {
    pub(crate) name: HookName,
    pub(crate) channel: ChannelId,
    pub(crate) kind: HookKind,
    /// Empty for the built-in one.
    #[serde(default)]
    pub(crate) template: String,
    /// The secret that the sender has already. Without one, a new one is made.
    #[serde(default)]
    pub(crate) secret: Option<String>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// A hook that was added.
pub(crate) struct AddedHook {
    pub(crate) hook: Hook,
    /// The secret, if flock made it. It is shown once.
    pub(crate) secret: Option<String>,
}

/// Returns the name of a hook's secret in `secrets/`.
#[must_use]
pub(crate) fn secret_name(name: &HookName) -> String {
    format!("hook-{name}")
}

/// Returns a new secret in the form that the sender's kind expects.
fn new_secret(kind: HookKind) -> String {
    let random = rand::random::<[u8; 32]>();
    match kind {
        HookKind::Github => crate::id::hex(&random),
        HookKind::Gitlab | HookKind::Generic => {
            format!("{}{}", signature::KEY_PREFIX, STANDARD.encode(random))
        }
    }
}

/// Checks a secret that a person chose.
fn check_secret(kind: HookKind, secret: &str) -> Result<(), SwarmError> {
    let length = secret.trim().chars().count();
    if !(SHORTEST_SECRET..=LONGEST_SECRET).contains(&length) {
        return Err(SwarmError::Invalid(format!(
            "a webhook's secret has {SHORTEST_SECRET} to {LONGEST_SECRET} characters"
        )));
    }
    let key = secret.trim().strip_prefix(signature::KEY_PREFIX);
    if kind != HookKind::Github && key.is_some_and(|key| STANDARD.decode(key).is_err()) {
        return Err(SwarmError::Invalid(format!(
            "a secret that begins with {} goes on in base64",
            signature::KEY_PREFIX
        )));
    }
    Ok(())
}

impl Swarm {
    /// Adds a webhook.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if its template or its secret is not acceptable, [`SwarmError::NoChannel`] or
    /// [`SwarmError::Archived`] if its channel takes no messages, and [`SwarmError::HookExists`] if the name is taken.
    pub(crate) async fn add_hook(&self, by: &Actor, wish: HookWish) -> Result<AddedHook, SwarmError> {
        let now = unix_ms();
        let Some(channel) = self.store.channels().find(&wish.channel).await? else {
            return Err(SwarmError::NoChannel(wish.channel));
        };
        if channel.state != ChannelState::Active {
            return Err(SwarmError::Archived(channel.id));
        }
        if !wish.template.is_empty() {
            template::check(&wish.template).map_err(SwarmError::Invalid)?;
        }
        let given = wish.secret.map(|secret| secret.trim().to_owned());
        if let Some(secret) = &given {
            check_secret(wish.kind, secret)?;
        }
        // Two that add the same name must not exchange their secrets.
        let _alone = self.hook_activity.adding.lock().await;
        if self.store.hooks().find(&wish.name).await?.is_some() {
            return Err(SwarmError::HookExists(wish.name));
        }
        let made = given.is_none().then(|| new_secret(wish.kind));
        // The secret is there before the hook: a hook without one could take nothing.
        let secret = given.as_deref().or(made.as_deref()).unwrap_or_default();
        secret::set(self.home(), &secret_name(&wish.name), secret)?;
        let entry = by.entry(
            "hook.add",
            wish.name.as_str(),
            Level::Yellow,
            format!("{} to #{}", wish.kind.as_str(), channel.id),
        );
        let new = NewHook {
            name: wish.name,
            channel: channel.id,
            kind: wish.kind,
            template: wish.template,
            created_by: by.party.to_string(),
            now,
        };
        let name = new.name.clone();
        match self.store.hooks().add(new, MOST, entry).await? {
            HookAdded::New(hook) => {
                // On disk before anybody gets the secret: a power failure must not lose a hook that is in use.
                self.store.sync().await?;
                self.publish_hook(&hook.name, "added");
                Ok(AddedHook { hook: *hook, secret: made })
            }
            HookAdded::NameTaken => Err(SwarmError::HookExists(name)),
            HookAdded::TooMany => {
                secret::remove(self.home(), &secret_name(&name))?;
                Err(SwarmError::Invalid(format!("there are {MOST} webhooks, and no more are possible")))
            }
        }
    }

    /// Returns the hook with this name.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoHook`] if there is none.
    pub(crate) async fn hook(&self, name: &HookName) -> Result<Hook, SwarmError> {
        self.store.hooks().find(name).await?.ok_or_else(|| SwarmError::NoHook(name.clone()))
    }

    /// Pauses a hook, or lets it go on. Whoever lets one go on whose person is gone takes it over, or it would pause again.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoHook`] if there is none, and [`SwarmError::Archived`] if its channel takes no messages.
    pub(crate) async fn pause_hook(
        &self,
        by: &Actor,
        name: &HookName,
        paused: bool,
    ) -> Result<Hook, SwarmError> {
        let hook = self.hook(name).await?;
        if !paused {
            let channel = self.store.channels().find(&hook.channel).await?;
            if channel.is_none_or(|channel| channel.state != ChannelState::Active) {
                return Err(SwarmError::Archived(hook.channel));
            }
        }
        let (party, at) = (&hook.created_by, hook.created_at);
        if !paused && let Payer::Gone(_) = person::payer(&self.store, party, at, person::HOOK_ROLES).await? {
            let entry = by.entry("hook.take", name.as_str(), Level::Yellow, format!("was of {party}"));
            self.store.hooks().take_over(hook.id, by.party.to_string(), entry, unix_ms()).await?;
        }
        let action = if paused { "hook.pause" } else { "hook.resume" };
        let entry = by.entry(action, name.as_str(), Level::Yellow, String::new());
        if self.store.hooks().set_paused(hook.id, paused.then(String::new), entry, unix_ms()).await? {
            self.publish_hook(name, if paused { "paused" } else { "resumed" });
        }
        self.hook(name).await
    }

    /// Removes a hook with its secret and its history.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoHook`] if there is none.
    pub(crate) async fn remove_hook(&self, by: &Actor, name: &HookName) -> Result<(), SwarmError> {
        let hook = self.hook(name).await?;
        let entry = by.entry("hook.remove", name.as_str(), Level::Yellow, format!("from #{}", hook.channel));
        if !self.store.hooks().remove(hook.id, entry, unix_ms()).await? {
            return Err(SwarmError::NoHook(name.clone()));
        }
        // A power failure must not bring a removed hook back.
        self.store.sync().await?;
        secret::remove(self.home(), &secret_name(name))?;
        self.hook_activity.forget(name);
        self.publish_hook(name, "removed");
        Ok(())
    }

    /// Returns all hooks as they are shown.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if the database can't be read.
    pub(crate) async fn shown_hooks(&self) -> Result<Vec<Value>, StoreError> {
        Ok(self.store.hooks().list().await?.iter().map(|hook| self.shown_hook(hook)).collect())
    }

    /// Returns a hook as it is shown.
    #[must_use]
    pub(crate) fn shown_hook(&self, hook: &Hook) -> Value {
        let has_secret = matches!(secret::get(self.home(), &secret_name(&hook.name)), Ok(Some(_)));
        view::hook(hook, has_secret, self.hook_activity.refused(&hook.name).as_ref())
    }

    /// Returns the counts of hooks for the status.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if the database can't be read.
    pub(crate) async fn hook_summary(&self) -> Result<Value, StoreError> {
        let all = self.store.hooks().list().await?;
        let active = all.iter().filter(|hook| hook.state == HookState::Active).count();
        let failing: Vec<&HookName> =
            all.iter().filter(|hook| !hook.why.is_empty()).map(|hook| &hook.name).collect();
        Ok(json!({
            "active": active,
            "paused": all.len() - active,
            "refused": self.hook_activity.all_refused(),
            "failing": failing,
        }))
    }

    /// Tells watchers about a hook.
    fn publish_hook(&self, name: &HookName, action: &str) {
        self.notifier.publish("hook.changed", &json!({"hook": name, "action": action}));
    }
}

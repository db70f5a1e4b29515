//! Names of people and titles of threads, which Slack's events do not have.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::api::Api;
use super::event::{Own, RawMessage, text};
use super::incoming;
use super::ts::Ts;
use crate::bridge::message::{IncomingMessage, Sender, Thread};
use crate::bridge::platform::PlatformError;

/// Largest number of names that are kept.
const MAX_KEPT: usize = 5000;
/// Time for which a name is kept.
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// Largest number of mentions in one message whose names are asked for.
const MAX_MENTIONS: usize = 10;
/// Largest number of characters of a thread's title.
const MAX_TITLE: usize = 60;

/// A map with a bound, whose values are forgotten after a time.
struct Cache(Mutex<HashMap<String, (String, Instant)>>);

impl Cache {
    fn get(&self, key: &str) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(key).filter(|(_, since)| since.elapsed() < KEPT_FOR).map(|(value, _)| value.clone())
    }

    fn put(&self, key: String, value: String) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(key, (value, Instant::now()));
    }
}

/// The known names of people and threads.
pub(super) struct Names {
    people: Cache,
    threads: Cache,
}

impl Names {
    pub(super) fn new() -> Self {
        Self { people: Cache(Mutex::default()), threads: Cache(Mutex::default()) }
    }

    /// Returns a message with the names of its people.
    ///
    /// # Errors
    ///
    /// Returns an error if the sender's name can't be asked for now. A message under another name would make another
    /// person.
    pub(super) async fn resolve(
        &self,
        api: &Api,
        own: &Own,
        raw: &RawMessage,
    ) -> Result<IncomingMessage, PlatformError> {
        let username = match &raw.bot_name {
            Some(name) if raw.is_bot => name.clone(),
            _ => self.person(api, &raw.sender).await?,
        };
        let thread = match raw.thread {
            Some(first) => {
                let title = self.title(api, own, &raw.channel, first).await?;
                Some(Thread { channel: raw.channel.clone(), title })
            }
            None => None,
        };
        Ok(IncomingMessage {
            external: raw.external(),
            thread,
            is_direct: raw.is_direct,
            id: raw.ts.to_string(),
            sent_at: raw.ts.ms(),
            sender: Sender { account: raw.sender.clone(), username, roles: Vec::new(), is_bot: raw.is_bot },
            text: self.markdown(api, own, &raw.text).await?,
            is_to_bot: incoming::mentions(&raw.text, &own.user),
            reply_to: raw.thread.map(|first| first.to_string()),
            is_forwarded: false,
            files: raw.files.clone(),
        })
    }

    /// Returns the name of an account. What is no account of a person's, or unknown, keeps its id.
    pub(super) async fn person(&self, api: &Api, user: &str) -> Result<String, PlatformError> {
        if !user.starts_with(['U', 'W']) {
            return Ok(user.to_owned());
        }
        if let Some(name) = self.people.get(user) {
            return Ok(name);
        }
        let name = match api.read("users.info", &[("user", user)]).await {
            Ok(answer) => name_of(&answer["user"]).unwrap_or(user).to_owned(),
            Err(PlatformError::Refused(why)) if why.starts_with("user_not") => user.to_owned(),
            Err(error) => return Err(error),
        };
        self.people.put(user.to_owned(), name.clone());
        Ok(name)
    }

    /// Returns Slack's text as Markdown.
    async fn markdown(&self, api: &Api, own: &Own, text: &str) -> Result<String, PlatformError> {
        let mut names = HashMap::new();
        for user in incoming::mentioned(text, MAX_MENTIONS) {
            if user != own.user {
                names.insert(user, self.person(api, user).await?);
            }
        }
        Ok(incoming::markdown(text, &own.user, |user| names.get(user).cloned()))
    }

    /// Returns the beginning of a thread's first message.
    pub(super) async fn title(
        &self,
        api: &Api,
        own: &Own,
        channel: &str,
        first: Ts,
    ) -> Result<String, PlatformError> {
        let key = format!("{channel}/{first}");
        if let Some(title) = self.threads.get(&key) {
            return Ok(title);
        }
        let asked = [("channel", channel), ("ts", &first.to_string()), ("limit", "1")];
        let title = match api.read("conversations.replies", &asked).await {
            Ok(answer) => {
                let read = self.markdown(api, own, text(&answer["messages"][0], "text")).await?;
                crate::clean::summary(&read, MAX_TITLE)
            }
            // The first message may be gone, or the app not in the channel any more.
            Err(PlatformError::Refused(_)) => String::new(),
            Err(error) => return Err(error),
        };
        let title = if title.is_empty() { format!("thread {first}") } else { title };
        self.threads.put(key, title.clone());
        Ok(title)
    }
}

/// Returns the name that people see, or the next best one.
fn name_of(user: &Value) -> Option<&str> {
    let profile = &user["profile"];
    [text(profile, "display_name"), text(profile, "real_name"), text(user, "real_name"), text(user, "name")]
        .into_iter()
        .map(str::trim)
        .find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_name_is_the_one_that_people_see() {
        let user = json!({"name": "u1", "real_name": "Ann B", "profile": {"display_name": " ", "real_name": "Ann Bell"}});
        assert_eq!(name_of(&user), Some("Ann Bell"));
        assert_eq!(name_of(&json!({"name": "u1"})), Some("u1"));
        assert_eq!(name_of(&json!({})), None);
    }

    #[test]
    fn a_cache_has_a_bound() {
        let cache = Cache(Mutex::default());
        (0..=MAX_KEPT).for_each(|number| cache.put(number.to_string(), "x".to_owned()));
        assert_eq!((cache.get("0"), cache.get(&MAX_KEPT.to_string())), (None, Some("x".to_owned())));
    }
}

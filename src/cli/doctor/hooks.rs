//! Checks of the webhooks: secrets that are missing, channels that take no messages, and those that flock has paused.

use super::check::Check;
use crate::cli::database;
use crate::config::secret;
use crate::home::Home;
use crate::store::{Channel, ChannelState, Hook, HookState, StoreError};
use crate::swarm::hook;

const NAME: &str = "webhooks";

/// Reports webhooks that can take nothing.
pub(crate) fn all(home: &Home) -> Vec<Check> {
    let read = database::read(home, async |reader| {
        Ok::<_, StoreError>((reader.hooks().list().await?, reader.channels().list(None, None).await?))
    });
    let (hooks, channels) = match read {
        Ok(found) => found.unwrap_or_default(),
        Err(error) => return vec![Check::failed(NAME, error.into())],
    };
    hooks.iter().filter_map(|hook| check(hook, home, &channels)).collect()
}

fn check(hook: &Hook, home: &Home, channels: &[Channel]) -> Option<Check> {
    let name = &hook.name;
    let channel = channels.iter().find(|channel| channel.id == hook.channel);
    if channel.is_none_or(|channel| channel.state == ChannelState::Archived) {
        let text = format!("webhook {name} can't post: #{} takes no messages", hook.channel);
        return Some(Check::warn(NAME, text, format!("flock channel reopen {}", hook.channel)));
    }
    match secret::get(home, &hook::secret_name(name)) {
        Err(error) => return Some(Check::failed(NAME, error.into())),
        Ok(None) => {
            let text = format!("webhook {name} takes nothing: its secret is gone");
            return Some(Check::warn(NAME, text, format!("flock hook remove {name}")));
        }
        Ok(Some(_)) => {}
    }
    let is_paused = hook.state == HookState::Paused && !hook.why.is_empty();
    is_paused.then(|| {
        let text = format!("webhook {name} was paused: {}", hook.why);
        Check::warn(NAME, text, format!("flock hook resume {name}"))
    })
}

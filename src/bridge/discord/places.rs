//! The channels, threads and roles that the gateway told of.

use std::collections::HashMap;

use super::model::{Channel, Guild, kind};

/// Largest number of channels, and of roles, that are remembered.
const MAX: usize = 50_000;

/// The channels, threads and roles that are known, by id.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: HashMap<String, Place>,
    roles: HashMap<String, KnownRole>,
}

/// A channel or a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) kind: u64,
    /// The server; `None` for a direct channel.
    pub(super) guild: Option<String>,
    /// The channel of a thread, or the category of a channel.
    pub(super) parent: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownRole {
    pub(super) name: String,
    /// The bot that has the role for itself.
    pub(super) bot: Option<String>,
}

impl Place {
    pub(super) fn of(channel: Channel) -> Self {
        Self {
            name: channel.name.unwrap_or_default(),
            kind: channel.kind,
            guild: channel.guild_id,
            parent: channel.parent_id,
        }
    }

    /// Returns the name by which people know it.
    pub(super) fn title(&self) -> String {
        if self.kind == kind::DIRECT { "direct messages".to_owned() } else { format!("#{}", self.name) }
    }

    /// Returns the channel that a thread is in. `None` if it is no thread.
    pub(super) fn thread_of(&self) -> Option<&str> {
        kind::is_thread(self.kind).then_some(self.parent.as_deref()).flatten()
    }
}

impl Places {
    pub(super) fn place(&self, id: &str) -> Option<&Place> {
        self.places.get(id)
    }

    pub(super) fn role(&self, id: &str) -> Option<&KnownRole> {
        self.roles.get(id)
    }

    /// Remembers a channel, and returns what was known of it.
    pub(super) fn learn(&mut self, channel: Channel) -> Option<Place> {
        if self.places.len() >= MAX && !self.places.contains_key(&channel.id) {
            // What is needed again is asked for again.
            self.places.clear();
        }
        self.places.insert(channel.id.clone(), Place::of(channel))
    }

    pub(super) fn learn_guild(&mut self, guild: Guild) {
        for mut channel in guild.channels.into_iter().chain(guild.threads) {
            // Within the event of a server, its channels do not name it.
            channel.guild_id = Some(guild.id.clone());
            self.learn(channel);
        }
        if self.roles.len() + guild.roles.len() > MAX {
            self.roles.clear();
        }
        for role in guild.roles.into_iter().take(MAX) {
            self.roles.insert(role.id, KnownRole { name: role.name, bot: role.tags.bot_id });
        }
    }
}

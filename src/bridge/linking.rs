//! Links: made, changed, paused and ended, in the same way for the owner's requests and for the orchestrator's tool.

use super::message::ExternalChannel;
use super::platform::{Platform, PlatformError};
use crate::clean::summary;
use crate::clock::unix_ms;
use crate::config::{Bridge, Config};
use crate::id::ChannelId;
use crate::store::{AuditEntry, EVERYONE, Level, Link, LinkState};
use crate::swarm::{Actor, Swarm, SwarmError};

/// Largest number of names that a link hears.
const MAX_HEARD: usize = 1000;
/// Largest size of the name of an account or a role, in bytes.
const MAX_NAME: usize = 255;

/// A link that is to be made.
#[derive(Clone, Debug)]
pub(crate) struct LinkSpec {
    pub(crate) channel: ChannelId,
    /// The platform's channel, by its id or the name that people know. `None` creates one.
    pub(crate) external: Option<String>,
    /// Those who are heard, as people write them. `None` hears the members of a private channel.
    pub(crate) allow: Option<Vec<String>>,
    pub(crate) is_cross: bool,
    pub(crate) hears_bots: bool,
}

/// Finds a bridge of the configuration.
///
/// # Errors
///
/// Returns [`SwarmError::NoBridge`] if there is none with this name.
pub(crate) fn find(config: &Config, name: &str) -> Result<Bridge, SwarmError> {
    let found = config.bridges.iter().find(|bridge| bridge.name.eq_ignore_ascii_case(name)).cloned();
    found.ok_or_else(|| SwarmError::NoBridge(format!("there is no bridge {:?}", summary(name, 40))))
}

/// Finds a link by the platform's channel: its id, or the name that people know if only one link has it.
///
/// # Errors
///
/// Returns [`SwarmError::NoBridge`] if the bridge or the link does not exist.
pub(crate) async fn find_link(swarm: &Swarm, bridge: &str, external: &str) -> Result<Link, SwarmError> {
    let bridge = find(&swarm.config(), bridge)?;
    let links = swarm.store().links().list(Some(&bridge.name)).await?;
    if let Some(link) = links.iter().find(|link| link.external == external) {
        return Ok(link.clone());
    }
    // Whoever manages a channel chooses its title, so that one of another channel must not lead to the wrong link.
    let mut titled = links.into_iter().filter(|link| link.title == external);
    match (titled.next(), titled.next()) {
        (Some(link), None) => Ok(link),
        (Some(_), Some(_)) => Err(SwarmError::Refused(format!(
            "several linked channels of the bridge {} are called {:?}; name one by its id",
            bridge.name,
            summary(external, 80)
        ))),
        (None, _) => Err(SwarmError::NoBridge(format!(
            "nothing is linked with {:?} of the bridge {}",
            summary(external, 80),
            bridge.name
        ))),
    }
}

/// Returns a failure of the platform as an error about the bridge.
pub(crate) fn refused(bridge: &Bridge, error: &PlatformError) -> SwarmError {
    SwarmError::Refused(format!("the bridge {}: {error}", bridge.name))
}

/// Finds a channel of the platform, and checks that flock can read and write there.
///
/// # Errors
///
/// Returns [`SwarmError::Refused`] with the platform's reason.
pub(crate) async fn look_up(
    swarm: &Swarm,
    bridge: &Bridge,
    external: &str,
) -> Result<ExternalChannel, SwarmError> {
    let found = open(swarm, bridge)?.find_channel(external).await;
    found.map_err(|error| refused(bridge, &error))
}

/// Makes the connection of a bridge.
///
/// # Errors
///
/// Returns [`SwarmError::Refused`] if it has no token.
pub(crate) fn open(swarm: &Swarm, bridge: &Bridge) -> Result<Box<dyn Platform>, SwarmError> {
    super::open(swarm.home(), bridge).map_err(|error| refused(bridge, &error))
}

/// Reads those who are heard, as people write them: accounts, `role:ID`, and `everyone`.
///
/// # Errors
///
/// Returns [`SwarmError::Invalid`] if one can't be a name, or if there are too many.
pub(crate) fn read_names(names: &[String]) -> Result<Vec<String>, SwarmError> {
    let mut read = Vec::new();
    for name in names {
        let name = if name == "everyone" { EVERYONE } else { name.trim() };
        let is_name = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(|c| c.is_ascii_graphic());
        if !is_name || name == "role:" {
            return Err(SwarmError::Invalid(format!(
                "{:?} is neither the platform's id of an account, nor role:ID, nor everyone",
                summary(name, 80)
            )));
        }
        if !read.iter().any(|known| known == name) {
            read.push(name.to_owned());
        }
    }
    if read.len() > MAX_HEARD {
        return Err(SwarmError::Invalid(format!("a link hears at most {MAX_HEARD} accounts and roles")));
    }
    Ok(read)
}

/// Links a channel with a channel of the platform.
///
/// # Errors
///
/// Returns [`SwarmError::NoChannel`] if the channel does not exist, and [`SwarmError::Refused`] if the platform refuses
/// it or its channel is linked already.
pub(crate) async fn create(
    swarm: &Swarm,
    by: &Actor,
    bridge: &Bridge,
    platform: &dyn Platform,
    spec: LinkSpec,
) -> Result<Link, SwarmError> {
    let channel = swarm.channel(&spec.channel).await?;
    let allow = spec.allow.as_deref().map(read_names).transpose()?;
    let found = match &spec.external {
        Some(external) => platform.find_channel(external).await,
        None => platform.create_channel(channel.id.as_str(), &channel.topic).await,
    };
    let found = found.map_err(|error| refused(bridge, &error))?;
    // Whoever could read a private channel when it was linked is known to its people. Anybody can join a public one.
    let hears = allow.unwrap_or_else(|| found.members.unwrap_or_default());
    let new = Link {
        id: uuid::Uuid::now_v7().to_string(),
        channel: channel.id.clone(),
        bridge: bridge.name.clone(),
        external: found.id,
        title: found.title,
        state: LinkState::Active,
        is_cross: spec.is_cross,
        hears,
        hears_bots: spec.hears_bots,
        is_paused_by_person: false,
        created_by: by.party.clone(),
        created_at: unix_ms(),
    };
    let entry = entry(by, "bridge.link", &new);
    if let Some(known) = swarm.store().links().add(new.clone(), entry).await? {
        return Err(SwarmError::Refused(format!(
            "{} is linked to channel {} already; end that link with `flock bridge unlink {}:{}`",
            known.title, known.channel, known.bridge, known.external
        )));
    }
    Ok(new)
}

/// Ends a link.
///
/// # Errors
///
/// Returns an error if the database fails.
pub(crate) async fn remove(swarm: &Swarm, by: &Actor, link: &Link) -> Result<bool, SwarmError> {
    let entry = entry(by, "bridge.unlink", link);
    Ok(swarm.store().links().remove(link.id.clone(), entry, unix_ms()).await?)
}

/// Pauses or resumes a link. Returns `false` if it was in that state already, is archived, or was paused by a person and
/// an agent would resume it.
///
/// # Errors
///
/// Returns an error if the database fails.
pub(crate) async fn set_paused(
    swarm: &Swarm,
    by: &Actor,
    link: Link,
    is_paused: bool,
) -> Result<bool, SwarmError> {
    let entry = entry(by, if is_paused { "bridge.pause" } else { "bridge.resume" }, &link);
    Ok(swarm.store().links().set_paused(link.id, is_paused, by.party.is_human(), entry, unix_ms()).await?)
}

/// Lets more accounts and roles be heard over a link, and others no longer. Returns the list as it is then.
///
/// # Errors
///
/// Returns [`SwarmError::Invalid`] if one can't be a name or there are too many, and [`SwarmError::NoBridge`] if the link
/// is gone.
pub(crate) async fn change_heard(
    swarm: &Swarm,
    by: &Actor,
    link: Link,
    add: &[String],
    remove: &[String],
) -> Result<Vec<String>, SwarmError> {
    let (add, remove) = (read_names(add)?, read_names(remove)?);
    if link.hears.len() + add.len() > MAX_HEARD {
        return Err(SwarmError::Invalid(format!("a link hears at most {MAX_HEARD} accounts and roles")));
    }
    let detail =
        format!("{}:{}; add: {}; remove: {}", link.bridge, link.external, add.join(" "), remove.join(" "));
    let entry = by.entry("bridge.heard", link.channel.as_str(), Level::Yellow, detail);
    let changed = swarm.store().links().change_heard(link.id, add, remove, entry, unix_ms()).await?;
    changed.ok_or_else(|| SwarmError::NoBridge(format!("the link with {} ended meanwhile", link.title)))
}

fn entry(by: &Actor, action: &'static str, link: &Link) -> AuditEntry {
    by.entry(action, link.channel.as_str(), Level::Yellow, format!("{}:{}", link.bridge, link.external))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_heard_are_accounts_roles_and_everyone() {
        let read = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            read_names(&names).ok()
        };
        let some = read(&["@ann:h", "role:17", "everyone", "*", "@ann:h"]).unwrap();
        assert_eq!(some, ["@ann:h", "role:17", "*"]);
        for wrong in ["", " ", "role:", "a b", "\u{202e}x", &"x".repeat(256)] {
            assert_eq!(read(&[wrong]), None, "{wrong:?}");
        }
        let many: Vec<String> = (0..=MAX_HEARD).map(|number| number.to_string()).collect();
        assert!(read_names(&many).is_err());
    }
}

//! Adds, changes and removes the people of a home, and makes their tokens.

use super::{Actor, SwarmError, token};
use crate::clean::{self, looks_like};
use crate::clock::unix_ms;
use crate::config::Config;
use crate::id::{AgentId, ChannelId, Party, RESERVED_AGENT_IDS};
use crate::process;
use crate::store::{
    AuditEntry, ClientToken, Level, NewPerson, OidcAccount, OidcBinding, Person, PersonChange, PersonRole,
    Store, StoreError, token_hash,
};

/// Most characters of a name. With a number after it, it still fits the name of a token.
const MAX_NAME: usize = 32;

/// Names that a person would be taken for flock or for somebody else with, or that are parts of addresses and keys.
const RESERVED_NAMES: [&str; 14] = [
    "owner", "plugin", "agent", "token", "person", "a2a", "everyone", "here", "channel", "accounts",
    "rename", "admin", "root", "guest",
];

/// Adds a person.
///
/// # Errors
///
/// Returns [`SwarmError::Invalid`] if the name is no name of a person or the limits don't fit the role,
/// [`SwarmError::Refused`] if somebody else has the name or one that looks like it, and [`SwarmError::NoAgent`] or
/// [`SwarmError::NoChannel`] if one does not exist.
pub(crate) async fn add(
    store: &Store,
    config: &Config,
    by: &Actor,
    mut new: NewPerson,
) -> Result<Person, SwarmError> {
    check_name(store, config, &new.name).await?;
    check_role(new.role, new.agents.is_some() || new.channels.is_some())?;
    new.agents = checked_agents(config, new.agents)?;
    new.channels = checked_channels(store, new.channels).await?;
    let name = new.name.clone();
    let limits = describe(new.role, new.agents.as_deref(), new.channels.as_deref());
    let entry = by.entry("person.add", &format!("human:{name}"), Level::Yellow, limits);
    if !store.people().add(new, entry, unix_ms()).await? {
        return Err(taken(&name, "a person of this home has or had it"));
    }
    // On disk before anybody gets a token.
    store.sync().await?;
    find(store, &name).await
}

/// Returns a person who was not removed.
///
/// # Errors
///
/// Returns [`SwarmError::NoPerson`] if there is none with this name.
pub(crate) async fn find(store: &Store, name: &str) -> Result<Person, SwarmError> {
    let found = store.people().find(bare(name)).await?.filter(Person::is_active);
    found.ok_or_else(|| no_person(name))
}

/// Changes the role or the limits of a person. They count from the person's next request on, and running streams end.
///
/// # Errors
///
/// Returns [`SwarmError::NoPerson`] if there is no such person, and the errors of [`add`] for the new values.
pub(crate) async fn change(
    store: &Store,
    config: &Config,
    by: &Actor,
    name: &str,
    change: PersonChange,
) -> Result<Person, SwarmError> {
    let change = checked(store, config, change).await?;
    let changed = store.people().change(lower(name), change, check_change(by), unix_ms()).await?;
    let changed = changed.ok_or_else(|| no_person(name))??;
    store.sync().await?;
    Ok(changed)
}

/// Changes a person as [`change`] does and the account as [`set_account`] does, both or neither.
///
/// # Errors
///
/// Returns the errors of the two.
pub(crate) async fn change_with_account(
    store: &Store,
    config: &Config,
    by: &Actor,
    name: &str,
    change: PersonChange,
    wish: Option<AccountWish>,
) -> Result<Person, SwarmError> {
    let account = account_change(config, by, name, wish)?;
    let change = checked(store, config, change).await?;
    let people = store.people();
    let bound =
        people.change_with_account(lower(name), change, check_change(by), account, unix_ms()).await??;
    bound_person(store, name, bound).await
}

async fn checked(
    store: &Store,
    config: &Config,
    mut change: PersonChange,
) -> Result<PersonChange, SwarmError> {
    if let Some(agents) = change.agents {
        change.agents = Some(checked_agents(config, agents)?);
    }
    if let Some(channels) = change.channels {
        change.channels = Some(checked_channels(store, channels).await?);
    }
    Ok(change)
}

/// Returns the check of a person as they would become, which makes the audit row.
fn check_change(
    by: &Actor,
) -> impl FnOnce(&Person) -> Result<AuditEntry, SwarmError> + Send + 'static + use<> {
    let by = by.clone();
    move |person: &Person| {
        check_role(person.role, person.is_limited())?;
        let limits = describe(person.role, person.agents.as_deref(), person.channels.as_deref());
        Ok(by.entry("person.change", &format!("human:{}", person.name), Level::Yellow, limits))
    }
}

/// The account of OpenID Connect that a person gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccountWish {
    /// The provider's id of the account.
    pub subject: Option<String>,
    /// The e-mail address by which the account is known at its first sign-in.
    pub email: Option<String>,
}

/// Gives a person an account at the provider of the configuration, or takes it away with `None`.
///
/// # Errors
///
/// Returns [`SwarmError::Invalid`] if no provider is configured or the wish names nothing usable, [`SwarmError::NoPerson`] if
/// there is no such person, and [`SwarmError::Refused`] if another person has the account.
pub(crate) async fn set_account(
    store: &Store,
    config: &Config,
    by: &Actor,
    name: &str,
    wish: Option<AccountWish>,
) -> Result<Person, SwarmError> {
    let (account, entry) = account_change(config, by, name, wish)?;
    let bound = store.people().set_account(lower(name), account, entry, unix_ms()).await?;
    bound_person(store, name, bound).await
}

/// Returns the account that a person is to have, with the audit row.
fn account_change(
    config: &Config,
    by: &Actor,
    name: &str,
    wish: Option<AccountWish>,
) -> Result<(Option<OidcAccount>, AuditEntry), SwarmError> {
    let account = wish.map(|wish| account(config, wish)).transpose()?;
    let detail = match &account {
        None => "none".to_owned(),
        Some(OidcAccount { issuer, subject: Some(subject), .. }) => format!("{subject} at {issuer}"),
        Some(OidcAccount { issuer, .. }) => format!("by an e-mail address, at {issuer}"),
    };
    let entry = by.entry("person.account", &format!("human:{}", lower(name)), Level::Yellow, detail);
    Ok((account, entry))
}

async fn bound_person(store: &Store, name: &str, bound: OidcBinding) -> Result<Person, SwarmError> {
    match bound {
        OidcBinding::Bound(person) => {
            // A power failure must not give an account back to somebody who lost it.
            store.sync().await?;
            Ok(*person)
        }
        OidcBinding::Taken(other) => Err(SwarmError::Refused(format!(
            "{other} has this account; flock person set {other} --oidc-none"
        ))),
        OidcBinding::NoPerson => Err(no_person(name)),
    }
}

fn account(config: &Config, wish: AccountWish) -> Result<OidcAccount, SwarmError> {
    let Some(settings) = &config.oidc else {
        let text =
            "no provider of OpenID Connect is configured (plugins.entries.flock.config.dashboard.oidc)";
        return Err(SwarmError::Invalid(text.to_owned()));
    };
    let AccountWish { subject, email } = wish;
    let email = email.map(|email| email.to_ascii_lowercase());
    if subject.as_deref().is_some_and(|subject| !is_subject(subject)) {
        return Err(SwarmError::Invalid("a subject is 1 to 255 ASCII characters".to_owned()));
    }
    if email.as_deref().is_some_and(|email| !is_email(email)) {
        return Err(SwarmError::Invalid("an e-mail address is ASCII, as in ann@example.org".to_owned()));
    }
    if subject.is_none() && email.is_none() {
        return Err(SwarmError::Invalid("name the subject or the e-mail address of the account".to_owned()));
    }
    Ok(OidcAccount { issuer: settings.issuer.clone(), subject, email })
}

/// Returns `true` if a text can be the subject of an account (OpenID Connect Core, section 2).
#[must_use]
pub(crate) fn is_subject(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, 0x20..=0x7e))
}

/// Returns `true` if a text can be an e-mail address that is compared. Letters of other alphabets could imitate one.
#[must_use]
pub(crate) fn is_email(text: &str) -> bool {
    let is_ascii = (3..=254).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    let parts = text.split_once('@');
    is_ascii
        && parts.is_some_and(|(local, host)| !local.is_empty() && !host.is_empty() && !host.contains('@'))
}

/// Removes a person. From then on, the gateway refuses their tokens and browsers and ends the streams that they opened.
///
/// # Errors
///
/// Returns [`SwarmError::NoPerson`] if there is no such person.
pub(crate) async fn remove(store: &Store, by: &Actor, name: &str) -> Result<(), SwarmError> {
    let name_of = lower(name);
    let entry = by.entry("person.remove", &format!("human:{name_of}"), Level::Yellow, String::new());
    if !store.people().remove(name_of, entry, unix_ms()).await? {
        return Err(no_person(name));
    }
    // A power failure must not bring a removed person back.
    store.sync().await?;
    Ok(())
}

/// Makes a token of a person and returns it. The token itself is not stored anywhere.
///
/// # Errors
///
/// Returns [`SwarmError::NoPerson`] if there is no such person, and [`SwarmError::Invalid`] if the expiry time has
/// passed.
pub(crate) async fn add_token(
    store: &Store,
    by: &Actor,
    name: &str,
    expires_at: Option<i64>,
) -> Result<(String, ClientToken), SwarmError> {
    let now = unix_ms();
    if expires_at.is_some_and(|end| end <= now) {
        return Err(SwarmError::Invalid("`expiresAt` has passed already".to_owned()));
    }
    let token = token::new_token();
    let person = lower(name);
    let entry = by.entry("person.token", "", Level::Yellow, format!("of human:{person}"));
    let hash = token_hash(token.as_bytes());
    let kept = store.tokens().add_of_person(person, hash, expires_at, entry, now).await?;
    let kept = kept.ok_or_else(|| no_person(name))?;
    store.sync().await?;
    Ok((token, kept))
}

/// Returns the reason why a new agent can't have this id: a person has or had a name that looks like it.
#[must_use]
pub(crate) fn why_not_agent(people: &[Person], id: &AgentId) -> Option<String> {
    let person = people.iter().find(|person| looks_like(&person.name, id.as_str()))?;
    Some(format!("an agent can't be named {id}: it would be taken for the person {}", person.name))
}

/// The person who pays for work that begins by itself: whoever added its schedule or its webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payer {
    /// The owner, an agent, or a client: no person's budget counts.
    Home,
    /// A person of the home, who could still add it.
    Person(Box<Person>),
    /// Somebody who was removed or could not add it any more, with the reason.
    Gone(String),
}

/// A name that no person has ([`RESERVED_NAMES`]).
const NOBODY: &str = "owner";

/// The roles that add schedules.
pub(crate) const SCHEDULE_ROLES: &[PersonRole] = &[PersonRole::Owner, PersonRole::Operator];
/// The roles that add webhooks.
pub(crate) const HOOK_ROLES: &[PersonRole] = &[PersonRole::Owner];

/// Returns who pays for what `party` added at this time. `roles` may add such a thing.
///
/// # Errors
///
/// Returns [`StoreError`] if the database can't be read.
pub(crate) async fn payer(
    store: &Store,
    party: &str,
    added_at: i64,
    roles: &[PersonRole],
) -> Result<Payer, StoreError> {
    let Some(name) = party.strip_prefix("human:") else { return Ok(Payer::Home) };
    // The owner may have acted under a name that a person got later.
    let person = store.people().find(name).await?.filter(|person| person.added_at <= added_at);
    let Some(person) = person else { return Ok(Payer::Home) };
    if !person.is_active() {
        return Ok(Payer::Gone(format!("{name}, who added it, is no person of this home any more")));
    }
    if !roles.contains(&person.role) || person.is_limited() {
        return Ok(Payer::Gone(format!("{name}, who added it, may not add it any more")));
    }
    Ok(Payer::Person(Box::new(person)))
}

/// Returns the name that the calls are counted for which something leads to that `party` added. An agent has none.
///
/// For the home that is the name of nobody, so that nobody who wrote in the channel before is charged.
pub(crate) fn charged_name(party: &str, payer: &Payer) -> Option<String> {
    let name = party.strip_prefix("human:")?;
    Some(match payer {
        Payer::Home => NOBODY.to_owned(),
        Payer::Person(_) | Payer::Gone(_) => name.to_owned(),
    })
}

async fn check_name(store: &Store, config: &Config, name: &str) -> Result<(), SwarmError> {
    let first = |c: char| c.is_ascii_lowercase();
    let rest = |c: char| first(c) || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    // All names are ASCII and in lower case, so no letter of another alphabet and no capital can imitate one.
    if name.len() > MAX_NAME || !name.starts_with(first) || !name.chars().all(rest) {
        return Err(SwarmError::Invalid(format!(
            "the name of a person is 1 to {MAX_NAME} of a-z, 0-9, '.', '_' and '-', beginning with a letter"
        )));
    }
    let login = process::login();
    let words = RESERVED_NAMES.iter().chain(&RESERVED_AGENT_IDS).copied();
    if words.clone().chain([&*login]).any(|word| looks_like(word, name)) {
        return Err(taken(name, "the owner, flock or a part of it is known by it"));
    }
    if let Some(agent) = config.agents.iter().find(|agent| looks_like(agent.id.as_str(), name)) {
        return Err(taken(name, &format!("it looks like the agent {}", agent.id)));
    }
    for person in store.people().list().await? {
        if looks_like(&person.name, name) {
            let why = match person.removed_at {
                None => format!("it looks like the person {}", person.name),
                Some(_) => format!("messages and the audit have the removed person {}", person.name),
            };
            return Err(taken(name, &why));
        }
    }
    for account in store.accounts().list().await? {
        let Party::Human(of) = &account.person else { continue };
        // An account that the owner bound to this very name is the same person's.
        if looks_like(of, name) && !(of == name && account.bound_by.is_some()) {
            let why = format!("an account of {} speaks as human:{of}", account.platform);
            return Err(taken(name, &why));
        }
    }
    Ok(())
}

fn taken(name: &str, why: &str) -> SwarmError {
    SwarmError::Refused(format!("a person can't be named {name}: {why}"))
}

fn no_person(name: &str) -> SwarmError {
    SwarmError::NoPerson(clean::summary(bare(name), 80))
}

fn bare(name: &str) -> &str {
    name.strip_prefix("human:").unwrap_or(name)
}

fn lower(name: &str) -> String {
    bare(name).to_ascii_lowercase()
}

fn check_role(role: PersonRole, is_limited: bool) -> Result<(), SwarmError> {
    if role == PersonRole::Owner && is_limited {
        let text = "a person with the role owner is for all agents and channels";
        return Err(SwarmError::Invalid(text.to_owned()));
    }
    Ok(())
}

fn checked_agents(config: &Config, agents: Option<Vec<AgentId>>) -> Result<Option<Vec<AgentId>>, SwarmError> {
    let Some(mut agents) = agents else { return Ok(None) };
    agents.sort_unstable();
    agents.dedup();
    match agents.iter().find(|agent| config.agent(agent).is_none()) {
        Some(unknown) => Err(SwarmError::NoAgent(unknown.clone())),
        None => Ok(Some(agents)),
    }
}

async fn checked_channels(
    store: &Store,
    channels: Option<Vec<ChannelId>>,
) -> Result<Option<Vec<ChannelId>>, SwarmError> {
    let Some(channels) = channels else { return Ok(None) };
    let mut found = Vec::new();
    for id in channels {
        match store.channels().find(&id).await? {
            Some(channel) => found.push(channel.id),
            None => return Err(SwarmError::NoChannel(id)),
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(Some(found))
}

fn describe(role: PersonRole, agents: Option<&[AgentId]>, channels: Option<&[ChannelId]>) -> String {
    fn words<T: std::fmt::Display>(what: &str, list: Option<&[T]>) -> String {
        match list {
            None => format!("all {what}"),
            Some([]) => format!("no {what}"),
            Some(list) => {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                format!("the {what} {}", list.join(", "))
            }
        }
    }
    let (agents, channels) = (words("agents", agents), words("channels", channels));
    format!("{} for {agents} and {channels}", role.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_says_what_a_person_may() {
        let (agent, channel) = ("coder".parse().unwrap(), "dev".parse().unwrap());
        let text = describe(PersonRole::Member, Some(&[agent]), Some(&[channel]));
        assert_eq!(text, "member for the agents coder and the channels dev");
        assert_eq!(describe(PersonRole::Viewer, None, Some(&[])), "viewer for all agents and no channels");
    }
}

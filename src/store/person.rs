//! The people of a home beside its owner: their roles, the agents and channels that they are limited to, and their
//! budgets. Their credentials are client tokens that name them.

use std::str::FromStr;

use super::audit::{self, AuditEntry, Level};
use super::sql::{self, Connection, OptionalExtension as _, Row, Transaction};
use super::subjects::{People, Tokens};
use super::token::ClientToken;
use super::{Database, Store, StoreError};
use crate::clean::looks_like;
use crate::id::{AgentId, ChannelId, Party, SessionKey, SessionKind};

/// The rights of a person, from the most to the fewest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonRole {
    /// Everything that the owner may do, except for what would reveal or replace the owner's token.
    Owner,
    /// Runs the team: turns, decisions, freezes, agents, channels and schedules.
    Operator,
    /// Works with agents, in channels and in sessions of their own.
    Member,
    /// Reads.
    Viewer,
}

impl PersonRole {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Owner, Self::Operator, Self::Member, Self::Viewer];

    /// Returns the name that the command line, the database and the API use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Operator => "operator",
            Self::Member => "member",
            Self::Viewer => "viewer",
        }
    }
}

impl FromStr for PersonRole {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == word);
        found.ok_or_else(|| "a role is one of owner, operator, member and viewer".to_owned())
    }
}

impl serde::Serialize for PersonRole {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for PersonRole {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A person to be added.
#[derive(Clone, Debug)]
pub(crate) struct NewPerson {
    /// The name in lower case, without `human:`.
    pub name: String,
    pub role: PersonRole,
    /// The agents that the person may see; `None` means all.
    pub agents: Option<Vec<AgentId>>,
    /// The channels that the person is on; `None` means all.
    pub channels: Option<Vec<ChannelId>>,
    /// The most tokens of a day; `None` for no limit.
    pub day_tokens: Option<u64>,
    /// The most millionths of a dollar of a day; `None` for no limit.
    pub day_cost: Option<u64>,
}

/// An account at a provider of OpenID Connect. One without a subject is known by its e-mail address until somebody has signed
/// in with it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OidcAccount {
    /// The provider, as it names itself.
    pub issuer: String,
    /// The provider's id of the account.
    pub subject: Option<String>,
    /// The e-mail address in lower case.
    pub email: Option<String>,
}

/// The result of giving a person an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OidcBinding {
    Bound(Box<Person>),
    /// The person with this name has the account.
    Taken(String),
    /// Nobody has the name, or was removed.
    NoPerson,
}

/// The new values of a person. `None` leaves a value as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct PersonChange {
    pub role: Option<PersonRole>,
    pub agents: Option<Option<Vec<AgentId>>>,
    pub channels: Option<Option<Vec<ChannelId>>>,
    pub day_tokens: Option<Option<u64>>,
    pub day_cost: Option<Option<u64>>,
}

impl PersonChange {
    /// Returns `true` if nothing changes.
    #[must_use]
    pub(crate) const fn is_empty(&self) -> bool {
        self.role.is_none()
            && self.agents.is_none()
            && self.channels.is_none()
            && self.day_tokens.is_none()
            && self.day_cost.is_none()
    }
}

/// A stored person.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Person {
    /// The name in lower case, without `human:`.
    pub name: String,
    pub role: PersonRole,
    /// The agents that the person may see; `None` means all.
    pub agents: Option<Vec<AgentId>>,
    /// The channels that the person is on; `None` means all.
    pub channels: Option<Vec<ChannelId>>,
    /// The most tokens of a day; `None` for no limit.
    pub day_tokens: Option<u64>,
    /// The most millionths of a dollar of a day; `None` for no limit.
    #[serde(rename = "dayCostMicros")]
    pub day_cost: Option<u64>,
    /// The party that added the person.
    pub added_by: String,
    /// Unix milliseconds.
    pub added_at: i64,
    /// Unix milliseconds; `None` if the person was not removed.
    pub removed_at: Option<i64>,
    /// The account with which the person signs in to the dashboard. `None` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcAccount>,
}

/// Begins the peer of a session that a person began with a request. No name of a person or a token has a colon.
const REQUEST_PEER: &str = "person:";

impl Person {
    /// Returns `true` if the person was not removed.
    #[must_use]
    pub(crate) const fn is_active(&self) -> bool {
        self.removed_at.is_none()
    }

    /// Returns `true` if the person may not see all agents and channels.
    #[must_use]
    pub(crate) const fn is_limited(&self) -> bool {
        self.agents.is_some() || self.channels.is_some()
    }

    /// Returns `true` if the person may see this agent.
    #[must_use]
    pub(crate) fn covers(&self, agent: &AgentId) -> bool {
        self.agents.as_ref().is_none_or(|agents| agents.contains(agent))
    }

    /// Returns `true` if the person is on this channel.
    #[must_use]
    pub(crate) fn is_on(&self, channel: &ChannelId) -> bool {
        // The ids of channels are unique without regard to case.
        let is_it = |one: &ChannelId| one.as_str().eq_ignore_ascii_case(channel.as_str());
        self.channels.as_ref().is_none_or(|channels| channels.iter().any(is_it))
    }

    /// Returns the name under which the person sends requests. Idempotency keys, files and tasks belong to it. It is the
    /// name of no client: that has no colon, or a number after it, and a person's name begins with a letter.
    #[must_use]
    pub(crate) fn sender(&self) -> String {
        format!("human:{}", self.name)
    }

    /// Returns the begin of the peers of sessions that this person begins with requests.
    #[must_use]
    pub(crate) fn request_peer(&self) -> String {
        format!("{REQUEST_PEER}{}", self.name)
    }

    /// Returns `true` if the person may have turns in this session. In a session of somebody else the person would be
    /// taken for them.
    #[must_use]
    pub(crate) fn owns(&self, session: &SessionKey) -> bool {
        matches!(session.kind(), SessionKind::Main | SessionKind::Request)
            && person_of(session).is_some_and(|name| name == self.name)
    }

    /// Returns `true` if the session is a conversation with this person, by whatever way.
    #[must_use]
    pub(crate) fn is_peer_of(&self, session: &SessionKey) -> bool {
        person_of(session).is_some_and(|name| name == self.name)
    }
}

/// Returns the name that the person of a session would have, in lower case. There need be no such person: the owner and
/// people of other platforms have sessions of this form too.
#[must_use]
pub(crate) fn person_of(session: &SessionKey) -> Option<String> {
    // Keys that differ only in case name the same session.
    let peer = session.peer().to_ascii_lowercase();
    let first = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    match session.kind() {
        SessionKind::Main => match peer.strip_prefix(REQUEST_PEER) {
            Some(rest) => Some(first(rest)),
            None => (!peer.contains(':')).then_some(peer),
        },
        SessionKind::Request => peer.strip_prefix(REQUEST_PEER).map(first),
        SessionKind::Dm => {
            let rest = peer.strip_prefix("human:").filter(|rest| !rest.contains(':'));
            rest.or_else(|| peer.strip_prefix("a2a:person:")).map(first)
        }
        SessionKind::Channel => None,
    }
}

const COLUMNS: &str =
    "name, role, agents, channels, day_tokens, day_cost, added_by, added_at, removed_at, oidc_issuer,
    oidc_subject, oidc_email";

fn row(row: &Row<'_>) -> sql::Result<Person> {
    // An empty list is not the same as NULL, which means all.
    fn words<T: FromStr>(text: Option<String>) -> sql::Result<Option<Vec<T>>> {
        let parsed = |text: String| {
            let words = text.split(',').filter(|word| !word.is_empty()).map(str::parse);
            words.collect::<Result<_, _>>().map_err(|_| sql::Error::Malformed)
        };
        text.map(parsed).transpose()
    }
    let role: String = row.get(1)?;
    let count = |column| row.get::<Option<i64>>(column).map(|count| count.map(i64::unsigned_abs));
    Ok(Person {
        name: row.get(0)?,
        role: role.parse().map_err(|_| sql::Error::Malformed)?,
        agents: words(row.get(2)?)?,
        channels: words(row.get(3)?)?,
        day_tokens: count(4)?,
        day_cost: count(5)?,
        added_by: row.get(6)?,
        added_at: row.get(7)?,
        removed_at: row.get(8)?,
        oidc: match row.get(9)? {
            Some(issuer) => Some(OidcAccount { issuer, subject: row.get(10)?, email: row.get(11)? }),
            None => None,
        },
    })
}

/// Returns the person whose account this is, or whose e-mail address if nobody has signed in with that yet.
fn find_account(
    connection: &Connection<'_>,
    issuer: &str,
    subject: Option<&str>,
    email: Option<&str>,
) -> sql::Result<Option<Person>> {
    let by = |column: &str, more: &str, value: &str| {
        connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM person WHERE oidc_issuer = ?1 AND {column} = ?2 AND removed_at IS NULL {more}"
            ))?
            .query_row((issuer, value), row)
            .optional()
    };
    if let Some(subject) = subject
        && let Some(found) = by("oidc_subject", "", subject)?
    {
        return Ok(Some(found));
    }
    email.map_or(Ok(None), |email| by("oidc_email", "AND oidc_subject IS NULL", email))
}

fn set_account(transaction: &Transaction<'_>, name: &str, account: Option<&OidcAccount>) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE person SET oidc_issuer = ?2, oidc_subject = ?3, oidc_email = ?4 WHERE name = ?1",
        )?
        .execute((
            name,
            account.map(|account| &account.issuer),
            account.and_then(|account| account.subject.as_ref()),
            account.and_then(|account| account.email.as_ref()),
        ))
        .map(drop)
}

fn joined<T: AsRef<str>>(words: Option<&Vec<T>>) -> Option<String> {
    words.map(|words| words.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(","))
}

/// Returns the channels of a person. One who is limited to some agents is on no channel that is not named, or the
/// channel's other agents would be seen there.
fn named_channels(agents: Option<&Vec<AgentId>>, channels: Option<Vec<ChannelId>>) -> Option<Vec<ChannelId>> {
    channels.or_else(|| agents.map(|_| Vec::new()))
}

/// Converts an amount for a column of 64 bits with a sign.
fn amount(limit: Option<u64>) -> Option<i64> {
    limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

pub(super) fn find(connection: &Connection<'_>, name: &str) -> sql::Result<Option<Person>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM person WHERE name = ?1"))?
        .query_row([name.to_ascii_lowercase()], row)
        .optional()
}

fn list(connection: &Connection<'_>) -> sql::Result<Vec<Person>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM person ORDER BY name"))?
        .query_map((), row)?
        .collect()
}

/// Returns `true` if a party would be taken for a person of the home, removed or not.
pub(super) fn has_like(connection: &Connection<'_>, party: &Party) -> sql::Result<bool> {
    let Party::Human(name) = party else { return Ok(false) };
    let found: Vec<String> = connection
        .prepare_cached("SELECT name FROM person")?
        .query_map((), |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(found.iter().any(|known| looks_like(known, name)))
}

/// Removes an agent from all people that are limited to it and others. A later agent with the same id must not be
/// seen by them.
pub(super) fn remove_agent(transaction: &Transaction<'_>, agent: &AgentId) -> sql::Result<usize> {
    transaction
        .prepare_cached(
            "UPDATE person SET agents = trim(replace(',' || agents || ',', ',' || ?1 || ',', ','), ',')
             WHERE instr(',' || agents || ',', ',' || ?1 || ',') > 0",
        )?
        .execute([agent.as_str()])
}

/// Returns the agents that people are limited to.
pub(super) fn named_agents(connection: &Connection<'_>) -> sql::Result<Vec<AgentId>> {
    Ok(list(connection)?.into_iter().filter_map(|person| person.agents).flatten().collect())
}

/// Counts the calls of a task or a session, given by its id, against the budget of a person.
pub(super) fn charge(transaction: &Transaction<'_>, id: &str, person: &str) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO person_charge (id, person) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET person = excluded.person",
        )?
        .execute((id, person))
        .map(drop)
}

/// Returns the name of the person whom a turn's calls are counted for: the person of its session, or the last person
/// who wrote in its channel or whose schedule or webhook did, or the one for whom its task or its session was begun.
pub(super) fn charged(
    connection: &Connection<'_>,
    session: &SessionKey,
    turn: Option<&str>,
) -> sql::Result<Option<Person>> {
    let name = charged_name(connection, session, turn)?;
    name.map_or(Ok(None), |name| find(connection, &name))
}

fn charged_name(
    connection: &Connection<'_>,
    session: &SessionKey,
    turn: Option<&str>,
) -> sql::Result<Option<String>> {
    if let Some(channel) = session.channel() {
        // The condition is that of the index, or the whole channel would be read.
        return connection
            .prepare_cached(
                "SELECT coalesce(person, substr(author, 7)) FROM message
                 WHERE channel = ?1 AND (person IS NOT NULL OR (author >= 'human:' AND author < 'human;'))
                 ORDER BY seq DESC LIMIT 1",
            )?
            .query_row([channel.as_str()], |row| row.get(0))
            .optional();
    }
    if let Some(name) = person_of(session) {
        return Ok(Some(name));
    }
    let Some(turn) = turn else {
        // Without a turn, the newest call of the session decides. A session that has made none yet has a row of its own.
        return connection
            .prepare_cached(
                "SELECT coalesce(
                    (SELECT person FROM usage WHERE session = ?1 ORDER BY id DESC LIMIT 1),
                    (SELECT person FROM person_charge WHERE id = ?1))",
            )?
            .query_row([session.as_str()], |row| row.get(0));
    };
    connection
        .prepare_cached(
            "SELECT person FROM (
                SELECT person, 0 AS place FROM person_charge
                WHERE id IN (SELECT task FROM inbox WHERE turn = ?2 AND task IS NOT NULL)
                UNION ALL SELECT person, 1 FROM person_charge WHERE id = ?1
             ) AS found ORDER BY place LIMIT 1",
        )?
        .query_row((session.as_str(), turn), |row| row.get(0))
        .optional()
}

/// Returns a person as a change would leave them, with the audit row, or the error of `check`. `None` if nobody has the name, or
/// was removed.
fn changed<E>(
    transaction: &Transaction<'_>,
    name: &str,
    change: PersonChange,
    check: impl FnOnce(&Person) -> Result<AuditEntry, E>,
) -> sql::Result<Option<Result<(Person, AuditEntry), E>>> {
    let Some(mut person) = find(transaction, name)?.filter(Person::is_active) else { return Ok(None) };
    let PersonChange { role, agents, channels, day_tokens, day_cost } = change;
    person.role = role.unwrap_or(person.role);
    person.agents = agents.unwrap_or(person.agents);
    person.channels = named_channels(person.agents.as_ref(), channels.unwrap_or(person.channels));
    person.day_tokens = day_tokens.unwrap_or(person.day_tokens);
    person.day_cost = day_cost.unwrap_or(person.day_cost);
    Ok(Some(check(&person).map(|entry| (person, entry))))
}

fn write_change(
    transaction: &Transaction<'_>,
    person: &Person,
    entry: &AuditEntry,
    now: i64,
) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE person SET role = ?2, agents = ?3, channels = ?4, day_tokens = ?5, day_cost = ?6
             WHERE name = ?1",
        )?
        .execute((
            &person.name,
            person.role.as_str(),
            joined(person.agents.as_ref()),
            joined(person.channels.as_ref()),
            amount(person.day_tokens),
            amount(person.day_cost),
        ))?;
    audit::append(transaction, entry, now)
}

/// Gives a person an account, or takes it away, unless somebody else has it.
fn bind(
    transaction: &Transaction<'_>,
    name: &str,
    account: Option<OidcAccount>,
    entry: &AuditEntry,
    now: i64,
) -> sql::Result<OidcBinding> {
    let Some(mut person) = find(transaction, name)?.filter(Person::is_active) else {
        return Ok(OidcBinding::NoPerson);
    };
    if let Some(wanted) = &account {
        for (column, value) in [("oidc_subject", &wanted.subject), ("oidc_email", &wanted.email)] {
            let Some(value) = value else { continue };
            let other: Option<String> = transaction
                .prepare_cached(&format!(
                    "SELECT name FROM person WHERE oidc_issuer = ?1 AND {column} = ?2 AND name <> ?3"
                ))?
                .query_row((&wanted.issuer, value, name), |row| row.get(0))
                .optional()?;
            if let Some(other) = other {
                return Ok(OidcBinding::Taken(other));
            }
        }
    }
    set_account(transaction, name, account.as_ref())?;
    transaction
        .prepare_cached(
            "DELETE FROM sign_in WHERE lower(person) = ?1 AND oidc_issuer IS NOT NULL
             AND (oidc_issuer IS DISTINCT FROM ?2 OR oidc_subject IS DISTINCT FROM ?3)",
        )?
        .execute((
            name,
            account.as_ref().map(|account| &account.issuer),
            account.as_ref().and_then(|account| account.subject.as_ref()),
        ))?;
    audit::append(transaction, entry, now)?;
    person.oidc = account;
    Ok(OidcBinding::Bound(Box::new(person)))
}

impl<A> People<&Database<A>> {
    /// Finds a person by name, removed or not.
    pub(crate) async fn find(self, name: &str) -> Result<Option<Person>, StoreError> {
        self.read("look a person up", |connection| find(connection, name)).await
    }

    /// Returns all people, sorted by name, also those who were removed.
    pub(crate) async fn list(self) -> Result<Vec<Person>, StoreError> {
        self.read("list the people", list).await
    }

    /// Returns the person whom the calls of a turn, or of a session's newest turn, are counted for. `None` if that is
    /// the owner or nobody.
    pub(crate) async fn charged(
        self,
        session: &SessionKey,
        turn: Option<&str>,
    ) -> Result<Option<Person>, StoreError> {
        self.read("look which person is charged", |connection| {
            // Most homes have nobody but the owner.
            let any: bool = connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM person)")?
                .query_row((), |row| row.get(0))?;
            if any { charged(connection, session, turn) } else { Ok(None) }
        })
        .await
    }
}

impl People<&Store> {
    /// Adds a person. Returns `false` if the name is or was that of a person.
    pub(crate) async fn add(self, new: NewPerson, entry: AuditEntry, now: i64) -> Result<bool, StoreError> {
        self.write("add a person", move |transaction| {
            let channels = named_channels(new.agents.as_ref(), new.channels);
            let added = transaction
                .prepare_cached(
                    "INSERT INTO person (name, role, agents, channels, day_tokens, day_cost, added_by, added_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (name) DO NOTHING",
                )?
                .execute((
                    &new.name,
                    new.role.as_str(),
                    joined(new.agents.as_ref()),
                    joined(channels.as_ref()),
                    amount(new.day_tokens),
                    amount(new.day_cost),
                    &entry.actor,
                    now,
                ))?;
            if added > 0 {
                // A browser of this name had the owner's rights, and perhaps gets the owner's notifications.
                transaction
                    .prepare_cached("DELETE FROM sign_in WHERE lower(person) = ?1")?
                    .execute([&new.name])?;
                audit::append(transaction, &entry, now)?;
            }
            Ok(added > 0)
        })
        .await
    }

    /// Changes a person. `check` is asked about the person as it would become, and its error leaves everything as it is.
    /// Returns `None` if nobody has the name, or was removed.
    pub(crate) async fn change<E: Send + 'static>(
        self,
        name: String,
        change: PersonChange,
        check: impl FnOnce(&Person) -> Result<AuditEntry, E> + Send + 'static,
        now: i64,
    ) -> Result<Option<Result<Person, E>>, StoreError> {
        self.write("change a person", move |transaction| {
            let (person, entry) = match changed(transaction, &name, change, check)? {
                None => return Ok(None),
                Some(Err(error)) => return Ok(Some(Err(error))),
                Some(Ok(changed)) => changed,
            };
            write_change(transaction, &person, &entry, now)?;
            Ok(Some(Ok(person)))
        })
        .await
    }

    /// Changes a person and the person's account of OpenID Connect, both or neither. The account comes with its audit row.
    /// `check` is asked as in [`Self::change`].
    pub(crate) async fn change_with_account<E: Send + 'static>(
        self,
        name: String,
        change: PersonChange,
        check: impl FnOnce(&Person) -> Result<AuditEntry, E> + Send + 'static,
        (account, account_entry): (Option<OidcAccount>, AuditEntry),
        now: i64,
    ) -> Result<Result<OidcBinding, E>, StoreError> {
        self.write("change a person and the account", move |transaction| {
            // Nothing is written before everything was checked.
            let (person, entry) = match changed(transaction, &name, change, check)? {
                None => return Ok(Ok(OidcBinding::NoPerson)),
                Some(Err(error)) => return Ok(Err(error)),
                Some(Ok(changed)) => changed,
            };
            let bound = match bind(transaction, &name, account, &account_entry, now)? {
                OidcBinding::Bound(bound) => bound,
                refused => return Ok(Ok(refused)),
            };
            write_change(transaction, &person, &entry, now)?;
            Ok(Ok(OidcBinding::Bound(Box::new(Person { oidc: bound.oidc, ..person }))))
        })
        .await
    }

    /// Removes a person, revokes their tokens, signs their browsers out and forgets their accounts on other platforms.
    /// Returns `false` if nobody has the name, or was removed.
    pub(crate) async fn remove(self, name: String, entry: AuditEntry, now: i64) -> Result<bool, StoreError> {
        self.write("remove a person", move |transaction| {
            let removed = transaction
                .prepare_cached("UPDATE person SET removed_at = ?2 WHERE name = ?1 AND removed_at IS NULL")?
                .execute((&name, now))?;
            if removed == 0 {
                return Ok(false);
            }
            transaction
                .prepare_cached(
                    "UPDATE client_token SET revoked_at = ?2 WHERE person = ?1 AND revoked_at IS NULL",
                )?
                .execute((&name, now))?;
            for statement in [
                "DELETE FROM sign_in WHERE lower(person) = ?1",
                // Otherwise the account would still speak under the name.
                "DELETE FROM account WHERE lower(person) = 'human:' || CAST(?1 AS TEXT)",
                // Another person may get the account.
                "UPDATE person SET oidc_issuer = NULL, oidc_subject = NULL, oidc_email = NULL WHERE name = ?1",
            ] {
                transaction.prepare_cached(statement)?.execute([&name])?;
            }
            audit::append(transaction, &entry, now)?;
            Ok(true)
        })
        .await
    }

    /// Gives a person an account of OpenID Connect, or takes it away. Browsers that signed in with another one are signed
    /// out.
    pub(crate) async fn set_account(
        self,
        name: String,
        account: Option<OidcAccount>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<OidcBinding, StoreError> {
        self.write("change the account of a person", move |transaction| {
            bind(transaction, &name, account, &entry, now)
        })
        .await
    }

    /// Returns the person whose account this is. A person whose e-mail address it is, and who has not signed in yet, gets the
    /// subject: from then on, the address alone opens nothing.
    pub(crate) async fn of_account(
        self,
        issuer: String,
        subject: String,
        verified_email: Option<String>,
        now: i64,
    ) -> Result<Option<Person>, StoreError> {
        self.write("look the person of an account up", move |transaction| {
            let found = find_account(transaction, &issuer, Some(&subject), verified_email.as_deref())?;
            let Some(mut person) = found else { return Ok(None) };
            let Some(account) = person.oidc.as_mut().filter(|account| account.subject.is_none()) else {
                return Ok(Some(person));
            };
            account.subject = Some(subject);
            set_account(transaction, &person.name, person.oidc.as_ref())?;
            let name = person.sender();
            let text = "the first sign-in with the e-mail address".to_owned();
            let entry = AuditEntry::new(&name, "person.account", &name, Level::Yellow, text);
            audit::append(transaction, &entry, now)?;
            Ok(Some(person))
        })
        .await
    }

    /// Counts the calls of a session against the budget of a person.
    pub(crate) async fn charge_session(self, session: SessionKey, person: String) -> Result<(), StoreError> {
        self.write("charge a session to a person", move |transaction| {
            charge(transaction, session.as_str(), &person)
        })
        .await
    }
}

impl Tokens<&Store> {
    /// Stores a new token of a person under its hash, and gives it a name: the person's, with a number. Returns `None` if
    /// nobody has the person's name, or was removed.
    pub(crate) async fn add_of_person(
        self,
        person: String,
        hash: String,
        expires_at: Option<i64>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<Option<ClientToken>, StoreError> {
        self.write("keep a token of a person", move |transaction| {
            if !find(transaction, &person)?.is_some_and(|person| person.is_active()) {
                return Ok(None);
            }
            let mut number: i64 = transaction
                .prepare_cached("SELECT count(*) FROM client_token WHERE person = ?1")?
                .query_row([&person], |row| row.get(0))?;
            // A client may have the name. The numbers of revoked tokens are not given again, because their rows stay.
            let name = loop {
                number += 1;
                let name = format!("{person}.{number}");
                let is_taken = transaction
                    .prepare_cached("SELECT EXISTS (SELECT 1 FROM client_token WHERE lower(name) = ?1)")?
                    .query_row([&name], |row| row.get::<bool>(0))?;
                if !is_taken {
                    break name;
                }
            };
            transaction
                .prepare_cached(
                    "INSERT INTO client_token (name, hash, rights, created_at, expires_at, generation, person)
                     VALUES (?1, ?2, '', ?3, ?4, 1, ?5)",
                )?
                .execute((&name, &hash, now, expires_at, &person))?;
            audit::append(transaction, &AuditEntry { subject: name.clone(), ..entry }, now)?;
            super::token::find(transaction, "name", &name)
        })
        .await
    }
}

#[cfg(test)]
#[path = "person_tests.rs"]
mod tests;

//! Client tokens: the hash, rights, agents and expiry of each. The token itself is shown once, when it is created, and
//! never stored.

use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use super::audit::{self, AuditEntry};
use super::sql::{self, Connection, OptionalExtension as _, Row, Transaction};
use super::subjects::Tokens;
use super::{Database, Store, StoreError};
use crate::id::AgentId;

/// Milliseconds after which a use is recorded again. Recording each request would write at each of them.
pub(crate) const TOUCH_INTERVAL: i64 = 60_000;

/// A permission that a client token can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Run turns of agents and post to channels.
    Chat,
    /// Submit tasks by the Agent2Agent protocol.
    A2a,
    /// Read conversations and status.
    Read,
    /// Decide requests that wait for a person.
    Approve,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 4] = [Self::Chat, Self::A2a, Self::Read, Self::Approve];

    /// Returns the name that the command line, the database and the API use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::A2a => "a2a",
            Self::Read => "read",
            Self::Approve => "approve",
        }
    }
}

impl FromStr for Right {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|right| right.as_str() == word);
        found.ok_or_else(|| "a right is one of chat, a2a, read and approve".to_owned())
    }
}

impl serde::Serialize for Right {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for Right {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A token to be created.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The client's name in posts and in the audit.
    pub name: String,
    /// The agents that the token may be used for; `None` means all.
    pub agents: Option<Vec<AgentId>>,
    pub rights: Vec<Right>,
    /// Unix milliseconds; `None` means never.
    pub expires_at: Option<i64>,
}

/// A stored token, without the token itself.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientToken {
    pub name: String,
    /// The identity that owns tasks, sessions and idempotency keys.
    ///
    /// It is the token's name, or for example `name:2` for a token created after the first one of that name was
    /// revoked. A later client with the same name therefore inherits nothing.
    #[serde(skip)]
    pub client: String,
    /// The agents that the token may be used for; `None` means all.
    pub agents: Option<Vec<AgentId>>,
    pub rights: Vec<Right>,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds; `None` means never.
    pub expires_at: Option<i64>,
    /// Unix milliseconds; `None` if it was not revoked.
    pub revoked_at: Option<i64>,
    /// The person whose token it is. The rights are then those of the person. `None` for a client's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// Unix milliseconds of the last use, about a minute exact. `None` if it was not used yet.
    #[serde(rename = "lastUsedAt")]
    pub used_at: Option<i64>,
}

impl ClientToken {
    /// Returns `true` if it is neither revoked nor expired at `now`.
    #[must_use]
    pub fn is_good(&self, now: i64) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// Returns `true` if it has this right.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }

    /// Returns `true` if it may be used for this agent.
    #[must_use]
    pub fn covers(&self, agent: &AgentId) -> bool {
        self.agents.as_ref().is_none_or(|agents| agents.contains(agent))
    }
}

/// Returns the hash under which a token is stored. A token is 32 random bytes, so a slow or salted hash would add
/// nothing.
#[must_use]
pub fn hash(token: &[u8]) -> String {
    crate::id::hex(&Sha256::digest(token))
}

const COLUMNS: &str = "name, agents, rights, created_at, expires_at, revoked_at, generation, person, used_at";

fn row(row: &Row<'_>) -> sql::Result<ClientToken> {
    // Lists are stored as words with commas between them. An empty list is not the same as NULL, which means all.
    fn words<T: FromStr>(text: &str) -> sql::Result<Vec<T>> {
        let parsed = text.split(',').filter(|word| !word.is_empty()).map(str::parse);
        parsed.collect::<Result<_, _>>().map_err(|_| sql::Error::Malformed)
    }
    let agents: Option<String> = row.get(1)?;
    let name: String = row.get(0)?;
    let generation: u32 = row.get(6)?;
    Ok(ClientToken {
        // A token's name contains no colon, so the two forms can't collide.
        client: if generation == 1 { name.clone() } else { format!("{name}:{generation}") },
        name,
        agents: agents.map(|agents| words(&agents)).transpose()?,
        rights: words(&row.get::<String>(2)?)?,
        created_at: row.get(3)?,
        expires_at: row.get(4)?,
        revoked_at: row.get(5)?,
        person: row.get(7)?,
        used_at: row.get(8)?,
    })
}

pub(super) fn find(
    connection: &Connection<'_>,
    column: &'static str,
    value: &str,
) -> sql::Result<Option<ClientToken>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM client_token WHERE {column} = ?1"))?
        .query_row([value], row)
        .optional()
}

fn list(connection: &Connection<'_>) -> sql::Result<Vec<ClientToken>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM client_token ORDER BY name"))?
        .query_map((), row)?
        .collect()
}

/// Removes an agent from all tokens and returns the number of tokens that named it.
///
/// A later agent with the same id must not be covered by them. A token that named only this agent then covers none.
pub(super) fn remove_agent(transaction: &Transaction<'_>, agent: &AgentId) -> sql::Result<usize> {
    // With commas around the list and the id, only whole ids match.
    transaction
        .prepare_cached(
            "UPDATE client_token SET agents = trim(replace(',' || agents || ',', ',' || ?1 || ',', ','), ',')
             WHERE instr(',' || agents || ',', ',' || ?1 || ',') > 0",
        )?
        .execute([agent.as_str()])
}

/// Returns the agents that tokens name.
pub(super) fn named_agents(connection: &Connection<'_>) -> sql::Result<Vec<AgentId>> {
    Ok(list(connection)?.into_iter().filter_map(|token| token.agents).flatten().collect())
}

impl<A> Tokens<&Database<A>> {
    /// Finds a token by its hash, valid or not.
    pub async fn find(self, hash: &str) -> Result<Option<ClientToken>, StoreError> {
        self.read("look a token up", |connection| find(connection, "hash", hash)).await
    }

    /// Finds a token by its name, valid or not.
    pub(crate) async fn named(self, name: &str) -> Result<Option<ClientToken>, StoreError> {
        self.read("look a token up", |connection| find(connection, "name", name)).await
    }

    /// Returns all tokens, sorted by name.
    pub async fn list(self) -> Result<Vec<ClientToken>, StoreError> {
        self.read("list the tokens", list).await
    }
}

impl Tokens<&Store> {
    /// Stores a new token under its hash. Returns `false` if a valid token has this name. The name of a revoked or
    /// expired token is free.
    pub async fn add(
        self,
        new: NewToken,
        hash: String,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("keep a token", move |transaction| {
            // The name of a person's token stays with it: sign-ins refer to it.
            let is_taken = |known: &ClientToken| known.is_good(now) || known.person.is_some();
            if find(transaction, "name", &new.name)?.as_ref().is_some_and(is_taken) {
                return Ok(false);
            }
            // A revoked name starts a new generation. An expired token is renewed instead, because the client is the
            // same.
            let generation: u32 = transaction
                .prepare_cached(
                    "SELECT generation + CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END FROM client_token WHERE name = ?1",
                )?
                .query_row([&new.name], |row| row.get(0))
                .optional()?
                .unwrap_or(1);
            let joined = |words: Vec<&str>| words.join(",");
            let agents = new.agents.as_ref().map(|ids| joined(ids.iter().map(AgentId::as_str).collect()));
            let rights = joined(new.rights.iter().map(|right| right.as_str()).collect());
            // An existing token of this name is revoked or expired, so its row can be replaced.
            transaction
                .prepare_cached(
                    "INSERT INTO client_token
                        (name, hash, agents, rights, created_at, expires_at, generation)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                     ON CONFLICT (name) DO UPDATE SET name = excluded.name, hash = ?2, agents = ?3, rights = ?4,
                        created_at = ?5, expires_at = ?6, generation = ?7, revoked_at = NULL, used_at = NULL",
                )?
                .execute((&new.name, &hash, agents, rights, now, new.expires_at, generation))?;
            audit::append(transaction, &entry, now)?;
            Ok(true)
        })
        .await
    }

    /// Records that the token of this name that was made at `created_at` was used at `now`. An earlier use takes the place of one
    /// that is more than a minute ahead: that one is by a clock that differs.
    pub(crate) async fn touch(self, name: String, created_at: i64, now: i64) -> Result<(), StoreError> {
        self.write("note the use of a token", move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE client_token SET used_at = ?2
                     WHERE name = ?1 AND created_at = ?3
                        AND (used_at IS NULL OR used_at < ?2 OR used_at > ?4)",
                )?
                .execute((&name, now, created_at, now.saturating_add(TOUCH_INTERVAL)))
                .map(drop)
        })
        .await
    }

    /// Revokes a token. Returns `false` if there is none with this name, or if it is revoked already.
    pub(crate) async fn revoke(self, name: String, entry: AuditEntry, now: i64) -> Result<bool, StoreError> {
        self.write("revoke a token", move |transaction| {
            let revoked = transaction
                .prepare_cached(
                    "UPDATE client_token SET revoked_at = ?2 WHERE name = ?1 AND revoked_at IS NULL",
                )?
                .execute((&name, now))?;
            audit::append_if_any(transaction, revoked, &entry, now)
        })
        .await
    }
}

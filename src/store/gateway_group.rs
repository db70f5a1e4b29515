//! The group of gateways that use a database at the same time, each with a home of its own.
//!
//! A person makes it. Without it a database has one gateway. Its row also has what all of them share: the configuration, and
//! the mark of the folder with the agents' files.

use super::audit::{self, AuditEntry};
use super::gateway::{self, LivingGateway};
use super::notice::NoticeKind;
use super::sql::{self, Connection, OptionalExtension as _, Row};
use super::subjects::GatewayGroups;
use super::{Database, Store, StoreError};

/// The group, with the configuration that its gateways share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayGroup {
    /// The mark of the folder with the agents' files.
    pub files: String,
    /// The number of the configuration. A later one has a higher number, and no other one has the same.
    pub revision: i64,
    pub config: SharedConfig,
}

/// A configuration that gateways share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedConfig {
    /// The JSON text, without what each gateway has for itself.
    pub text: String,
    /// The path of the folder with the agents' files in it, on the machine that wrote it.
    pub root: String,
    /// The instance id of the home that wrote it.
    pub by: String,
}

/// The result of ending the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupEnd {
    Ended,
    /// There was no group.
    WasNone,
    /// This gateway of another home lives, and nothing was changed.
    InUse(LivingGateway),
}

const COLUMNS: &str = "files, revision, config, root, changed_by";

fn group(row: &Row<'_>) -> sql::Result<GatewayGroup> {
    let config = SharedConfig { text: row.get(2)?, root: row.get(3)?, by: row.get(4)? };
    Ok(GatewayGroup { files: row.get(0)?, revision: row.get(1)?, config })
}

/// Returns the number of a configuration that comes after the one with the number `known`.
///
/// It is not simply the next one. After a restore, or a fail-over to a server that lacks the newest changes, the next number
/// would be given a second time, as would the first one of another group. A home that has the configuration with that number
/// would take the other one for its own, and never adopt it.
fn number_after(known: i64) -> i64 {
    known.saturating_add(1).saturating_add(rand::random::<u32>().into())
}

/// Returns `true` if a person has made a group.
pub(super) fn is_made(connection: &Connection<'_>) -> sql::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM gateway_group)", (), |row| row.get(0))
}

impl<A> GatewayGroups<&Database<A>> {
    /// Returns the group, or `None` if the database has one gateway.
    pub(crate) async fn find(self) -> Result<Option<GatewayGroup>, StoreError> {
        self.read("look for the group of gateways", |connection| {
            connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM gateway_group"))?
                .query_row((), group)
                .optional()
        })
        .await
    }

    /// Returns the number of the configuration, or `None` if there is no group.
    pub(crate) async fn revision(self) -> Result<Option<i64>, StoreError> {
        self.read("look for a newer configuration", |connection| {
            connection
                .prepare_cached("SELECT revision FROM gateway_group")?
                .query_row((), |row| row.get(0))
                .optional()
        })
        .await
    }
}

impl GatewayGroups<&Store> {
    /// Makes the group. Returns `false` and changes nothing if there is one.
    pub(crate) async fn make(
        self,
        files: String,
        config: SharedConfig,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("make the group of gateways", move |transaction| {
            let added = transaction.execute(
                "INSERT INTO gateway_group (id, files, revision, config, root, changed_at, changed_by)
                 VALUES (1, ?1, ?6, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
                (files, config.text, config.root, transaction.clock()?, config.by, number_after(0)),
            )?;
            if added == 0 {
                return Ok(false);
            }
            audit::append(transaction, &entry, now)?;
            transaction.tell(NoticeKind::Config, "");
            transaction.wait_for_disk()?;
            Ok(true)
        })
        .await
    }

    /// Ends the group, unless a gateway of another home than `own` lives: the database has one gateway from its next start on.
    ///
    /// The look at the gateways is in the same change as the end, and so is each start of one. None begins in between.
    pub(crate) async fn end(self, own: String, entry: AuditEntry, now: i64) -> Result<GroupEnd, StoreError> {
        self.write("end the group of gateways", move |transaction| {
            let clock = transaction.clock()?;
            let mut others = gateway::living(transaction)?.into_iter();
            if let Some(other) = others.find(|other| other.home != own && other.beat_until > clock) {
                return Ok(GroupEnd::InUse(other));
            }
            if transaction.execute("DELETE FROM gateway_group", ())? == 0 {
                return Ok(GroupEnd::WasNone);
            }
            audit::append(transaction, &entry, now)?;
            transaction.wait_for_disk()?;
            Ok(GroupEnd::Ended)
        })
        .await
    }

    /// Replaces the configuration if its number is still `known`, and appends a row to the audit if a person has changed it, with
    /// the time of that. Returns the new number, or `None` if somebody else has replaced it before.
    pub(crate) async fn replace_config(
        self,
        known: i64,
        config: SharedConfig,
        recorded: Option<(AuditEntry, i64)>,
    ) -> Result<Option<i64>, StoreError> {
        self.write("share the configuration", move |transaction| {
            let next = number_after(known);
            let changed = transaction
                .prepare_cached(
                    "UPDATE gateway_group SET revision = ?6, config = ?2, root = ?3, changed_at = ?4,
                         changed_by = ?5 WHERE revision = ?1",
                )?
                .execute((known, config.text, config.root, transaction.clock()?, config.by, next))?;
            if changed == 0 {
                return Ok(None);
            }
            if let Some((entry, now)) = &recorded {
                audit::append(transaction, entry, *now)?;
                transaction.wait_for_disk()?;
            }
            transaction.tell(NoticeKind::Config, "");
            Ok(Some(next))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::home::Home;
    use crate::store::gateway::{LIFETIME_MS, NewGateway};
    use crate::store::{AuditFilter, Level, testing};

    fn config(text: &str) -> SharedConfig {
        SharedConfig { text: text.to_owned(), root: "/srv/flock".to_owned(), by: "home".to_owned() }
    }

    fn entry() -> AuditEntry {
        AuditEntry::new("human:ann", "gateway.invite", "gateways", Level::Yellow, String::new())
    }

    #[tokio::test]
    async fn a_configuration_replaces_the_one_that_its_writer_knew() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        let store = Store::open(&home).unwrap();
        let group = || store.gateway_group();
        assert_eq!(group().find().await.unwrap(), None);
        let replace = |known, text, recorded| group().replace_config(known, config(text), recorded);
        assert_eq!(replace(0, "{}", None).await.unwrap(), None, "there is no group");
        assert!(group().make("mark".to_owned(), config("{}"), entry(), 1).await.unwrap());
        assert!(!group().make("other".to_owned(), config("[]"), entry(), 2).await.unwrap());
        let by = |name| AuditEntry::new(name, "config.set", "a", Level::Yellow, String::new());
        let first = group().revision().await.unwrap().unwrap();
        let second = replace(first, "{\"a\":1}", Some((by("human:ann"), 4))).await.unwrap().unwrap();
        assert!(first > 0 && second > first, "{first} {second}");
        let late = replace(first, "{\"b\":1}", Some((by("human:bob"), 5))).await.unwrap();
        assert_eq!(late, None, "it is of before");
        let changes = AuditFilter { action: Some("config".to_owned()), ..AuditFilter::default() };
        let rows = store.audit().rows(&changes, 10).await.unwrap();
        let recorded: Vec<_> = rows.iter().map(|row| (row.actor.as_str(), row.at)).collect();
        assert_eq!(recorded, [("human:ann", 4)], "the refused change is not recorded");
        let found = group().find().await.unwrap().unwrap();
        assert_eq!((found.files.as_str(), found.revision), ("mark", second));
        assert_eq!(found.config, config("{\"a\":1}"));
        assert_eq!(group().revision().await.unwrap(), Some(second));
        let end = |at| group().end("home".to_owned(), entry(), at);
        assert_eq!(end(3).await.unwrap(), GroupEnd::Ended);
        assert_eq!(end(4).await.unwrap(), GroupEnd::WasNone);
        assert_eq!(group().revision().await.unwrap(), None);
    }

    #[test]
    fn a_number_is_not_given_again_to_another_configuration() {
        // As after a restore: several configurations follow the same one.
        let numbers: BTreeSet<i64> = (0..100).map(|_| number_after(7)).collect();
        assert!(numbers.len() > 90 && numbers.iter().all(|number| *number > 7), "{numbers:?}");
        assert!(number_after(i64::MAX - 1) > i64::MAX - 1);
    }

    #[tokio::test]
    async fn a_group_does_not_end_while_a_gateway_of_another_home_lives() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        let store = Store::open(&home).unwrap();
        let group = || store.gateway_group();
        assert!(group().make("mark".to_owned(), config("{}"), entry(), 1).await.unwrap());
        let mut epochs = Vec::new();
        for home in ["own", "other"] {
            let new = NewGateway {
                home: home.to_owned(),
                name: home.to_owned(),
                address: "127.0.0.1:18789".to_owned(),
                version: "1.0.0".to_owned(),
            };
            epochs.push(testing::register_gateway(&store, new).await);
        }
        let end = || group().end("own".to_owned(), entry(), 2);
        let refused = end().await.unwrap();
        assert!(matches!(&refused, GroupEnd::InUse(other) if other.home == "other"), "{refused:?}");
        assert!(group().find().await.unwrap().is_some());
        // One that was killed counts as living for as long as it might.
        testing::silence_gateway(&store, epochs[1], LIFETIME_MS + 1).await;
        assert_eq!(end().await.unwrap(), GroupEnd::Ended);
    }
}

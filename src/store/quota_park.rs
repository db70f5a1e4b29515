//! The credentials whose quota is used up.

use super::audit::{self, AuditEntry};
use super::notice::NoticeKind;
use super::session::parsed;
use super::sql::{self, Row};
use super::subjects::QuotaParks;
use super::{Database, Store, StoreError};
use crate::id::ModelRef;

/// A model that may not be asked with a credential for now. Times are Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPark {
    /// The credential's identity, which is not the key.
    pub credential: String,
    pub model: ModelRef,
    /// The credential's name for people.
    pub name: String,
    pub since: i64,
    pub noted: i64,
    pub until: i64,
    /// `true` if the provider named that time.
    pub named: bool,
    pub refusals: u32,
    /// The provider's words.
    pub reason: String,
}

fn park(row: &Row<'_>) -> sql::Result<StoredPark> {
    Ok(StoredPark {
        credential: row.get(0)?,
        model: parsed(row, 1)?,
        name: row.get(2)?,
        since: row.get(3)?,
        noted: row.get(4)?,
        until: row.get(5)?,
        named: row.get(6)?,
        refusals: row.get(7)?,
        reason: row.get(8)?,
    })
}

impl<A> QuotaParks<&Database<A>> {
    /// Returns all parks.
    pub async fn list(self) -> Result<Vec<StoredPark>, StoreError> {
        self.read("look which quotas are used up", |connection| {
            connection
                .prepare_cached(
                    "SELECT credential, model, name, since, noted, until, named, refusals, reason FROM quota_park
                     ORDER BY credential, model",
                )?
                .query_map((), park)?
                .collect()
        })
        .await
    }
}

impl QuotaParks<&Store> {
    /// Stores parks in place of those of the same credential and model, and keeps the time of the first refusal. The audit
    /// row is written with them, if there is one.
    pub(crate) async fn put(
        self,
        parks: Vec<StoredPark>,
        entry: Option<AuditEntry>,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("note that a quota is used up", move |transaction| {
            for park in &parks {
                transaction
                    .prepare_cached(
                        "INSERT INTO quota_park
                             (credential, model, name, since, noted, until, named, refusals, reason)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                         ON CONFLICT (credential, model)
                         DO UPDATE SET name = ?3, since = CASE WHEN quota_park.since < excluded.since
                                 THEN quota_park.since ELSE excluded.since END, noted = ?5, until = ?6, named = ?7,
                             refusals = ?8, reason = ?9",
                    )?
                    .execute((
                        &park.credential,
                        park.model.as_str(),
                        &park.name,
                        park.since,
                        park.noted,
                        park.until,
                        park.named,
                        park.refusals,
                        &park.reason,
                    ))?;
            }
            if !parks.is_empty() {
                transaction.tell(NoticeKind::Quota, "");
            }
            entry.map_or(Ok(()), |entry| audit::append(transaction, &entry, now).map(drop))
        })
        .await
    }

    /// Makes the time of these parks come at `now`, by credential and model, and forgets earlier refusals.
    pub(crate) async fn resume(self, parks: Vec<(String, ModelRef)>, now: i64) -> Result<(), StoreError> {
        self.write("have a used up quota tried", move |transaction| {
            for (credential, model) in &parks {
                transaction
                    .prepare_cached(
                        "UPDATE quota_park SET until = CASE WHEN until < ?3 THEN until ELSE ?3 END, noted = ?3,
                             refusals = 0 WHERE credential = ?1 AND model = ?2",
                    )?
                    .execute((credential, model.as_str(), now))?;
            }
            transaction.tell(NoticeKind::Quota, "");
            Ok(())
        })
        .await
    }

    /// Removes parks by credential and model. The audit row is written with it, if there is one.
    pub(crate) async fn remove(
        self,
        parks: Vec<(String, ModelRef)>,
        entry: Option<AuditEntry>,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("note that a quota can be used again", move |transaction| {
            for (credential, model) in &parks {
                transaction
                    .prepare_cached("DELETE FROM quota_park WHERE credential = ?1 AND model = ?2")?
                    .execute((credential, model.as_str()))?;
            }
            if !parks.is_empty() {
                transaction.tell(NoticeKind::Quota, "");
            }
            entry.map_or(Ok(()), |entry| audit::append(transaction, &entry, now).map(drop))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;

    #[tokio::test]
    async fn parks_are_there_after_a_restart_until_they_end() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        let park = |model: &str, until| StoredPark {
            credential: "key:1".to_owned(),
            model: model.parse().unwrap(),
            name: "lab".to_owned(),
            since: 1,
            noted: 2,
            until,
            named: true,
            refusals: 3,
            reason: "used up".to_owned(),
        };
        let store = Store::open(&home).unwrap();
        store.quota_parks().put(vec![park("lab/a", 9), park("lab/b", 9)], None, 2).await.unwrap();
        store.quota_parks().put(vec![park("lab/a", 10)], None, 2).await.unwrap();
        drop(store);
        let store = Store::open(&home).unwrap();
        assert_eq!(store.quota_parks().list().await.unwrap(), [park("lab/a", 10), park("lab/b", 9)]);
        // Another gateway may have been refused later, for the same reason.
        let later = StoredPark { since: 5, ..park("lab/a", 10) };
        store.quota_parks().put(vec![later], None, 5).await.unwrap();
        let parks = store.quota_parks().list().await.unwrap();
        assert_eq!(parks, [park("lab/a", 10), park("lab/b", 9)], "the first refusal stays the first");
        let gone = vec![("key:1".to_owned(), "lab/a".parse().unwrap())];
        store.quota_parks().resume(gone.clone(), 7).await.unwrap();
        let resumed = StoredPark { noted: 7, refusals: 0, ..park("lab/a", 7) };
        assert_eq!(store.quota_parks().list().await.unwrap(), [resumed, park("lab/b", 9)]);
        store.quota_parks().remove(gone, None, 3).await.unwrap();
        assert_eq!(store.quota_parks().list().await.unwrap(), [park("lab/b", 9)]);
    }
}

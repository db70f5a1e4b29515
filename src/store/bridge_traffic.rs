//! The number of messages over each bridge, by day.

use super::sql::{self, Transaction};
use super::subjects::UsageRecords;
use super::{Database, StoreError, UsageFilter};
use crate::clock;

/// The number of messages over a bridge.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct BridgeTraffic {
    /// The name of the bridge, which may have been removed since.
    pub(crate) name: String,
    /// Messages of people on the platform.
    pub(crate) received: u64,
    /// Messages that were sent to the platform, each once for each linked channel.
    pub(crate) sent: u64,
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the platform to flock.
    Received,
    /// From flock to the platform.
    Sent,
}

/// Counts a message over a bridge at `now`, in Unix milliseconds.
pub(super) fn count(
    transaction: &Transaction<'_>,
    bridge: &str,
    direction: Direction,
    now: i64,
) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO bridge_traffic (day, bridge, received, sent) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (day, bridge) DO UPDATE SET received = bridge_traffic.received + excluded.received,
                sent = bridge_traffic.sent + excluded.sent",
        )?
        .execute((
            clock::local_day(now),
            bridge,
            direction == Direction::Received,
            direction == Direction::Sent,
        ))
        .map(drop)
}

/// Counts a message over the bridge of a link, as [`count`] does.
pub(super) fn count_on_link(
    transaction: &Transaction<'_>,
    link: &str,
    direction: Direction,
    now: i64,
) -> sql::Result<()> {
    let bridge: String = transaction
        .prepare_cached("SELECT bridge FROM link WHERE id = ?1")?
        .query_row([link], |row| row.get(0))?;
    count(transaction, &bridge, direction, now)
}

impl<A> UsageRecords<&Database<A>> {
    /// Returns the messages of each bridge on the days of a filter. Messages belong to no agent, so a filter for one
    /// gives none.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(crate) async fn bridges(self, filter: &UsageFilter) -> Result<Vec<BridgeTraffic>, StoreError> {
        if filter.agent.is_some() {
            return Ok(Vec::new());
        }
        self.read("sum the messages over bridges", |connection| {
            connection
                .prepare_cached(
                    "SELECT bridge, CAST(sum(received) AS BIGINT), CAST(sum(sent) AS BIGINT) FROM bridge_traffic
                     WHERE day >= ?1 AND (?2 = '' OR day <= ?2) GROUP BY bridge ORDER BY bridge",
                )?
                .query_map((&filter.since, &filter.until), |row| {
                    // A count is never negative.
                    let count = |column| row.get::<i64>(column).map(i64::unsigned_abs);
                    Ok(BridgeTraffic { name: row.get(0)?, received: count(1)?, sent: count(2)? })
                })?
                .collect()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::Store;

    fn traffic(name: &str, received: u64, sent: u64) -> BridgeTraffic {
        BridgeTraffic { name: name.to_owned(), received, sent }
    }

    #[tokio::test]
    async fn messages_are_counted_by_day_and_bridge() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Home::new(folder.path().to_owned(), None)).unwrap();
        let day = 24 * 3_600_000;
        for (bridge, direction, now) in [
            ("b", Direction::Received, 0),
            ("b", Direction::Received, 0),
            ("b", Direction::Sent, 0),
            ("b", Direction::Sent, 3 * day),
            ("a", Direction::Sent, 0),
        ] {
            let counted =
                store.write("count", move |transaction| count(transaction, bridge, direction, now)).await;
            counted.unwrap();
        }
        let on = |since: i64, until: Option<i64>, agent: Option<&str>| UsageFilter {
            since: clock::local_day(since),
            until: until.map(clock::local_day).unwrap_or_default(),
            agent: agent.map(|id| id.parse().unwrap()),
        };
        let found = async |filter: UsageFilter| store.usage().bridges(&filter).await.unwrap();
        assert_eq!(found(on(0, Some(0), None)).await, [traffic("a", 0, 1), traffic("b", 2, 1)]);
        assert_eq!(found(on(0, None, None)).await, [traffic("a", 0, 1), traffic("b", 2, 2)]);
        assert_eq!(found(on(day, None, None)).await, [traffic("b", 0, 1)]);
        assert_eq!(found(on(0, None, Some("coder"))).await, []);
    }
}

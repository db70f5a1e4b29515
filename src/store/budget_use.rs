//! The use of budgets: how much of a limit is used, and how much is reserved for calls that run.

use super::sql::{self, Connection};
use super::subjects::UsageRecords;
use super::usage::{read_count, used};
use super::{Database, StoreError, UsageAmount, UsageLimit, UsageScope};

/// A limit with what is used of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitUse {
    pub limit: UsageLimit,
    /// The settled use and the reservations.
    pub used: UsageAmount,
    /// The part that calls may still use which run now.
    pub reserved: UsageAmount,
}

fn reserved(connection: &Connection<'_>, day: &str, scope: &UsageScope) -> sql::Result<UsageAmount> {
    let (condition, value) = scope.condition();
    connection
        .prepare_cached(&format!(
            "SELECT coalesce(CAST(sum(input + output + cache_read + cache_write) AS BIGINT), 0),
                coalesce(CAST(sum(cost) AS BIGINT), 0)
             FROM usage WHERE state = 'reserved' AND {} AND {condition}",
            scope.day_condition()
        ))?
        .query_row((day, value), |row| {
            Ok(UsageAmount { tokens: read_count(row, 0)?, cost: read_count(row, 1)? })
        })
}

impl<A> UsageRecords<&Database<A>> {
    /// Returns each of these limits with its use on a day.
    pub(crate) async fn limits_in_use(
        self,
        day: String,
        limits: Vec<UsageLimit>,
    ) -> Result<Vec<LimitUse>, StoreError> {
        self.read_long("look at the budgets", move |connection| {
            limits
                .iter()
                .map(|limit| {
                    Ok(LimitUse {
                        used: used(connection, &day, &limit.scope)?,
                        reserved: reserved(connection, &day, &limit.scope)?,
                        limit: limit.clone(),
                    })
                })
                .collect()
        })
        .await
    }
}

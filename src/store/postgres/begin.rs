//! The begin of a change: the message that is sent for it, and what the server answers.

use std::time::Duration;

use super::fence::Look;
use crate::id::unhex;
use crate::store::sql::ChainEnd;

/// The identity of a transaction, by which its outcome can be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TransactionId {
    pub(super) number: String,
    /// The run of the server, by [`SERVER_RUN`]. After a crash the numbers of transactions that had not reached the disk are
    /// given to others.
    pub(super) server_run: String,
}

/// The expression of SQL that is another one after each start and each crash of the server.
///
/// A server that recovers because one of its processes died goes on with its own start time, but its statistics begin anew.
/// If a person resets them, the outcome of a transaction at that moment can't be told, which is safe.
pub(super) const SERVER_RUN: &str =
    "concat_ws(' ', pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_bgwriter))";

/// The server's answer to the begin of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) id: TransactionId,
    /// Not set for a gateway that was ended.
    pub(super) may_change: bool,
    /// The end of the audit's chain, if the look at the fence brought it along.
    pub(super) chain_end: Option<ChainEnd>,
    /// The time from the message's arrival at the server until it had the lock. Zero without a fence.
    pub(super) lock_wait: Duration,
}

/// Returns the statements that begin a transaction, wait so long for the lock of all changes, and look at the fence.
///
/// They are one message, because each is a way to the server and back. The look is a statement of its own: one that also
/// waited for the lock would see the rows as they were before the wait.
pub(super) fn statements(lock: i64, wait: Duration, look: Look) -> String {
    // 0 would mean no limit.
    let wait = wait.as_millis().max(1);
    format!(
        "BEGIN; SET LOCAL lock_timeout = {wait}; SELECT pg_advisory_xact_lock({lock}); SET LOCAL lock_timeout = 0; {}",
        look.statement()
    )
}

impl Begun {
    /// Reads the columns of the look.
    pub(super) fn read(columns: &[Option<String>]) -> Self {
        let text = |column: usize| columns.get(column).cloned().flatten().unwrap_or_default();
        let chain_end = match (text(3).parse(), unhex(&text(4))) {
            (Ok(id), Some(hash)) => Some((id, hash)),
            _ => None,
        };
        let id = TransactionId { number: text(0), server_run: text(1) };
        // A clock that was set back meanwhile gives a number below zero.
        let lock_wait = text(5).parse::<u64>().map_or(Duration::ZERO, Duration::from_micros);
        Self { id, may_change: text(2) == "t", chain_end, lock_wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn an_answer_without_a_clear_yes_allows_no_change() {
        let begun = Begun::read(&columns(&["7", "today", "t", "12", "0aff", "2500"]));
        assert_eq!(begun.id, TransactionId { number: "7".to_owned(), server_run: "today".to_owned() });
        assert_eq!((begun.may_change, begun.chain_end), (true, Some((12, vec![0x0a, 0xff]))));
        assert_eq!(begun.lock_wait, Duration::from_micros(2500));
        for refused in [&["7", "today", "f", "12", "0aff"][..], &["7", "today", ""], &["7", "today"], &[]] {
            assert!(!Begun::read(&columns(refused)).may_change, "{refused:?}");
        }
        assert!(Begun::read(&columns(&["7", "today", "t"])).chain_end.is_none());
        for odd in ["", "-3", "a while"] {
            assert_eq!(Begun::read(&columns(&["7", "today", "t", "", "", odd])).lock_wait, Duration::ZERO);
        }
    }

    #[test]
    fn a_wait_that_is_over_is_not_one_without_a_limit() {
        let statements = statements(5, Duration::ZERO, Look::Without);
        assert!(statements.contains("lock_timeout = 1; SELECT pg_advisory_xact_lock(5)"), "{statements}");
    }
}

//! The fence of a gateway: at the beginning of each of its changes it looks if it was ended.
//!
//! A gateway is ended by a change of another one. All changes take one lock, and the look comes after it, so nobody can
//! end a gateway between its look and its commit. No clock is involved.

use std::borrow::Cow;

use super::begin::SERVER_RUN;
use super::session::Session;
use crate::store::gateway::Epoch;
use crate::store::sql::Result;

/// Identifies the run of a gateway in the look.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    epoch: Epoch,
    /// A random text. A server that lost its newest rows, as in a fail-over, may give the number again.
    run: String,
}

impl Fence {
    /// Returns the fence of a gateway's run. `run` is in hexadecimal.
    pub(super) const fn new(epoch: Epoch, run: String) -> Self {
        Self { epoch, run }
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Prepares the look on a connection, so that the server plans it once.
    ///
    /// # Errors
    ///
    /// Returns an error if the server fails.
    pub(super) fn prepare(&self, session: &Session) -> Result<()> {
        let Self { epoch: Epoch(epoch), run } = self;
        session.batch(&format!(
            "PREPARE fence AS SELECT pg_current_xact_id(), {SERVER_RUN},
                EXISTS (SELECT FROM gateway WHERE epoch = {epoch} AND run = '{run}' AND ended_at IS NULL),
                last.id, encode(last.hash, 'hex'),
                CAST(extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000 AS BIGINT)
             FROM (SELECT) AS one LEFT JOIN (SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1) AS last ON true"
        ))
    }
}

/// The look with which a change begins once it has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// By a gateway, on a connection on which its fence was prepared.
    AtFence,
    /// By a command, from which no gateway takes over.
    Without,
}

impl Look {
    /// Returns its statement. The third column says if the change may be made. The last three, which only a gateway's has, are
    /// the end of the audit's chain, and the microseconds since the message with the begin came, most of which went by for the
    /// lock.
    pub(super) fn statement(self) -> Cow<'static, str> {
        match self {
            Self::AtFence => Cow::Borrowed("EXECUTE fence"),
            Self::Without => Cow::Owned(format!("SELECT pg_current_xact_id(), {SERVER_RUN}, true")),
        }
    }
}

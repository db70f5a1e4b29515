//! The states of a request, and the steps between them.

use crate::store::Level;
use crate::store::sql::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlResult, ValueRef};

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestState {
    /// No person has to decide so far.
    Triage,
    /// Waits for a person's decision.
    Waiting,
    /// A person approved it, and it has not begun.
    Approved,
    /// Carrying it out has begun.
    Running,
    /// It was carried out or answered.
    Done,
    /// It failed, or its outcome is unknown.
    Failed,
    /// A person denied it.
    Denied,
    /// No decision was made in time, or it was approved and did not begin in time.
    Expired,
}

impl RequestState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Triage,
        Self::Waiting,
        Self::Approved,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Denied,
        Self::Expired,
    ];

    /// Returns the name that the database stores.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Triage => "triage",
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Expired => "expired",
        }
    }

    /// Returns `true` if the request can still change its state.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Triage | Self::Waiting | Self::Approved | Self::Running)
    }
}

impl FromSql for RequestState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for RequestState {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok(self.as_str().into())
    }
}

/// An event that may change the state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestStep {
    /// Its level was raised, so that a person has to decide.
    Hold,
    /// A person approves it.
    Approve,
    /// A person denies it, or withdraws an approval.
    Deny,
    /// Its deadline has passed.
    Expire,
    /// Carrying it out begins.
    Begin,
    /// It is answered with text; nothing is carried out.
    Answer,
    /// It has been carried out.
    Finish,
    /// Carrying it out failed.
    Fail,
}

/// Returns the state after a step, or `None` if the step is not allowed.
///
/// A request whose level needs a person begins only from [`RequestState::Approved`]. No request begins twice.
#[must_use]
pub const fn next(state: RequestState, level: Level, step: RequestStep) -> Option<RequestState> {
    use RequestState::{Approved, Denied, Done, Expired, Failed, Running, Triage, Waiting};
    match (state, step) {
        (Triage, RequestStep::Hold) => Some(Waiting),
        // A level that needs a person never begins from here, whatever the row's state says.
        (Triage, RequestStep::Begin) if !matches!(level, Level::Red) => Some(Running),
        (Triage, RequestStep::Answer) | (Running, RequestStep::Finish) => Some(Done),
        (Waiting, RequestStep::Approve) => Some(Approved),
        // An approval can be withdrawn until the request begins.
        (Triage | Waiting | Approved, RequestStep::Deny) => Some(Denied),
        (Triage | Waiting | Approved, RequestStep::Expire) => Some(Expired),
        (Approved, RequestStep::Begin) => Some(Running),
        (Running, RequestStep::Fail) => Some(Failed),
        _ => None,
    }
}

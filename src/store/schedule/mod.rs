//! Schedules: texts that are given to a channel or an agent at certain times.
//!
//! Each time of a schedule (a slot) has one row, which is written in the same transaction as the message or the task that
//! it causes. A slot whose row says that it ran never runs again, so a process can be killed at any moment.

mod addition;
mod change;
mod event;
mod missed;
mod row;
mod run;
mod slot;
mod turn;

pub use addition::NewSchedule;
pub(crate) use addition::ScheduleAdded;
pub use missed::{MissedRange, MissedSlots};
pub use row::{MissedPolicy, Schedule, ScheduleBudget, ScheduleState, ScheduleTarget, Timing};
pub(crate) use run::SlotResult;
pub use run::{SlotDelivery, SlotRun};
pub use slot::{ScheduleSlot, SlotCause, SlotOutcome};
pub(crate) use turn::ScheduleTurns;
pub(super) use turn::{charge_batch, charge_task};

/// Returns a limit as the database stores it.
fn amount(limit: Option<u64>) -> Option<i64> {
    limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

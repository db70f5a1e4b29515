//! The team, seen from outside.

mod approvals;

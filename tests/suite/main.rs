//! Everything that is tested from outside a module: one binary, a module for each subject.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::needless_pass_by_value,
    reason = "tests may fail loudly, touch files directly and hand over what they made for a call"
)]

mod acp;
mod agent;
mod cli;
mod docker;
mod faults;
mod gateway;
mod helper;
mod host;
mod hygiene;
mod law;
mod openclaw;
mod provider;
mod scale;
mod storage;
mod supervise;
mod support;
mod team;
mod tools;

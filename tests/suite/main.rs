//! Everything that is tested from outside a module: one binary, a module for each subject.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests may fail loudly and touch files directly"
)]

mod agent;
mod cli;
mod docker;
mod faults;
mod gateway;
mod helper;
mod law;
mod provider;
mod supervise;
mod support;
mod team;
mod tools;

//! `config.json`: OpenClaw's format, with flock's own keys below `plugins.entries.flock.config`.
//!
//! [`model`] is the typed view everything reads; editing works on the JSON document, so that unknown keys
//! and their order survive.

pub mod model;

pub use model::{Agent, Api, Config, Role, SandboxMode};

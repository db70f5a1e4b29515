//! flock: a supervised team of AI agents on the user's own machine.
//!
//! The modules by layer, the highest first. A module uses only modules of its own layer and of lower ones, and never in a
//! circle; the test `tests/suite/law` enforces that.
//!
//! | layer | modules |
//! |---|---|
//! | 6 | `cli`, `ui` |
//! | 5 | `gateway`, `bridge`, `dashboard` |
//! | 4 | `swarm`, `project`, `receipt`, `checkpoint`, `backup` |
//! | 3 | `agent`, `mcp`, `runtime`, `skill` |
//! | 2 | `provider`, `tool`, `sandbox`, `nix_store`, `install`, `supervise`, `openclaw`, `blob` |
//! | 1 | `store`, `config`, `generation`, `home`, `telemetry` |
//! | 0 | `error`, `env`, `id`, `json`, `clean`, `clock`, `markdown`, `process`, `fault_point`, `picture`, `secret_text`, `sync` |
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::needless_pass_by_value,
        reason = "tests touch files directly and hand over what they made for a call"
    )
)]

// The message says why, so that a build on another system does not end in hundreds of unrelated errors.
#[cfg(not(target_os = "linux"))]
compile_error!(
    "flock needs Linux: its sandboxes, its safe opening of files and its supervision are built on it"
);

pub mod agent;
pub(crate) mod backup;
pub mod blob;
pub mod bridge;
pub mod checkpoint;
pub(crate) mod clean;
pub mod cli;
pub mod clock;
pub mod config;
pub mod dashboard;
pub mod env;
pub mod error;
pub mod fault_point;
pub mod gateway;
pub mod generation;
pub mod home;
pub mod id;
pub mod install;
pub(crate) mod json;
pub(crate) mod markdown;
pub mod mcp;
pub mod nix_store;
pub mod openclaw;
pub(crate) mod picture;
pub mod process;
pub mod project;
pub mod provider;
pub mod receipt;
pub mod runtime;
pub mod sandbox;
mod secret_text;
pub(crate) mod skill;
pub mod store;
pub mod supervise;
pub mod swarm;
mod sync;
pub mod telemetry;
pub mod tool;
pub mod ui;

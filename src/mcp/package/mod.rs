//! Programs of MCP servers that come as packages from npm or `PyPI`.
//!
//! Nothing of a package runs before a server does. The registry's own resolver (npm, pip) says which packages belong
//! together. It runs in a sandbox without a network, where flock answers its requests. The result is a lock with the hash of
//! each package. flock downloads these itself, compares the hashes, and unpacks plain files; no install script runs and
//! nothing is built. The files are read-only in the server's sandbox.

mod archive;
mod artifacts;
mod command;
mod error;
mod installer;
mod lock;
mod npm;
mod pypi;
mod registry;
mod relay;
mod run_line;
mod spec;
mod tools;
mod tree;

pub(crate) use command::arguments;
pub(crate) use error::PackageError;
pub(crate) use installer::{
    Installer, Staged, described, forget, installed_problem, mounts, placed, variables,
};
pub(crate) use lock::{Difference, Lock, differences};
pub(crate) use run_line::of_run_line;
pub(crate) use spec::Request;
pub use tools::folders as tool_folders;

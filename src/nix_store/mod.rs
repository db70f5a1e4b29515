//! The shared Nix store. One container alone writes to it, a volume holds it, and each agent has a profile of packages.
//! Sandboxes see the store read-only. Packages are evaluated, fetched and built in throw-away containers, and only
//! their checked outputs enter the store.

mod carry;
mod container;
mod derivation;
mod error;
mod flake;
mod go_back;
mod manifest;
mod monitor;
mod nar;
mod outputs;
mod package;
mod package_list;
mod path;
pub(crate) mod pin;
mod profile;
mod realise;
mod source;
mod store;
mod stores;
mod substituter;

pub(crate) use carry::CarriedPackages;
use container::{CORES, MEMORY};
pub use container::{PIDS, user as build_user};
pub use error::NixError;
pub(crate) use flake::Flake;
pub(crate) use go_back::ProfileDifference;
pub(crate) use manifest::InstalledPackage;
pub use package::Attribute;
pub(crate) use package_list::{missing_packages, packages_to_bring};
pub use pin::Pin;
pub use store::PackageStore;
pub use stores::PackageStores;

/// Describes the confinement of evaluations and builds, in words that complete "it is …". It is part of the text that a
/// person approves.
#[must_use]
pub(crate) fn confinement() -> String {
    format!(
        "evaluated and built in throw-away containers as user {}, without capabilities, with {} GiB of memory, {CORES} \
         cores and {PIDS} processes at most; only what is fetched for it reaches a network, and only public hosts",
        build_user(),
        MEMORY >> 30
    )
}

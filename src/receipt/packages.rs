//! The packages that checks can use: those of the agent, with everything that they need.

use super::ReceiptError;
use super::document::{ClosurePath, Package};
use crate::id::AgentId;
use crate::nix_store::PackageStore;
use crate::provider::BoxFuture;

/// The packages of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckPackages {
    pub packages: Vec<Package>,
    /// All paths of the store that the packages refer to, with their hashes, sorted.
    pub closure: Vec<ClosurePath>,
}

impl CheckPackages {
    /// Returns the paths of the packages themselves, whose programs are on the PATH.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.packages.iter().flat_map(|package| package.paths.clone()).collect()
    }
}

/// The place where an agent's packages are looked up.
pub trait PackageSource: Send + Sync {
    fn packages<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<CheckPackages, ReceiptError>>;
}

/// No packages at all, for a home without a store.
pub struct NoPackages;

impl PackageSource for NoPackages {
    fn packages<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<CheckPackages, ReceiptError>> {
        Box::pin(async { Ok(CheckPackages::default()) })
    }
}

impl PackageSource for PackageStore {
    fn packages<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<CheckPackages, ReceiptError>> {
        Box::pin(async move {
            let installed = self.installed(agent).await?;
            let packages: Vec<Package> = installed
                .into_iter()
                .map(|package| Package {
                    attribute: package.package,
                    flake: package.flake,
                    nar_hash: package.nar_hash,
                    paths: package.store_paths,
                })
                .collect();
            let paths: Vec<String> = packages.iter().flat_map(|package| package.paths.clone()).collect();
            let closure = self.closure(&paths).await?;
            let closure =
                closure.into_iter().map(|(path, nar_hash)| ClosurePath { nar_hash, path }).collect();
            Ok(CheckPackages { packages, closure })
        })
    }
}

//! Goes back to an earlier generation of a profile, and says how its packages differ from the present ones.

use std::collections::BTreeSet;

use serde::Serialize;

use super::store::PROFILES;
use super::{InstalledPackage, NixError, PackageStore};
use crate::id::AgentId;
use crate::sandbox::containers;

/// The difference between the packages of a profile's generation and those in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProfileDifference {
    /// The packages that only the generation has, as in `hello (hello-2.12.1)`.
    pub added: Vec<String>,
    /// The packages that are in use and that it does not have.
    pub removed: Vec<String>,
}

impl ProfileDifference {
    fn between(now: &[InstalledPackage], then: &[InstalledPackage]) -> Self {
        let only = |these: &[InstalledPackage], those: &[InstalledPackage]| {
            let paths: BTreeSet<&String> = those.iter().flat_map(|package| &package.store_paths).collect();
            let is_only =
                |package: &&InstalledPackage| !package.store_paths.iter().all(|path| paths.contains(path));
            these.iter().filter(is_only).map(shown).collect()
        };
        Self { added: only(then, now), removed: only(now, then) }
    }
}

/// Returns a package with the name of its path, which has its version.
fn shown(package: &InstalledPackage) -> String {
    let path = package.store_paths.first().and_then(|path| path.rsplit('/').next());
    match path.and_then(|name| name.split_once('-')) {
        Some((_, name)) => format!("{} ({name})", package.package),
        None => package.package.clone(),
    }
}

impl PackageStore {
    /// Returns how the packages of a generation of an agent's profile differ from those in use. 0 stands for no profile.
    /// Returns `None` if the profile has no such generation any more.
    ///
    /// # Errors
    ///
    /// Returns an error if the store can't be read.
    pub(crate) async fn difference(
        &self,
        agent: &AgentId,
        number: u32,
    ) -> Result<Option<ProfileDifference>, NixError> {
        self.as_it_was(Box::pin(async {
            if !self.has_generation(agent, number).await? {
                return Ok(None);
            }
            let (_writing, container) = self.lock_running().await?;
            let now = self.read(&container, agent).await?;
            let then = match number {
                0 => Vec::new(),
                _ => self.read_at(&container, agent, &format!("{PROFILES}/{agent}-{number}-link")).await?,
            };
            Ok(Some(ProfileDifference::between(&now, &then)))
        }))
        .await
    }

    /// Switches to a generation of an agent's profile, and makes a generation of the home of that. Returns `false` if the
    /// profile has no such generation any more. It can be repeated.
    ///
    /// # Errors
    ///
    /// Returns an error if the store can't be changed.
    pub(crate) async fn go_back(&self, agent: &AgentId, number: u32) -> Result<bool, NixError> {
        self.as_it_was(Box::pin(async {
            if !self.has_generation(agent, number).await? {
                return Ok(false);
            }
            let (_, before) = self.numbers(agent).await?;
            self.switch_to(agent, number).await?;
            let (_writing, container) = self.lock_running().await?;
            self.record(&container, agent, before).await?;
            Ok(true)
        }))
        .await
    }

    async fn has_generation(&self, agent: &AgentId, number: u32) -> Result<bool, NixError> {
        Ok(number == 0 || self.numbers(agent).await?.0.contains(&number))
    }

    /// Does work with the store. One that did not run is stopped again.
    async fn as_it_was<T>(&self, work: impl Future<Output = Result<T, NixError>>) -> Result<T, NixError> {
        let before = self.state().await?;
        let done = work.await;
        if before.state != "running" {
            containers::stop(&self.engine, &before.container).await?;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, path: &str) -> InstalledPackage {
        InstalledPackage {
            package: name.to_owned(),
            flake: "f".to_owned(),
            nar_hash: None,
            store_paths: vec![format!("/nix/store/{path}")],
        }
    }

    #[test]
    fn packages_are_compared_by_their_paths() {
        let now = [package("hello", "aaa-hello-2.12"), package("jq", "bbb-jq-1.7")];
        let then = [package("hello", "ccc-hello-2.10"), package("jq", "bbb-jq-1.7"), package("odd", "odd")];
        let found = ProfileDifference::between(&now, &then);
        assert_eq!(found.added, ["hello (hello-2.10)", "odd"]);
        assert_eq!(found.removed, ["hello (hello-2.12)"]);
        assert_eq!(ProfileDifference::between(&now, &now), ProfileDifference::default());
    }
}

//! Packages that follow their agent into another store: that of another engine, or that of the gateway which has taken it over.
//! They come from the pinned set, by name. Those of other sources are left to a person, who has decided about each.

use tokio_util::sync::CancellationToken;

use super::package_list::listed;
use super::{Attribute, Flake, InstalledPackage, NixError, PackageStore, Pin};
use crate::id::AgentId;

/// The packages of an agent that goes to another store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CarriedPackages {
    /// The packages of the package set, which are installed in the other store.
    pub of_set: Vec<Attribute>,
    /// The packages of other sources, as in `github:owner/repository#name`.
    pub others: Vec<String>,
}

impl CarriedPackages {
    /// Divides packages that are named as in the list of an agent's packages.
    pub(super) fn of(packages: impl Iterator<Item = String>) -> Self {
        let mut found = Self::default();
        for package in packages {
            match package.parse::<Attribute>() {
                Ok(attribute) => found.of_set.push(attribute),
                Err(_) => found.others.push(package),
            }
        }
        found
    }

    /// Returns the names of the packages of the set, separated by spaces.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.of_set.iter().map(Attribute::as_str).collect();
        names.join(" ")
    }
}

impl PackageStore {
    /// Returns the packages that an agent would take along from this store.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine does not answer, or if the profile can't be read.
    pub(crate) async fn carried(&self, agent: &AgentId) -> Result<CarriedPackages, NixError> {
        let there = self.installed_if_present(agent).await?;
        Ok(CarriedPackages::of(there.iter().map(listed)))
    }

    /// Returns `true` if an agent that has yet to come would find exactly these packages here.
    ///
    /// # Errors
    ///
    /// Returns an error if the package set is not pinned, if the engine does not answer, or if the profile can't be read.
    pub(crate) async fn is_ready_for(
        &self,
        agent: &AgentId,
        packages: &[Attribute],
    ) -> Result<bool, NixError> {
        let pin = self.require_pin()?;
        Ok(has_exactly(&self.installed_if_present(agent).await?, packages, &pin))
    }

    /// Installs the packages of an agent that has yet to come to this store, and removes what it left here at an earlier time.
    /// The change is recorded when the agent is here ([`Self::record_arrival`]).
    ///
    /// # Errors
    ///
    /// Returns [`NixError::NotPinned`] if the package set is not pinned, and otherwise the error of the step that failed.
    pub(crate) async fn install_ahead(
        &self,
        agent: &AgentId,
        packages: &[Attribute],
        cancel: &CancellationToken,
    ) -> Result<(), NixError> {
        self.require_pin()?;
        if !self.installed_if_present(agent).await?.is_empty() {
            Box::pin(self.clear_profile(agent, packages)).await?;
        }
        Box::pin(self.install_for(agent, packages, true, cancel, &|_| {})).await.map(drop)
    }

    /// Installs packages of the pinned set for an agent that lacks them here. If they can't be installed together, each is tried
    /// alone, so that one of them costs no other.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::NotPinned`] if the package set is not pinned, and otherwise the first error. The other packages are
    /// installed then, as far as they can be.
    pub(crate) async fn install_missing(
        &self,
        agent: &AgentId,
        packages: &[Attribute],
        cancel: &CancellationToken,
    ) -> Result<(), NixError> {
        self.require_pin()?;
        let error = match Box::pin(self.install(agent, packages, cancel, &|_| {})).await {
            Ok(_) => return Ok(()),
            Err(error) if packages.len() < 2 => return Err(error),
            Err(error) => error,
        };
        for package in packages {
            if cancel.is_cancelled() {
                break;
            }
            // The error is that of all together, which names one that fails.
            drop(Box::pin(self.install(agent, std::slice::from_ref(package), cancel, &|_| {})).await);
        }
        Err(error)
    }

    /// Returns an agent's packages. A store that was never made has none, and is not made for this question.
    async fn installed_if_present(&self, agent: &AgentId) -> Result<Vec<InstalledPackage>, NixError> {
        match self.state().await?.state.as_str() {
            "absent" => Ok(Vec::new()),
            _ => self.installed(agent).await,
        }
    }

    /// Returns the pin of the package set. Nobody else than a person decides to which content a set is pinned first.
    fn require_pin(&self) -> Result<Pin, NixError> {
        match self.current_pin()? {
            Some(pin) => Ok(pin),
            None => {
                let flake = Flake::configured((self.config)().nix_flake.as_deref())?.reference();
                Err(NixError::NotPinned { flake })
            }
        }
    }
}

/// Returns `true` if these are the wanted packages, from the pinned content, and no others.
fn has_exactly(there: &[InstalledPackage], wanted: &[Attribute], pin: &Pin) -> bool {
    let is_wanted = |found: &InstalledPackage| {
        found.nar_hash.as_ref() == Some(&pin.nar_hash)
            && wanted.iter().any(|name| name.as_str() == found.package)
    };
    there.iter().all(is_wanted)
        && wanted.iter().all(|name| there.iter().any(|found| found.package == name.as_str()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;
    use crate::home::Home;
    use crate::sandbox::testing;

    fn package(name: &str, flake: &str, hash: Option<&str>) -> InstalledPackage {
        InstalledPackage {
            package: name.to_owned(),
            flake: flake.to_owned(),
            nar_hash: hash.map(str::to_owned),
            store_paths: vec![format!("/nix/store/a-{name}")],
        }
    }

    #[test]
    fn packages_of_the_set_are_carried_by_name_and_others_are_named_with_their_source() {
        let there = [
            package("jq", "github:a/set", Some("x")),
            package("tree", "github:a/b", None),
            package("hello", "", Some("y")),
        ];
        let found = CarriedPackages::of(there.iter().map(listed));
        assert_eq!(found.names(), "jq hello");
        assert_eq!(found.others, ["github:a/b#tree"]);
        assert_eq!(CarriedPackages::of(std::iter::empty()), CarriedPackages::default());
    }

    #[test]
    fn a_store_is_ready_with_exactly_the_packages_of_the_present_pin() {
        let pin = Pin { flake: "f".to_owned(), locked: "f/1".to_owned(), nar_hash: "now".to_owned() };
        let wanted: Vec<Attribute> = ["jq", "tree"].iter().map(|name| name.parse().unwrap()).collect();
        let (jq, tree) = (package("jq", "f/1", Some("now")), package("tree", "f/1", Some("now")));
        let is_ready = |there: &[&InstalledPackage]| {
            let there: Vec<InstalledPackage> = there.iter().map(|found| (*found).clone()).collect();
            has_exactly(&there, &wanted, &pin)
        };
        assert!(is_ready(&[&jq, &tree]));
        assert!(!is_ready(&[&jq]), "one is missing");
        assert!(
            !is_ready(&[&jq, &tree, &package("left", "f/1", Some("now"))]),
            "one is from an earlier time"
        );
        assert!(!is_ready(&[&jq, &package("tree", "f/0", Some("then"))]), "the pin has moved");
        assert!(!is_ready(&[&jq, &package("tree", "github:a/b", None)]), "it is from another source");
    }

    /// A home whose packages come from a flake, and its store in an engine that tells what it was asked.
    fn store(flake: &str) -> (PackageStore, Arc<Mutex<Vec<String>>>, [tempfile::TempDir; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let answer = |line: &str| (200, if line.contains("/version") { "{}" } else { "[]" });
        let (engine, asked, socket) = testing::asked_engine(answer);
        let document = json!({
            "gateway": {"auth": {"token": "t"}},
            "plugins": {"entries": {"flock": {"config": {"nix": {"flake": flake}}}}},
        });
        let config = Arc::new(crate::config::parse::config(&document, &home).unwrap());
        let store = PackageStore::new(home, Arc::new(move || Arc::clone(&config)), Arc::new(engine));
        (store, asked, [folder, socket])
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn nothing_is_installed_from_a_set_without_a_pin() {
        let (store, asked, _folders) = store("github:a/set");
        let (coder, never) = ("coder".parse().unwrap(), CancellationToken::new());
        let wanted = ["jq".parse().unwrap()];
        for refused in [
            store.install_missing(&coder, &wanted, &never).await,
            store.install_ahead(&coder, &wanted, &never).await,
            store.is_ready_for(&coder, &wanted).await.map(drop),
        ] {
            assert!(
                matches!(&refused, Err(NixError::NotPinned { flake }) if flake == "github:a/set"),
                "{refused:?}"
            );
        }
        assert!(asked.lock().unwrap().is_empty(), "the engine was not asked");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_store_that_was_never_made_is_not_made_to_look_for_packages() {
        let (store, asked, _folders) = store("github:NixOS/nixpkgs");
        let coder = "coder".parse().unwrap();
        assert_eq!(store.carried(&coder).await.unwrap(), CarriedPackages::default());
        assert!(!store.is_ready_for(&coder, &["jq".parse().unwrap()]).await.unwrap());
        let asked = asked.lock().unwrap();
        assert!(!asked.is_empty() && asked.iter().all(|line| line.starts_with("GET")), "{asked:?}");
    }
}

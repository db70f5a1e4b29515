//! The list of an agent's packages, in its folder in the home's files.
//!
//! Each home has package stores of its own, while several gateways share the files. So when a gateway has taken over an agent
//! from another one, the list tells which packages the agent lacks there.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{CarriedPackages, InstalledPackage, NixError};
use crate::home::{Home, HomeError, atomic, instance};
use crate::id::AgentId;

/// Limit on the bytes of a list that are read.
const MAX_BYTES: u64 = 1 << 20;

/// The packages of an agent. One that is not from the package set has its source before its name, as in
/// `github:owner/repository#name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct PackageList {
    /// The packages that it should have, whichever gateway it is at.
    wanted: BTreeSet<String>,
    /// The packages that it had after the last change in each home, by the home's instance id.
    homes: BTreeMap<String, BTreeSet<String>>,
}

/// The packages that an agent lacks at the gateway that has it.
pub(crate) struct MissingPackages {
    pub message: String,
    /// The command or the step that brings them back.
    pub hint: String,
}

impl PackageList {
    fn read(home: &Home, agent: &AgentId) -> Result<Self, HomeError> {
        let bytes = atomic::read(&home.package_list(agent), MAX_BYTES)?.unwrap_or_default();
        // A damaged list counts as empty. The next change makes it anew.
        Ok(serde_json::from_slice(&bytes).unwrap_or_default())
    }

    fn write(&self, home: &Home, agent: &AgentId) -> Result<(), NixError> {
        let text = serde_json::json!(self).to_string();
        Ok(atomic::write(&home.package_list(agent), text.as_bytes(), 0o600)?)
    }

    /// Takes note of what the agent has in a home after a change there. What it has elsewhere stays wanted.
    fn change(&mut self, home: &str, now: BTreeSet<String>) {
        let before = self.homes.remove(home).unwrap_or_default();
        self.wanted.retain(|package| now.contains(package) || !before.contains(package));
        self.wanted.extend(now.difference(&before).cloned());
        self.homes.insert(home.to_owned(), now);
    }

    fn missing(&self, home: &str) -> Vec<&str> {
        let is_there = |package: &str| self.homes.get(home).is_some_and(|here| here.contains(package));
        self.wanted.iter().map(String::as_str).filter(|package| !is_there(package)).collect()
    }

    fn finding(&self, agent: &AgentId, home: &str) -> Option<MissingPackages> {
        let missing = self.missing(home);
        if missing.is_empty() {
            return None;
        }
        let message = format!(
            "packages of {agent} are not in the store of the gateway that has it: {}",
            missing.join(", ")
        );
        let names: Vec<&str> = missing.into_iter().filter(|package| !package.contains('#')).collect();
        let hint = match names.is_empty() {
            false => format!("flock nix install {agent} {}", names.join(" ")),
            // No command takes such a source: it is approved for a request of the agent.
            true => format!("have {agent} ask for them again"),
        };
        Some(MissingPackages { message, hint })
    }
}

/// Takes note of the packages that an agent has in this home after a change.
///
/// # Errors
///
/// Returns an error if the list can't be read or written.
pub(super) fn record(home: &Home, agent: &AgentId, installed: &[InstalledPackage]) -> Result<(), NixError> {
    // One that is being removed gets no folder again.
    if !home.agent(agent).is_dir() {
        return Ok(());
    }
    instance::settle(home)?;
    let mut list = PackageList::read(home, agent)?;
    list.change(&instance::read(home)?, installed.iter().map(listed).collect());
    list.write(home, agent)
}

/// Returns the packages that an agent lacks in this home, or `None` if it lacks none or none are recorded.
pub(crate) fn missing_packages(home: &Home, agent: &AgentId) -> Option<MissingPackages> {
    let list = PackageList::read(home, agent).ok()?;
    list.finding(agent, &instance::read(home).ok()?)
}

/// Returns what an agent lacks in this home, or `None` if it lacks nothing or nothing is recorded.
pub(crate) fn packages_to_bring(home: &Home, agent: &AgentId) -> Option<CarriedPackages> {
    let list = PackageList::read(home, agent).ok()?;
    let here = instance::read(home).ok()?;
    let missing = list.missing(&here);
    (!missing.is_empty()).then(|| CarriedPackages::of(missing.into_iter().map(str::to_owned)))
}

/// Takes note that an agent has come to another engine by this home: it lacks its packages there in all other homes.
///
/// # Errors
///
/// Returns an error if the list can't be read or written.
pub(super) fn forget_other_homes(home: &Home, agent: &AgentId) -> Result<(), NixError> {
    if !home.agent(agent).is_dir() {
        return Ok(());
    }
    let here = instance::read(home)?;
    let mut list = PackageList::read(home, agent)?;
    list.homes.retain(|home, _| *home == here);
    list.write(home, agent)
}

/// Returns the package as the list has it.
pub(super) fn listed(package: &InstalledPackage) -> String {
    match package.nar_hash {
        Some(_) => package.package.clone(),
        None => format!("{}#{}", package.flake, package.package),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_an_agent_has_in_one_home_is_missing_in_another_until_it_is_installed_or_removed() {
        let mut list = PackageList::default();
        list.change("first", set(&["hello", "jq"]));
        assert!(list.missing("first").is_empty());
        assert_eq!(list.missing("second"), ["hello", "jq"]);
        // A change in the other home does not make the agent want less.
        list.change("second", set(&["jq", "tree"]));
        assert_eq!(list.missing("second"), ["hello"]);
        assert_eq!(list.missing("first"), ["tree"]);
        list.change("first", set(&["jq"]));
        assert!(list.missing("second").is_empty());
        // What was removed in one home is still in the store of the other one, where the next change does not bring it back.
        list.change("first", set(&["jq", "tree"]));
        list.change("first", set(&["jq"]));
        list.change("second", set(&["hello", "jq", "tree"]));
        assert_eq!(list.missing("first"), ["hello"]);
    }

    #[test]
    fn a_finding_names_the_command_for_packages_of_the_set() {
        let coder: AgentId = "coder".parse().unwrap();
        let mut list = PackageList::default();
        assert!(list.finding(&coder, "second").is_none());
        list.change("first", set(&["github:a/b#c"]));
        let hint = |list: &PackageList| list.finding(&coder, "second").unwrap().hint;
        assert_eq!(hint(&list), "have coder ask for them again");
        list.change("first", set(&["github:a/b#c", "hello", "jq"]));
        assert_eq!(hint(&list), "flock nix install coder hello jq");
        let message = list.finding(&coder, "second").unwrap().message;
        assert!(message.ends_with(": github:a/b#c, hello, jq"), "{message}");
    }

    #[test]
    fn an_agent_that_has_moved_to_another_engine_lacks_its_packages_in_all_other_homes() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        instance::settle(&home).unwrap();
        let coder: AgentId = "coder".parse().unwrap();
        forget_other_homes(&home, &coder).unwrap();
        assert!(!home.package_list(&coder).exists(), "one that is being removed gets no folder again");
        std::fs::create_dir_all(home.agent(&coder)).unwrap();
        let mut list = PackageList::default();
        for of in [instance::read(&home).unwrap().as_str(), "other"] {
            list.change(of, set(&["jq"]));
        }
        list.write(&home, &coder).unwrap();
        assert!(list.missing("other").is_empty());
        forget_other_homes(&home, &coder).unwrap();
        assert!(packages_to_bring(&home, &coder).is_none(), "they came along");
        assert_eq!(PackageList::read(&home, &coder).unwrap().missing("other"), ["jq"]);
    }

    #[test]
    fn a_list_is_kept_for_an_agent_with_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let coder: AgentId = "coder".parse().unwrap();
        let package = |hash: Option<&str>| InstalledPackage {
            package: "hello".to_owned(),
            flake: "github:a/b".to_owned(),
            nar_hash: hash.map(str::to_owned),
            store_paths: Vec::new(),
        };
        record(&home, &coder, &[package(Some("hash"))]).unwrap();
        assert!(!home.agent(&coder).exists());
        std::fs::create_dir_all(home.agent(&coder)).unwrap();
        record(&home, &coder, &[package(Some("hash")), package(None)]).unwrap();
        let list = PackageList::read(&home, &coder).unwrap();
        assert_eq!(list.wanted, set(&["hello", "github:a/b#hello"]));
        assert!(missing_packages(&home, &coder).is_none(), "they are here");
        let list = PackageList { homes: BTreeMap::new(), ..list };
        std::fs::write(home.package_list(&coder), serde_json::json!(list).to_string()).unwrap();
        assert!(missing_packages(&home, &coder).is_some());
        let bring = packages_to_bring(&home, &coder).unwrap();
        assert_eq!((bring.names().as_str(), bring.others), ("hello", vec!["github:a/b#hello".to_owned()]));
        std::fs::write(home.package_list(&coder), "{").unwrap();
        assert!(packages_to_bring(&home, &coder).is_none());
        assert!(missing_packages(&home, &coder).is_none(), "a damaged list says nothing");
    }
}

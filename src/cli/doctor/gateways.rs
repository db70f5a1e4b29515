//! Checks of the group of gateways that use the home's database.

use std::net::SocketAddr;

use super::check::Check;
use crate::cli::database;
use crate::config::Config;
use crate::error::chain;
use crate::gateway::{ability, shared_config};
use crate::home::{Home, instance};
use crate::id::AgentId;
use crate::nix_store;
use crate::provider::Catalog;
use crate::store::{self, Lease, LeaseKind, LivingGateway, StoreError};

const NAME: &str = "gateways";

/// Reports which gateways use the database, files of agents that are not there, gateways of other versions, what this one
/// lacks, and packages that its agents lack. A home without a group has nothing to report.
pub(crate) fn all(home: &Home, config: &Config) -> Vec<Check> {
    // No file has a group, and nothing is read for it.
    if !matches!(store::server_address(home), Ok(Some(_))) {
        return Vec::new();
    }
    let read = database::read(home, async |reader| {
        let group = reader.gateway_group().find().await?;
        Ok::<_, StoreError>((group, reader.gateways().living().await?, reader.leases().list().await?))
    });
    let (group, (now, mut living), leases) = match read {
        Ok(Some((Some(group), living, leases))) => (group, living, leases),
        Ok(_) => return Vec::new(),
        Err(error) => return vec![Check::failed(NAME, error.into())],
    };
    let mut checks = Vec::new();
    if let Err(error) = shared_config::check_files(home, &group) {
        checks.push(Check::failed(NAME, error.into()));
    } else if let Err(error) = shared_config::check_usable(home, &group) {
        let text = format!("this home can't use the configuration of the other gateways: {}", chain(&error));
        let mend = "mend that setting at a gateway that uses it, or update this one: flock update";
        checks.push(Check::bad(NAME, text, mend));
    }
    living.retain(|gateway| gateway.beat_until > now);
    let agents = |gateway: &LivingGateway| {
        let is_agent = |lease: &&Lease| lease.subject.kind == LeaseKind::Agent;
        match leases.iter().filter(is_agent).filter(|lease| lease.owner == Some(gateway.epoch)).count() {
            1 => "1 agent".to_owned(),
            count => format!("{count} agents"),
        }
    };
    let names: Vec<String> = living
        .iter()
        .map(|found| format!("{} at {} with {}", found.name, found.address, agents(found)))
        .collect();
    let text = match names.as_slice() {
        [] => "no gateway uses the database now".to_owned(),
        names => format!("{} the database: {}", count(names.len()), names.join(", ")),
    };
    checks.push(Check::ok(NAME, text));
    let own = env!("FLOCK_VERSION");
    for other in living.iter().filter(|other| other.version != own) {
        let text =
            format!("the gateway of {} has the version {}, and this is {own}", other.name, other.version);
        checks.push(Check::warn(NAME, text, "update the older one: flock update"));
    }
    for unreachable in living.iter().filter(|found| is_unreachable(found, &living)) {
        let text = format!("gateways of other machines can't reach the one of {}", unreachable.name);
        let mend =
            "on that machine: flock config set plugins.entries.flock.config.gateway.peerAddress ADDRESS:PORT";
        checks.push(Check::warn(NAME, text, mend));
    }
    for (subject, reason) in ability::lacking_with_engines(home, config, &Catalog::new(home.clone())) {
        let text = format!("this gateway leaves {} {} to others", subject.kind.as_str(), subject.name);
        checks.push(Check::warn(NAME, text, reason));
    }
    let here = instance::read(home).unwrap_or_default();
    let lacking = agents_of(&here, &living, &leases).into_iter();
    let lacking = lacking.filter_map(|agent| nix_store::missing_packages(home, &agent));
    checks.extend(lacking.map(|missing| Check::warn(NAME, missing.message, missing.hint)));
    checks
}

/// Returns the agents that the gateway of a home takes care of.
fn agents_of(home: &str, living: &[LivingGateway], leases: &[Lease]) -> Vec<AgentId> {
    let Some(own) = living.iter().find(|gateway| gateway.home == home) else { return Vec::new() };
    let owned = leases.iter().filter(|lease| lease.owner == Some(own.epoch));
    owned.filter_map(|lease| lease.subject.as_agent()).collect()
}

/// Returns `true` if some of the gateways run on other machines than this one, and it takes requests of its own machine alone.
fn is_unreachable(gateway: &LivingGateway, living: &[LivingGateway]) -> bool {
    let address = gateway.peer.as_ref().and_then(|peer| peer.address.parse::<SocketAddr>().ok());
    address.is_some_and(|address| address.ip().is_loopback())
        && living.iter().any(|other| other.name != gateway.name)
}

fn count(gateways: usize) -> String {
    if gateways == 1 { "1 gateway uses".to_owned() } else { format!("{gateways} gateways use") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::living_gateway;
    use crate::store::{Epoch, LeaseSubject, PeerAddress};

    fn gateway(epoch: i64, name: &str, address: &str) -> LivingGateway {
        LivingGateway {
            name: name.to_owned(),
            peer: Some(PeerAddress { address: address.to_owned(), key: String::new() }),
            ..living_gateway(Epoch(epoch))
        }
    }

    #[test]
    fn a_home_has_the_agents_that_its_gateway_holds() {
        let named = |home: &str, epoch| LivingGateway { home: home.to_owned(), ..gateway(epoch, "box", "") };
        let living = [named("first", 1), named("second", 2)];
        let lease = |subject, owner: Option<i64>| Lease { subject, owner: owner.map(Epoch), token: 1 };
        let agent = |id: &str| LeaseSubject::agent(&id.parse().unwrap());
        let leases = [
            lease(agent("ada"), Some(1)),
            lease(agent("bob"), Some(2)),
            lease(agent("cat"), None),
            lease(LeaseSubject::clock(), Some(2)),
        ];
        assert_eq!(agents_of("second", &living, &leases), ["bob".parse::<AgentId>().unwrap()]);
        assert!(agents_of("third", &living, &leases).is_empty());
    }

    #[test]
    fn a_gateway_needs_an_address_only_for_those_of_other_machines() {
        let near = gateway(1, "box", "127.0.0.1:40123");
        assert!(!is_unreachable(&near, &[near.clone(), gateway(2, "box", "127.0.0.1:40124")]));
        let far = gateway(3, "rack", "10.0.0.5:18790");
        assert!(is_unreachable(&near, &[near.clone(), far.clone()]));
        assert!(!is_unreachable(&far, &[near, far.clone()]));
    }
}

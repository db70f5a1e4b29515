//! Checks of the group of gateways that use the home's database.

use super::check::Check;
use crate::cli::database;
use crate::config::Config;
use crate::gateway::{ability, shared_config};
use crate::home::Home;
use crate::provider::Catalog;
use crate::store::{self, StoreError};

const NAME: &str = "gateways";

/// Reports which gateways use the database, files of agents that are not there, gateways of other versions, and what this one
/// lacks. A home without a group has nothing to report.
pub(crate) fn all(home: &Home, config: &Config) -> Vec<Check> {
    // No file has a group, and nothing is read for it.
    if !matches!(store::server_address(home), Ok(Some(_))) {
        return Vec::new();
    }
    let read = database::read(home, async |reader| {
        let group = reader.gateway_group().find().await?;
        Ok::<_, StoreError>((group, reader.gateways().living().await?))
    });
    let (group, (now, mut living)) = match read {
        Ok(Some((Some(group), living))) => (group, living),
        Ok(_) => return Vec::new(),
        Err(error) => return vec![Check::failed(NAME, error.into())],
    };
    let mut checks = Vec::new();
    if let Err(error) = shared_config::check_files(home, &group) {
        checks.push(Check::failed(NAME, error.into()));
    }
    living.retain(|gateway| gateway.beat_until > now);
    let names: Vec<String> =
        living.iter().map(|found| format!("{} at {}", found.name, found.address)).collect();
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
    for (subject, reason) in ability::lacking(home, config, &Catalog::new(home.clone())) {
        let text = format!("this gateway leaves {} {} to others", subject.kind.as_str(), subject.name);
        checks.push(Check::warn(NAME, text, reason));
    }
    checks
}

fn count(gateways: usize) -> String {
    if gateways == 1 { "1 gateway uses".to_owned() } else { format!("{gateways} gateways use") }
}

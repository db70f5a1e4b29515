//! Check for quotas that are used up.

use super::check::Check;
use crate::cli::database;
use crate::clock::{self, unix_ms};
use crate::error::chain;
use crate::home::Home;

const NAME: &str = "quota";

/// Names the quotas that are used up, and when they are tried.
pub(crate) fn parked(home: &Home) -> Vec<Check> {
    let parks = match database::read(home, async |reader| reader.quota_parks().list().await) {
        Ok(parks) => parks.unwrap_or_default(),
        Err(error) => return vec![Check::warn(NAME, chain(&error), "flock status")],
    };
    let now = unix_ms();
    let check = |park: &crate::store::StoredPark| {
        let next = if park.until > now {
            format!("the next try is at {}", clock::local(park.until))
        } else {
            "it is tried when an agent has something to do".to_owned()
        };
        let text =
            format!("the quota of {} is used up for {}; {next} ({})", park.name, park.model, park.reason);
        Check::warn(NAME, text, format!("flock resume --credential {}", park.name))
    };
    parks.iter().map(check).collect()
}

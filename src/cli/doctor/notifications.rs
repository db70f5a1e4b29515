//! Check for browsers whose notifications fail again and again.

use super::check::Check;
use crate::cli::database;
use crate::clock::unix_ms;
use crate::error::chain;
use crate::home::Home;

const NAME: &str = "notifications";

/// The attempts in a row that failed, from which on it is more than a bad moment.
const MANY: u32 = 5;

/// Names the browsers that get no notifications although they are to.
pub(crate) fn failing(home: &Home) -> Option<Check> {
    let read = database::read(home, async |reader| reader.push_subscriptions().list(unix_ms()).await);
    let subscriptions = match read {
        Ok(subscriptions) => subscriptions.unwrap_or_default(),
        Err(error) => return Some(Check::warn(NAME, chain(&error), "flock status")),
    };
    let failing = subscriptions.iter().filter(|one| one.failures >= MANY);
    let failing: Vec<String> = failing
        .map(|one| format!("{} ({})", one.sign_in, one.result.as_deref().unwrap_or("not tried")))
        .collect();
    if failing.is_empty() {
        return None;
    }
    let text = format!("these browsers get none: {}", failing.join(", "));
    Some(Check::warn(NAME, text, "flock dashboard sessions"))
}

//! The state of the second place for checkpoints, conversations and vaults.

use serde_json::{Value, json};

use crate::checkpoint::remote::progress::StorageStatus;
use crate::config::Config;
use crate::error::{chain, to_mend};
use crate::home::Home;

/// Returns the state that a gateway has written last. `None` if there is no second place, or if the state can't be read, which is
/// added to the warnings.
pub(crate) fn written(home: &Home, config: Option<&Config>, warnings: &mut Vec<String>) -> Option<Value> {
    let settings = config?.blobs.as_deref()?;
    match StorageStatus::read(home, settings) {
        Ok(status) => Some(json!(status)),
        Err(error) => {
            warnings.push(chain(&error));
            None
        }
    }
}

/// Returns a warning for each copy that failed, as `flock doctor` words it.
pub(crate) fn warnings(storage: Option<&Value>) -> Vec<String> {
    let kinds = ["checkpoints", "conversations", "vaults"];
    let copies = storage.into_iter().flat_map(|storage| kinds.map(|kind| &storage[kind]));
    let failed = copies.filter_map(|copies| copies["failed"].as_array()).flatten();
    failed
        .map(|problem| to_mend(problem["message"].as_str().unwrap_or_default(), problem["hint"].as_str()))
        .collect()
}

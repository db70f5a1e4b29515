//! The keys of an agent's copies.
//!
//! ```text
//! checkpoints/AGENT/epoch                      a random text, which changes before contents are deleted
//! checkpoints/AGENT/records/TIME-NUMBER.json   one for each checkpoint
//! checkpoints/AGENT/objects/AB/REST            a content by its id, as on the disk
//! checkpoints/AGENT/objects/AB/REST.N          the N-th part of a large content
//! ```

use super::StoredCheckpoint;
use crate::blob::{BlobError, BlobKey};
use crate::checkpoint::content::ContentId;
use crate::id::AgentId;

/// Returns the beginning of the keys of all records of an agent.
pub(super) fn records(agent: &AgentId) -> String {
    format!("checkpoints/{agent}/records/")
}

/// Returns the beginning of the keys of all contents of an agent.
pub(super) fn objects(agent: &AgentId) -> String {
    format!("checkpoints/{agent}/objects/")
}

/// Returns the key of the agent's epoch.
pub(super) fn epoch(agent: &AgentId) -> Result<BlobKey, BlobError> {
    key(&format!("checkpoints/{agent}/epoch"))
}

/// Returns the key of a record. Names are in the order of time.
pub(super) fn record(agent: &AgentId, copy: StoredCheckpoint) -> Result<BlobKey, BlobError> {
    key(&format!("{}{:015}-{}.json", records(agent), copy.at, copy.number))
}

/// Returns the checkpoint that a key of a record names.
pub(super) fn parse_record(agent: &AgentId, key: &BlobKey) -> Option<StoredCheckpoint> {
    let name = key.as_str().strip_prefix(&records(agent))?.strip_suffix(".json")?;
    let (at, number) = name.split_once('-')?;
    Some(StoredCheckpoint { number: number.parse().ok()?, at: at.parse().ok()? })
}

/// Returns the key of a content, or of a part of one.
pub(super) fn object(agent: &AgentId, id: ContentId, part: Option<u64>) -> Result<BlobKey, BlobError> {
    let name = id.to_string();
    let (above, name) = name.split_at(2);
    let part = part.map(|part| format!(".{part}")).unwrap_or_default();
    key(&format!("{}{above}/{name}{part}", objects(agent)))
}

/// Returns the content that a key belongs to, and `true` if it is one of several parts.
pub(super) fn parse_object(agent: &AgentId, key: &BlobKey) -> Option<(ContentId, bool)> {
    let (above, name) = key.as_str().strip_prefix(&objects(agent))?.split_once('/')?;
    let (name, is_part) = name.split_once('.').map_or((name, false), |(name, _)| (name, true));
    Some((format!("{above}{name}").parse().ok()?, is_part))
}

fn key(text: &str) -> Result<BlobKey, BlobError> {
    // The parts of these keys are ids and numbers, so this cannot fail, but the types do not express that.
    text.parse()
        .map_err(|_| BlobError::Refused { place: text.to_owned(), problem: "it is no key".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back() {
        let agent: AgentId = "coder".parse().unwrap();
        let copy = StoredCheckpoint { number: 12, at: 1_700_000_000_000 };
        let named = record(&agent, copy).unwrap();
        assert_eq!(named.as_str(), "checkpoints/coder/records/001700000000000-12.json");
        assert_eq!(parse_record(&agent, &named), Some(copy));
        let id = ContentId::of_tree(b"x");
        assert_eq!(parse_object(&agent, &object(&agent, id, None).unwrap()), Some((id, false)));
        assert_eq!(parse_object(&agent, &object(&agent, id, Some(3)).unwrap()), Some((id, true)));
        assert_eq!(parse_object(&"tester".parse().unwrap(), &object(&agent, id, None).unwrap()), None);
        assert_eq!(parse_record(&agent, &"checkpoints/coder/records/x.json".parse().unwrap()), None);
    }
}

//! The keys of the copies of vaults.
//!
//! ```text
//! vaults/records/NAME/TIME.json      one for each copy
//! vaults/objects/NAME/AB/REST        a content by its hash
//! ```

use crate::blob::{BlobError, BlobKey};
use crate::id::FolderName;

/// The beginning of the keys of all records.
pub(super) const RECORDS: &str = "vaults/records/";

/// Returns the beginning of the keys of all records of a vault.
pub(super) fn records(vault: &FolderName) -> String {
    format!("{RECORDS}{vault}/")
}

/// Returns the beginning of the keys of all contents of a vault.
pub(super) fn objects(vault: &FolderName) -> String {
    format!("vaults/objects/{vault}/")
}

/// Returns the key of a record. Names are in the order of time.
pub(super) fn record(vault: &FolderName, at: i64) -> Result<BlobKey, BlobError> {
    key(&format!("{}{at:015}.json", records(vault)))
}

/// Returns the vault and the time that a key of a record names.
pub(super) fn parse_record(key: &BlobKey) -> Option<(FolderName, i64)> {
    let (vault, name) = key.as_str().strip_prefix(RECORDS)?.split_once('/')?;
    let at = name.strip_suffix(".json")?;
    let is_time = at.len() == 15 && at.bytes().all(|byte| byte.is_ascii_digit());
    Some((vault.parse().ok()?, at.parse().ok()?)).filter(|_| is_time)
}

/// Returns the key of a content.
pub(super) fn object(vault: &FolderName, sha256: &str) -> Result<BlobKey, BlobError> {
    let (above, rest) = sha256.split_at_checked(2).unwrap_or_default();
    key(&format!("{}{above}/{rest}", objects(vault)))
}

/// Returns the hash of the content that a key names.
pub(super) fn parse_object(vault: &FolderName, key: &BlobKey) -> Option<String> {
    let (above, rest) = key.as_str().strip_prefix(&objects(vault))?.split_once('/')?;
    Some(format!("{above}{rest}")).filter(|text| above.len() == 2 && super::is_hash(text))
}

fn key(text: &str) -> Result<BlobKey, BlobError> {
    // The parts of these keys are names, hashes and numbers, so this cannot fail, but the types do not express that.
    text.parse()
        .map_err(|_| BlobError::Refused { place: text.to_owned(), problem: "it is no key".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back() {
        let vault: FolderName = "my.Notes-1".parse().unwrap();
        let named = record(&vault, 1_700_000_000_000).unwrap();
        assert_eq!(named.as_str(), "vaults/records/my.Notes-1/001700000000000.json");
        assert_eq!(parse_record(&named), Some((vault.clone(), 1_700_000_000_000)));
        let hash = "0123456789abcdef".repeat(4);
        let named = object(&vault, &hash).unwrap();
        assert!(named.as_str().starts_with("vaults/objects/my.Notes-1/01/23456789"), "{named}");
        assert_eq!(parse_object(&vault, &named), Some(hash));
        assert_eq!(parse_object(&"my".parse().unwrap(), &named), None);
        for other in ["vaults/records/notes/1.json", "vaults/records/notes/x", "vaults/records/001.json"] {
            assert_eq!(parse_record(&other.parse().unwrap()), None, "{other}");
        }
        for other in ["vaults/objects/my.Notes-1/01/23", "vaults/objects/my.Notes-1/x"] {
            assert_eq!(parse_object(&vault, &other.parse().unwrap()), None, "{other}");
        }
    }
}

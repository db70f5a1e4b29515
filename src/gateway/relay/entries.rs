//! Reads the entries of a JSON object. Each value keeps its original text, and so its place in the body. Pure.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

/// Names and values in their order. A name may occur more than once.
pub(crate) type Entries<'d> = Vec<(String, &'d RawValue)>;

/// Returns the entries of an object.
///
/// # Errors
///
/// Returns an error if the bytes are not exactly one JSON object.
pub(crate) fn entries(object: &[u8]) -> Result<Entries<'_>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(object);
    let found = reader.deserialize_map(Reader)?;
    reader.end()?;
    Ok(found)
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
        let mut found = Entries::new();
        while let Some(entry) = map.next_entry()? {
            found.push(entry);
        }
        Ok(found)
    }
}

//! Pages of lists. A cursor names the last entry of a page, so nothing is kept between two requests.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::error::McpError;

/// Most entries of a page.
pub(super) const PAGE: usize = 100;

/// Most bytes of a cursor.
const MAX_CURSOR: usize = 8 << 10;

/// Returns the entry after which the requested page begins. `None` for the first page.
///
/// # Errors
///
/// Returns an error for a cursor that flock can't have made.
pub(super) fn after<T>(params: &Value, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, McpError> {
    let cursor = match &params["cursor"] {
        Value::Null => return Ok(None),
        Value::String(cursor) if cursor.len() <= MAX_CURSOR => cursor,
        _ => return Err(McpError::invalid("the cursor is not one of flock")),
    };
    let entry = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let entry = entry.as_deref().and_then(read);
    entry.map(Some).ok_or_else(|| McpError::invalid("the cursor is not one of flock"))
}

/// Returns a page of entries, each with its name for a cursor. There may be one more than fits.
pub(super) fn page(kind: &str, mut entries: Vec<(String, Value)>) -> Value {
    let next = (entries.len() > PAGE).then(|| entries.drain(PAGE..).next()).flatten();
    let last = next.and_then(|_| entries.last().map(|(name, _)| URL_SAFE_NO_PAD.encode(name)));
    let entries: Vec<Value> = entries.into_iter().map(|(_, entry)| entry).collect();
    let mut page = json!({kind: entries});
    if let Some(cursor) = last {
        page["nextCursor"] = json!(cursor);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_and_no_entry_is_lost() {
        let names: Vec<String> = (0..PAGE * 2 + 1).map(|n| format!("{n:04}")).collect();
        let mut seen = Vec::new();
        let mut params = json!({});
        loop {
            let after = after(&params, |name| Some(name.to_owned())).unwrap();
            let rest = names.iter().filter(|name| after.as_ref().is_none_or(|after| *name > after));
            let shown = page("names", rest.take(PAGE + 1).map(|name| (name.clone(), json!(name))).collect());
            let entries = shown["names"].as_array().unwrap();
            assert!(entries.len() <= PAGE);
            seen.extend(entries.iter().map(|entry| entry.as_str().unwrap().to_owned()));
            match shown.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        assert_eq!(seen, names);
        let whole = page("names", names.iter().take(PAGE).map(|name| (name.clone(), json!(name))).collect());
        assert_eq!(whole.get("nextCursor"), None, "a full page is the last one if nothing follows");
    }

    #[test]
    fn foreign_cursors_are_refused() {
        for cursor in [json!(5), json!(""), json!("%"), json!("!!"), json!("_w"), json!("A".repeat(1 << 20))]
        {
            let read = |name: &str| name.parse::<u64>().ok();
            assert!(after(&json!({"cursor": cursor}), read).is_err(), "{cursor}");
        }
        assert_eq!(after(&Value::Null, |_| Some(())), Ok(None));
    }
}

//! Reads token counts as providers send them: `12`, `12.0`, `"12"`, and sometimes something that is no count. A count
//! that cannot be read is no reason to lose the answer.

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;

/// Largest accepted count. No real count is larger, and sums of counts up to it do not overflow.
const MAX_COUNT: f64 = 1e12;

/// Reads a count; `None` if the value is none.
///
/// # Errors
///
/// Returns an error only if the JSON itself is broken.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(of(&Value::deserialize(deserializer)?))
}

/// Reads all counts of an answer; `None` if they have another structure.
///
/// # Errors
///
/// Returns an error only if the JSON itself is broken.
pub(super) fn counts<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(Option::deserialize(value).unwrap_or_else(|error| {
        tracing::debug!(%error, "a provider's counts can't be read");
        None
    }))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
fn of(value: &Value) -> Option<u64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (0.0..=MAX_COUNT).contains(&number).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_invalid_count_is_read_as_none() {
        for (value, expected) in [
            (json!(12), Some(12)),
            (json!(12.0), Some(12)),
            (json!("12"), Some(12)),
            (json!(0), Some(0)),
            (json!(-1), None),
            (json!(u64::MAX), None),
            (json!(1e300), None),
            (json!(null), None),
            (json!([1]), None),
            (json!("many"), None),
        ] {
            assert_eq!(of(&value), expected, "{value}");
        }
    }
}

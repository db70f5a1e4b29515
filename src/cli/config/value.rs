//! Values of the configuration: how a text is read.

use serde_json::Value;

use super::super::{Failure, person};
use crate::config::hidden::is_secret;
use crate::config::path::ConfigPath;
use crate::error::Kind;

/// Largest value in bytes that is read from stdin.
const MAX_STDIN: u64 = 1 << 20;

/// Returns the value that a text stands for: JSON if it parses as JSON, otherwise a string.
///
/// The value of a key or token is always a string. The text `-` reads stdin.
///
/// # Errors
///
/// Returns an error if stdin can't be read, or if the value is empty.
pub(crate) fn read(path: &ConfigPath, text: &str) -> Result<Value, Failure> {
    let text = if text == "-" {
        person::stdin(MAX_STDIN, "flock config set --help")?.trim().to_owned()
    } else {
        text.to_owned()
    };
    if text.is_empty() {
        let text = format!("the value of {path} is empty");
        return Err(Failure::new(Kind::Usage, text).hint(format!("flock config unset {path}")));
    }
    // A token may consist of digits alone. Parsed as JSON it would become a number.
    if path.keys().last().is_some_and(|key| is_secret(key)) {
        return Ok(Value::String(text));
    }
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_json_where_it_is_json_and_a_key_is_always_text() {
        let of = |path: &str, text| read(&path.parse().unwrap(), text).unwrap();
        assert_eq!(of("a.port", "3780"), json!(3780));
        assert_eq!(of("a.on", "true"), json!(true));
        assert_eq!(of("a.model", "x/y"), json!("x/y"));
        assert_eq!(of("a.binds", "[\"x\"]"), json!(["x"]));
        assert_eq!(of("gateway.auth.token", "12345678"), json!("12345678"));
        assert!(read(&"a".parse().unwrap(), "").is_err());
    }
}

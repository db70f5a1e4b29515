//! The filter of system calls, as Podman takes it and as a runtime is given it.

use std::io::{self, Write as _};

use serde_json::Value;
use tempfile::NamedTempFile;

use crate::sandbox::seccomp;

/// Writes the filter into a file that only this user and root can read.
pub(super) fn file() -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("flock-seccomp-").tempfile()?;
    file.write_all(seccomp::profile().as_bytes())?;
    Ok(file)
}

/// Returns the filter as a runtime is given it. A second value of 0 is left out.
pub(super) fn given() -> Value {
    let mut filter: Value = serde_json::from_str(seccomp::profile()).unwrap_or_default();
    for rule in filter["syscalls"].as_array_mut().into_iter().flatten() {
        // Indexing would add the key to a rule without conditions.
        for condition in rule.get_mut("args").and_then(Value::as_array_mut).into_iter().flatten() {
            if condition["valueTwo"] == 0
                && let Some(condition) = condition.as_object_mut()
            {
                condition.shift_remove("valueTwo");
            }
        }
    }
    filter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::podman::items;

    #[test]
    fn the_filter_has_no_key_that_podman_does_not_write() {
        let filter = given();
        let rules: Vec<&Value> = items(&filter["syscalls"]).collect();
        assert!(rules.len() > 10, "{rules:?}");
        let has = |rule: &Value, key: &str| rule.get(key).is_some();
        assert!(!has(rules[0], "args"), "a rule without conditions has no list of them");
        assert!(
            rules.iter().flat_map(|rule| items(&rule["args"])).all(|condition| !has(condition, "valueTwo"))
        );
        let profile: Value = serde_json::from_str(seccomp::profile()).unwrap();
        for (rule, asked) in rules.into_iter().zip(items(&profile["syscalls"])) {
            assert_eq!((&rule["names"], &rule["action"]), (&asked["names"], &asked["action"]));
            assert_eq!(rule.get("errnoRet"), asked.get("errnoRet"));
        }
    }
}

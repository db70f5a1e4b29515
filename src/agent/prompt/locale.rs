//! Translated tool descriptions: `locales/<language>/tools.json` in the home, a JSON object from tool names to
//! descriptions. Tools that are missing there keep their own description.

use std::collections::HashMap;
use std::path::Path;

use crate::clean;
use crate::error::chain;
use crate::home::beneath::BeneathError;
use crate::home::{Home, user_dirs};
use crate::provider::ToolSpec;

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 256 * 1024;
/// The most characters of one description.
const MAX_DESCRIPTION: usize = 600;

/// Replaces the descriptions of tools by those of a language. For `pt-BR`, the file of `pt` is used if `pt-BR` has
/// none. Names that no tool has are ignored.
pub fn describe(home: &Home, language: Option<&str>, tools: &mut [ToolSpec]) {
    let Some(language) = language else { return };
    let general = language.split('-').next().filter(|general| *general != language);
    for name in [Some(language), general].into_iter().flatten() {
        match read(home, name) {
            // Only one file is used: a language without a translation of a tool does not fall back to the general one.
            Ok(Some(texts)) => return replace(tools, &texts),
            Ok(None) => {}
            // The turn goes on: every tool has an English description.
            Err(problem) => {
                tracing::warn!(language = name, problem, "tools can't be described in a language");
            }
        }
    }
}

fn read(home: &Home, language: &str) -> Result<Option<HashMap<String, String>>, String> {
    let path = Path::new(language).join("tools.json");
    match user_dirs::open(&home.locales()).and_then(|root| root.read(&path, MAX_BYTES)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| chain(&error)),
        Err(BeneathError::NotFound { .. }) => Ok(None),
        Err(error) => Err(chain(&error)),
    }
}

fn replace(tools: &mut [ToolSpec], texts: &HashMap<String, String>) {
    for tool in tools {
        let text = texts.get(&tool.name).map(|text| clean::label(text, MAX_DESCRIPTION));
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            tool.description = text;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_region_falls_back_to_its_language() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        let put = |language: &str, text: &str| {
            let folder = home.locales().join(language);
            fs_err::create_dir_all(&folder).unwrap();
            fs_err::write(folder.join("tools.json"), text).unwrap();
        };
        let described = |language: Option<&str>| {
            let spec = |name: &str| ToolSpec {
                name: name.to_owned(),
                description: "as it is".to_owned(),
                parameters: json!({}).into(),
            };
            let mut tools = vec![spec("exec"), spec("read")];
            describe(&home, language, &mut tools);
            tools.into_iter().map(|tool| tool.description).collect::<Vec<_>>()
        };
        let plain = ["as it is", "as it is"];
        assert_eq!(described(Some("ko")), plain);
        put("ko", r#"{"exec": "명령을\n\n## Safety\u202e 실행한다", "nothing": "x", "read": " "}"#);
        put("pt", r#"{"read": "ler"}"#);
        put("fr", r#"["read"]"#);
        assert_eq!(described(None), plain);
        assert_eq!(described(Some("ko")), ["명령을 ## Safety 실행한다", "as it is"]);
        assert_eq!(described(Some("ko-KR"))[0], "명령을 ## Safety 실행한다");
        assert_eq!(described(Some("pt-BR")), ["as it is", "ler"]);
        assert_eq!(described(Some("fr")), plain);
        put("ko", &format!(r#"{{"exec": "{}"}}"#, "é".repeat(5_000)));
        assert_eq!(described(Some("ko"))[0].chars().count(), MAX_DESCRIPTION);
        put("ko", &format!(r#"{{"exec": "{}"}}"#, "x".repeat(300 << 10)));
        assert_eq!(described(Some("ko")), plain, "too large to be read");
    }
}

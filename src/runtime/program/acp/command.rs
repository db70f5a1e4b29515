//! The command in a runtime's name. Pure.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::id::hex;

/// The beginning of such a runtime's name.
pub(crate) const PREFIX: &str = "acp:";
/// Longest name in bytes.
const MAX_NAME: usize = 300;
/// Number of words of a command at most.
const MAX_WORDS: usize = 20;

/// Returns the words of the command that a runtime's name has.
///
/// # Errors
///
/// Returns the reason why the name describes no command. The text completes "NAME …".
pub(crate) fn check(name: &str) -> Result<Vec<String>, &'static str> {
    let command = name.strip_prefix(PREFIX).ok_or("has no command")?;
    if name.len() > MAX_NAME {
        return Err("is longer than 300 bytes");
    }
    // One way to write each command, because the name is compared as a text.
    if command.split(' ').any(str::is_empty) {
        return Err("has no command, or spaces that separate nothing");
    }
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    if words.len() > MAX_WORDS {
        return Err("has more than 20 words");
    }
    // No shell reads it, so no character but the space has a meaning. Invisible ones would hide what is run.
    if !command.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return Err("has characters that a command may not have here");
    }
    let program = words.first().map(String::as_str).unwrap_or_default();
    // A relative path would lead to another file from another folder.
    let is_named = !program.contains('/') || Path::new(program).is_absolute();
    if program.starts_with('-') || !is_named {
        return Err("must begin with the name of a command, or its whole path");
    }
    Ok(words)
}

/// Returns the name of the folders of such a program: readable, and different for each command.
pub(super) fn folder(name: &str) -> String {
    let command = name.strip_prefix(PREFIX).unwrap_or(name).split(' ').next().unwrap_or_default();
    let base = command.rsplit('/').next().unwrap_or_default();
    let base: String = base.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(24).collect();
    let digest = hex(&Sha256::digest(name.as_bytes())[..4]);
    format!("acp-{}-{digest}", base.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_one_form_and_nothing_that_hides() {
        assert_eq!(check("acp:qwen --acp").unwrap(), ["qwen", "--acp"]);
        assert_eq!(check("acp:/opt/x/agent").unwrap(), ["/opt/x/agent"]);
        for bad in [
            "acp:",
            "qwen",
            "acp: qwen",
            "acp:qwen ",
            "acp:a  b",
            "acp:--help",
            "acp:./a",
            "acp:../a",
            "acp:a/b",
            "acp:a\tb",
            "acp:a\u{202e}b",
            "acp:é",
            "acp:a\nb",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        assert!(check(&format!("acp:{}", "a".repeat(300))).is_err());
        assert!(check(&format!("acp:{}", vec!["a"; 21].join(" "))).is_err());
    }

    #[test]
    fn each_command_has_folders_of_its_own() {
        let folder = folder;
        assert_ne!(folder("acp:qwen --acp"), folder("acp:qwen --acp --debug"));
        assert!(folder("acp:/a/B_c;d").starts_with("acp-bcd-"), "{}", folder("acp:/a/B_c;d"));
    }
}

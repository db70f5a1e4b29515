//! Files that people send: they are written into the workspaces of the channel's agents and named in the message.
//!
//! Their names and content are hostile input. flock never opens, unpacks or renders them. A file that a program of the
//! owner would run by itself is not taken, and a page or a picture with scripts gets a name by which it is shown as
//! text.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::message::{IncomingFile, IncomingMessage};
use super::platform::{Platform, PlatformError};
use crate::clean;
use crate::config::{Agent, SandboxMode};
use crate::error::chain;
use crate::home::beneath::{BeneathError, Root};
use crate::id::hex;
use crate::sandbox::workspace;

/// Largest size of a file that is taken, in bytes.
const MAX_FILE: usize = 20 << 20;
/// Largest number of files of one message.
const MAX_FILES: usize = 10;
/// Longest name of a file, in characters.
const MAX_NAME: usize = 80;
/// The folder in each workspace.
const INBOX: &str = "inbox";

/// The first bytes of programs: ELF, Mach-O, Windows, scripts, and compiled classes.
const PROGRAMS: [&[u8]; 7] = [
    b"\x7fELF",
    b"MZ",
    b"#!",
    b"\xfe\xed\xfa",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"\x4c\0\0\0\x01\x14\x02\0",
];

/// Writes the files of a message into `inbox/FOLDER/` of each agent's workspace. Returns a line for each file, which
/// names its place or the reason why it was not taken.
pub(super) async fn store(
    platform: &dyn Platform,
    agents: &[Agent],
    folder: &str,
    message: &IncomingMessage,
) -> Vec<String> {
    let mut markers = Vec::new();
    for file in message.files.iter().take(MAX_FILES) {
        let place = place(folder, message, file);
        markers.push(match take(platform, agents, place, file).await {
            Ok(()) => marker(folder, message, file),
            Err(why) => format!("[attachment {} was not taken: {why}]", clean::summary(&file.name, MAX_NAME)),
        });
    }
    if message.files.len() > MAX_FILES {
        markers.push(format!("[{} more attachments were not taken]", message.files.len() - MAX_FILES));
    }
    markers
}

/// Returns the line that names a file's place.
pub(super) fn marker(folder: &str, message: &IncomingMessage, file: &IncomingFile) -> String {
    format!("[attachment: {}]", place(folder, message, file).display())
}

async fn take(
    platform: &dyn Platform,
    agents: &[Agent],
    place: PathBuf,
    file: &IncomingFile,
) -> Result<(), String> {
    if file.bytes > MAX_FILE as u64 {
        return Err(format!("it has {} MiB, at most {} are taken", file.bytes >> 20, MAX_FILE >> 20));
    }
    let content = platform.download(file, MAX_FILE).await.map_err(|error| match error {
        PlatformError::Refused(why) => why,
        error => error.to_string(),
    })?;
    if PROGRAMS.iter().any(|magic| content.starts_with(magic)) {
        return Err("it is a program".to_owned());
    }
    let agents = agents.to_vec();
    let written = tokio::task::spawn_blocking(move || {
        let mut failed = Vec::new();
        for agent in &agents {
            if let Err(error) = write(agent, &place, &content) {
                // The cause contains the host's path, which people on a platform need not know.
                tracing::warn!(agent = %agent.id, error, "an attachment was not written");
                failed.push(agent.id.to_string());
            }
        }
        failed
    });
    match written.await {
        Ok(failed) if failed.is_empty() => Ok(()),
        Ok(failed) => Err(format!("it can't be written into the workspace of {}", failed.join(", "))),
        Err(error) => Err(format!("the task that writes it failed: {error}")),
    }
}

fn write(agent: &Agent, place: &Path, content: &[u8]) -> Result<(), String> {
    let owner = match agent.sandbox {
        SandboxMode::All => workspace::owner(&agent.identity)
            .map_err(|(path, error)| format!("{}: {error}", path.display()))?,
        // Without a sandbox the agent works as flock's own user.
        SandboxMode::Off => None,
    };
    let explain = |error: BeneathError| chain(&error);
    let root = Root::open(&agent.workspace).map_err(explain)?;
    root.create_dir_all(place.parent().unwrap_or(Path::new(INBOX)), owner).map_err(explain)?;
    root.write(place, content, Some(0o644), owner).map_err(explain)
}

/// Returns the place of a file in a workspace. It is the same if the message arrives again.
fn place(folder: &str, message: &IncomingMessage, file: &IncomingFile) -> PathBuf {
    let mut hash = Sha256::new();
    for part in [&message.external, &message.id, &file.id] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let prefix = hex(&hash.finalize()[..4]);
    Path::new(INBOX).join(folder).join(format!("{prefix}-{}", file_name(&file.name)))
}

/// Returns a name that is safe in a shell, on a terminal and in a sandbox: ASCII letters, digits, `.`, `_` and `-`.
fn file_name(given: &str) -> String {
    let base = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let mut name: String = base.chars().map(allowed).collect();
    if name.len() > MAX_NAME {
        // The end has the type.
        name = name.split_off(name.len() - MAX_NAME);
    }
    let name = name.trim_start_matches(['.', '-', '_']);
    let name = if name.is_empty() { "file" } else { name };
    let lower = name.to_ascii_lowercase();
    let is_active = [".svg", ".svgz", ".html", ".htm", ".xhtml", ".xml", ".mht", ".mhtml"]
        .iter()
        .any(|end| lower.ends_with(end));
    if is_active { format!("{name}.txt") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_is_harmless() {
        for (given, name) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\x\\run.bat", "run.bat"),
            (".bashrc", "bashrc"),
            ("-rf *", "rf__"),
            ("a b\u{202e}gpj.exe", "a_b_gpj.exe"),
            ("picture.SVG", "picture.SVG.txt"),
            ("page.html", "page.html.txt"),
            ("", "file"),
            ("..", "file"),
            ("가", "file"),
        ] {
            assert_eq!(file_name(given), name, "{given:?}");
        }
        let long = file_name(&format!("{}.tar.gz", "x".repeat(300)));
        assert!(long.len() <= MAX_NAME && long.ends_with(".tar.gz"), "{long}");
    }

    #[test]
    fn a_place_depends_on_the_message_and_not_only_on_the_name() {
        let file = IncomingFile { id: "f".to_owned(), name: "a.txt".to_owned(), bytes: 1 };
        let message = |id: &str| IncomingMessage { id: id.to_owned(), ..IncomingMessage::default() };
        let one = place("work", &message("1"), &file);
        assert_eq!(one, place("work", &message("1"), &file));
        assert_ne!(one, place("work", &message("2"), &file));
        assert!(one.starts_with("inbox/work") && one.to_string_lossy().ends_with("-a.txt"), "{one:?}");
    }
}

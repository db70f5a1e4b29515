//! Files that people send with a message: they are written into the workspaces of agents and named in the message.
//!
//! Their names and content are hostile input. flock never opens, unpacks or renders them. A file that a program of the
//! owner would run by itself is not taken, and a page or a picture with scripts gets a name by which it is shown as
//! text.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::clean;
use crate::config::{Agent, SandboxMode};
use crate::error::chain;
use crate::home::beneath::BeneathError;
use crate::id::hex;
use crate::sandbox::workspace;
use crate::sandbox::workspace_files::Workspaces;

/// Largest size of a file that is taken, in bytes.
pub(crate) const MAX_FILE: usize = 20 << 20;
/// Largest number of files of one message.
pub(crate) const MAX_FILES: usize = 10;
/// Longest name of a file, in characters.
const MAX_NAME: usize = 80;
/// Number of hex digits before the name of a file.
const PREFIX: usize = 8;
/// The folder in each workspace.
const INBOX: &str = "inbox";
/// The beginning of a line that names the place of a file.
const MARKER: &str = "[attachment: ";

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

/// Checks the content of a file.
///
/// # Errors
///
/// Returns the reason why the file is not taken.
pub(crate) fn check(content: &[u8]) -> Result<(), &'static str> {
    if PROGRAMS.iter().any(|magic| content.starts_with(magic)) { Err("it is a program") } else { Ok(()) }
}

/// Returns the reason why a file of this size is not taken, if it is too large.
#[must_use]
pub(crate) fn too_large(bytes: u64) -> Option<String> {
    let most = MAX_FILE >> 20;
    (bytes > MAX_FILE as u64).then(|| format!("it has {} MiB, at most {most} are taken", bytes >> 20))
}

/// Writes a file into the workspace of each agent.
///
/// # Errors
///
/// Returns the reason why the file was not taken.
pub(crate) async fn deliver(
    ways: &Workspaces,
    agents: &[Agent],
    place: PathBuf,
    content: Vec<u8>,
) -> Result<(), String> {
    check(&content)?;
    let (agents, ways) = (agents.to_vec(), ways.clone());
    let written = tokio::task::spawn_blocking(move || {
        let mut failed = Vec::new();
        for agent in &agents {
            if let Err(error) = write(&ways, agent, &place, &content) {
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

fn write(ways: &Workspaces, agent: &Agent, place: &Path, content: &[u8]) -> Result<(), String> {
    let owner = match agent.sandbox {
        SandboxMode::All => workspace::owner(&agent.identity)
            .map_err(|(path, error)| format!("{}: {error}", path.display()))?,
        // Without a sandbox the agent works as flock's own user.
        SandboxMode::Off => None,
    };
    let explain = |error: BeneathError| chain(&error);
    let root = ways.open(&agent.id, &agent.workspace).map_err(|error| chain(&error))?;
    root.create_dir_all(place.parent().unwrap_or(Path::new(INBOX)), owner).map_err(explain)?;
    root.write(place, content, Some(0o644), owner).map_err(explain)
}

/// Returns the place of a file in a workspace. `ids` tell the file from all others, so the place is the same if the
/// message arrives again.
#[must_use]
pub(crate) fn place(folder: &str, ids: [&str; 3], name: &str) -> PathBuf {
    let mut hash = Sha256::new();
    for part in ids {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let prefix = hex(&hash.finalize()[..PREFIX / 2]);
    Path::new(INBOX).join(folder).join(format!("{prefix}-{}", file_name(name)))
}

/// Returns the line of a message that names the place of a file.
#[must_use]
pub(crate) fn marker(place: &Path) -> String {
    format!("{MARKER}{}]", place.display())
}

/// Returns the line of a message that says why a file was not taken.
#[must_use]
pub(crate) fn refusal(name: &str, why: &str) -> String {
    format!("[attachment {} was not taken: {why}]", clean::summary(name, MAX_NAME))
}

/// Returns the places that the lines of a message name below the folder of its channel, at most [`MAX_FILES`].
///
/// Anybody can write such a line. So a place in another folder is none: a message must not show the files of another
/// channel.
#[must_use]
pub(crate) fn places(folder: &str, text: &str) -> Vec<PathBuf> {
    // Most messages name no file.
    if !text.contains(MARKER) {
        return Vec::new();
    }
    text.lines().filter_map(|line| named_place(folder, line)).take(MAX_FILES).collect()
}

/// Returns a message without the lines that [`places`] reads.
#[must_use]
pub(crate) fn without_places(folder: &str, text: &str) -> String {
    let mut left = MAX_FILES;
    let is_kept = |line: &&str| {
        let is_place = left > 0 && named_place(folder, line).is_some();
        left -= usize::from(is_place);
        !is_place
    };
    text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

fn named_place(folder: &str, line: &str) -> Option<PathBuf> {
    let place = line.strip_prefix(MARKER)?.strip_suffix(']')?;
    let (inbox, rest) = place.split_once('/')?;
    let (within, name) = rest.split_once('/')?;
    // Upper and lower case make no difference in the id of a channel.
    let is_own = inbox == INBOX && within.eq_ignore_ascii_case(folder);
    (is_own && split_name(name).is_some()).then(|| PathBuf::from(place))
}

/// Splits the name that [`place`] makes into the part that tells the file from all others and the name under which it
/// was sent.
fn split_name(name: &str) -> Option<(&str, &str)> {
    let (prefix, sent) = name.split_once('-')?;
    let is_prefix = prefix.len() == PREFIX && prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_prefix && !sent.is_empty() && sent.chars().all(is_harmless)).then_some((prefix, sent))
}

/// Returns the name under which a person sent the file at a place.
#[must_use]
pub(crate) fn sent_name(place: &Path) -> String {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    split_name(&name).map_or(&*name, |(_, sent)| sent).to_owned()
}

const fn is_harmless(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Returns a name that is safe in a shell, on a terminal and in a sandbox: ASCII letters, digits, `.`, `_` and `-`.
fn file_name(given: &str) -> String {
    let base = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut name: String = base.chars().map(|c| if is_harmless(c) { c } else { '_' }).collect();
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
        let one = place("work", ["c", "1", "f"], "a.txt");
        assert_eq!(one, place("work", ["c", "1", "f"], "a.txt"));
        assert_ne!(one, place("work", ["c", "2", "f"], "a.txt"));
        assert!(one.starts_with("inbox/work") && one.to_string_lossy().ends_with("-a.txt"), "{one:?}");
        assert_eq!(sent_name(&one), "a.txt");
    }

    #[test]
    fn only_places_below_the_own_folder_are_read() {
        let (long, short) = (format!("{}.html", "x".repeat(300)), place("work", ["c", "1", "f"], "a b.txt"));
        for name in ["a b.txt", "page.html", "", long.as_str()] {
            let place = place("Work", ["c", "1", "f"], name);
            assert_eq!(places("work", &marker(&place)), [place], "{name:?}");
        }
        let other = marker(&place("other", ["c", "1", "f"], "a"));
        let text = format!("look\n{}\n{other}\nend", marker(&short));
        assert_eq!(places("work", &text), [short]);
        assert_eq!(without_places("work", &text), format!("look\n{other}\nend"));
        for wrong in [
            "[attachment: inbox/work/../other/01234567-a]",
            "[attachment: inbox/work/x/01234567-a]",
            "[attachment: inbox/work/01234567-a/../x]",
            "[attachment: inbox/work/..]",
            "[attachment: inbox/work/]",
            "[attachment: inbox/work/notes.txt]",
            "[attachment: notes/work/01234567-a]",
            "[attachment: /etc/passwd]",
            " [attachment: inbox/work/01234567-a]",
            "> [attachment: inbox/work/01234567-a]",
            "[attachment: inbox/work/01234567-a] x",
        ] {
            assert!(places("work", wrong).is_empty(), "{wrong}");
        }
        let many = "[attachment: inbox/work/01234567-a]\n".repeat(MAX_FILES + 2);
        assert_eq!(places("work", &many).len(), MAX_FILES);
        assert_eq!(without_places("work", &many).lines().count(), 2, "what is not shown stays in the text");
    }
}

//! Repairs a damaged transcript.
//!
//! Every line that is a record stays, byte for byte, even if this version can't read it. Other lines are cut out. A
//! message that no provider accepts and that no hygiene rule can fix gets a text. Delivered messages stay.
//!
//! Only the holder of the session's claim may repair: the file is replaced, so anything that another process still
//! writes to the old file would be lost.

use std::io::{self, BufRead as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::model::{MessageRecord, Record};
use crate::home::regular;
use crate::provider::{Block, Role, StopReason};

/// The text for an answer that failed before any of it arrived.
pub const FAILED: &str = "[the answer failed before there was any of it]";

/// The text for a message that contains only whitespace.
pub const BLANK_TEXT: &str = "(continue)";

/// Prefix of the name of a repaired file that is not complete yet.
pub(crate) const TEMP_PREFIX: &str = ".mend-";

/// The part of a backup's name between the transcript's name and the rest.
pub(super) const BACKUP_INFIX: &str = ".bak-";

/// The outcome of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairOutcome {
    /// Number of lines that were cut out.
    pub cut: usize,
    /// Number of messages that got a text.
    pub filled: usize,
    /// The damaged file, if it could not be removed after it was replaced.
    pub backup: Option<PathBuf>,
}

/// Returns `true` if no provider accepts the message as it is.
#[must_use]
pub fn is_unsendable(record: &MessageRecord) -> bool {
    let content = &record.message.content;
    match record.message.role {
        Role::User => content.is_empty() || content.iter().any(is_blank),
        Role::Assistant => content.is_empty() && record.stop == Some(StopReason::Error),
        Role::Tool => false,
    }
}

fn is_blank(block: &Block) -> bool {
    matches!(block, Block::Text { text, .. } if text.trim().is_empty())
}

/// Rewrites the file without its broken lines and with a text in its empty messages, in one atomic step.
///
/// Meanwhile the damaged file has a second name, `<name>.bak-<pid>-<time>`, which remains only if removing it fails. A
/// file without damage is not touched; blank lines are no damage. If a file does not begin with a header, nobody knows
/// what it is: all of it stays, and only a torn last line gets a line feed.
///
/// # Errors
///
/// Returns an error if a file can't be read or written. The transcript is then unchanged.
pub fn repair(path: &Path) -> io::Result<RepairOutcome> {
    // `regular` refuses anything but a regular file, such as a named pipe that would block.
    let old = regular::open(path)?;
    let mut lines = io::BufReader::with_capacity(256 * 1024, old);
    if !has_header(&mut lines)? {
        tracing::warn!(path = %path.display(), "a transcript without its header is not mended");
        // Without a header the file may be anything, so the repair must not delete lines.
        return end_last_line(path).map(|()| RepairOutcome::default());
    }
    lines.rewind()?;
    let folder = path.parent().unwrap_or(Path::new("."));
    // The temporary file has mode 0600, which is the default of its library.
    let mut new = tempfile::Builder::new().prefix(TEMP_PREFIX).tempfile_in(folder)?;
    let mut writer = io::BufWriter::with_capacity(256 * 1024, new.as_file_mut());
    let mut mended = RepairOutcome::default();
    let mut is_torn = false;
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        is_torn = line.last() != Some(&b'\n');
        if line.trim_ascii().is_empty() {
            line.clear();
            continue;
        }
        match Record::parse(line.trim_ascii_end()) {
            Ok(Record::Message(record)) if is_unsendable(&record) => {
                writer.write_all(&filled(&line, &record)?)?;
                writer.write_all(b"\n")?;
                mended.filled += 1;
            }
            Ok(_) => {
                writer.write_all(&line)?;
                // A torn last line may be complete except for its line feed.
                if is_torn {
                    writer.write_all(b"\n")?;
                }
            }
            Err(_) => mended.cut += 1,
        }
        line.clear();
    }
    writer.flush()?;
    drop(writer);
    // Without damage the new file is dropped, which deletes it.
    if mended == RepairOutcome::default() && !is_torn {
        return Ok(mended);
    }
    // Synced before the rename, and the folder after it: a power cut leaves either the old file or the whole new one.
    new.as_file().sync_all()?;
    let backup = backup_path(path);
    fs_err::hard_link(path, &backup)?;
    new.persist(path).map_err(|error| error.error)?;
    std::fs::File::open(folder)?.sync_all()?;
    if let Err(error) = fs_err::remove_file(&backup) {
        tracing::warn!(%error, backup = %backup.display(), "the old file of a mended transcript stays");
        mended.backup = Some(backup);
    }
    tracing::warn!(path = %path.display(), cut = mended.cut, filled = mended.filled, "mended a transcript");
    Ok(mended)
}

/// Returns `true` if the first line that is not blank is a transcript's header.
fn has_header(lines: &mut impl io::BufRead) -> io::Result<bool> {
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let found = line.trim_ascii();
        if !found.is_empty() {
            return Ok(matches!(Record::parse(found), Ok(Record::Session(_))));
        }
        line.clear();
    }
    Ok(false)
}

/// Appends a line feed to a torn last line, so that the next record gets a line of its own.
fn end_last_line(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let mut file = std::fs::File::options().read(true).append(true).open(path)?;
    let mut last = [b'\n'];
    if let Some(at) = file.metadata()?.len().checked_sub(1) {
        file.read_exact_at(&mut last, at)?;
    }
    if last == *b"\n" { Ok(()) } else { file.write_all(b"\n") }
}

/// Returns the line with a text in place of the missing one. All other fields stay, including unknown ones.
fn filled(line: &[u8], record: &MessageRecord) -> io::Result<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(line)?;
    let is_blank = |block: &Value| {
        block["type"] == "text" && block["text"].as_str().is_some_and(|text| text.trim().is_empty())
    };
    let mut content = match value["message"]["content"].take() {
        Value::Array(content) => content,
        // A content that is not a list was already found to be empty.
        _ => Vec::new(),
    };
    content.retain(|block| !is_blank(block));
    if content.is_empty() {
        let text = if record.message.role == Role::User { BLANK_TEXT } else { FAILED };
        content.push(json!({"type": "text", "text": text}));
    }
    value["message"]["content"] = content.into();
    if record.message.role == Role::Assistant {
        // No model said it and no model is shown it. This flag marks it, not its text.
        value["filled"] = true.into();
    }
    Ok(serde_json::to_vec(&value)?)
}

fn backup_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("{BACKUP_INFIX}{}-{}", std::process::id(), crate::clock::unix_ms()));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TurnId;

    const HEADER: &str = "{\"type\":\"session\",\"version\":1,\"key\":\"agent:coder:flock:main:ann\",\"agent\":\"coder\",\"created\":1}\n";

    /// Repairs a file with a header and returns the text after that header.
    fn mend(text: &str) -> (RepairOutcome, String) {
        let (mended, after) = repair_text(&format!("{HEADER}{text}"));
        (mended, after.strip_prefix(HEADER).unwrap().to_owned())
    }

    fn repair_text(text: &str) -> (RepairOutcome, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        fs_err::write(&path, text).unwrap();
        let mended = repair(&path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
        assert_eq!(repair(&path).unwrap(), RepairOutcome::default(), "there is nothing more to mend");
        (mended, fs_err::read_to_string(&path).unwrap())
    }

    #[test]
    fn blank_lines_are_not_damage() {
        for text in ["\n", " \n\n", "\r\n\t\n"] {
            assert_eq!(repair_text(text), (RepairOutcome::default(), text.to_owned()));
            assert_eq!(mend(text), (RepairOutcome::default(), text.to_owned()));
        }
    }

    #[test]
    fn a_file_without_a_header_keeps_all_lines() {
        let said = message("user", &json!([{"type": "text", "text": " "}]), &json!({}));
        for text in [format!("{{\"type\":\"sess\n{said}"), format!("nonsense\n\n{said}{{\"no\":1}}\n"), said]
        {
            assert_eq!(repair_text(&text), (RepairOutcome::default(), text.clone()));
            let torn = format!("{text}{{\"type\":\"mess");
            assert_eq!(repair_text(&torn), (RepairOutcome::default(), format!("{torn}\n")));
        }
    }

    fn message(role: &str, content: &Value, more: &Value) -> String {
        let mut record = json!({
            "type": "message", "id": "i", "turn": TurnId::new(), "at": 1, "later": {"z": 1, "a": 2},
            "message": {"role": role, "content": content},
        });
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{record}\n")
    }

    #[test]
    fn valid_lines_stay_byte_for_byte() {
        let unknown = r#"{"type":"later","z":1,  "a":2}"#;
        let damaged = format!("{unknown}\n\n{{\"type\":\"mess\nnonsense\n{unknown}\n{{\"no\":1}}\n{unknown}");
        let (mended, text) = mend(&damaged);
        assert_eq!((mended.cut, mended.filled), (3, 0), "a blank line is nothing that was lost");
        assert_eq!(text, format!("{unknown}\n").repeat(3));
    }

    #[test]
    fn an_undamaged_file_is_not_replaced() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        fs_err::write(&path, "{\"type\":\"later\"}\r\n").unwrap();
        let before = fs_err::metadata(&path).unwrap().ino();
        assert_eq!(repair(&path).unwrap(), RepairOutcome::default());
        assert_eq!(fs_err::metadata(&path).unwrap().ino(), before);
    }

    #[test]
    fn unsendable_messages_get_a_text_and_keep_other_fields() {
        let blank = json!([{"type": "text", "text": " \n"}]);
        let picture = json!({"type": "image", "mediaType": "image/png", "data": "AA"});
        let kept = json!([{"type": "text", "text": ""}, picture]);
        let failed = json!({"stop": "error", "model": "a/b"});
        let text = [
            message("user", &blank, &json!({})),
            message("user", &kept, &json!({})),
            message("assistant", &json!([]), &failed),
        ];
        let (mended, after) = mend(&text.concat());
        assert_eq!((mended.cut, mended.filled), (0, 3));
        let lines: Vec<Value> = after.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let content = |at: usize| lines[at]["message"]["content"].clone();
        assert_eq!(content(0), json!([{"type": "text", "text": BLANK_TEXT}]));
        assert_eq!(content(1), json!([picture]));
        assert_eq!(content(2), json!([{"type": "text", "text": FAILED}]));
        assert!(after.contains(r#""later":{"z":1,"a":2}"#), "what is not known stays, in its order");
        assert_eq!((&lines[2]["stop"], &lines[2]["id"]), (&json!("error"), &json!("i")));
    }

    #[test]
    fn delivered_answers_are_never_rewritten() {
        let said = |content, more| message("assistant", &content, &more);
        let text = [
            said(json!([{"type": "text", "text": "an answer"}]), json!({"stop": "error"})),
            said(json!([]), json!({"stop": "end", "usage": {"output": 3}})),
            said(json!([{"type": "text", "text": ""}]), json!({"stop": "end"})),
            said(json!([{"type": "thinking", "thinking": "x"}]), json!({"stop": "length"})),
        ]
        .concat();
        assert_eq!(mend(&text), (RepairOutcome::default(), text));
    }
}

//! Shows people what a patch changes, without the files that it is for.

use super::{FileOperation, Hunk, HunkLine, parse};

/// A change that a patch describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatchChange {
    /// A text in place of another one. `old` is `None` for a new file, and otherwise a part of one.
    Text { path: String, old: Option<String>, new: String },
    /// Another name for a file.
    Moved { from: String, to: String },
    /// The removal of a file.
    Removed { path: String },
}

/// Returns what a patch changes, in its order, or `None` if it can't be read.
#[must_use]
pub(crate) fn changes(patch: &str) -> Option<Vec<PatchChange>> {
    let mut changes = Vec::new();
    for operation in parse::parse(patch).ok()? {
        match operation {
            FileOperation::Add { path, content } => {
                changes.push(PatchChange::Text { path, old: None, new: content });
            }
            FileOperation::Delete { path } => changes.push(PatchChange::Removed { path }),
            FileOperation::Update { path, to, hunks } => {
                let path = match to {
                    None => path,
                    Some(to) => {
                        changes.push(PatchChange::Moved { from: path, to: to.clone() });
                        to
                    }
                };
                changes.extend(hunks.iter().map(|hunk| of_hunk(path.clone(), hunk)));
            }
        }
    }
    Some(changes)
}

fn of_hunk(path: String, hunk: &Hunk) -> PatchChange {
    let (mut old, mut new) = (String::new(), String::new());
    for line in &hunk.lines {
        let (text, is_old, is_new) = match line {
            HunkLine::Context(text) => (text, true, true),
            HunkLine::Removed(text) => (text, true, false),
            HunkLine::Added(text) => (text, false, true),
        };
        for (side, has) in [(&mut old, is_old), (&mut new, is_new)] {
            if has {
                side.push_str(text);
                side.push('\n');
            }
        }
    }
    PatchChange::Text { path, old: Some(old), new }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hunk_has_its_old_and_its_new_lines() {
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@ fn x\n one\n-two\n+three\n@@\n-four\n*** Update File: b\n\
                     *** Move to: c\n@@\n+five\n*** Add File: d\n+six\n*** Delete File: e\n*** End Patch\n";
        let text = |path: &str, old: Option<&str>, new: &str| PatchChange::Text {
            path: path.to_owned(),
            old: old.map(str::to_owned),
            new: new.to_owned(),
        };
        assert_eq!(
            changes(patch).unwrap(),
            [
                text("a.rs", Some("one\ntwo\n"), "one\nthree\n"),
                text("a.rs", Some("four\n"), ""),
                PatchChange::Moved { from: "b".to_owned(), to: "c".to_owned() },
                text("c", Some(""), "five\n"),
                text("d", None, "six\n"),
                PatchChange::Removed { path: "e".to_owned() },
            ]
        );
        assert_eq!(changes("*** Begin Patch\n*** Update File: a.rs\n"), None, "it was cut off");
    }
}

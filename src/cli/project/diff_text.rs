//! A diff on the terminal: by file, with additions and removals in colour.

use serde_json::Value;

use super::text;
use crate::clean;
use crate::cli::Context;
use crate::ui::{StyledLine, TextStyle};

/// Prints a diff, or with `is_stat` only the names and sizes of its files.
pub(super) fn print(diff: &Value, is_stat: bool, context: &Context) {
    lines(diff, is_stat).into_iter().for_each(|line| context.printer.line(line));
}

fn lines(diff: &Value, is_stat: bool) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    let files: Vec<&Value> = diff["files"].as_array().into_iter().flatten().collect();
    if files.is_empty() {
        return vec![StyledLine::new().with(TextStyle::Dim, "There are no changes.")];
    }
    for file in &files {
        lines.push(heading(file));
        if is_stat {
            continue;
        }
        for hunk in file["hunks"].as_array().into_iter().flatten() {
            lines.push(StyledLine::new().with(TextStyle::Accent, header(hunk)));
            lines.extend(hunk["lines"].as_array().into_iter().flatten().map(line));
        }
        if file["isBinary"] == true {
            lines.push(StyledLine::new().with(TextStyle::Dim, "  no text"));
        }
        if file["isCut"] == true {
            lines.push(StyledLine::new().with(TextStyle::Warn, "  the rest of this file is not shown"));
        }
        lines.push(StyledLine::new());
    }
    let count = diff["changed"].as_u64().unwrap_or(files.len() as u64);
    let total = format!(
        "{count} file{} changed, {} lines added, {} removed",
        if count == 1 { "" } else { "s" },
        diff["added"],
        diff["removed"]
    );
    lines.push(StyledLine::new().with(TextStyle::Strong, total));
    if count > files.len() as u64 {
        lines.push(StyledLine::new().with(TextStyle::Warn, "not all files are shown"));
    }
    lines
}

/// Returns the line above a hunk, as git shows it.
fn header(hunk: &Value) -> String {
    let number = |key: &str| hunk[key].as_u64().unwrap_or_default();
    let range = |start: &str, lines: &str| format!("{},{}", number(start), number(lines));
    let heading = clean::inline(text(&hunk["heading"]));
    let (old, new) = (range("oldStart", "oldLines"), range("newStart", "newLines"));
    format!("@@ -{old} +{new} @@ {heading}").trim_end().to_owned()
}

fn heading(file: &Value) -> StyledLine {
    let path = text(&file["path"]);
    let name = match file["oldPath"].as_str().filter(|old| *old != path) {
        Some(old) => format!("{old} -> {path}"),
        None => path.to_owned(),
    };
    StyledLine::new()
        .with(TextStyle::Strong, clean::inline(&name))
        .plain(" ")
        .with(TextStyle::Dim, text(&file["status"]))
        .plain(" ")
        .with(TextStyle::Good, format!("+{}", file["added"]))
        .plain(" ")
        .with(TextStyle::Bad, format!("-{}", file["removed"]))
}

fn line(line: &Value) -> StyledLine {
    // A line comes from an agent's file, so nothing in it may control the terminal.
    let text = clean::inline(text(&line["text"]));
    match super::text(&line["kind"]) {
        "added" => StyledLine::new().with(TextStyle::Good, format!("+{text}")),
        "removed" => StyledLine::new().with(TextStyle::Bad, format!("-{text}")),
        _ => StyledLine::new().plain(format!(" {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_diff_is_shown_by_file_and_can_not_control_the_terminal() {
        let diff = json!({
            "changed": 2, "added": 1, "removed": 1,
            "files": [{
                "path": "a.py", "oldPath": "b.py", "status": "renamed", "added": 1, "removed": 1,
                "isBinary": false, "isCut": true,
                "hunks": [{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "heading": "f()", "lines": [
                    {"kind": "removed", "text": "x"}, {"kind": "added", "text": "y\u{1b}[2J"},
                    {"kind": "context", "text": "z"},
                ]}],
            }],
        });
        let shown: Vec<String> = lines(&diff, false).iter().map(|line| line.render(false)).collect();
        assert_eq!(
            shown,
            [
                "b.py -> a.py renamed +1 -1",
                "@@ -1,2 +1,2 @@ f()",
                "-x",
                "+y\\u{1b}[2J",
                " z",
                "  the rest of this file is not shown",
                "",
                "2 files changed, 1 lines added, 1 removed",
                "not all files are shown",
            ]
        );
        assert_eq!(lines(&diff, true).len(), 3);
    }
}

//! Calls of tools as editors show them: what kind they are, which places they concern, and what they change. Pure.
//!
//! Names and arguments come from models, and results from programs in a sandbox, so nothing of them is taken for more
//! than text.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol::v1::schema::{
    ContentBlock, Diff, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;

use crate::sandbox::spec::WORKSPACE_TARGET;
use crate::tool::files::write::CREATED;
use crate::tool::files::{PatchChange, patch_changes};

/// Longest title in characters.
const MAX_TITLE: usize = 120;
/// Longest text of a result or of one side of a difference, in bytes. With both sides, an update stays below the 64 KiB
/// that some clients read as one line.
const MAX_TEXT: usize = 24 << 10;
/// Arguments with more bytes of JSON are not sent.
const MAX_INPUT: usize = 4 << 10;

/// A call of a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallView<'a> {
    /// The id of the call, unique in the editor's session.
    pub(super) id: &'a str,
    /// The agent, if the session has several.
    pub(super) agent: Option<&'a str>,
    pub(super) tool: &'a str,
    /// The arguments, or null if they are not known.
    pub(super) arguments: &'a Value,
    /// The result, or null if the call has not ended.
    pub(super) result: &'a Value,
    /// The absolute path of the agent's workspace on the host.
    pub(super) workspace: &'a str,
}

impl CallView<'_> {
    /// Returns the call as it begins.
    pub(super) fn begun(&self) -> ToolCall {
        let call = ToolCall::new(self.id.to_owned(), self.title())
            .name(self.tool.to_owned())
            .kind(kind(self.tool))
            .status(ToolCallStatus::InProgress)
            .locations(self.locations());
        match self.input() {
            Some(input) => call.content(self.changes()).raw_input(input),
            None => call.content(self.changes()),
        }
    }

    /// Returns what is known once the arguments are.
    pub(super) fn detailed(&self) -> ToolCallUpdate {
        let fields = ToolCallUpdateFields::new()
            .title(self.title())
            .locations(self.locations())
            .content(self.changes())
            .raw_input(self.input());
        ToolCallUpdate::new(self.id.to_owned(), fields)
    }

    /// Returns the end of the call with its result.
    pub(super) fn ended(&self) -> ToolCallUpdate {
        let mut content = self.changes();
        let text = self.result_text();
        // The result of a change only repeats that it was made.
        if !text.trim().is_empty() && (content.is_empty() || self.has_failed()) {
            content.push(ContentBlock::from(fenced(bounded(text))).into());
        }
        let fields = ToolCallUpdateFields::new().status(status(self.has_failed())).content(content);
        ToolCallUpdate::new(self.id.to_owned(), fields)
    }

    fn result_text(&self) -> &str {
        self.result["text"].as_str().unwrap_or_default()
    }

    fn has_failed(&self) -> bool {
        self.result["isError"] == true
    }

    /// Returns the title: the tool, and the argument that says most.
    fn title(&self) -> String {
        let keys = ["command", "path", "file_path", "filePath", "query", "channelId", "to", "url", "kind"];
        let most = keys.iter().find_map(|key| self.arguments[*key].as_str());
        let words = [self.agent.map(|agent| format!("{agent}:")), Some(self.tool.to_owned())];
        let words = words.into_iter().flatten().chain(most.map(str::to_owned));
        crate::clean::label(&words.collect::<Vec<_>>().join(" "), MAX_TITLE)
    }

    /// Returns the arguments, unless they are too long.
    fn input(&self) -> Option<Value> {
        let is_short = !self.arguments.is_null() && self.arguments.to_string().len() <= MAX_INPUT;
        is_short.then(|| self.arguments.clone())
    }

    /// Returns the files that the call concerns, as paths on the host.
    fn locations(&self) -> Vec<ToolCallLocation> {
        let line = self.arguments["offset"].as_u64().and_then(|line| u32::try_from(line).ok());
        let named = self.path().map(|path| (path, line));
        let patched = self.patch().into_iter().flat_map(patched_paths);
        let all = named.into_iter().chain(patched.map(|path| (path, None)));
        let places = all.filter_map(|(path, line)| {
            let path = on_host(self.workspace, path)?;
            let location = ToolCallLocation::new(path);
            Some(match line {
                Some(line) => location.line(line),
                None => location,
            })
        });
        places.collect()
    }

    /// Returns what the call writes, as differences of files.
    fn changes(&self) -> Vec<ToolCallContent> {
        let text = |keys: &[&str]| keys.iter().find_map(|key| self.arguments[*key].as_str());
        if let Some(patch) = self.patch() {
            return self.patched(patch).unwrap_or_else(|| vec![verbatim(patch)]);
        }
        let Some(path) = self.path().and_then(|path| on_host(self.workspace, path)) else {
            return Vec::new();
        };
        let old = text(&["oldText", "old_string", "oldString"]);
        let Some(new) = text(&["newText", "new_string", "newString", "content"]) else { return Vec::new() };
        // Half of a text would look as if the rest had been removed.
        if new.len() > MAX_TEXT || old.is_some_and(|old| old.len() > MAX_TEXT) {
            let text = format!("{} bytes of text are not shown here", new.len());
            return vec![ContentBlock::from(text).into()];
        }
        match old {
            Some(old) => vec![Diff::new(path, new).old_text(old.to_owned()).into()],
            // Editors show a difference without an old text as a new file. That is true only if the result says so: what a
            // file had before that is overwritten is in no call.
            None if self.result.is_null() || self.has_failed() => Vec::new(),
            None if self.result_text().starts_with(CREATED) => vec![Diff::new(path, new).into()],
            None => vec![verbatim(new)],
        }
    }

    /// Returns the text of a patch, if the call has one.
    fn patch(&self) -> Option<&str> {
        let patch = ["input", "patch"].iter().find_map(|key| self.arguments[*key].as_str());
        patch.filter(|_| self.tool.ends_with("apply_patch"))
    }

    /// Returns the differences of a patch, one for each hunk, or `None` if it can't be read or is too long.
    fn patched(&self, patch: &str) -> Option<Vec<ToolCallContent>> {
        if patch.len() > MAX_TEXT {
            return None;
        }
        let (mut shown, mut size) = (Vec::new(), 0);
        for change in patch_changes(patch)? {
            let text = match change {
                PatchChange::Text { path, old, new } => {
                    let Some(path) = on_host(self.workspace, &path) else { continue };
                    // The lines around a change are in both texts, and the path is in each of the differences.
                    size += path.as_os_str().len() + old.as_ref().map_or(0, String::len) + new.len();
                    let diff = Diff::new(path, new);
                    shown.push(ToolCallContent::from(match old {
                        Some(old) => diff.old_text(old),
                        None => diff,
                    }));
                    continue;
                }
                PatchChange::Moved { from, to } => format!("moves {from} to {to}"),
                PatchChange::Removed { path } => format!("removes {path}"),
            };
            size += text.len();
            shown.push(verbatim(&crate::clean::label(&text, MAX_TITLE)));
        }
        (size <= 2 * MAX_TEXT).then_some(shown)
    }

    fn path(&self) -> Option<&str> {
        ["path", "file_path", "filePath"].iter().find_map(|key| self.arguments[*key].as_str())
    }
}

/// Returns the state of a call that has ended.
pub(super) const fn status(is_error: bool) -> ToolCallStatus {
    if is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed }
}

/// Returns a text in a block that Markdown does not interpret.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}\n{}\n{fence}", text.trim_end())
}

fn verbatim(text: &str) -> ToolCallContent {
    ContentBlock::from(fenced(bounded(text))).into()
}

/// Returns the kind of a tool, of flock's own and of the programs that can run an agent.
fn kind(tool: &str) -> ToolKind {
    let name = tool.rsplit("__").next().unwrap_or(tool).to_ascii_lowercase();
    match name.as_str() {
        "read"
        | "image"
        | "view"
        | "read_file"
        | "flock_workspace_read"
        | "flock_channel_read"
        | "flock_read_skill" => ToolKind::Read,
        "write"
        | "edit"
        | "apply_patch"
        | "multiedit"
        | "write_file"
        | "replace"
        | "patch"
        | "flock_workspace_write" => ToolKind::Edit,
        "exec" | "process" | "bash" | "shell" | "run_shell_command" => ToolKind::Execute,
        "grep"
        | "glob"
        | "list"
        | "ls"
        | "search_file_content"
        | "flock_memory_search"
        | "flock_discover" => ToolKind::Search,
        "webfetch" | "web_fetch" | "fetch" => ToolKind::Fetch,
        "think" | "todowrite" | "todo_write" => ToolKind::Think,
        _ => ToolKind::Other,
    }
}

/// Returns the paths in the head lines of a patch.
fn patched_paths(patch: &str) -> impl Iterator<Item = &str> {
    const HEADS: [&str; 4] = ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: "];
    patch.lines().filter_map(|line| HEADS.iter().find_map(|head| line.strip_prefix(head))).map(str::trim)
}

/// Returns the place on the host of a file in the agent's workspace, or `None` for any other. It is only shown.
fn on_host(workspace: &str, path: &str) -> Option<PathBuf> {
    if workspace.is_empty() || path.is_empty() {
        return None;
    }
    let path = Path::new(path);
    let inside =
        path.strip_prefix(WORKSPACE_TARGET).or_else(|_| path.strip_prefix(workspace)).unwrap_or(path);
    let is_inside = inside.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    is_inside.then(|| Path::new(workspace).join(inside))
}

/// Returns the beginning of a text, at most [`MAX_TEXT`] bytes.
fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call<'a>(tool: &'a str, arguments: &'a Value) -> CallView<'a> {
        CallView {
            id: "t/1",
            agent: None,
            tool,
            arguments,
            result: &Value::Null,
            workspace: "/home/ann/.flock/agents/coder/workspace",
        }
    }

    fn ended(tool: &str, arguments: &Value, result: &Value) -> Value {
        serde_json::to_value(CallView { result, ..call(tool, arguments) }.ended()).unwrap()
    }

    fn begun(tool: &str, arguments: &Value) -> Value {
        serde_json::to_value(call(tool, arguments).begun()).unwrap()
    }

    #[test]
    fn changes_are_shown_as_differences_at_their_places_on_the_host() {
        let place = "/home/ann/.flock/agents/coder/workspace/src/a.rs";
        let edit = begun("edit", &json!({"path": "src/a.rs", "oldText": "a", "newText": "b"}));
        assert_eq!(edit["content"], json!([{"type": "diff", "path": place, "oldText": "a", "newText": "b"}]));
        assert_eq!(edit["locations"], json!([{"path": place}]));
        assert_eq!((&edit["kind"], &edit["status"]), (&json!("edit"), &json!("in_progress")));
        assert_eq!(edit["title"], "edit src/a.rs");
        let read = begun("read", &json!({"path": "src/a.rs", "offset": 7}));
        assert_eq!(read["locations"], json!([{"path": place, "line": 7}]));
        let patch = json!({"input": "*** Begin Patch\n*** Update File: src/a.rs\n*** Add File: ../b\n"});
        let cut_off = begun("apply_patch", &patch);
        assert_eq!(cut_off["locations"], json!([{"path": place}]));
        let text = cut_off["content"][0]["content"]["text"].as_str().unwrap();
        assert!(text.starts_with("```\n*** Begin Patch"), "what can't be read is text: {text}");
    }

    #[test]
    fn only_a_file_that_is_new_is_shown_as_one() {
        let place = "/home/ann/.flock/agents/coder/workspace/src/a.rs";
        let arguments = json!({"path": "src/a.rs", "content": "b\n"});
        let is_empty = |shown: &Value| shown["content"].as_array().is_none_or(Vec::is_empty);
        assert!(is_empty(&begun("write", &arguments)), "nobody knows yet");
        let new = json!({"text": format!("{CREATED}/workspace/src/a.rs with 2 bytes")});
        let shown = ended("write", &arguments, &new);
        assert_eq!(shown["content"], json!([{"type": "diff", "path": place, "newText": "b\n"}]));
        for (tool, result) in [("write", "wrote 2 bytes to /workspace/created "), ("Write", "done")] {
            let shown = ended(tool, &arguments, &json!({"text": result}));
            assert_eq!(shown["content"][0]["type"], "content", "{shown}");
            assert_eq!(shown["content"][0]["content"]["text"], "```\nb\n```");
        }
        let failed = ended("write", &arguments, &json!({"text": "no space", "isError": true}));
        assert_eq!(failed["content"].as_array().unwrap().len(), 1);
        assert_eq!(failed["content"][0]["content"]["text"], "```\nno space\n```");
    }

    #[test]
    fn a_patch_is_shown_as_the_differences_of_its_hunks() {
        let place = |name: &str| format!("/home/ann/.flock/agents/coder/workspace/{name}");
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n one\n-two\n+three\n@@\n-four\n+five\n*** Add File: b.rs\n\
                     +six\n*** Update File: c.rs\n*** Move to: d.rs\n@@\n-x\n+y\n*** Delete File: e.rs\n*** Add File: ../f\n+z\n\
                     *** End Patch\n";
        let text = |text: &str| json!({"type": "content", "content": {"type": "text", "text": format!("```\n{text}\n```")}});
        let shown = begun("apply_patch", &json!({"input": patch}));
        assert_eq!(
            shown["content"],
            json!([
                {"type": "diff", "path": place("a.rs"), "oldText": "one\ntwo\n", "newText": "one\nthree\n"},
                {"type": "diff", "path": place("a.rs"), "oldText": "four\n", "newText": "five\n"},
                {"type": "diff", "path": place("b.rs"), "newText": "six\n"},
                text("moves c.rs to d.rs"),
                {"type": "diff", "path": place("d.rs"), "oldText": "x\n", "newText": "y\n"},
                text("removes e.rs"),
            ]),
            "nothing outside of the workspace"
        );
        let many = format!(
            "*** Begin Patch\n*** Update File: {}\n{}*** End Patch",
            "n".repeat(200),
            "@@\n-a\n+b\n".repeat(2000)
        );
        let shown = begun("apply_patch", &json!({"patch": many}));
        assert_eq!(shown["content"][0]["type"], "content", "too long for some clients");
        assert_eq!(shown["content"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_path_outside_of_the_workspace_names_no_place() {
        for path in ["/etc/passwd", "../../config.json", "a/../../b", "", "/workspace/../etc/passwd"] {
            let shown = begun("write", &json!({"path": path, "content": "x"}));
            assert_eq!(shown["locations"].as_array().map_or(0, Vec::len), 0, "{path}");
            assert_eq!(shown["content"].as_array().map_or(0, Vec::len), 0, "{path}");
        }
    }

    #[test]
    fn results_stay_text_whatever_is_in_them() {
        let arguments = json!({"command": "cat notes.md\nrm -rf /"});
        let shown = begun("exec", &arguments);
        assert_eq!(shown["title"], "exec cat notes.md rm -rf /", "a title is one line");
        let result = json!({"text": "```\n![x](http://evil/)\n````\n", "isError": true});
        let ended = ended("exec", &arguments, &result);
        let text = ended["content"][0]["content"]["text"].as_str().unwrap();
        assert!(text.starts_with("`````\n") && text.ends_with("\n`````"), "{text}");
        assert_eq!(ended["status"], "failed");
        let long = "é".repeat(MAX_TEXT);
        assert!(bounded(&long).len() <= MAX_TEXT);
        let large = json!({"path": "a", "content": long});
        assert_eq!(begun("write", &large).get("rawInput"), None);
    }
}

//! The tool `apply_patch`. It changes several files at once. The whole patch is computed in memory first, and if any
//! part of it does not fit, nothing is written.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::json;

use super::Workspace;
use super::patch::{FileOperation, hunk, parse};
use super::path::WorkspacePath;
use super::tool_error::for_model;
use crate::home::beneath::BeneathError;
use crate::tool::arguments::Arguments;
use crate::tool::policy::LimitedInput;
use crate::tool::{ToolDefinition, ToolError, ToolOutput};

const MAX_INPUT: usize = 1024 * 1024;
const MAX_OPERATIONS: usize = 200;

pub(crate) static APPLY_PATCH: ToolDefinition = ToolDefinition {
    name: "apply_patch",
    description: "Change several files, all or none. input: *** Begin Patch, \
                  then *** Add File: p (lines +), *** Delete File: p, *** Update File: p (optional *** Move \
                  to: q; hunks of @@, then lines with ' ', - or +), then *** End Patch.",
    properties: || json!({"input": {"type": "string"}}),
    required: &["input"],
    changes: true,
    limited: Some(LimitedInput::Patch),
    ..ToolDefinition::BUILT_IN
};

pub(super) fn work(workspace: &Workspace, arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let input: String = arguments.required_with_alias("input", "patch")?;
    if input.len() > MAX_INPUT {
        return Err(nothing_changed(format!("the patch has {} bytes, at most {MAX_INPUT}", input.len())));
    }
    let operations = parse::parse(&input).map_err(nothing_changed)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(nothing_changed(format!("the patch has more than {MAX_OPERATIONS} files")));
    }
    let mut plan = PatchPlan { workspace, files: BTreeMap::new(), said: Vec::new() };
    // Nothing is written until every operation fits.
    for operation in operations {
        plan.add(operation).map_err(nothing_changed)?;
    }
    plan.carry_out()
}

fn nothing_changed(reason: impl std::fmt::Display) -> ToolError {
    let reason = reason.to_string();
    ToolError::model(format!("{}. Nothing was changed", reason.trim_end_matches('.')))
}

/// A file in the state that the patch has produced so far.
struct PlannedFile {
    /// State on disk; `None` if there is no file.
    before: Option<FileState>,
    /// Text to be written; `None` if there shall be no file.
    after: Option<String>,
    /// Permission bits to take over from a moved file.
    mode: Option<u32>,
}

struct FileState {
    /// Text on disk; `None` if it was not needed.
    text: Option<String>,
    mode: u32,
}

impl PlannedFile {
    fn changes(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => before.text.as_ref() != Some(after),
            (None, None) => false,
            _ => true,
        }
    }
}

struct PatchPlan<'a> {
    workspace: &'a Workspace,
    files: BTreeMap<WorkspacePath, PlannedFile>,
    said: Vec<String>,
}

impl PatchPlan<'_> {
    fn add(&mut self, operation: FileOperation) -> Result<(), ToolError> {
        // Each operation sees the result of the earlier ones, so a patch can delete a file and add it again.
        match operation {
            FileOperation::Add { path, content } => {
                let place = WorkspacePath::parse_writable(&path)?;
                let planned = self.look(&place)?;
                if planned.after.is_some() {
                    return Err(ToolError::model(format!(
                        "{place} exists already: use *** Update File, or *** Delete File first"
                    )));
                }
                planned.after = Some(content);
                self.said.push(format!("A {place}"));
            }
            FileOperation::Delete { path } => {
                let place = WorkspacePath::parse_writable(&path)?;
                self.remove(&place)?;
                self.said.push(format!("D {place}"));
            }
            FileOperation::Update { path, to, hunks } => {
                let place = WorkspacePath::parse_writable(&path)?;
                let text = self.there(&place)?;
                let changed = hunk::apply(&text, &hunks)
                    .map_err(|reason| ToolError::model(format!("{place}: {reason}")))?;
                // A move to the same path is an ordinary change.
                let target = to.map(|to| WorkspacePath::parse_writable(&to)).transpose()?;
                match target.filter(|target| *target != place) {
                    None => {
                        self.look(&place)?.after = Some(changed);
                        self.said.push(format!("M {place}"));
                    }
                    Some(target) => {
                        let source = self.look(&place)?;
                        source.after = None;
                        // An executable file stays executable when it is moved.
                        let mode = source.mode.or(source.before.as_ref().map(|before| before.mode));
                        let moved = self.look(&target)?;
                        if moved.after.is_some() {
                            return Err(ToolError::model(format!("{target} exists already")));
                        }
                        moved.after = Some(changed);
                        moved.mode = mode;
                        self.said.push(format!("M {place} -> {target}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the text of a file that must exist.
    fn there(&mut self, place: &WorkspacePath) -> Result<String, ToolError> {
        self.look(place)?.after.clone().ok_or_else(|| missing_file(place))
    }

    /// Plans the removal of a file. Its content is not read, because it need not be text.
    fn remove(&mut self, place: &WorkspacePath) -> Result<(), ToolError> {
        // The file was changed earlier in this patch.
        if let Some(planned) = self.files.get_mut(place) {
            return planned.after.take().map(|_| ()).ok_or_else(|| missing_file(place));
        }
        let mode = mode(self.workspace, place)?.ok_or_else(|| missing_file(place))?;
        let before = Some(FileState { text: None, mode });
        self.files.insert(place.clone(), PlannedFile { before, after: None, mode: None });
        Ok(())
    }

    /// Returns the planned state of a file, and reads the file on first use.
    fn look(&mut self, place: &WorkspacePath) -> Result<&mut PlannedFile, ToolError> {
        match self.files.entry(place.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(free) => {
                let before = match mode(self.workspace, place)? {
                    Some(mode) => Some(FileState { text: Some(self.workspace.text(place)?), mode }),
                    None => None,
                };
                let after = before.as_ref().and_then(|before| before.text.clone());
                Ok(free.insert(PlannedFile { before, after, mode: None }))
            }
        }
    }

    /// Writes the planned files. All writes come before all removals, so that an interruption loses no text.
    fn carry_out(self) -> Result<ToolOutput, ToolError> {
        let mut done: Vec<String> = Vec::new();
        // Some files may be written already. The model has to know which ones.
        let stopped = |failure: ToolError, done: &[String]| match failure {
            ToolError::Fatal(_) => failure,
            ToolError::ForModel(_) if done.is_empty() => nothing_changed(failure),
            ToolError::ForModel(_) => {
                ToolError::model(format!("{failure}. Changed before that: {}", done.join(", ")))
            }
        };
        for (place, planned) in self.files.iter().filter(|(_, planned)| planned.changes()) {
            if let Some(text) = &planned.after {
                self.workspace.put(place, text, planned.mode).map_err(|failure| stopped(failure, &done))?;
                done.push(place.to_string());
            }
        }
        for (place, planned) in self.files.iter().filter(|(_, planned)| planned.changes()) {
            if planned.after.is_none() {
                self.workspace
                    .files
                    .remove(place.relative())
                    .map_err(|failure| stopped(for_model(place, &failure), &done))?;
                done.push(place.to_string());
            }
        }
        Ok(ToolOutput::text(format!("done\n{}", self.said.join("\n"))))
    }
}

fn missing_file(place: &WorkspacePath) -> ToolError {
    ToolError::model(format!("{place} does not exist"))
}

/// Returns the permission bits of a regular file, or `None` if there is no file.
fn mode(workspace: &Workspace, place: &WorkspacePath) -> Result<Option<u32>, ToolError> {
    match workspace.files.file_mode(place.relative()) {
        Ok(mode) => Ok(Some(mode)),
        Err(BeneathError::NotFound { .. }) => Ok(None),
        Err(failure) => Err(for_model(place, &failure)),
    }
}

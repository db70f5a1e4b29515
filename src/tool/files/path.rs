//! Converts a path as a model writes it into a path relative to the workspace. Only the text is checked here. Symbolic
//! links are detected when the file is opened.

use std::path::{Path, PathBuf};

use crate::sandbox::spec::IDENTITY_FILES;
use crate::tool::{ToolError, safe_text};

const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;

/// A file below the workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WorkspacePath {
    relative: PathBuf,
}

impl WorkspacePath {
    /// Parses a path as models write it: `/workspace/…`, or relative to the workspace.
    pub(super) fn parse(text: &str) -> Result<Self, ToolError> {
        if text.trim().is_empty() {
            return Err(ToolError::model("the path is empty"));
        }
        if text.contains('\0') {
            return Err(ToolError::model("the path contains a NUL character"));
        }
        if text.len() > MAX_PATH || text.split('/').any(|name| name.len() > MAX_NAME) {
            return Err(ToolError::model(format!(
                "the path is too long: at most {MAX_PATH} bytes, {MAX_NAME} for each name"
            )));
        }
        let outside = || {
            ToolError::model(format!(
                "{:?} is outside /workspace: only files below it can be used",
                safe_text::start(text, 200)
            ))
        };
        // A relative path starts at the workspace, as commands in the sandbox do.
        let below = match text.strip_prefix('/') {
            None => text,
            Some(absolute) => match absolute.trim_start_matches('/').strip_prefix("workspace") {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
                _ => return Err(outside()),
            },
        };
        let mut relative = PathBuf::new();
        for name in below.split('/') {
            match name {
                "" | "." => {}
                // The file tools follow no link, so `a/..` is always the folder that contains `a`.
                ".." => {
                    if !relative.pop() {
                        return Err(outside());
                    }
                }
                name => relative.push(name),
            }
        }
        if relative.as_os_str().is_empty() || text.ends_with('/') {
            return Err(ToolError::model(format!(
                "{:?} is a folder, not a file",
                safe_text::start(text, 200)
            )));
        }
        Ok(Self { relative })
    }

    /// Parses a path for a tool that changes the file, and refuses the identity files.
    pub(super) fn parse_writable(text: &str) -> Result<Self, ToolError> {
        let place = Self::parse(text)?;
        // Case is ignored: on a file system that ignores it, `agents.md` is the same file.
        let own = place
            .relative
            .to_str()
            .is_some_and(|name| IDENTITY_FILES.iter().any(|file| file.eq_ignore_ascii_case(name)));
        if own {
            return Err(ToolError::model(format!(
                "{place} describes you, and only your owner can change it; put your own notes into MEMORY.md"
            )));
        }
        Ok(place)
    }

    /// Returns `true` for the files that describe who the agent is.
    pub(super) fn is_identity(&self) -> bool {
        self.relative.to_str().is_some_and(|name| IDENTITY_FILES.contains(&name))
    }

    /// Returns the path relative to the workspace.
    pub(super) fn relative(&self) -> &Path {
        &self.relative
    }
}

impl std::fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/workspace/{}", safe_text::harmless(&self.relative.to_string_lossy()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_taken_as_models_write_them() {
        for (text, want) in [
            ("a.txt", "a.txt"),
            ("./a/b.txt", "a/b.txt"),
            ("/workspace/a.txt", "a.txt"),
            ("//workspace//a.txt", "a.txt"),
            ("/workspace/a/../b.txt", "b.txt"),
            ("a/./../b", "b"),
            ("...", "..."),
            ("~/x", "~/x"),
            ("workspace/x", "workspace/x"),
        ] {
            assert_eq!(WorkspacePath::parse(text).unwrap().relative(), Path::new(want), "{text}");
        }
    }

    #[test]
    fn paths_that_lead_away_are_refused() {
        let long_name = "a".repeat(256);
        let long_path = "a/".repeat(3000) + "a";
        for text in [
            "",
            "  ",
            "..",
            "../x",
            "../../etc/passwd",
            "/etc/passwd",
            "/",
            "/workspace",
            "/workspace/",
            "a/",
            "/workspaces/x",
            "/workspace/../etc/passwd",
            "a/../..",
            "a/../../b",
            ".",
            "a\0b",
            &long_name,
            &long_path,
        ] {
            assert!(WorkspacePath::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn identity_files_are_read_only() {
        for text in ["AGENTS.md", "/workspace/SOUL.md", "./x/../USER.md", "tools.md", "identity.MD"] {
            assert!(WorkspacePath::parse(text).is_ok(), "{text}");
            assert!(WorkspacePath::parse_writable(text).is_err(), "{text}");
        }
        for text in ["docs/AGENTS.md", "MEMORY.md", "AGENTS.md.bak"] {
            assert!(WorkspacePath::parse_writable(text).is_ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_parsed_path_is_always_below_the_workspace(text in "[a./ \\\\é\0]{0,30}") {
            if let Ok(place) = WorkspacePath::parse(&text) {
                prop_assert!(place.relative().is_relative());
                prop_assert!(place.relative().components().all(|part| matches!(part, std::path::Component::Normal(_))));
            }
        }
    }
}

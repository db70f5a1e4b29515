//! Patterns for tool names in allow and deny lists: a name, a name with `*` in it, or a group.

use super::{MCP_PREFIX, is_flocks_own, is_of_mcp_server};
use crate::tool::catalog::find;
use crate::tool::definition::ToolGroup;

/// A parsed pattern.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// A tool's name, in which `*` matches any run of characters.
    Name(String),
    /// A group.
    Group(GroupFn),
}

/// The reason why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    /// The text does not follow the grammar of patterns.
    #[error("{0:?} is not a tool pattern: use a tool's name in lower case, `*`, or group:<name>")]
    Malformed(String),
    /// The text names a group that does not exist.
    #[error("{0:?} is not a tool group: use one of {list}", list = group_names())]
    UnknownGroup(String),
}

/// Returns `true` for the tools of a group.
pub(crate) type GroupFn = fn(&str) -> bool;

/// The groups. OpenClaw's groups for which flock has no tools are known and empty, so that lists written for OpenClaw
/// can be used unchanged.
const GROUPS: [(&str, GroupFn); 13] = [
    ("all", |_| true),
    ("fs", |tool| is_in(ToolGroup::Files, tool)),
    ("runtime", |tool| is_in(ToolGroup::Commands, tool)),
    ("sessions", |tool| is_in(ToolGroup::Sessions, tool)),
    ("plugins", |tool| tool.starts_with("flock_") || is_flocks_own(tool)),
    ("openclaw", |tool| find(tool).is_some_and(|tool| tool.roles.is_none())),
    ("mcp", is_of_mcp_server),
    ("memory", |_| false),
    ("web", |_| false),
    ("ui", |_| false),
    ("automation", |_| false),
    ("messaging", |_| false),
    ("nodes", |_| false),
];

fn is_in(group: ToolGroup, tool: &str) -> bool {
    find(tool).is_some_and(|tool| tool.group == group)
}

const MAX_LENGTH: usize = 64;

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// Returns [`PatternError::UnknownGroup`] for a `group:` name that does not exist, and [`PatternError::Malformed`]
    /// for an empty text, one longer than 64 bytes, or one with other characters than `a-z`, `0-9`, `_`, `-` and `*`.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if let Some(group) = text.strip_prefix("group:") {
            return GROUPS
                .iter()
                .find(|(name, _)| *name == group)
                .map(|(_, includes)| Self::Group(*includes))
                .ok_or_else(|| PatternError::UnknownGroup(shorten(text)));
        }
        // Upper case is refused and not folded, because only tools of MCP servers have it: other patterns with it would
        // match nothing.
        let of_mcp_server = text.starts_with(MCP_PREFIX);
        let valid = |c: char| {
            c.is_ascii_lowercase()
                || c.is_ascii_digit()
                || matches!(c, '_' | '-' | '*')
                || (of_mcp_server && c.is_ascii_uppercase())
        };
        if text.is_empty() || text.len() > MAX_LENGTH || !text.chars().all(valid) {
            return Err(PatternError::Malformed(shorten(text)));
        }
        // Other names for these tools that lists may contain. A deny list that uses them must hold.
        Ok(Self::Name(match text {
            "bash" => "exec".to_owned(),
            "apply-patch" => "apply_patch".to_owned(),
            "read_skill" => "flock_read_skill".to_owned(),
            name => name.to_owned(),
        }))
    }

    /// Returns `true` if the pattern matches this tool.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        match self {
            Self::Name(name) => glob(name.as_bytes(), tool.as_bytes()),
            Self::Group(includes) => includes(tool),
        }
    }
}

/// Matches with a single level of backtracking: only the last star is tried again. The work is bounded by the product
/// of the two lengths, however many stars there are.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            // The star matches nothing at first. Each later mismatch lets it take one more byte.
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            p = at + 1;
            t = from + 1;
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

fn group_names() -> String {
    GROUPS.iter().map(|(name, _)| format!("group:{name}")).collect::<Vec<_>>().join(", ")
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_LENGTH + 16).collect()
}

//! Patterns for tool names in allow and deny lists: a name, a name with `*` in it, or a group.

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A tool's name, in which `*` matches any run of characters.
    Name(String),
    /// A group: any of these names.
    Group(&'static [&'static str]),
}

/// The reason why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The text does not follow the grammar of patterns.
    #[error("{0:?} is not a tool pattern: use a tool's name in lower case, `*`, or group:<name>")]
    Malformed(String),
    /// The text names a group that does not exist.
    #[error("{0:?} is not a tool group: use one of {list}", list = group_names())]
    UnknownGroup(String),
}

/// The groups and their tools. OpenClaw's groups for which flock has no tools are known and empty, so that lists
/// written for OpenClaw can be used unchanged.
const GROUPS: &[(&str, &[&str])] = &[
    ("all", &["*"]),
    ("fs", &["read", "write", "edit", "apply_patch"]),
    ("runtime", &["exec", "process"]),
    ("sessions", &["sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status"]),
    ("plugins", &["flock_*", "triage_decision"]),
    (
        "openclaw",
        &[
            "read",
            "write",
            "edit",
            "apply_patch",
            "exec",
            "process",
            "image",
            "sessions_list",
            "sessions_history",
            "sessions_send",
            "sessions_spawn",
            "session_status",
        ],
    ),
    ("memory", &[]),
    ("web", &[]),
    ("ui", &[]),
    ("automation", &[]),
    ("messaging", &[]),
    ("nodes", &[]),
];

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
                .map(|(_, names)| Self::Group(names))
                .ok_or_else(|| PatternError::UnknownGroup(shorten(text)));
        }
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '*');
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
            Self::Group(names) => names.iter().any(|name| glob(name.as_bytes(), tool.as_bytes())),
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

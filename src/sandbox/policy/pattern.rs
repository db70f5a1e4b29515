//! Patterns of tool names in allow and deny lists: a name, a name with `*` in it, or a group.

/// A pattern that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A name; `*` stands for any run of characters.
    Name(String),
    /// Any of these names.
    Group(&'static [&'static str]),
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Not in the grammar.
    #[error("{0:?} is not a tool pattern: use a tool's name in lower case, `*`, or group:<name>")]
    Malformed(String),
    /// A group nobody knows.
    #[error("{0:?} is not a tool group: use one of {list}", list = group_names())]
    UnknownGroup(String),
}

/// The groups and their tools. Those of OpenClaw that flock has no tools for are known and empty, so that
/// its lists can be taken over as they are.
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
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// As [`PatternError`] says.
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
        // The other names that lists know a tool by: a deny list that uses them must hold.
        Ok(Self::Name(match text {
            "bash" => "exec".to_owned(),
            "apply-patch" => "apply_patch".to_owned(),
            "read_skill" => "flock_read_skill".to_owned(),
            name => name.to_owned(),
        }))
    }

    /// Whether the pattern means this tool.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        match self {
            Self::Name(name) => glob(name.as_bytes(), tool.as_bytes()),
            Self::Group(names) => names.iter().any(|name| glob(name.as_bytes(), tool.as_bytes())),
        }
    }
}

/// Matches with one level of backtracking, so that the work is bounded by the product of the two lengths
/// however many stars there are.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
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

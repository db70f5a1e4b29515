//! OpenClaw's lists of the tools that an agent may call: its own and the global ones.

use super::view::{Problem, View};

/// The value of `tools.allow`, `tools.alsoAllow` and `tools.profile` in one place: an agent's entry or the global
/// block.
pub(super) struct ToolScope {
    /// `None` if the place sets neither. The inner `None` stands for all tools.
    list: Option<Option<Vec<String>>>,
    also: Vec<String>,
}

/// Reads a `tools` block.
pub(super) fn tool_scope(tools: &View<'_>) -> Result<ToolScope, Problem> {
    let allow = tools.get("allow")?.texts()?;
    let profile = tools.get("profile")?;
    let named: Option<&[&str]> = match profile.text()?.as_deref() {
        // The profiles and their tools are OpenClaw's.
        None => None,
        Some("full") => Some(&["*"]),
        Some("minimal") => Some(&["session_status"]),
        Some("coding") => Some(&["group:fs", "group:runtime", "group:sessions", "group:memory", "image"]),
        Some("messaging") => {
            Some(&["group:messaging", "sessions_list", "sessions_history", "sessions_send", "session_status"])
        }
        Some(_) => return Err(profile.problem("must be minimal, coding, messaging or full")),
    };
    // An explicit list wins over a profile.
    let list = if allow.is_empty() {
        named.map(|list| (list != ["*"]).then(|| list.iter().map(ToString::to_string).collect()))
    } else {
        Some(Some(allow))
    };
    Ok(ToolScope { list, also: tools.get("alsoAllow")?.texts()? })
}

/// Returns the tools that the agent's own settings leave, or else the global ones. `alsoAllow` only extends a list.
pub(super) fn tool_profile(own: ToolScope, global: &ToolScope) -> Option<Vec<String>> {
    let mut list = own.list.or_else(|| global.list.clone()).flatten()?;
    list.extend(own.also);
    list.extend(global.also.iter().cloned());
    Some(list)
}

/// Reads the tools that a sandbox allows.
pub(super) fn allow_list(tools: &View<'_>) -> Result<Option<Vec<String>>, Problem> {
    let allow = tools.get("allow")?;
    // An empty list is not the same as a missing one: it allows nothing.
    allow.value.is_some().then(|| allow.texts()).transpose()
}

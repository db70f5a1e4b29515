//! The definition of a tool: everything about it that is fixed.

use serde_json::{Value, json};

use super::policy::{LimitedInput, Roles};
use crate::provider::ToolSpec;

/// A tool as a model sees it, and the rules for its use. [`super::catalog::TOOLS`] lists all of them.
pub struct ToolDefinition {
    pub name: &'static str,
    /// Alternative names for calls.
    pub aliases: &'static [&'static str],
    /// Short text for the model.
    pub description: &'static str,
    /// Returns the parameters, as the `properties` of a JSON schema.
    pub properties: fn() -> Value,
    /// Names of the parameters that must be given.
    pub required: &'static [&'static str],
    pub group: ToolGroup,
    /// The roles that have one of flock's own tools. `None` for a built-in tool, which an agent program brings itself.
    pub roles: Option<Roles>,
    /// `true` if it changes the workspace, a vault or the state of others, or runs something. Such a tool is denied to
    /// a readonly agent.
    pub changes: bool,
    /// `true` if calls may run in parallel with others of the same turn.
    pub parallel: bool,
    /// The input to which the owner's limits on commands and paths apply.
    pub limited: Option<LimitedInput>,
}

/// The subject of a tool. Patterns and the prompt group tools by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolGroup {
    Commands,
    Files,
    Pictures,
    Sessions,
    Channels,
    Vaults,
    Team,
}

impl ToolDefinition {
    /// Common part of the definitions of built-in tools.
    pub const BUILT_IN: Self = Self { group: ToolGroup::Files, roles: None, ..Self::TEAM };

    /// Common part of the definitions of flock's own tools.
    pub(crate) const TEAM: Self = Self {
        name: "",
        aliases: &[],
        description: "",
        properties: || json!({}),
        required: &[],
        group: ToolGroup::Team,
        roles: Some(Roles::All),
        changes: false,
        parallel: false,
        limited: None,
    };

    /// Returns the description for a model.
    #[must_use]
    pub fn spec(&self) -> ToolSpec {
        // Unknown arguments are not forbidden: a tool ignores them, which costs less than another attempt.
        let (properties, required) = ((self.properties)(), self.required);
        ToolSpec {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            parameters: json!({"type": "object", "properties": properties, "required": required}).into(),
        }
    }
}

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
    /// The effect of a call, for programs that decide by it when to ask a person. flock itself decides by the other fields.
    pub effect: Effect,
    /// `true` if a call can reach beyond flock and its sandboxes: another platform, the host, the network.
    pub reaches_out: bool,
    /// `true` if calls may run in parallel with others of the same turn.
    pub parallel: bool,
    /// The input to which the owner's limits on commands and paths apply.
    pub limited: Option<LimitedInput>,
}

/// The effect of a call of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changes nothing.
    Reads,
    /// It adds something each time.
    Adds,
    /// It brings about a state and takes nothing away. A second call changes nothing more.
    Sets,
    /// It brings about a state in place of another one. A second call changes nothing more.
    Replaces,
    /// It may change or remove anything, each time.
    Changes,
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
        effect: Effect::Changes,
        reaches_out: false,
        parallel: false,
        limited: None,
    };

    /// Returns the name for people, for example `Channel post`.
    #[must_use]
    pub fn title(&self) -> String {
        let words = self.name.strip_prefix("flock_").unwrap_or(self.name).replace('_', " ");
        let mut letters = words.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }

    /// Returns the description for a model.
    #[must_use]
    pub fn spec(&self) -> ToolSpec {
        // Unknown arguments are not forbidden: a tool ignores them, which costs less than another attempt.
        let mut parameters = json!({"type": "object", "properties": (self.properties)()});
        // An empty list means the same as none, and would be sent with each turn.
        if !self.required.is_empty() {
            parameters["required"] = json!(self.required);
        }
        ToolSpec {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            parameters: parameters.into(),
        }
    }
}

//! The tools as MCP describes them, with annotations: what a program may tell a person about a call before it is made.
//! They are hints. What an agent may do is decided by the policy alone.

use serde_json::{Value, json};

use crate::provider::ToolSpec;
use crate::tool::ToolDefinition;
use crate::tool::catalog;
use crate::tool::definition::Effect;

/// Returns the description of a tool for a program.
pub(super) fn described(tool: &ToolSpec) -> Value {
    let definition = catalog::find(&tool.name);
    let title = definition.map_or_else(|| tool.name.clone(), ToolDefinition::title);
    let mut annotations = definition.map_or_else(foreign, annotations);
    annotations["title"] = json!(title);
    json!({
        "name": tool.name,
        "title": title,
        "description": tool.description,
        "inputSchema": input_schema(tool),
        "annotations": annotations,
    })
}

/// Returns the schema of the arguments, with the `$schema` of its author. Models are not sent that.
fn input_schema(tool: &ToolSpec) -> Value {
    let mut schema = (*tool.parameters).clone();
    if let (Value::Object(entries), Some(dialect)) = (&mut schema, tool.parameters.dialect()) {
        entries.insert("$schema".to_owned(), json!(dialect));
    }
    schema
}

fn annotations(tool: &ToolDefinition) -> Value {
    json!({
        "readOnlyHint": tool.effect == Effect::Reads,
        "destructiveHint": matches!(tool.effect, Effect::Replaces | Effect::Changes),
        "idempotentHint": !matches!(tool.effect, Effect::Adds | Effect::Changes),
        "openWorldHint": tool.reaches_out,
    })
}

/// Returns the annotations of a tool of an MCP server. flock does not vouch for what the server says about it.
fn foreign() -> Value {
    json!({"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Parameters;
    use crate::tool::policy;
    use crate::tool::team::SYSADMIN_REQUEST;

    fn hint(tool: &Value, name: &str) -> bool {
        tool["annotations"][name].as_bool().unwrap_or_else(|| panic!("{name} of {tool}"))
    }

    #[test]
    fn every_tool_has_annotations_that_agree_with_the_policy() {
        for definition in catalog::TOOLS {
            let (name, tool) = (definition.name, described(&definition.spec()));
            let [reads, destroys, repeats] =
                ["readOnlyHint", "destructiveHint", "idempotentHint"].map(|name| hint(&tool, name));
            let title = tool["title"].as_str().unwrap();
            assert!(title.starts_with(char::is_uppercase) && !title.contains('_'), "{title}");
            assert_eq!(tool["annotations"]["title"], title);
            // A readonly agent has no tool that changes something, and only what reads runs in parallel.
            assert!(!(definition.changes && reads), "{name} changes something");
            assert!(!reads || !destroys && repeats, "{name} only reads");
            assert!(
                reads || !definition.parallel || name == SYSADMIN_REQUEST.name,
                "{name} runs in parallel"
            );
            if policy::is_flocks_own(name) {
                assert!(!reads || definition.parallel, "{name} only reads and could run in parallel");
            }
        }
        let described: Vec<(Value, &str)> =
            ["flock_channel_read", "flock_channel_post", "flock_workspace_write"]
                .map(|name| (described(&catalog::find(name).unwrap().spec()), name))
                .into();
        let hints = |at: usize| {
            ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]
                .map(|name| hint(&described[at].0, name))
        };
        assert_eq!(described[0].0["title"], "Channel read");
        assert_eq!(hints(0), [true, false, true, false]);
        assert_eq!(hints(1), [false, false, false, true]);
        assert_eq!(hints(2), [false, true, false, false]);
    }

    #[test]
    fn what_a_server_says_about_its_tool_is_not_repeated() {
        let spec = ToolSpec {
            name: "mcp_notes_wipe".to_owned(),
            description: "reads".to_owned(),
            parameters: json!({"type": "object"}).into(),
        };
        let tool = described(&spec);
        let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
        assert_eq!(hints.map(|name| hint(&tool, name)), [false, true, false, true]);
        assert_eq!(tool["title"], "mcp_notes_wipe");
    }

    #[test]
    fn a_program_is_told_the_dialect_of_a_schema_and_a_model_is_not() {
        let dialect = "https://json-schema.org/draft/2020-12/schema";
        let schema = json!({"type": "object", "$defs": {"a": {}}, "additionalProperties": false});
        let spec = ToolSpec {
            name: "mcp_notes_read".to_owned(),
            description: "reads".to_owned(),
            parameters: Parameters::of_dialect(schema.clone(), Some(dialect.to_owned())),
        };
        let mut told = described(&spec)["inputSchema"].clone();
        assert_eq!(told["$schema"], dialect);
        told.as_object_mut().unwrap().shift_remove("$schema");
        assert_eq!(told, schema);
        assert_eq!(serde_json::to_value(&spec).unwrap()["parameters"], schema);
    }
}

//! What Codex knows of models. The list it carries says of the newer ones that MCP tools are found by searching: they
//! would not see flock's. Of a model that is not in the list it would know neither the size nor how to patch files.

use serde_json::{Value, json};

use crate::runtime::cli::program::Turn;
use crate::runtime::cli::reading::text;

/// After whose entry that of an unknown model is made: the first of these that is there, else the last of all.
const LIKE: [&str; 2] = ["gpt-5.5", "gpt-5.6-luna"];

/// Takes the list that it prints, with every tool shown to every model.
pub(super) fn taken(printed: &str) -> Option<String> {
    let mut list: Value = serde_json::from_str(printed.trim()).ok()?;
    let models = list.get_mut("models")?.as_array_mut()?;
    models.retain(|model| model.is_object() && text(model, "/slug").is_some());
    for model in models.iter_mut() {
        model["supports_search_tool"] = json!(false);
        // Sub-agents, which some models have whatever else is said of them.
        model["multi_agent_version"] = Value::Null;
    }
    (!models.is_empty()).then(|| json!({ "models": models }).to_string())
}

/// The entry of the turn's model, or all where the program chooses one itself, without what it is not to have: which
/// shell and which patches there are is said of each model.
pub(super) fn of(list: &str, turn: &Turn<'_>) -> Option<Vec<Value>> {
    let mut models = chosen(list, turn)?;
    for model in &mut models {
        if turn.withheld.commands {
            model["shell_type"] = json!("disabled");
        }
        if turn.withheld.patching {
            model["apply_patch_tool_type"] = Value::Null;
        }
    }
    Some(models)
}

fn chosen(list: &str, turn: &Turn<'_>) -> Option<Vec<Value>> {
    let mut list: Value = serde_json::from_str(list).ok()?;
    let mut models = match list.get_mut("models").map(Value::take) {
        Some(Value::Array(models)) => models,
        _ => return None,
    };
    if turn.model.is_empty() {
        return Some(models);
    }
    let at = |slug: &str| models.iter().position(|model| text(model, "/slug") == Some(slug));
    if let Some(known) = at(turn.model) {
        return Some(vec![models.swap_remove(known)]);
    }
    let like = LIKE.into_iter().find_map(at).or(models.len().checked_sub(1))?;
    let mut model = models.swap_remove(like);
    for (name, value) in [
        ("slug", json!(turn.model)),
        ("display_name", json!(turn.model)),
        ("description", json!("")),
        ("service_tiers", json!([])),
        ("additional_speed_tiers", json!([])),
        ("upgrade", Value::Null),
        ("availability_nux", Value::Null),
    ] {
        model.as_object_mut()?.insert(name.to_owned(), value);
    }
    // Not known with the program's own login.
    if turn.context_window > 0 {
        model["context_window"] = json!(turn.context_window);
        model["max_context_window"] = json!(turn.context_window);
    }
    Some(vec![model])
}

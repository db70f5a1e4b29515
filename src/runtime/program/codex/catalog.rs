//! Adapts Codex's list of models. The built-in list says that newer models find MCP tools by a search, so they would
//! not see flock's. For a model outside the list, Codex would know neither its size nor how it patches files.

use serde_json::{Value, json};

use crate::runtime::program::extract::text;
use crate::runtime::program::interface::TurnSpec;

/// Entries after which the entry of an unknown model is made. The first one that exists is used, otherwise the last of
/// the list.
const TEMPLATE_MODELS: [&str; 2] = ["gpt-5.5", "gpt-5.6-luna"];

/// Parses the list that Codex prints, and changes it so that every tool is shown to every model.
pub(super) fn taken(printed: &str) -> Option<String> {
    let mut list: Value = serde_json::from_str(printed.trim()).ok()?;
    let models = list.get_mut("models")?.as_array_mut()?;
    models.retain(|model| model.is_object() && text(model, "/slug").is_some());
    for model in models.iter_mut() {
        model["supports_search_tool"] = json!(false);
        // This turns off sub-agents, which some models have regardless of other settings.
        model["multi_agent_version"] = Value::Null;
    }
    (!models.is_empty()).then(|| json!({ "models": models }).to_string())
}

/// Returns the entry of the turn's model, or all entries if the program chooses the model. Withheld tools are removed:
/// the entry of a model says which shell and which patch tool it has.
pub(super) fn of(list: &str, turn: &TurnSpec<'_>) -> Option<Vec<Value>> {
    let mut models = select_models(list, turn)?;
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

fn select_models(list: &str, turn: &TurnSpec<'_>) -> Option<Vec<Value>> {
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
    let like = TEMPLATE_MODELS.into_iter().find_map(at).or(models.len().checked_sub(1))?;
    let mut model = models.swap_remove(like);
    // These fields would describe the other model to people.
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
    // The size is not known if the program uses its own login.
    if turn.context_window > 0 {
        model["context_window"] = json!(turn.context_window);
        model["max_context_window"] = json!(turn.context_window);
    }
    Some(vec![model])
}

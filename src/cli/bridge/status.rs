//! `flock bridge status`: how the bridges are.

use serde_json::{Value, json};

use super::list::{fetch, state_style, text};
use crate::cli::{Context, Exit, Failure};
use crate::clock;
use crate::error::Kind;
use crate::ui::{StyledLine, TextStyle};

pub(super) fn run(name: Option<&str>, context: &Context) -> Result<Exit, Failure> {
    let mut bridges = fetch(context)?;
    if let Some(name) = name {
        bridges.retain(|bridge| text(&bridge["name"]).eq_ignore_ascii_case(name));
        if bridges.is_empty() {
            let text = format!("there is no bridge {:?}", crate::clean::summary(name, 40));
            return Err(Failure::new(Kind::Failed, text).hint("flock bridge list"));
        }
    }
    if context.printer.is_json() {
        context.printer.json(&json!({"bridges": bridges}));
        return Ok(Exit::Done);
    }
    if bridges.is_empty() {
        context.printer.say("There are no bridges; see flock bridge add --help.");
    }
    bridges.iter().for_each(|bridge| print(bridge, context));
    Ok(Exit::Done)
}

fn print(bridge: &Value, context: &Context) {
    let state = text(&bridge["state"]);
    let at = |key: &str| bridge[key].as_i64().map(clock::local);
    let since = at("connectedSince").map(|at| format!(" since {at}")).unwrap_or_default();
    let line = StyledLine::new().accent(text(&bridge["name"])).plain(" ").with(state_style(state), state);
    context.printer.line(line.plain(since));
    let links = bridge["links"].as_array().map(Vec::as_slice).unwrap_or_default();
    let waiting: u64 = links.iter().filter_map(|link| link["queue"]["entries"].as_u64()).sum();
    let oldest = links.iter().filter_map(|link| link["queue"]["oldestAt"].as_i64()).min();
    let waiting = match oldest {
        Some(oldest) => format!("{waiting}, the oldest since {}", clock::local(oldest)),
        None => waiting.to_string(),
    };
    let platform = match bridge["api"].as_str() {
        Some(api) => format!("{} ({api})", text(&bridge["platform"])),
        None => text(&bridge["platform"]).to_owned(),
    };
    let facts = [
        ("platform", Some(platform)),
        ("account", bridge["account"].as_str().map(str::to_owned)),
        ("links", Some(links.len().to_string())),
        ("waiting to be sent", Some(waiting)),
        ("last message in", Some(at("lastReceived").unwrap_or_else(|| "none since the start".to_owned()))),
        ("last message out", Some(at("lastSent").unwrap_or_else(|| "none since the start".to_owned()))),
        ("takes no messages until", at("limitedUntil")),
        ("last error", bridge["lastError"].as_str().map(str::to_owned)),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            context.printer.line(StyledLine::new().with(TextStyle::Dim, format!("  {name}: ")).plain(value));
        }
    }
}

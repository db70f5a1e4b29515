//! `flock bridge list`: the bridges, their state and their links.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::reconnect::{Reconnector, Repeat};
use crate::cli::{Context, Exit, Failure};
use crate::clock;
use crate::supervise::gateway_client::Call;
use crate::ui::{Table, TextStyle};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Asks for the bridges with their state and their links.
pub(super) fn fetch(context: &Context) -> Result<Vec<Value>, Failure> {
    let home = context.writable_home()?;
    let call = Call::get("/api/bridges");
    let mut found =
        context.block_on(Reconnector::new(&home, context).send(call, Repeat::Safe, TIMEOUT))?.answer;
    Ok(found["bridges"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

pub(super) fn run(context: &Context) -> Result<Exit, Failure> {
    let bridges = fetch(context)?;
    let mut table = Table::new(&["BRIDGE", "STATE", "CHANNEL", "LINKED WITH", "WAITING", "HEARS"]);
    for bridge in &bridges {
        let links = bridge["links"].as_array().map(Vec::as_slice).unwrap_or_default();
        if links.is_empty() {
            table.styled_row(row(bridge, &Value::Null));
        }
        for link in links {
            table.styled_row(row(bridge, link));
        }
    }
    let none = "There are no bridges; see flock bridge add --help.";
    context.printer.list(&json!({"bridges": bridges}), &table, none);
    for bridge in &bridges {
        if let Some(error) = bridge["lastError"].as_str() {
            context.printer.warn(&format!("{}: {error}", text(&bridge["name"])));
        }
    }
    Ok(Exit::Done)
}

fn row(bridge: &Value, link: &Value) -> Vec<(TextStyle, String)> {
    let state = text(&bridge["state"]);
    let since = bridge["connectedSince"].as_i64().map(|at| format!(" since {}", clock::local(at)));
    let hears: Vec<&str> = link["hears"].as_array().into_iter().flatten().map(text).collect();
    let hears = match hears.as_slice() {
        [] if link.is_null() => String::new(),
        [] => "nobody".to_owned(),
        ["*"] => "everyone".to_owned(),
        accounts if accounts.len() > 2 => format!("{} accounts", accounts.len()),
        accounts => accounts.join(" "),
    };
    let linked = match text(&link["state"]) {
        "active" | "" => text(&link["title"]).to_owned(),
        state => format!("{} ({state})", text(&link["title"])),
    };
    let waiting = link["queue"]["entries"].as_u64().filter(|count| *count > 0);
    vec![
        (TextStyle::Accent, text(&bridge["name"]).to_owned()),
        (state_style(state), format!("{state}{}", since.unwrap_or_default())),
        (TextStyle::Plain, text(&link["channel"]).to_owned()),
        (TextStyle::Plain, linked),
        (TextStyle::Plain, waiting.map(|count| count.to_string()).unwrap_or_default()),
        (TextStyle::Plain, hears),
    ]
}

/// Returns the style in which a bridge's state is shown.
pub(super) fn state_style(state: &str) -> TextStyle {
    match state {
        "connected" => TextStyle::Good,
        "paused" => TextStyle::Dim,
        _ => TextStyle::Warn,
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

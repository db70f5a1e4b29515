//! The turns of agents' sessions as an editor shows them: each text and each call once, whichever way it became known.

use std::collections::HashMap;

use agent_client_protocol::v1::schema::{SessionUpdate, ToolCallUpdate, ToolCallUpdateFields};
use serde_json::Value;

use super::outlet::Outlet;
use super::tool_view::{CallView, status};

/// The part of a call that the editor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Shown {
    /// Its beginning.
    Begun,
    /// Its arguments, too.
    Detailed,
    /// Its result.
    Ended,
}

/// The turns that were shown.
pub(super) struct TurnView<'a> {
    outlet: &'a Outlet,
    /// The workspace of each agent.
    workspaces: HashMap<String, String>,
    /// `true` if calls are shown with the name of their agent.
    names_agents: bool,
    /// The calls, by turn and id.
    calls: HashMap<String, Shown>,
    /// The number of items that are no calls and were shown, by turn.
    texts: HashMap<String, usize>,
}

/// The part of a turn's listing that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything that was said and done.
    All,
    /// Only calls: the texts come another way.
    Calls,
    /// Everything, with what was said to the agent as the person's words.
    Replay,
}

impl<'a> TurnView<'a> {
    /// Creates a view on which nothing was shown.
    pub(super) fn new(outlet: &'a Outlet, workspaces: HashMap<String, String>, names_agents: bool) -> Self {
        Self { outlet, workspaces, names_agents, calls: HashMap::new(), texts: HashMap::new() }
    }

    /// Shows the beginning of a call. `preview` is the beginning of its arguments as JSON.
    pub(super) async fn begin(&mut self, agent: &str, turn: &str, (call, tool): (&str, &str), preview: &str) {
        let id = format!("{turn}/{call}");
        if self.calls.contains_key(&id) {
            return;
        }
        // A preview that was cut is no JSON.
        let arguments: Value = serde_json::from_str(preview).unwrap_or_default();
        let shown = if arguments.is_null() { Shown::Begun } else { Shown::Detailed };
        let begun = self.view((&id, agent), tool, &arguments, &Value::Null).begun();
        self.calls.insert(id, shown);
        self.outlet.update(SessionUpdate::ToolCall(begun)).await;
    }

    /// Shows that a call has ended. Its result follows with the listing of its turn.
    pub(super) async fn end(&self, turn: &str, call: &str, is_error: bool) {
        let id = format!("{turn}/{call}");
        if self.calls.get(&id).is_some_and(|shown| *shown != Shown::Ended) {
            let fields = ToolCallUpdateFields::new().status(status(is_error));
            self.outlet.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))).await;
        }
    }

    /// Shows what is new in a turn.
    pub(super) async fn list(&mut self, agent: &str, turn: &Value, part: Part) {
        let id = turn["turn"].as_str().unwrap_or_default();
        let shown = self.texts.get(id).copied().unwrap_or_default();
        let mut texts = 0;
        for item in turn["items"].as_array().into_iter().flatten() {
            if item["kind"] == "call" {
                self.list_call(agent, id, item).await;
                continue;
            }
            texts += 1;
            if part != Part::Calls && texts > shown {
                self.list_text(item, part).await;
            }
        }
        if part != Part::Calls {
            self.texts.insert(id.to_owned(), texts.max(shown));
        }
    }

    async fn list_call(&mut self, agent: &str, turn: &str, item: &Value) {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let id = format!("{turn}/{}", text("call"));
        let known = self.calls.get(&id).copied();
        let has_ended = item["result"].is_object();
        let now = if has_ended { Shown::Ended } else { Shown::Detailed };
        if known.is_some_and(|known| known >= now) {
            return;
        }
        let result = if has_ended { &item["result"] } else { &Value::Null };
        let view = self.view((&id, agent), text("tool"), &item["arguments"], result);
        let mut updates = Vec::new();
        match known {
            None => updates.push(SessionUpdate::ToolCall(view.begun())),
            Some(Shown::Begun) => updates.push(SessionUpdate::ToolCallUpdate(view.detailed())),
            Some(_) => {}
        }
        if has_ended {
            updates.push(SessionUpdate::ToolCallUpdate(view.ended()));
        }
        self.calls.insert(id, now);
        for update in updates {
            self.outlet.update(update).await;
        }
    }

    async fn list_text(&self, item: &Value, part: Part) {
        let text = item["text"].as_str().unwrap_or_default();
        match (item["kind"].as_str(), item["role"].as_str()) {
            (Some("message"), Some("assistant")) => self.outlet.say(format!("{text}\n\n")).await,
            (Some("message"), _) if part == Part::Replay => {
                self.outlet.repeat(text).await;
            }
            (Some("picture"), Some("user")) if part == Part::Replay => {
                let text = format!("[a picture, {}]", item["mediaType"].as_str().unwrap_or_default());
                self.outlet.repeat(text).await;
            }
            // What flock tells the agent in a turn that the editor did not begin, such as the result of a request.
            (Some("message"), _) => self.outlet.think(format!("{text}\n\n")).await,
            (Some("thinking"), _) => self.outlet.think(format!("{text}\n\n")).await,
            _ => {}
        }
    }

    fn view<'v>(
        &'v self,
        (id, agent): (&'v str, &'v str),
        tool: &'v str,
        arguments: &'v Value,
        result: &'v Value,
    ) -> CallView<'v> {
        let workspace = self.workspaces.get(agent).map(String::as_str).unwrap_or_default();
        CallView { id, agent: self.names_agents.then_some(agent), tool, arguments, result, workspace }
    }
}

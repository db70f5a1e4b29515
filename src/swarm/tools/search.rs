//! The tool `flock_memory_search`.

use std::sync::Arc;

use crate::agent::prompt::without_marks;
use crate::provider::Role;
use crate::swarm::search::{FoundPlace, SearchAnswer, SearchArea, SearchRequest, SearchResult};
use crate::swarm::{Swarm, notice};
use crate::tool::arguments::Arguments;
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolError, ToolResult, team};

/// Number of results by default, and the maximum.
const DEFAULT_LIMIT: u32 = 8;
const MAX_LIMIT: u32 = 30;
/// Maximum number of bytes of an answer.
const MAX_ANSWER: usize = 16 << 10;

/// Returns the tools of this module.
#[must_use]
pub(crate) fn all(swarm: &Arc<Swarm>) -> Vec<Arc<dyn Tool>> {
    vec![FunctionTool::shared(&team::MEMORY_SEARCH, swarm, |s, c, a| {
        Box::pin(async move { search(s, c, &a).await })
    })]
}

async fn search(swarm: &Arc<Swarm>, context: &CallContext, arguments: &Arguments) -> ToolResult {
    let request = SearchRequest {
        text: arguments.required("query")?,
        agent: Some(context.agent.clone()),
        turn: Some(context.turn),
        areas: areas(arguments)?,
        limit: arguments.limit(DEFAULT_LIMIT, MAX_LIMIT)? as usize,
    };
    Ok(shown(&swarm.search_memory(request).await?))
}

fn areas(arguments: &Arguments) -> Result<Vec<SearchArea>, ToolError> {
    let names: Vec<String> = arguments.optional("in")?.unwrap_or_default();
    let area = |name: &String| {
        let name = name.trim();
        // Models often use the singular.
        SearchArea::ALL
            .into_iter()
            .find(|area| area.as_str() == name || area.as_str().strip_suffix('s') == Some(name))
            .ok_or_else(|| {
                let all = SearchArea::ALL.map(SearchArea::as_str).join(", ");
                ToolError::model(format!("`in` is a list of: {all}"))
            })
    };
    names.iter().map(area).collect()
}

/// Renders the results, each with its place and a quoted part of its text.
fn shown(answer: &SearchAnswer) -> String {
    let mut text = String::new();
    for (number, found) in (1..).zip(&answer.results) {
        let item = item(number, found);
        if text.len() + item.len() > MAX_ANSWER {
            text.push_str("more was found than fits here: use more words, `in`, or a smaller limit\n");
            break;
        }
        text.push_str(&item);
    }
    if answer.results.is_empty() {
        text.push_str("nothing found: try other or fewer words\n");
    }
    if !answer.closed.is_empty() {
        let closed: Vec<&str> = answer.closed.iter().map(|area| area.as_str()).collect();
        text.push_str("not searched, because you have no tool to read them: ");
        text.push_str(&closed.join(", "));
        text.push('\n');
    }
    if !answer.is_complete {
        text.push_str(
            "the newest texts are still being indexed: search again in a moment if something is missing\n",
        );
    }
    text.truncate(text.trim_end().len());
    text
}

fn item(number: usize, found: &SearchResult) -> String {
    // Marks that flock itself uses in prompts are removed from what others wrote.
    let quoted = notice::quoted(&without_marks(&found.snippet));
    let place = match &found.place {
        FoundPlace::File { path, line, .. } => format!("{} line {line}", one_line(path)),
        FoundPlace::Review { project, submission, finding, reviewer, created_at, .. } => {
            let at = crate::clock::utc(*created_at);
            format!("project {project}: finding {finding} about submission {submission}, by {reviewer}, {at}")
        }
        FoundPlace::Vault { vault, path, line } => format!("vault {vault}: {} line {line}", one_line(path)),
        FoundPlace::Message { session, role, at, .. } => {
            let who = match role {
                Role::User => "to you",
                Role::Assistant => "by you",
                Role::Tool => "result of a tool",
            };
            format!("session {session}, {who}, {}", crate::clock::utc(*at))
        }
        FoundPlace::Post { channel, seq, author, created_at } => {
            format!("#{channel} seq {seq}, {author}, {}", crate::clock::utc(*created_at))
        }
    };
    format!("{number}. {place}\n{quoted}\n")
}

/// Returns the path of a file as it can be asked for, unless it holds characters that can't be seen.
fn one_line(path: &str) -> String {
    crate::swarm::vault::shown(std::path::Path::new(path))
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;

//! The text of the messages that show a request.

use crate::bridge::platform::Limits;
use crate::clock;
use crate::store::{RequestRow, RequestState};
use crate::swarm::triage::view;

/// Returns the whole request with the words how to decide it. `None` if a platform could show it other than the command
/// line does.
pub(super) fn whole(row: &RequestRow, code: &str, limits: &Limits) -> Option<String> {
    let button = if limits.has_buttons { "a button, " } else { "" };
    let reaction = if limits.hears_reactions { "a reaction (👍 or 👎), " } else { "" };
    Some(format!(
        "**{id} of {agent} waits for a person.** This is everything that `flock approvals show {id}` shows:\n\n{block}\n\n\
         Approvers decide with {button}{reaction}or by writing `approve {code}` or `deny {code} REASON`.",
        id = row.id,
        agent = row.agent,
        block = block(row)?,
    ))
}

/// Returns the text about a request that can't be shown whole.
pub(super) fn too_long(row: &RequestRow) -> String {
    format!(
        "**{id} of {agent} waits for a person.** It can't be shown whole here, so it can't be decided here: `flock approvals \
         show {id}`",
        id = row.id,
        agent = row.agent,
    )
}

/// Returns the text that says how a request ended.
pub(super) fn outcome(id: &str, row: Option<&RequestRow>) -> String {
    let Some(row) = row else { return format!("**{id} does not exist any more.**") };
    let by = row.decided_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
    match row.state {
        RequestState::Triage | RequestState::Waiting => format!("**{id} can't be decided here any more.**"),
        RequestState::Denied => format!("**{id} was denied{by}.**"),
        RequestState::Expired => format!("**{id} expired.**"),
        RequestState::Approved | RequestState::Running | RequestState::Done | RequestState::Failed => {
            format!("**{id} was approved{by}.**")
        }
    }
}

/// Returns the text that says how a request ended, with the request.
pub(super) fn whole_outcome(id: &str, row: &RequestRow) -> Option<String> {
    Some(format!("{}\n\n{}", outcome(id, Some(row)), block(row)?))
}

/// Returns all fields of a request as a block of code, as the command line shows them.
fn block(row: &RequestRow) -> Option<String> {
    let until = if row.state.is_open() { clock::utc(row.expires_at) } else { String::new() };
    let lines: Vec<String> = view::fields(row, &until)
        .into_iter()
        .map(|(name, text)| format!("{name:<10}{text}").trim_end().to_owned())
        .collect();
    let lines = lines.join("\n");
    // Some platforms end the block at the first three marks, whatever it began with. The rest would be shown as markup,
    // which can hide text.
    (!lines.contains("```")).then(|| format!("```text\n{lines}\n```"))
}

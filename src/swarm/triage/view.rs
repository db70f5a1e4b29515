//! The presentation of a request for programs and people.

use serde_json::{Value, json};

use super::request::{FiledRequest, Request, shown};
use crate::clean::{self, spelled};
use crate::store::{RequestRow, Scope};
use crate::tool::safe_text;

/// Returns a request as JSON for programs. `body` is byte for byte the text over which the digest is computed.
#[must_use]
pub(crate) fn json(row: &RequestRow) -> Value {
    // `summary` and `shown` are escaped for display. Programs that compute the digest need `body`.
    json!({
        "id": row.id,
        "kind": row.kind,
        "agent": row.agent,
        "session": row.session,
        "channel": row.channel,
        "summary": summary(row),
        "shown": lines(row),
        "body": row.body,
        "sha256": row.sha256,
        "reason": row.reason,
        "floor": row.floor.as_str(),
        "level": row.level.as_str(),
        "why": row.why,
        "state": row.state.as_str(),
        "scope": row.scope.as_str(),
        "createdAt": row.created_at,
        "expiresAt": row.expires_at,
        "decidedBy": row.decided_by,
        "decidedAt": row.decided_at,
        "usedAt": row.used_at,
        "endedAt": row.ended_at,
        "revokedAt": row.revoked_at,
        "revokedBy": row.revoked_by,
        "question": super::question::json(row),
        "asksSysadmin": row.asks_sysadmin,
        "result": row.result,
    })
}

/// Maximum length in bytes of a request that a list shows.
const MAX_BRIEF: usize = 300;

/// Describes exactly what would be done, on one line of printable ASCII. For a body that can't be parsed, returns the
/// body.
#[must_use]
pub(crate) fn summary(row: &RequestRow) -> String {
    FiledRequest::read(&row.body).map_or_else(|| spelled(&row.body), |asked| asked.request.describe())
}

/// Returns everything that a person decides about, one item per line, in printable ASCII and complete.
#[must_use]
pub(crate) fn lines(row: &RequestRow) -> Vec<String> {
    FiledRequest::read(&row.body).map_or_else(|| vec![spelled(&row.body)], |asked| asked.request.lines())
}

/// Describes a request for a list. One that is too long is not cut, because its end matters as much as its beginning.
/// Instead, its size and the command that shows it are given.
#[must_use]
pub(crate) fn brief(request: &Request, id: &str) -> String {
    let text = request.describe();
    // The full text is in `show`, which a person has to read before approving.
    if text.len() <= MAX_BRIEF {
        return text;
    }
    format!("a request of kind {}, {} bytes long: flock approvals show {id}", request.kind(), text.len())
}

/// Does the same as [`brief`] for a row.
#[must_use]
pub(crate) fn brief_row(row: &RequestRow) -> String {
    match FiledRequest::read(&row.body) {
        Some(asked) => brief(&asked.request, &row.id),
        None => format!("a request that can't be read: flock approvals show {}", row.id),
    }
}

/// Returns everything that a person is shown before a decision, as names and lines in their order. The further lines of a
/// field have an empty name. `until` describes the time at which the request expires.
#[must_use]
pub(crate) fn fields(row: &RequestRow, until: &str) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    let mut all = |name: &'static str, lines: Vec<String>| {
        let named = lines.into_iter().enumerate();
        fields.extend(named.map(|(at, line)| (if at == 0 { name } else { "" }, line)));
    };
    all("request", vec![row.id.clone()]);
    all("what", lines(row));
    all("agent", vec![row.agent.to_string()]);
    all("channel", row.channel.iter().map(ToString::to_string).collect());
    all("reason", vec![words(&row.reason)]);
    all("level", vec![row.level.as_str().to_owned()]);
    all("because", row.why.iter().map(|why| words(why)).collect());
    all("state", vec![row.state.as_str().to_owned()]);
    all("until", vec![until.to_owned()]);
    let scope = if row.scope == Scope::Once { "once" } else { "as long as the agent exists" };
    all("scope", vec![scope.to_owned()]);
    all("by", row.decided_by.iter().cloned().collect());
    all("body", vec![spelled(&row.body)]);
    all("sha256", vec![row.sha256.clone()]);
    fields
}

/// Returns the lines about what the agent was granted before, for people.
#[must_use]
pub(crate) fn granted_lines(granted: &[String]) -> Vec<String> {
    if granted.is_empty() {
        return vec!["granted so far: nothing of this kind, so all of it is new".to_owned()];
    }
    granted.iter().map(|line| format!("granted so far: {line}")).collect()
}

/// Shows a text of an agent or a person on one line, with invisible characters escaped.
#[must_use]
pub(crate) fn words(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        // A reason keeps its letters, because nobody approves it. Only invisible characters and line breaks are
        // escaped.
        if c != ' ' && (clean::is_ignorable(c) || c.is_whitespace()) {
            clean::push_escape(&mut line, c);
        } else {
            line.push(c);
        }
    }
    line
}

/// Returns `true` if the request is for a command but does not say how it runs, because an older version of flock
/// stored it.
#[must_use]
pub(crate) fn is_outdated(row: &RequestRow) -> bool {
    // A body that can't be parsed is not outdated but invalid, and is handled as such when it begins.
    let command = |asked: FiledRequest| matches!(asked.request, Request::Command { execution: None, .. });
    row.kind == "command" && FiledRequest::read(&row.body).is_some_and(command)
}

/// Returns an id as it was typed, escaped and short enough for a message.
#[must_use]
pub(crate) fn id(text: &str) -> String {
    shown(safe_text::start(text, 40))
}

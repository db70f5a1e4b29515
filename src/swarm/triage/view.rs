//! A request as programs and people see it.

use serde_json::{Value, json};

use super::request::{Asked, Request, shown};
use crate::clean::{self, spelled};
use crate::store::RequestRow;
use crate::tool::bounded;

/// For programs. `body` is what the digest is of, byte for byte.
#[must_use]
pub fn json(row: &RequestRow) -> Value {
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
        "asksSysadmin": row.asks_sysadmin,
        "result": row.result,
    })
}

/// The longest request that is shown in a list, in bytes.
const BRIEF: usize = 300;

/// What exactly would be done, on one line, in printable ASCII. Of a body that can't be read, the body.
#[must_use]
pub fn summary(row: &RequestRow) -> String {
    Asked::read(&row.body).map_or_else(|| spelled(&row.body), |asked| asked.request.describe())
}

/// All that a person decides about, a line each, in printable ASCII and whole.
#[must_use]
pub fn lines(row: &RequestRow) -> Vec<String> {
    Asked::read(&row.body).map_or_else(|| vec![spelled(&row.body)], |asked| asked.request.lines())
}

/// What would be done, for a list. What is too long for one is not cut, because the end decides as much as the
/// beginning: its size is said, and where to read it.
#[must_use]
pub fn brief(request: &Request, id: &str) -> String {
    let text = request.describe();
    if text.len() <= BRIEF {
        return text;
    }
    format!("a request of kind {}, {} bytes long: flock approvals show {id}", request.kind(), text.len())
}

/// As [`brief`], for a row.
#[must_use]
pub fn brief_row(row: &RequestRow) -> String {
    match Asked::read(&row.body) {
        Some(asked) => brief(&asked.request, &row.id),
        None => format!("a request that can't be read: flock approvals show {}", row.id),
    }
}

/// Words of an agent or a person on one line; what could not be seen in them is spelled out.
#[must_use]
pub fn words(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c != ' ' && (clean::is_ignorable(c) || c.is_whitespace()) {
            clean::spell(&mut line, c);
        } else {
            line.push(c);
        }
    }
    line
}

/// Whether it is for a command and does not say how that runs: an older flock kept it.
#[must_use]
pub fn is_outdated(row: &RequestRow) -> bool {
    let command = |asked: Asked| matches!(asked.request, Request::Command { execution: None, .. });
    row.kind == "command" && Asked::read(&row.body).is_some_and(command)
}

/// An id as it was typed, short enough to be said back.
#[must_use]
pub fn id(text: &str) -> String {
    shown(bounded::start(text, 40))
}

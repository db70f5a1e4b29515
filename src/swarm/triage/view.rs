//! A request as programs and people see it.

use serde_json::{Value, json};

use super::request::{Asked, shown};
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
        "result": row.result,
    })
}

/// What exactly would be done, on one line. Of a body that can't be read, the body.
#[must_use]
pub fn summary(row: &RequestRow) -> String {
    Asked::read(&row.body).map_or_else(|| shown(&row.body), |asked| asked.request.describe())
}

/// An id as it was typed, short enough to be said back.
#[must_use]
pub fn id(text: &str) -> String {
    shown(bounded::start(text, 40))
}

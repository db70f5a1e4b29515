//! The form in which a hook and its deliveries are shown. No form has the secret.

use serde_json::{Value, json};

use super::receive::Refusals;
use crate::id::HookName;
use crate::store::{Hook, HookDelivery};

/// Returns the path at which a hook takes deliveries.
#[must_use]
pub(crate) fn path(name: &HookName) -> String {
    format!("/hooks/{name}")
}

/// Returns a hook.
#[must_use]
pub(super) fn hook(hook: &Hook, has_secret: bool, refused: Option<&Refusals>) -> Value {
    json!({
        "name": hook.name,
        "channel": hook.channel,
        "kind": hook.kind,
        "path": path(&hook.name),
        "template": (!hook.template.is_empty()).then_some(&hook.template),
        "state": hook.state,
        "why": (!hook.why.is_empty()).then_some(&hook.why),
        "hasSecret": has_secret,
        "createdBy": hook.created_by,
        "createdAt": hook.created_at,
        "refused": refused.map(|refused| json!({
            "count": refused.count, "lastAt": refused.last_at, "lastWhy": refused.last_why,
        })),
    })
}

/// Returns a delivery.
#[must_use]
pub(crate) fn delivery(delivery: &HookDelivery) -> Value {
    json!({
        "delivery": delivery.delivery,
        "event": delivery.event,
        "receivedAt": delivery.received_at,
        "outcome": delivery.outcome,
        "why": (!delivery.why.is_empty()).then_some(&delivery.why),
        "seq": delivery.seq,
    })
}

//! Ids of the Responses API: `call_…`, optionally followed by a bar and the id of the item that made the call, `fc_…`.

use std::borrow::Cow;

use super::plain_ids::digits;
use crate::agent::transcript::Entry;
use crate::agent::transcript::hygiene::applied_rules::{Rule, RuleLog};
use crate::agent::transcript::hygiene::signature;
use crate::provider::{Block, Role};

const CALL_PREFIX: &str = "call_";
const ITEM_PREFIX: &str = "fc_";

/// The most characters of either half.
const MAX_HALF_CHARS: usize = 64;

/// Number of hash digits, after a `_`, that keep two rewritten halves different.
const HASH_DIGITS: usize = 10;

/// Splits an id into its halves. An id that begins or ends with the bar is not a pair.
pub(super) fn halves(id: &str) -> (&str, Option<&str>) {
    match id.split_once('|') {
        Some((call, item)) if !call.is_empty() && !item.is_empty() => (call, Some(item)),
        _ => (id, None),
    }
}

/// Returns the id in the form that the Responses API accepts. Ids of its own making are never changed.
pub(super) fn form(id: &str) -> Cow<'_, str> {
    match halves(id) {
        (call, None) if is_valid(call, CALL_PREFIX) => Cow::Borrowed(id),
        (call, Some(item)) if is_valid(call, CALL_PREFIX) && is_valid(item, ITEM_PREFIX) => Cow::Borrowed(id),
        (_, None) => Cow::Owned(half(id, CALL_PREFIX)),
        (call, Some(item)) => {
            // Derived from the whole pair: two calls of one function may differ only in the item half.
            let call = if is_valid(call, CALL_PREFIX) { call.to_owned() } else { half(id, CALL_PREFIX) };
            let item = if is_valid(item, ITEM_PREFIX) { item.to_owned() } else { half(item, ITEM_PREFIX) };
            Cow::Owned(format!("{call}|{item}"))
        }
    }
}

/// Returns another id for a call whose own one is taken.
pub(super) fn other(seed: &str, round: u64) -> String {
    half(&format!("{seed}#{round}"), CALL_PREFIX)
}

fn is_valid(half: &str, prefix: &str) -> bool {
    half.len() <= MAX_HALF_CHARS
        && half.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_plain))
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns a valid half for any text: the characters that can be kept, and hash digits of the whole text.
fn half(source: &str, prefix: &str) -> String {
    let source = source.trim();
    let rest = source.strip_prefix(prefix).unwrap_or(source);
    let kept: String =
        rest.chars().map(|c| if u8::try_from(c).is_ok_and(is_plain) { c } else { '_' }).collect();
    // The blanks and special characters became underscores, which are of no use at the ends.
    let kept = kept.trim_matches('_');
    let kept = &kept[..kept.len().min(MAX_HALF_CHARS - prefix.len() - HASH_DIGITS - 1)];
    let kept = if kept.is_empty() { "id" } else { kept };
    format!("{prefix}{kept}_{}", digits(source, HASH_DIGITS))
}

/// Removes the item half if the item's reasoning does not come before the call in the same answer: the Responses API
/// rejects one without the other.
pub(in super::super) fn remove_orphan_items(entries: &mut [Entry], notes: &mut RuleLog) {
    for answer in 0..entries.len() {
        let entry = &entries[answer];
        if entry.role() != Role::Assistant {
            continue;
        }
        let reasoning = entry.message.content.iter().position(signature::is_reasoning_item);
        let lone = entry.message.content.iter().take(reasoning.unwrap_or(usize::MAX));
        let mut lone = lone.filter(|block| matches!(block, Block::ToolCall { .. }));
        let count = lone.clone().count();
        let has_item = |block: &Block| matches!(block, Block::ToolCall { id, .. } if id.contains('|'));
        if lone.any(has_item) {
            let ids: Vec<String> = entry
                .message
                .tool_calls()
                .enumerate()
                .map(|(at, call)| if at < count { call_half(call.id) } else { call.id }.to_owned())
                .collect();
            super::set_ids(entries, answer, &ids);
            notes.add(Rule::LoneItem, &entries[answer]);
        }
    }
}

/// Returns the half that names the call. Without a pair, that is the id without the bar.
fn call_half(id: &str) -> &str {
    halves(id).0.trim_matches('|')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_ids_stay_and_others_are_derived() {
        for good in ["call_a", "call_A-1_|fc_9"] {
            assert!(matches!(form(good), Cow::Borrowed(_)), "{good}");
        }
        assert_eq!(
            form("functions.gateway:0|fc_tmp_kegospxl46"),
            "call_functions_gateway_0_fc_tmp_kegospxl46_8ea5d0ca62|fc_tmp_kegospxl46"
        );
        let (a, b) = (form("functions.gateway:0|fc_a"), form("functions.gateway:0|fc_b"));
        assert_ne!(halves(&a).0, halves(&b).0);
        let long = format!("call_{}|fc_{}", "x".repeat(100), "é".repeat(100));
        for any in ["", "|", "|fc_1", "call_|", "toolu_01", "é", " call_x y ", &long] {
            let id = form(any);
            let (call, item) = halves(&id);
            assert!(
                is_valid(call, CALL_PREFIX) && item.is_none_or(|item| is_valid(item, ITEM_PREFIX)),
                "{any:?}: {id}"
            );
            assert_eq!(form(&id), id);
        }
    }
}

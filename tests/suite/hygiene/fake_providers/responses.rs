//! The judge for OpenAI's Responses API.

use std::collections::HashSet;

use serde_json::Value;

use super::{RejectionReason, is_blank, is_plain, list, rule};
use crate::hygiene::generator;
use flock::agent::transcript::hygiene::Target;

pub(super) fn judge(target: &Target, body: &Value) -> Result<(), RejectionReason> {
    let items = list(body, "input");
    let mut items_seen = HashSet::new();
    let mut calls = HashSet::new();
    let mut answered = HashSet::new();
    // The reasoning item that still waits for the output that follows it.
    let mut waiting: Option<&str> = None;
    // Set if the current answer has its reasoning.
    let mut reasoned = false;
    for (at, item) in items.iter().enumerate() {
        let kind = item["type"].as_str().unwrap_or("message");
        if let Some(id) = item["id"].as_str() {
            rule!(is_plain(id, 64), "input[{at}].id: invalid: {id}");
            // OpenAI: Duplicate item found with id
            rule!(items_seen.insert(id), "Duplicate item found with id {id}");
        }
        let by_user = item["role"] == "user" || kind == "function_call_output";
        // #1126, #19582, #58967
        rule!(
            waiting.is_none() || !by_user,
            "Item {waiting:?} of type 'reasoning' was provided without its required following item"
        );
        match kind {
            "reasoning" => {
                // #90093
                let own = item["encrypted_content"].as_str() == Some(&generator::signature(&target.route));
                rule!(own, "input[{at}]: invalid_encrypted_content");
                waiting = Some("reasoning");
                reasoned = true;
            }
            "function_call" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                // PR #74850
                rule!(is_plain(id, 64), "input[{at}].call_id: string too long or of another form: {id:?}");
                rule!(calls.insert(id), "input[{at}]: duplicate call_id {id}");
                let lone = item["id"].as_str().is_some_and(|id| id.starts_with("fc_")) && !reasoned;
                rule!(
                    !lone,
                    "Item of type 'function_call' was provided without its required 'reasoning' item: {id}"
                );
                rule!(is_plain(item["name"].as_str().unwrap_or_default(), 64), "input[{at}].name");
                waiting = None;
            }
            "function_call_output" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                // #56021
                rule!(calls.contains(id), "No tool call found for function call output with call_id {id}");
                rule!(answered.insert(id), "input[{at}]: a second output for {id}");
                reasoned = false;
            }
            _ => {
                let blank = list(item, "content")
                    .iter()
                    .any(|part| !part["text"].is_null() && is_blank(&part["text"]));
                rule!(!blank && !list(item, "content").is_empty(), "input[{at}]: blank content");
                if item["role"] == "user" {
                    reasoned = false;
                } else {
                    waiting = None;
                }
            }
        }
    }
    rule!(waiting.is_none(), "Item of type 'reasoning' was provided without its required following item");
    let missing: Vec<_> = calls.difference(&answered).collect();
    // OpenAI: No tool output found for function call
    rule!(missing.is_empty(), "No tool output found for function call {missing:?}");
    Ok(())
}

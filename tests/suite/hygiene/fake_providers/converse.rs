//! The judge for Bedrock's Converse API.

use std::collections::HashSet;

use serde_json::Value;

use super::{RejectionReason, is_blank, is_plain, list, rule};
use crate::hygiene::generator;
use flock::agent::transcript::hygiene::Target;

pub(super) fn judge(target: &Target, body: &Value) -> Result<(), RejectionReason> {
    let turns = list(body, "messages");
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
    rule!(
        turns.first().is_some_and(|turn| turn["role"] == "user"),
        "A conversation must start with a user message"
    );
    rule!(
        turns.last().is_some_and(|turn| turn["role"] == "user"),
        "This model does not support assistant message prefill"
    );
    let mut ids = HashSet::new();
    let mut open: HashSet<&str> = HashSet::new();
    for (at, turn) in turns.iter().enumerate() {
        let alternates = at == 0 || turns[at - 1]["role"] != turn["role"];
        rule!(alternates, "A conversation must alternate between user and assistant roles");
        let content = list(turn, "content");
        rule!(!content.is_empty(), "The content field in the Message object at messages.{at} is empty");
        let mut calls = HashSet::new();
        for block in content {
            if let Some(text) = block.get("text") {
                // amplify-backend #2977
                rule!(!is_blank(text), "The text field in the ContentBlock object at messages.{at} is blank");
            }
            if let Some(call) = block.get("toolUse") {
                let id = call["toolUseId"].as_str().unwrap_or_default();
                rule!(is_plain(id, 64), "messages.{at}: toolUseId: {id:?}");
                rule!(ids.insert(id), "messages.{at}: duplicate toolUseId {id}");
                rule!(call["input"].is_object(), "messages.{at}: the toolUse input is no object");
                calls.insert(id);
            }
            if let Some(result) = block.get("toolResult") {
                let id = result["toolUseId"].as_str().unwrap_or_default();
                rule!(
                    open.remove(id),
                    "messages.{at}: the number of toolResult blocks exceeds the number of toolUse blocks of previous turn"
                );
                let blank = list(result, "content").iter().any(|part| part.get("text").is_some_and(is_blank));
                rule!(!blank && !list(result, "content").is_empty(), "messages.{at}: toolResult is blank");
            }
            let thought = &block["reasoningContent"]["reasoningText"];
            if thought.is_object() {
                let own = thought["signature"].as_str() == Some(&generator::signature(&target.route));
                rule!(own, "messages.{at}: Invalid signature in thinking block");
            }
        }
        rule!(open.is_empty(), "messages.{at}: Expected toolResult blocks for the following Ids: {open:?}");
        open = calls;
    }
    rule!(open.is_empty(), "Expected toolResult blocks for the following Ids: {open:?}");
    Ok(())
}

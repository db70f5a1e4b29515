//! Test doubles of providers that reject what the real ones reject. Each rule has the words of the real error message.
//! Its source, if known, comes before it: a page of the provider, or `#n` for an issue of OpenClaw in which users met
//! it.
//!
//! They judge the result of hygiene and the request body that flock's own encoder writes.

mod chat;
mod converse;
pub mod encoder;
mod google;
mod messages;
mod minimax;
mod responses;
mod sanitised;

use std::sync::Arc;

use serde_json::Value;

use super::generator::{self, ConversationGenerator};
use flock::agent::transcript::hygiene::policy::{HygienePolicy, PolicyRow};
use flock::agent::transcript::hygiene::{Rule, Target, apply_rules, sanitise};
use flock::agent::transcript::{Entry, EntryMetadata};
use flock::config::Api;
use flock::provider::google::signature::PLACEHOLDER_SIGNATURE;
use flock::provider::{Block, Message, Role};

/// The reason for a rejection.
type RejectionReason = String;

/// Fails with a rule's words if the condition is false.
macro_rules! rule {
    ($kept:expr, $($words:tt)*) => {
        if !$kept {
            return Err(format!($($words)*));
        }
    };
}
use rule;

/// Returns the verdict of the target's provider on a request body.
fn judge(target: &Target, messages: &[Arc<Message>], body: &Value) -> Result<(), RejectionReason> {
    let row = HygienePolicy::of(target).row;
    match target.route.api {
        Api::OpenAiCompletions => chat::judge(target, row, messages, body),
        Api::AnthropicMessages if row == PolicyRow::MiniMax => {
            minimax::judge(target, body)?;
            messages::judge(target, body)
        }
        Api::AnthropicMessages => messages::judge(target, body),
        Api::OpenAiResponses | Api::OpenAiCodexResponses => responses::judge(target, body),
        Api::GoogleGenerativeAi | Api::GoogleGeminiCli => google::judge(target, row, body),
        Api::BedrockConverseStream => converse::judge(target, body),
    }
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_none_or(|text| text.trim().is_empty())
}

/// Returns `true` for a text of only whitespace.
pub fn is_blank_block(block: &Block) -> bool {
    matches!(block, Block::Text { text, .. } if text.trim().is_empty())
}

fn is_plain(id: &str, most: usize) -> bool {
    (1..=most).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Returns `true` if a picture's Base64 begins as its media type requires and has at most `most` bytes.
fn is_picture(media_type: &str, data: &str, most: usize) -> bool {
    let starts =
        [("image/png", "iVBOR"), ("image/jpeg", "/9j/"), ("image/gif", "R0lGOD"), ("image/webp", "UklGR")];
    data.len() <= most && starts.iter().any(|(kind, start)| *kind == media_type && data.starts_with(start))
}

/// Returns the verdict that any provider would give, for targets whose API flock has no encoder for.
fn check_messages(messages: &[Arc<Message>]) -> Result<(), RejectionReason> {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        rule!(message.role == Role::Tool || open.is_empty(), "no result for {open:?}");
        rule!(!message.content.is_empty(), "a message is empty");
        for block in &message.content {
            if let Block::ToolResult { call_id, .. } = block {
                rule!(
                    open.first() == Some(&call_id.as_str()),
                    "a result for {call_id} where {open:?} are asked"
                );
                open.remove(0);
            }
        }
        open.extend(message.tool_calls().map(|call| call.id));
    }
    rule!(open.is_empty(), "no result for {open:?}");
    Ok(())
}

/// Sanitises, encodes and judges a conversation. An error names the route.
fn sanitise_and_check(
    wire: &encoder::RequestEncoder,
    entries: &[Entry],
    target: &Target,
) -> Result<bool, RejectionReason> {
    let ready = sanitise(entries, target).map_err(|error| error.to_string())?;
    let named = |refusal| format!("{:?} ({:?}): {refusal}", target.route, HygienePolicy::of(target).row);
    let (cleaned, _) = apply_rules(entries, target, &HygienePolicy::of(target));
    sanitised::judge(entries, &cleaned, target).map_err(named)?;
    check_messages(&ready.messages).map_err(named)?;
    let Some(body) = wire.body(target, ready.messages.clone()) else { return Ok(false) };
    judge(target, &ready.messages, &body).map_err(|refusal| format!("{}\n{body:#}", named(refusal)))?;
    Ok(true)
}

/// Returns `true` if flock has an encoder for the target's API.
fn has_encoder(target: &Target) -> bool {
    target.route.api != Api::GoogleGeminiCli
}

/// Each turn begins with another model than the one before. During the conversation a model sees as much as fits into
/// one context, and at the end all of it.
#[test]
fn a_thousand_turns_across_all_models_are_never_rejected() {
    let wire = encoder::RequestEncoder::new();
    let targets: Vec<Target> = generator::targets().collect();
    let mut maker = ConversationGenerator::new(4);
    let mut written = std::collections::BTreeSet::new();
    for turn in 0..1_000 {
        let target = &targets[maker.pick(targets.len())];
        maker.running(&target.route);
        let entries = maker.entries();
        let context = &entries[entries.len().saturating_sub(60)..];
        let sent = sanitise_and_check(&wire, context, target)
            .unwrap_or_else(|refusal| panic!("turn {turn}: {refusal}"));
        if sent {
            written.insert(HygienePolicy::of(target).row);
        }
        maker.go_on(&target.route);
    }
    for target in &targets {
        let sent = sanitise_and_check(&wire, maker.entries(), target)
            .unwrap_or_else(|refusal| panic!("{refusal:.4000}"));
        assert_eq!(sent, has_encoder(target), "{:?}", target.route);
    }
    let all: std::collections::BTreeSet<PolicyRow> = targets
        .iter()
        .filter(|target| has_encoder(target))
        .map(|target| HygienePolicy::of(target).row)
        .collect();
    assert_eq!(written, all, "every row was asked");
    assert_eq!(all.len(), 17, "all but those of Antigravity, which only the wire that is not spoken has");
}

/// Chat Completions have no field for a call's signature, so a router is sent none.
#[test]
fn a_placeholder_signature_goes_to_google_and_not_to_routers() {
    let wire = encoder::RequestEncoder::new();
    let about = |route| Arc::new(EntryMetadata { route, ..EntryMetadata::default() });
    let said = |role, block, route| Entry {
        message: Arc::new(Message { role, content: vec![block] }),
        about: about(route),
    };
    let elsewhere = Some(generator::route("elsewhere/model", Api::OpenAiCompletions));
    let entries = [
        said(Role::User, Block::text("a"), None),
        said(Role::Assistant, Block::call("c1", "exec", serde_json::json!({})), elsewhere),
        said(Role::Tool, generator::result("c1", "exec", "1"), None),
    ];
    for (model, api, has_one) in [
        ("google/gemini-3-pro-preview", Api::GoogleGenerativeAi, true),
        ("openrouter/google/gemini-3-pro", Api::OpenAiCompletions, false),
    ] {
        let target = Target::new(generator::route(model, api));
        let ready = sanitise(&entries, &target).unwrap();
        assert_eq!(
            ready.applied.iter().filter(|applied| applied.rule == Rule::SignatureStandIn).count(),
            1,
            "{model}"
        );
        let body = wire.body(&target, ready.messages).unwrap().to_string();
        assert_eq!(body.contains(PLACEHOLDER_SIGNATURE), has_one, "{model}: {body}");
    }
}

/// Checks that the judges are strict: each rejects many conversations in their stored form.
#[test]
fn without_hygiene_every_provider_rejects() {
    let wire = encoder::RequestEncoder::new();
    for target in generator::targets() {
        let mut refused = 0;
        for seed in 0..30 {
            let entries = ConversationGenerator::new(seed).transcript(8);
            let messages: Vec<Arc<Message>> = entries.iter().map(|entry| entry.message.clone()).collect();
            let Some(body) = wire.body(&target, messages.clone()) else { continue };
            refused += u32::from(judge(&target, &messages, &body).is_err());
        }
        assert!(!has_encoder(&target) || refused > 10, "{:?}: {refused} of 30", target.route);
    }
}

/// Checks that every row of the policy table is tested.
#[test]
fn every_row_has_a_target() {
    let rows: std::collections::BTreeSet<PolicyRow> =
        generator::targets().map(|target| HygienePolicy::of(&target).row).collect();
    assert_eq!(rows.len(), 19, "{rows:?}");
}

//! Prompt caches: a provider keeps the beginning of a request for the next one, which must begin with the same
//! bytes. Each conversation is made ready by hygiene first, as in a turn.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flock::agent::transcript::hygiene::{Target, sanitise};
use flock::agent::transcript::{Entry, EntryMetadata};
use flock::config::Api;
use flock::provider::{Block, Effort, Message, Request, Role, Route, StopReason};
use serde_json::json;

use super::{ALL, Stage, ask_with, call, result, text};

/// What marks the place up to which a provider is to keep a request. It moves on with each, and is no part of
/// what is kept.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// A conversation of three turns with this route's own thinking and signatures, with calls and with pictures, and with
/// an answer in the middle that another model gave.
fn session(route: &Route) -> Vec<Entry> {
    let item = |n| format!(r#"{{"id":"rs_{n}","type":"reasoning","summary":[],"encrypted_content":"gAAA"}}"#);
    let is_items = matches!(route.api, Api::OpenAiResponses | Api::OpenAiCodexResponses);
    let thought = |n: u32| Block::Thinking {
        thinking: "hm".into(),
        signature: Some(if is_items { item(n) } else { "c2lnbmVk".into() }),
        redacted: None,
    };
    let id = |n: u32| if is_items { format!("call_{n}|fc_{n}") } else { format!("call{n}") };
    let signed = |n: u32, arguments| Block::ToolCall {
        id: id(n),
        name: "exec".into(),
        arguments,
        signature: (route.api == Api::GoogleGenerativeAi).then(|| "c2lnbmVk".to_owned()),
    };
    let picture = || Block::Image { media_type: "image/png".into(), data: png() };
    let own =
        EntryMetadata { route: Some(route.clone()), stop: Some(StopReason::End), ..EntryMetadata::default() };
    let foreign = Route { model: "elsewhere/other".parse().unwrap(), api: Api::OpenAiCompletions };
    let other =
        EntryMetadata { route: Some(foreign), stop: Some(StopReason::ToolUse), ..EntryMetadata::default() };
    let mut at = 0;
    let mut entry = |role, content, about: &EntryMetadata| {
        at += 1;
        let about = EntryMetadata { id: format!("m{at}"), at, ..about.clone() };
        Entry { message: Arc::new(Message { role, content }), about: Arc::new(about) }
    };
    let said = EntryMetadata::default();
    vec![
        entry(Role::User, vec![text("look"), picture()], &said),
        entry(Role::Assistant, vec![thought(1), text("I run it."), signed(1, json!({"b": 1, "a": 2}))], &own),
        entry(Role::Tool, vec![result(&id(1), vec![text("out"), picture()])], &said),
        entry(Role::Assistant, vec![thought(2), text("done")], &own),
        entry(Role::User, vec![text("and now?")], &said),
        entry(
            Role::Assistant,
            vec![call("call_2|fc_2", "exec", json!({})), call("toolu.3", "exec", json!("x{"))],
            &other,
        ),
        entry(Role::Tool, vec![result("call_2|fc_2", vec![]), result("toolu.3", vec![text("é")])], &said),
        entry(Role::Assistant, vec![thought(4), signed(4, json!({}))], &own),
        entry(Role::Tool, vec![result(&id(4), vec![text("4")])], &said),
        entry(Role::Assistant, vec![text("again done")], &own),
        entry(Role::User, vec![text("thanks")], &said),
    ]
}

/// A picture that is too large for a request and has to be made smaller for each.
fn png() -> String {
    let picture = image::RgbImage::from_pixel(1300, 4, image::Rgb([200, 9, 7]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    STANDARD.encode(bytes.into_inner())
}

/// The bytes of the request that holds the first `count` messages, without what ends the lists.
async fn sent(stage: &Stage, target: &Target, count: usize) -> String {
    let entries = &session(&target.route)[..count];
    let messages = sanitise(entries, target).unwrap().messages;
    let request = Request {
        model: target.route.model().into(),
        effort: Some(Effort::Low),
        cache_key: Some("00112233445566778899aabbccddeeff".into()),
        max_tokens: 20_000,
        messages,
        ..ask_with(Vec::new())
    };
    stage.ask(&request).await.0.unwrap();
    assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
    let bytes = stage.server.requests().pop().unwrap().bytes;
    let told = stage.resolve().provider.body(&request).unwrap();
    assert_eq!(String::from_utf8(told).unwrap(), String::from_utf8(bytes.clone()).unwrap(), "what was told");
    let text = String::from_utf8(bytes).unwrap().replace(MARK, "");
    text.trim_end_matches(['}', ']']).to_owned()
}

/// Where requests end: with what a person or a tool said.
const COUNTS: [usize; 5] = [3, 5, 7, 9, 11];

/// The first of them after another model's answer.
const AFTER_ANOTHER: usize = 7;

fn target(api: Api, model: &str, reasoning: Option<bool>) -> Target {
    let route = Route { model: format!("test/{model}").parse().unwrap(), api };
    Target { thinking: true, reasoning, tools: Some(vec!["exec".into()]), ..Target::new(route) }
}

#[tokio::test]
async fn each_request_of_a_session_begins_with_the_one_before_it() {
    for api in ALL {
        for model in ["m", "claude-opus-4-6", "gpt-5.2", "gemini-3-pro-preview", "gemini-2.0-flash"] {
            let stage = Stage::new(api);
            // With its own reasoning given back; what becomes of it elsewhere is below.
            let target = target(api, model, Some(true));
            let is_items = matches!(api, Api::OpenAiResponses | Api::OpenAiCodexResponses);
            let mut before = sent(&stage, &target, 1).await;
            for count in COUNTS {
                let next = sent(&stage, &target, count).await;
                // Its reasoning from before another model answered goes for good: from there on requests begin as this one.
                let begins_anew = is_items && count == AFTER_ANOTHER;
                assert_eq!(next.starts_with(&before), !begins_anew, "{api:?} {model}\n{before}\n{next}");
                if begins_anew {
                    let item = "\"type\":\"reasoning\"";
                    assert!(before.contains(item) && !next.contains(item), "{next}");
                }
                assert_eq!(sent(&stage, &target, count).await, next, "the same again");
                before = next;
            }
        }
    }
}

#[tokio::test]
async fn where_thinking_of_earlier_turns_goes_nothing_else_changes() {
    // A server of one's own is given the reasoning of the turn that runs, and an old Claude that of its newest answer.
    for (api, model) in [(Api::OpenAiCompletions, "m"), (Api::AnthropicMessages, "claude-3-7-sonnet-latest")]
    {
        let target = target(api, model, None);
        let stripped = |count: usize| {
            let messages = sanitise(&session(&target.route)[..count], &target).unwrap().messages;
            let plain = |message: &Arc<Message>| {
                let mut message = Message::clone(message);
                message.content.retain(|block| !matches!(block, Block::Thinking { .. }));
                message
            };
            messages.iter().map(plain).collect::<Vec<Message>>()
        };
        let mut before = stripped(1);
        for count in COUNTS {
            let next = stripped(count);
            assert_eq!(next[..before.len()], before[..], "{api:?} {model}");
            before = next;
        }
    }
}

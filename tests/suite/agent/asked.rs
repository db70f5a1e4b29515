//! What the requests of a session have in common, whichever API its model is asked with.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flock::agent::TurnRequest;
use flock::id::SessionKind;
use flock::provider::{Block, BoxFuture, Message, Role};
use flock::tool::{CallContext, ToolError, ToolOutput};
use serde_json::{Value, json};

use super::rig::{Fake, Rig, Set, key, registry, turn};
use crate::support::model_server::{Answer, Reply};

const APIS: [&str; 5] = [
    "anthropic-messages",
    "openai-completions",
    "openai-responses",
    "openai-codex-responses",
    "google-generative-ai",
];

fn look<'a>(_: &'a CallContext, _: &'a Value) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
    Box::pin(async { Ok(ToolOutput::text("a file")) })
}

fn rig(api: &'static str) -> Rig {
    Rig::with(Set { api, registry: registry(vec![Fake::new("look", look)]), ..Set::default() })
}

/// The bytes of all requests so far, without what ends their lists and without the mark that says up to where
/// to keep them, which moves on.
fn bytes(rig: &Rig) -> Vec<String> {
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let requests = rig.server.requests().into_iter();
    let texts = requests.map(|request| String::from_utf8(request.bytes).unwrap().replace(mark, ""));
    texts.map(|text| text.trim_end_matches(['}', ']']).to_owned()).collect()
}

/// A picture that is too large for a request, and is made smaller for each.
fn picture() -> Block {
    let picture = image::RgbImage::from_pixel(1300, 3, image::Rgb([200, 9, 7]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    Block::Image { media_type: "image/png".into(), data: STANDARD.encode(bytes.into_inner()) }
}

fn show<'a>(_: &'a CallContext, _: &'a Value) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
    Box::pin(async { Ok(vec![Block::text("a file"), picture()].into()) })
}

/// An answer that was thought about.
fn thought(text: &str, calls: &[String]) -> Reply {
    let calls = calls.iter().map(|id| (id.clone(), "look".to_owned(), "{\"n\":1}".to_owned()));
    let (thinking, pieces) = (format!("What of {text}?"), vec![text.to_owned()]);
    Reply::Answer(Answer { thinking, pieces, calls: calls.collect(), ..Answer::default() })
}

#[tokio::test]
async fn each_request_begins_with_the_one_before_it_over_turns_and_tools() {
    for api in APIS {
        let rig = Rig::with(Set { api, registry: registry(vec![Fake::new("look", show)]), ..Set::default() });
        let mut config = rig.config();
        let model = &mut config["models"]["providers"]["fake"]["models"][0];
        model["input"] = json!(["text", "image"]);
        // Without it a server of one's own is not given the thinking of earlier turns.
        model["reasoning"] = json!(true);
        rig.write_config(&config);
        for round in 0..3 {
            let id = |name: &str| format!("call_{name}{round}");
            rig.server.reply(thought("I look.", &[id("a"), id("b")]));
            rig.server.reply(thought("Once more.", &[id("c")]));
            rig.server.reply(thought("ok", &[]));
            let content = vec![Block::text("look at it"), picture()];
            let input = vec![Message { role: Role::User, content }];
            let outcome = rig.run(TurnRequest { input, ..turn("") }).await.unwrap();
            assert_eq!((outcome.text.as_str(), outcome.steps), ("ok", 3), "{api}");
        }
        let requests = bytes(&rig);
        assert_eq!(requests.len(), 9);
        for pair in requests.windows(2) {
            assert!(pair[1].starts_with(&pair[0]), "{api}\n{}\n{}", pair[0], pair[1]);
        }
        if api == "anthropic-messages" {
            assert!(requests[8].contains("What of I look.?"), "{}", requests[8]);
        }
    }
}

#[tokio::test]
async fn a_session_has_one_key_for_its_prompt_and_its_agents_effort() {
    let rig = rig("openai-responses");
    std::fs::write(rig.home().instance(), "instance-1").unwrap();
    let mut config = rig.config();
    let agents = config["plugins"]["entries"]["flock"]["config"]["gatewayAgents"].as_array_mut().unwrap();
    agents.iter_mut().find(|agent| agent["id"] == "coder").unwrap()["effort"] = json!("low");
    rig.write_config(&config);
    let mut other = turn("three");
    other.session = key(SessionKind::Main, "bob");
    rig.say("one").await.unwrap();
    rig.say("two").await.unwrap();
    rig.run(other).await.unwrap();
    let bodies: Vec<Value> = rig.server.requests().into_iter().map(|request| request.body).collect();
    let keys: Vec<&str> = bodies.iter().map(|body| body["prompt_cache_key"].as_str().unwrap()).collect();
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
    assert!(keys.iter().all(|key| key.len() == 32 && !key.contains("ann")), "{keys:?}");
    assert!(bodies.iter().all(|body| body["reasoning"]["effort"] == "low"));
}

//! What the requests of a session have in common, whichever API its model is asked with.

use flock::id::SessionKind;
use flock::provider::BoxFuture;
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

#[tokio::test]
async fn each_request_begins_with_the_one_before_it_over_turns_and_tools() {
    for api in APIS {
        let rig = rig(api);
        rig.server.reply(Reply::Answer(Answer {
            pieces: vec!["I look.".into()],
            calls: vec![("call_1".into(), "look".into(), "{}".into())],
            ..Answer::default()
        }));
        for text in ["one", "two", "three"] {
            assert_eq!(rig.say(text).await.unwrap().text, "ok", "{api}");
        }
        let requests = bytes(&rig);
        assert_eq!(requests.len(), 4);
        for pair in requests.windows(2) {
            assert!(pair[1].starts_with(&pair[0]), "{api}\n{}\n{}", pair[0], pair[1]);
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

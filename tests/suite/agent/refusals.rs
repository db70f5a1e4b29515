//! Thinking that a provider refuses when it comes back: the session goes on without it, and asks twice only once.

use serde_json::{Value, json};

use super::rig::{Rig, Set};
use crate::support::model_server::{Answer, Reply};

/// The wire formats that give thinking back, and what is said where it is refused.
const REFUSALS: [(&str, &str); 3] = [
    ("openai-responses", "The encrypted content gAAA could not be verified."),
    ("openai-codex-responses", "The encrypted content gAAA could not be verified."),
    ("anthropic-messages", "messages.1.content.0: Invalid `signature` in `thinking` block"),
];

fn thoughtful(text: &str) -> Reply {
    Reply::Answer(Answer { thinking: "hm".into(), pieces: vec![text.into()], ..Answer::default() })
}

/// How many thoughts a request gives back.
fn thoughts(body: &Value) -> usize {
    let items = body["input"].as_array().into_iter().flatten();
    let blocks = body["messages"].as_array().into_iter().flatten();
    let blocks = blocks.flat_map(|message| message["content"].as_array().into_iter().flatten());
    items.chain(blocks).filter(|one| one["type"] == "reasoning" || one["type"] == "thinking").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_thinking_is_left_out_and_the_session_asks_twice_only_once() {
    for (api, refusal) in REFUSALS {
        let rig = Rig::with(Set { api, ..Set::default() });
        // A key of one letter would be taken out of what the provider says.
        let mut document = rig.config();
        document["models"]["providers"]["fake"]["apiKey"] = json!("planted-0123456789");
        rig.write_config(&document);
        rig.server.reply(thoughtful("first"));
        rig.say("one").await.unwrap();
        rig.server.reply(Reply::status(400, refusal)).reply(thoughtful("second"));
        assert_eq!(rig.say("two").await.unwrap().text, "second", "{api}");
        rig.server.reply(thoughtful("third"));
        assert_eq!(rig.say("three").await.unwrap().text, "third", "{api}");
        let sent: Vec<usize> = rig.server.requests().iter().map(|request| thoughts(&request.body)).collect();
        // Asked with it, refused, asked without; then at once without it, and with what was thought since.
        assert_eq!(sent, [0, 1, 0, 1], "{api}");
        assert_eq!(rig.server.rejections(), Vec::<String>::new());
        // What is stored stays as it was said.
        let stored = rig.transcript();
        let kept = stored.iter().filter(|line| line.to_string().contains("\"thinking\":\"hm\"")).count();
        assert_eq!(kept, 3, "{api}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_is_not_of_thinking_is_the_turns_end() {
    let rig = Rig::with(Set { api: "openai-responses", ..Set::default() });
    let refusal = || Reply::status(400, "The encrypted content gAAA could not be verified.");
    // There is nothing to leave out.
    rig.server.reply(refusal());
    rig.say("one").await.unwrap_err();
    rig.server.reply(thoughtful("first"));
    rig.say("two").await.unwrap();
    // And where it is refused all the same, it is not asked a third time.
    rig.server.reply(refusal()).reply(refusal());
    rig.say("three").await.unwrap_err();
    assert_eq!(rig.server.requests().len(), 4);
    assert!(json!(rig.server.rejections()).as_array().unwrap().is_empty());
}

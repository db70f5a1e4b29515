//! Every provider with every ability: each shows that it streams, calls tools, sees pictures, counts tokens, uses the
//! provider's cache, and says what kind of failure it met. One row for each provider, one test for each ability.

use flock::config::model::{Api, Config, ProviderSettings};
use flock::provider::{Block, Catalog, Delta, Message, ProviderError, Request, Response, Role, StopReason};
use serde_json::{Value, json};

use super::bedrock::server::{BedrockServer, answer as frames};
use super::{ask_with, call, config, hello, home, result, said, text};
use crate::support::model_server::{Answer, ModelServer, Reply};

/// A provider as a person configures it.
struct Row {
    model: &'static str,
    api: Api,
    /// What follows the server's address.
    path: &'static str,
    /// How a request asks for the cache; empty where the provider keeps prompts by itself.
    cache: &'static str,
}

const KEY: &str = "ABSKplanted-key-0123456789";

const ROWS: [Row; 10] = [
    Row {
        model: "anthropic/claude-sonnet-4-5",
        api: Api::AnthropicMessages,
        path: "",
        cache: "cache_control",
    },
    Row { model: "openai/gpt-4o", api: Api::OpenAiCompletions, path: "/v1", cache: "" },
    Row { model: "openai/gpt-5", api: Api::OpenAiResponses, path: "/v1", cache: "prompt_cache_key" },
    Row {
        model: "codex/gpt-5-codex",
        api: Api::OpenAiCodexResponses,
        path: "/backend-api",
        cache: "prompt_cache_key",
    },
    Row { model: "azure-openai/gpt-5", api: Api::OpenAiResponses, path: "", cache: "prompt_cache_key" },
    Row { model: "google/gemini-2.5-flash", api: Api::GoogleGenerativeAi, path: "", cache: "" },
    Row {
        model: "amazon-bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        api: Api::BedrockConverseStream,
        path: "",
        cache: "cachePoint",
    },
    Row { model: "mistral/mistral-medium-latest", api: Api::OpenAiCompletions, path: "/v1", cache: "" },
    Row {
        model: "minimax/MiniMax-M3",
        api: Api::AnthropicMessages,
        path: "/anthropic",
        cache: "cache_control",
    },
    Row {
        model: "openrouter/anthropic/claude-sonnet-4.5",
        api: Api::OpenAiCompletions,
        path: "/v1",
        cache: "cache_control",
    },
];

/// The fake of a row, which refuses what the real one refuses.
enum Fake {
    Http(ModelServer),
    Bedrock(BedrockServer),
}

struct Stage {
    row: &'static Row,
    fake: Fake,
    config: Config,
    catalog: Catalog,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn new(row: &'static Row) -> Self {
        let fake = match row.api {
            Api::BedrockConverseStream => Fake::Bedrock(BedrockServer::start().await),
            _ => Fake::Http(ModelServer::start()),
        };
        let address = match &fake {
            Fake::Http(server) => server.base_url(),
            Fake::Bedrock(server) => server.url(),
        };
        let settings = ProviderSettings {
            base_url: Some(format!("{address}{}", row.path)),
            api_key: Some(KEY.to_owned()),
            api: Some(row.api),
            models: vec![],
        };
        let (folder, home) = home();
        let provider = row.model.split('/').next().unwrap();
        let config = config([(provider, settings)]);
        Self { row, fake, config, catalog: Catalog::new(home), _folder: folder }
    }

    async fn ask(&self, request: Request) -> (Result<Response, ProviderError>, Vec<Delta>) {
        let model = self.row.model.parse().unwrap();
        let resolved = self.catalog.resolve(&model, &self.config).unwrap();
        let request = Request {
            model: model.model().to_owned(),
            cache_key: Some("00112233445566778899aabbccddeeff".into()),
            ..request
        };
        let mut deltas = Vec::new();
        let answer = resolved.provider.call(&request, &mut |delta| deltas.push(delta)).await;
        (answer, deltas)
    }

    fn reply(&self, answer: Answer) {
        match &self.fake {
            Fake::Http(server) => drop(server.reply(Reply::Answer(answer))),
            Fake::Bedrock(server) => drop(server.reply(200, as_frames(&answer))),
        }
    }

    fn refuse(&self, status: u16) {
        match &self.fake {
            Fake::Http(server) => drop(server.reply(Reply::status(status, "what it says"))),
            Fake::Bedrock(server) => {
                server.reply(status, json!({"message": "what it says"}).to_string().into_bytes());
            }
        }
    }

    /// The body of the last request, after which the fake has refused nothing.
    fn asked(&self) -> Value {
        let (body, rejections) = match &self.fake {
            Fake::Http(server) => (server.requests().pop().unwrap().body, server.rejections()),
            Fake::Bedrock(server) => (server.last().body, server.rejections()),
        };
        assert_eq!(rejections, Vec::<String>::new(), "{}", self.row.model);
        body
    }
}

fn as_frames(answer: &Answer) -> Vec<u8> {
    let delta =
        |at: usize, delta: Value| ("contentBlockDelta", json!({"contentBlockIndex": at, "delta": delta}));
    let mut events: Vec<(&str, Value)> =
        answer.pieces.iter().map(|piece| delta(0, json!({"text": piece}))).collect();
    for (at, (id, name, arguments)) in answer.calls.iter().enumerate() {
        let start = json!({"toolUse": {"toolUseId": id, "name": name}});
        events.push(("contentBlockStart", json!({"contentBlockIndex": at + 1, "start": start})));
        events.push(delta(at + 1, json!({"toolUse": {"input": arguments}})));
    }
    let usage = json!({"inputTokens": answer.usage.0 - answer.cached, "outputTokens": answer.usage.1,
        "cacheReadInputTokens": answer.cached});
    frames(&events, if answer.calls.is_empty() { "end_turn" } else { "tool_use" }, &usage)
}

fn picture() -> Block {
    Block::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() }
}

#[tokio::test]
async fn every_provider_streams() {
    for row in &ROWS {
        let stage = Stage::new(row).await;
        let pieces = ["Hel", "lo ", "wörld"].map(str::to_owned).to_vec();
        stage.reply(Answer { pieces, usage: (10, 5), ..Answer::default() });
        let (answer, deltas) = stage.ask(hello()).await;
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", row.model));
        assert_eq!((deltas.len(), said(&deltas).as_str()), (3, "Hello wörld"), "{}", row.model);
        assert_eq!(answer.stop, StopReason::End, "{}", row.model);
        stage.asked();
    }
}

#[tokio::test]
async fn every_provider_calls_tools_and_takes_their_results() {
    for row in &ROWS {
        let stage = Stage::new(row).await;
        let first = ("abc123XY1", "exec", r#"{"command":"true"}"#);
        let second = ("abc123XY2", "exec", r#"{"command":"false"}"#);
        let calls = [first, second].map(|(id, name, input)| (id.into(), name.into(), input.into())).to_vec();
        stage.reply(Answer { calls, usage: (10, 5), ..Answer::default() });
        let answer = stage.ask(hello()).await.0.unwrap_or_else(|error| panic!("{}: {error}", row.model));
        assert_eq!(answer.stop, StopReason::ToolUse, "{}", row.model);
        assert!(stage.asked().to_string().contains("Runs a command."), "{}", row.model);
        let said = Message { role: Role::Assistant, content: answer.content };
        let inputs: Vec<Value> = said.tool_calls().map(|call| call.arguments.clone()).collect();
        assert_eq!(inputs, [json!({"command": "true"}), json!({"command": "false"})], "{}", row.model);
        let failed = |block: Block| match block {
            Block::ToolResult { call_id, name, content, .. } => {
                Block::ToolResult { call_id, name, content, is_error: true }
            }
            other => other,
        };
        let ids: Vec<String> = said.tool_calls().map(|call| call.id.to_owned()).collect();
        let results =
            vec![result(&ids[0], vec![text("it ran")]), failed(result(&ids[1], vec![text("it failed")]))];
        let follow_up = ask_with(vec![
            Message::text(Role::User, "hello"),
            said,
            Message { role: Role::Tool, content: results },
            Message::text(Role::User, "and now?"),
        ]);
        stage.ask(follow_up).await.0.unwrap_or_else(|error| panic!("{}: {error}", row.model));
        let body = stage.asked().to_string();
        for told in ["it ran", "it failed", "and now?"] {
            assert!(body.contains(told), "{}: {body}", row.model);
        }
    }
}

#[tokio::test]
async fn every_provider_sees_pictures_of_people_and_of_tools() {
    for row in &ROWS {
        let stage = Stage::new(row).await;
        let request = ask_with(vec![
            Message { role: Role::User, content: vec![text("look"), picture()] },
            Message { role: Role::Assistant, content: vec![call("abc123XY1", "exec", json!({}))] },
            Message { role: Role::Tool, content: vec![result("abc123XY1", vec![text("seen"), picture()])] },
        ]);
        stage.ask(request).await.0.unwrap_or_else(|error| panic!("{}: {error}", row.model));
        let body = stage.asked().to_string();
        assert_eq!(body.matches("iVBORw0KGgo=").count(), 2, "{}: {body}", row.model);
    }
}

#[tokio::test]
async fn every_provider_counts_tokens_and_those_of_its_cache_apart() {
    for row in &ROWS {
        let stage = Stage::new(row).await;
        stage.reply(Answer { pieces: vec!["ok".into()], usage: (100, 5), cached: 60, ..Answer::default() });
        let usage = stage.ask(hello()).await.0.unwrap_or_else(|error| panic!("{}: {error}", row.model)).usage;
        assert_eq!((usage.input, usage.cache_read, usage.output), (40, 60, 5), "{}", row.model);
    }
}

#[tokio::test]
async fn every_provider_is_asked_to_keep_the_prompt_where_it_wants_to_be_asked() {
    for row in &ROWS {
        let stage = Stage::new(row).await;
        stage.ask(hello()).await.0.unwrap_or_else(|error| panic!("{}: {error}", row.model));
        let body = stage.asked().to_string();
        assert!(row.cache.is_empty() || body.contains(row.cache), "{}: {body}", row.model);
        for word in ["cache_control", "prompt_cache_key", "cachePoint"] {
            assert!(word == row.cache || !body.contains(word), "{}: {body}", row.model);
        }
    }
}

#[tokio::test]
async fn every_providers_failures_have_the_class_of_their_status() {
    for row in &ROWS {
        for (status, class) in [
            (400, "Rejected"),
            (401, "Unauthorised"),
            (402, "Rejected"),
            (403, "Unauthorised"),
            (404, "Rejected"),
            (408, "Failed"),
            (413, "Rejected"),
            (429, "Limited"),
            (500, "Failed"),
            (503, "Failed"),
            (529, "Limited"),
        ] {
            let stage = Stage::new(row).await;
            stage.refuse(status);
            let error = stage.ask(hello()).await.0.unwrap_err();
            let shown = format!("{error:?}");
            assert!(
                shown.starts_with(class) && shown.contains("what it says"),
                "{}, {status}: {shown}",
                row.model
            );
            assert!(!shown.contains(KEY), "{shown}");
        }
    }
}

#[tokio::test]
async fn minimax_refuses_what_anthropic_takes_and_is_not_sent_it() {
    let stage = Stage::new(&ROWS[8]).await;
    let Fake::Http(server) = &stage.fake else { panic!("it is no HTTP server") };
    let picture = ask_with(vec![Message { role: Role::User, content: vec![picture()] }]);
    let second = stage.catalog.resolve(&"minimax/MiniMax-M2.5".parse().unwrap(), &stage.config).unwrap();
    assert!(!second.images, "hygiene takes pictures out for it");
    let asked = Request { model: "MiniMax-M2.5".into(), ..picture };
    assert!(second.provider.call(&asked, &mut |_| {}).await.is_err());
    assert_eq!(server.rejections(), ["invalid params, image is not supported (2013)"]);
    // The same in a stream, with the status beside it.
    let error = json!({"type": "error", "error": {"type": "bad_request_error", "http_code": "400",
        "message": "invalid params, tool call result does not follow tool call (2013)"}});
    server.reply(Reply::stream(vec![format!("event: error\ndata: {error}\n\n").as_str().into()]));
    let refused = stage.ask(hello()).await.0.unwrap_err();
    assert!(matches!(refused, ProviderError::Rejected { status: 400, .. }), "{refused:?}");
    for (effort, expected) in
        [(flock::provider::Effort::High, "adaptive"), (flock::provider::Effort::Off, "disabled")]
    {
        stage.ask(Request { effort: Some(effort), ..hello() }).await.0.unwrap();
        assert_eq!(server.requests().pop().unwrap().body["thinking"], json!({"type": expected}));
    }
}

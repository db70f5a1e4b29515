//! The way of agent programs to their models, against model servers of the four kinds.

use std::sync::Arc;
use std::time::Duration;

use flock::agent::CallUsage;
use flock::config::{Api, Live};
use flock::error::Explain as _;
use flock::gateway::ServerLimits;
use flock::gateway::middleware::Middleware;
use flock::gateway::relay::tickets::{IssuedTokens, MAX_COUNTS, Tickets};
use flock::gateway::relay::{MAX_BODY, Relay};
use flock::id::{AgentId, TurnId};
use flock::provider::retry::Policy;
use flock::provider::{BoxFuture, Catalog, Usage};
use flock::runtime::program::gate::CallRefusal;
use flock::runtime::program::interface::relay_path;
use flock::runtime::program::{self, AccessProvider as _};
use flock::runtime::{PauseReason, RuntimeError, RuntimeEvent, RuntimeRequest};
use flock::sandbox::egress::{ConnectionRecord, EgressPolicy, EgressRule, Proxy, SystemDialer};
use flock::supervise::gateway_client::{Answer, Call, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::crew::Crew;
use super::house::{House, LIMIT, TOKEN};
use crate::agent::watch::Watch;
use crate::support::model_server::{Chunk, ModelServer, Reply};

const KEY: &str = "sk-planted-key-of-the-relays-test";

struct Setting {
    house: House,
    server: ModelServer,
    watch: Arc<Watch>,
    tickets: Arc<Tickets>,
    api: Api,
}

impl Setting {
    async fn new(api: Api) -> Self {
        Self::with(api, Watch::default(), |_| {}).await
    }

    async fn with(api: Api, watch: Watch, change: impl FnOnce(&mut Value)) -> Self {
        let (server, watch) = (ModelServer::start(), Arc::new(watch));
        let house = House::with_parts(ServerLimits::default(), |parts| {
            let catalog = Catalog::new(parts.live.home().clone());
            let relay = Relay::new(parts.live.clone(), catalog, watch.clone(), parts.port);
            let relay = relay
                .with_retry(Policy { first_wait: Duration::from_millis(1), ..Policy::default() })
                // No test is slower than that.
                .with_error_repeat(Duration::from_secs(3_600));
            parts.relay = Arc::new(relay);
        })
        .await;
        house.edit(|document| {
            document["models"] = json!({"providers": {"fake": provider(&server, api)}});
            document["agents"]["defaults"]["model"] = json!({"primary": "fake/test-model"});
            change(document);
        });
        let tickets = house.gateway.relay.tickets().clone();
        Self { house, server, watch, tickets, api }
    }

    fn open(&self) -> IssuedTokens {
        self.tickets.open(&order("coder"), Some(self.api))
    }

    /// Where a program asks, and with what.
    fn path(&self) -> String {
        let root = relay_path(self.api);
        match self.api {
            Api::AnthropicMessages => format!("{root}/v1/messages?beta=true"),
            Api::GoogleGenerativeAi => {
                format!("{root}/v1beta/models/gemini-other:streamGenerateContent?alt=sse&key=none")
            }
            Api::OpenAiCompletions => format!("{root}/chat/completions"),
            _ => format!("{root}/responses"),
        }
    }

    fn body(&self) -> Value {
        match self.api {
            Api::AnthropicMessages => json!({
                "messages": [{"role": "user", "content": "hi"}], "model": "asked-for", "stream": true,
                "max_tokens": 300, "context_management": {"edits": []},
            }),
            Api::GoogleGenerativeAi => json!({
                "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
                "generationConfig": {"maxOutputTokens": 300},
            }),
            Api::OpenAiCompletions => json!({
                "messages": [{"role": "user", "content": "hi"}], "max_tokens": 300, "model": "asked-for",
                "stream": true, "stream_options": {"include_usage": true},
            }),
            _ => json!({
                "instructions": "be brief", "stream": true, "store": false, "model": "asked-for",
                "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
                "include": ["reasoning.encrypted_content"], "prompt_cache_key": "one",
            }),
        }
    }

    /// A request as the program of this wire makes it.
    fn call(&self, token: &str) -> Call {
        let call = Call::post(&self.path()).json(&self.body()).unwrap();
        match self.api {
            Api::AnthropicMessages => call
                .header("x-api-key", token)
                .header("anthropic-version", "2023-06-01")
                .header("anthropic-beta", "some-beta"),
            Api::GoogleGenerativeAi => call.header("x-goog-api-key", token),
            _ => call.header("authorization", &format!("Bearer {token}")),
        }
    }

    async fn send(&self, call: Call) -> (u16, String) {
        whole(self.begin(call).await).await
    }

    async fn begin(&self, call: Call) -> Answer {
        Client::new(self.house.port).send(call, LIMIT).await.unwrap()
    }

    async fn ask(&self, opened: &IssuedTokens) -> (u16, String) {
        self.send(self.call(opened.relay.as_deref().unwrap())).await
    }
}

fn provider(server: &ModelServer, api: Api) -> Value {
    let url = match api {
        Api::AnthropicMessages | Api::GoogleGenerativeAi => server.base_url(),
        Api::OpenAiCodexResponses => format!("{}/backend-api", server.base_url()),
        _ => server.openai_url(),
    };
    json!({"baseUrl": url, "apiKey": KEY, "api": api.as_str(), "models": [
        {"id": "test-model", "contextWindow": 100_000, "maxTokens": 1000},
    ]})
}

fn order(agent: &str) -> RuntimeRequest {
    RuntimeRequest {
        agent: agent.parse::<AgentId>().unwrap(),
        session: format!("agent:{agent}:flock:main:ann").parse().unwrap(),
        turn: TurnId::new(),
        model: "fake/test-model".parse().unwrap(),
        effort: None,
        conversation: format!("agent:{agent}:flock:main:ann.1"),
        system: String::new(),
        messages: Vec::new(),
        recent: String::new(),
        missed: None,
    }
}

async fn whole(answer: Answer) -> (u16, String) {
    let status = answer.status();
    (status, String::from_utf8(answer.bytes(64 << 20, LIMIT).await.unwrap()).unwrap())
}

async fn until(mut condition: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + LIMIT;
    while !condition() {
        assert!(std::time::Instant::now() < end, "not in time");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

const ALL: [Api; 5] = [
    Api::AnthropicMessages,
    Api::OpenAiResponses,
    Api::OpenAiCodexResponses,
    Api::GoogleGenerativeAi,
    Api::OpenAiCompletions,
];

#[tokio::test]
async fn a_request_of_each_wire_reaches_the_agents_model_with_the_real_key_and_nothing_else_changed() {
    for api in ALL {
        let setting = Setting::new(api).await;
        let opened = setting.open();
        let token = opened.relay.clone().unwrap();
        let (status, text) = setting.ask(&opened).await;
        assert_eq!((status, text.contains("ok")), (200, true), "{api:?}: {text}");
        assert!(text.starts_with("data:") || text.starts_with("event:"), "{api:?}: {text}");
        let asked = setting.server.requests().pop().unwrap();
        assert_eq!(setting.server.rejections(), Vec::<String>::new());
        let mut expected = setting.body();
        if api == Api::GoogleGenerativeAi {
            assert_eq!(asked.path, "/v1beta/models/test-model:streamGenerateContent");
        } else {
            expected["model"] = "test-model".into();
        }
        assert_eq!(String::from_utf8(asked.bytes.clone()).unwrap(), expected.to_string(), "{api:?}");
        let header = match api {
            Api::AnthropicMessages => "x-api-key",
            Api::GoogleGenerativeAi => "x-goog-api-key",
            _ => "authorization",
        };
        assert!(asked.header(header).ends_with(KEY), "{api:?}: {:?}", asked.headers);
        if api == Api::AnthropicMessages {
            assert_eq!(asked.header("anthropic-beta"), "some-beta");
        }
        let sent = format!("{:?}", asked.headers);
        assert!(!sent.contains(&token), "{sent}");
        // What was told in the stream is what is charged, to the turn that the token was made for.
        let count = opened.ticket.calls.now();
        assert_eq!((count.answered, count.usage.input, count.usage.output), (1, 10, 5), "{api:?}: {count:?}");
        assert_eq!((count.refused, count.forbidden), (None, None));
        let calls = setting.watch.calls.lock().unwrap().clone();
        assert_eq!((calls.len(), calls[0].turn, calls[0].step), (1, opened.ticket.turn, 1));
        let most = if matches!(api, Api::OpenAiResponses | Api::OpenAiCodexResponses) { 1_000 } else { 300 };
        assert_eq!((calls[0].max_output, calls[0].input_estimate > 10), (most, true), "{:?}", calls[0]);
        let settled = setting.watch.settled();
        assert!(matches!(settled[..], [(0, CallUsage::Told(usage))] if usage.output == 5), "{settled:?}");
    }
}

#[tokio::test]
async fn an_answer_passes_byte_for_byte_and_its_beginning_at_once() {
    let setting = Setting::new(Api::AnthropicMessages).await;
    let opened = setting.open();
    let begin = "event: message_start\r\ndata: {\"type\":\"message_start\",\"of_tomorrow\":[1.50],\"message\":{\"usage\":\
                 {\"input_tokens\":7,\"output_tokens\":1}}}\r\n\r\n: a comment\n\n";
    let gone = setting.server.reply_until_gone(begin.into());
    let mut answer = setting.begin(setting.call(opened.relay.as_deref().unwrap())).await;
    let first = answer.chunk(LIMIT).await.unwrap().unwrap();
    assert_eq!(std::str::from_utf8(&first).unwrap(), begin, "the rest has not come yet");
    // A program that goes ends the request; what nobody was told is what was set aside.
    drop(answer);
    tokio::time::timeout(LIMIT, gone).await.expect("the request ends").unwrap();
    until(|| setting.watch.settled() == [(0, CallUsage::Begun)]).await;
    let count = opened.ticket.calls.now();
    assert_eq!((count.answered, count.refused), (0, None));
    assert_eq!((count.usage.input > 10, count.usage.output), (true, 300));

    let rest = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\
                \n\ndata: {\"type\":\"message_stop\"}\n\n";
    let (one, two) = rest.split_at(40);
    let pieces = vec![begin.into(), one.into(), Chunk::Pause(Duration::from_millis(20)), two.into()];
    setting.server.reply(Reply::stream(pieces).header("request-id", "req_1").header("set-cookie", "a=b"));
    let answer = setting.begin(setting.call(opened.relay.as_deref().unwrap())).await;
    assert_eq!((answer.header("request-id"), answer.header("set-cookie")), (Some("req_1"), None));
    assert_eq!(whole(answer).await.1, format!("{begin}{rest}"));
    assert_eq!(opened.ticket.calls.now().answered, 1);
    let settled = setting.watch.settled();
    assert!(
        matches!(settled[1], (1, CallUsage::Told(usage)) if (usage.input, usage.output) == (7, 9)),
        "{settled:?}"
    );
}

#[tokio::test]
async fn only_the_token_of_a_turn_that_runs_opens_the_relay_and_it_opens_nothing_else() {
    let setting = Setting::new(Api::AnthropicMessages).await;
    let opened = setting.open();
    let token = opened.relay.clone().unwrap();
    for (wrong, expected) in [
        (token[..token.len() - 1].to_owned(), 401),
        (opened.mcp.clone(), 401),
        ("x".to_owned(), 401),
        (KEY.to_owned(), 401),
    ] {
        let (status, text) = setting.send(setting.call(&wrong)).await;
        assert_eq!(status, expected, "{text}");
        let body: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(body["error"]["type"], "authentication_error", "in the words of the API");
    }
    let owner = Call::post(&setting.path()).json(&setting.body()).unwrap();
    let answer = setting.house.owner().send(owner, LIMIT).await.unwrap();
    assert_eq!(answer.status(), 403, "the owner is no program");
    for path in ["/api/agents", "/api/status", "/v1/models", "/mcp"] {
        let answer = Client::new(setting.house.port).with_token(&token).send(Call::get(path), LIMIT).await;
        assert_eq!(answer.unwrap().status(), 401, "{path}");
    }
    let foreign = setting.call(&token).header("origin", "https://evil.example");
    assert_eq!(setting.send(foreign).await.0, 403);
    assert_eq!(setting.ask(&opened).await.0, 200);
    drop(opened.close);
    assert_eq!(setting.send(setting.call(&token)).await.0, 401, "the turn is over");
    assert_eq!(setting.server.requests().len(), 1);
}

#[tokio::test]
async fn what_is_not_on_the_list_is_not_passed_on() {
    for api in ALL {
        let setting = Setting::new(api).await;
        let opened = setting.open();
        let token = opened.relay.clone().unwrap();
        let mut paths = vec![
            "/relay/anthropic/v1/messages/batches",
            "/relay/anthropic/v1/files",
            "/relay/google/v1beta/models/x:embedContent",
            "/relay/google/v1beta/cachedContents",
            "/relay/responses/v1/responses/resp_1/cancel",
            "/relay/completions/v1/embeddings",
            "/relay/x",
        ];
        // The paths of the other wires are not those of this agent's model.
        let others = ALL.into_iter().filter(|other| relay_path(*other) != relay_path(api));
        let others: Vec<String> = others.map(|other| relay_path(other).to_owned() + "/v1/messages").collect();
        paths.extend(others.iter().map(String::as_str));
        for path in paths {
            let call = Call::post(path).json(&setting.body()).unwrap();
            let (status, text) = setting.send(call.header("authorization", &format!("Bearer {token}"))).await;
            assert_eq!(status, 404, "{path}");
            let body: Value = serde_json::from_str(&text).unwrap();
            assert!(body["error"]["message"].as_str().unwrap().starts_with("flock: "), "{body}");
            assert_eq!(body["error"]["status"] == "NOT_FOUND", path.starts_with("/relay/google"), "{body}");
        }
        let path = setting.path();
        let get = Call::get(&path).header("authorization", &format!("Bearer {token}"));
        assert_eq!(setting.send(get).await.0, 404, "only POST is");
        assert_eq!(setting.server.requests().len(), 0);
    }
}

#[tokio::test]
async fn counting_tokens_costs_nothing() {
    let setting =
        Setting::with(Api::AnthropicMessages, Watch { budget: 0, ..Watch::default() }, |_| {}).await;
    let opened = setting.open();
    let count = async |body: &Value| {
        let call = Call::post("/relay/anthropic/v1/messages/count_tokens").json(body).unwrap();
        setting.send(call.header("x-api-key", opened.relay.as_deref().unwrap())).await
    };
    let (status, text) = count(&setting.body()).await;
    assert_eq!((status, text.as_str()), (200, r#"{"input_tokens": 12}"#));
    assert_eq!(setting.server.requests()[0].body["model"], "test-model");
    assert_eq!(opened.ticket.calls.now(), flock::runtime::program::gate::Count::default());
    // It is for nothing, so it has another bound.
    for _ in 1..MAX_COUNTS {
        assert_eq!(count(&setting.body()).await.0, 200);
    }
    let (status, text) = count(&setting.body()).await;
    assert!(status == 400 && text.contains("200 times in a turn"), "{text}");
    assert_eq!(setting.server.requests().len(), MAX_COUNTS as usize);
}

#[tokio::test]
async fn what_runs_is_kept_or_is_fetched_at_the_provider_is_not_passed_on() {
    for (api, entry, value, named) in [
        (
            Api::AnthropicMessages,
            "mcp_servers",
            json!([{"type": "url", "url": "https://a.example"}]),
            "mcp_servers",
        ),
        (
            Api::AnthropicMessages,
            "tools",
            json!([{"type": "web_fetch_20250910", "name": "x"}]),
            "web_fetch_20250910",
        ),
        (Api::OpenAiResponses, "previous_response_id", json!("resp_1"), "previous_response_id"),
        (Api::OpenAiCodexResponses, "tools", json!([{"type": "web_search"}]), "web_search"),
        (Api::OpenAiCompletions, "web_search_options", json!({}), "web_search_options"),
        (Api::GoogleGenerativeAi, "tools", json!([{"urlContext": {}}]), "urlContext"),
    ] {
        let setting = Setting::new(api).await;
        let opened = setting.open();
        let token = opened.relay.clone().unwrap();
        let mut body = setting.body();
        body[entry] = value;
        let mut paths = vec![setting.path()];
        match api {
            Api::AnthropicMessages => paths.push("/relay/anthropic/v1/messages/count_tokens".to_owned()),
            Api::GoogleGenerativeAi => paths.push("/relay/google/v1beta/models/x:countTokens".to_owned()),
            _ => {}
        }
        for path in paths {
            let call =
                Call::post(&path).json(&body).unwrap().header("authorization", &format!("Bearer {token}"));
            let answer = setting.begin(call).await;
            assert_eq!((answer.status(), answer.header("x-should-retry")), (400, Some("false")), "{api:?}");
            let text = whole(answer).await.1;
            assert!(text.contains("flock: ") && text.contains(named), "{text}");
        }
        // It is refused before anything is set aside, and the turn goes on.
        assert_eq!((setting.server.requests().len(), setting.watch.settled().len()), (0, 0));
        assert!(opened.ticket.calls.now().refused.unwrap().1.contains(named));
        assert_eq!(setting.ask(&opened).await.0, 200);
        assert_eq!(opened.ticket.calls.now().refused, None);
    }
    let setting = Setting::new(Api::AnthropicMessages).await;
    let opened = setting.open();
    let call = setting
        .call(opened.relay.as_deref().unwrap())
        .header("anthropic-beta", "some-beta, files-api-2025-04-14,other-1");
    assert_eq!(setting.send(call).await.0, 200);
    assert_eq!(setting.server.requests()[0].header("anthropic-beta"), "some-beta,other-1");
}

#[tokio::test]
async fn a_budget_that_ends_between_two_calls_ends_them_and_no_program_asks_again() {
    for api in ALL {
        let setting = Setting::with(api, Watch { budget: 1, ..Watch::default() }, |_| {}).await;
        let opened = setting.open();
        assert_eq!(setting.ask(&opened).await.0, 200);
        let answer = setting.begin(setting.call(opened.relay.as_deref().unwrap())).await;
        assert_eq!((answer.status(), answer.header("x-should-retry")), (400, Some("false")));
        let text = whole(answer).await.1;
        assert!(text.contains("the budget of the day is used up"), "{text}");
        assert_eq!(setting.server.requests().len(), 1, "nothing was asked");
        let count = opened.ticket.calls.now();
        let Some(CallRefusal::Paused { why, .. }) = count.forbidden else { panic!("{count:?}") };
        assert_eq!(why, PauseReason::Budget("the budget of the day is used up".to_owned()));
        assert_eq!((count.answered, count.usage.output), (1, 5));
    }
}

#[tokio::test]
async fn a_call_of_a_frozen_agent_waits() {
    let setting = Setting::new(Api::OpenAiResponses).await;
    let opened = setting.open();
    assert_eq!(setting.ask(&opened).await.0, 200);
    setting.watch.freeze(true);
    let token = opened.relay.clone().unwrap();
    let ask = setting.send(setting.call(&token));
    tokio::pin!(ask);
    tokio::select! {
        answer = &mut ask => panic!("{answer:?}"),
        () = until(|| setting.watch.waits_frozen()) => {}
    }
    assert_eq!((setting.server.requests().len(), setting.watch.settled().len()), (1, 1));
    setting.watch.freeze(false);
    assert_eq!(ask.await.0, 200);
    // The end of its turn ends the waiting, too.
    setting.watch.freeze(true);
    let waiting = setting.send(setting.call(&token));
    tokio::pin!(waiting);
    setting.watch.waits_frozen.store(false, std::sync::atomic::Ordering::SeqCst);
    tokio::select! {
        answer = &mut waiting => panic!("{answer:?}"),
        () = until(|| setting.watch.waits_frozen()) => {}
    }
    drop(opened.close);
    assert!(waiting.await.0 >= 400);
    assert_eq!(setting.server.requests().len(), 2);
}

#[tokio::test]
async fn the_end_of_the_turn_ends_what_still_runs() {
    let setting = Setting::new(Api::OpenAiCompletions).await;
    let opened = setting.open();
    let gone =
        setting.server.reply_until_gone("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n".into());
    let mut answer = setting.begin(setting.call(opened.relay.as_deref().unwrap())).await;
    answer.chunk(LIMIT).await.unwrap().unwrap();
    drop(opened.close);
    tokio::time::timeout(LIMIT, gone).await.expect("the request ends").unwrap();
    assert!(answer.chunk(LIMIT).await.is_err(), "it is no whole answer");
    until(|| setting.watch.settled() == [(0, CallUsage::Begun)]).await;
}

/// More than the buffers of a connection take.
fn flood() -> String {
    let piece =
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "word ".repeat(1_000));
    piece.repeat((32 << 20) / piece.len())
}

/// A program that asks and then reads nothing but the beginning, as one whose sandbox stands still.
async fn ask_and_stand_still(port: u16, path: &str, token: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
         anthropic-version: 2023-06-01\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut begin = [0; 17];
    tokio::time::timeout(LIMIT, stream.read_exact(&mut begin)).await.unwrap().unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200 OK\r\n");
    stream
}

#[tokio::test]
async fn the_end_of_the_turn_ends_what_nobody_reads() {
    let setting = Setting::new(Api::OpenAiCompletions).await;
    let opened = setting.open();
    let gone = setting.server.reply_until_gone(flood().as_str().into());
    let token = opened.relay.clone().unwrap();
    let still = ask_and_stand_still(setting.house.port, &setting.path(), &token, &setting.body()).await;
    drop(opened.close);
    // The server may not have got rid of the beginning yet.
    drop(tokio::time::timeout(LIMIT, gone).await.expect("the request ends"));
    until(|| setting.watch.settled() == [(0, CallUsage::Begun)]).await;
    assert_eq!(opened.ticket.places.available_permits(), 8);
    drop(still);
}

#[tokio::test]
async fn a_freeze_ends_the_turn_of_a_program_and_what_it_asked() {
    let server = ModelServer::start();
    let mut crew = Crew::with(Some(Api::AnthropicMessages), |document| {
        document["models"] = json!({"providers": {"fake": provider(&server, Api::AnthropicMessages)}});
        document["agents"]["defaults"]["model"] = json!({"primary": "fake/test-model"});
    })
    .await;
    let (turn, answer) = crew.begin().await;
    let body = json!({"max_tokens": 300, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let gone = server.reply_until_gone(flood().as_str().into());
    let token = turn.relay.clone().unwrap();
    let still = ask_and_stand_still(crew.port, "/relay/anthropic/v1/messages", &token, &body).await;
    let ticket = turn.ticket.clone();
    let (status, frozen) = crew.ask(Call::post("/api/agents/coder/freeze")).await;
    assert_eq!((status, &frozen["agents"][0]["changed"]), (200, &true.into()), "{frozen}");
    turn.ended().await;
    drop(tokio::time::timeout(LIMIT, gone).await.expect("the request ends"));
    assert!(answer.await.unwrap().0 >= 400, "the turn has no answer");
    until(|| ticket.calls.now().usage.output == 300).await;
    // It is charged as the most that it may have taken, and nothing stays set aside.
    let (_, told) = crew.ask(Call::get("/api/usage")).await;
    assert_eq!(told["total"]["calls"], 1, "{told}");
    drop(still);
    crew.stopped().await;
}

#[tokio::test]
async fn what_fails_in_passing_is_asked_again_and_costs_one_call() {
    let setting = Setting::new(Api::AnthropicMessages).await;
    let opened = setting.open();
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n";
    setting
        .server
        .reply(Reply::status(500, "oops"))
        .reply(Reply::status(529, "busy"))
        // Nothing of an answer has been passed on yet.
        .reply(Reply::stream(vec![overloaded.into()]));
    let (status, text) = setting.ask(&opened).await;
    assert_eq!((status, text.contains("ok")), (200, true), "{text}");
    assert_eq!(setting.server.requests().len(), 4);
    assert_eq!(setting.watch.calls.lock().unwrap().len(), 1);
    let settled = setting.watch.settled();
    assert!(matches!(settled[..], [(0, CallUsage::Told(_))]), "{settled:?}");
    assert_eq!(opened.ticket.calls.now().refused, None);
}

#[tokio::test]
async fn a_servers_count_is_held_against_what_was_seen_of_its_answer() {
    for api in ALL {
        let setting = Setting::new(api).await;
        setting.server.reply(Reply::text(&"word ".repeat(14_000)));
        let (status, text) = setting.ask(&setting.open()).await;
        assert!(status == 200 && text.len() > 69_000, "{api:?}");
        let seen = setting.watch.seen.lock().unwrap()[0];
        assert_eq!(seen.output, 17_500, "{api:?}");
        assert!(seen.input > 0, "{api:?}");
    }
}

#[tokio::test]
async fn what_is_refused_for_good_says_so_in_a_way_that_no_program_asks_again_after() {
    for api in ALL {
        let setting = Setting::new(api).await;
        for (status, tries, taken) in [
            (401, 1, CallUsage::Nothing),
            (403, 1, CallUsage::Nothing),
            (404, 1, CallUsage::Nothing),
            (400, 1, CallUsage::Nothing),
            (402, 1, CallUsage::Nothing),
            (429, 4, CallUsage::Nothing),
            (500, 4, CallUsage::Sent),
        ] {
            let opened = setting.open();
            let before = setting.server.requests().len();
            for _ in 0..tries {
                setting.server.reply(Reply::status(status, &format!("no, says {KEY}")));
            }
            let answer = setting.begin(setting.call(opened.relay.as_deref().unwrap())).await;
            let told = (answer.status(), answer.header("x-should-retry"));
            assert_eq!(told, (400, Some("false")), "{api:?} {status}");
            let text = whole(answer).await.1;
            assert!(text.contains("no, says [key]") && !text.contains(KEY), "{text}");
            assert_eq!(text.contains("flock: "), status != 400, "its own words where the request is wrong");
            assert_eq!(setting.server.requests().len() - before, tries, "{api:?} {status}");
            let refused = opened.ticket.calls.now().refused.unwrap();
            assert_eq!((refused.0, refused.1.contains(KEY)), (status, false), "{refused:?}");
            let settled = setting.watch.settled();
            assert_eq!(settled.last().unwrap().1, taken, "{api:?} {status}");
        }
        let gone = json!({"baseUrl": "http://127.0.0.1:9", "apiKey": KEY, "api": api.as_str()});
        setting.house.edit(|document| document["models"]["providers"]["fake"] = gone);
        let opened = setting.open();
        let (status, text) = setting.ask(&opened).await;
        assert_eq!((status, text.contains("can't connect")), (400, true), "{text}");
        assert_eq!(opened.ticket.calls.now().refused.unwrap().0, 0);
        assert_eq!(opened.ticket.calls.now().answered, 0);
        assert_eq!(setting.watch.settled().last().unwrap().1, CallUsage::Nothing, "nothing left the machine");
    }
}

#[tokio::test]
async fn a_program_that_asks_again_where_nobody_answers_is_told_the_same_and_nobody_is_asked() {
    for api in ALL {
        let setting = Setting::new(api).await;
        let opened = setting.open();
        for _ in 0..4 {
            setting.server.reply(Reply::status(500, "down"));
        }
        let first = setting.ask(&opened).await;
        assert!(first.0 == 400 && first.1.contains("down"), "{first:?}");
        // Claude Code asks again with less in its request.
        for _ in 0..2 {
            let call = setting.call(opened.relay.as_deref().unwrap()).header("x-stainless-retry-count", "1");
            let again = setting.begin(call).await;
            assert_eq!(again.header("x-should-retry"), Some("false"));
            assert_eq!(whole(again).await, first);
        }
        assert_eq!((setting.server.requests().len(), setting.watch.settled().len()), (4, 1), "{api:?}");
        // It is the word on one turn.
        assert_eq!(setting.ask(&setting.open()).await.0, 200);
        // What is wrong with a request may be mended by the program.
        let opened = setting.open();
        for _ in 0..2 {
            setting.server.reply(Reply::status(400, "prompt is too long: 9 tokens > 8 maximum"));
            assert_eq!(setting.ask(&opened).await.0, 400);
        }
        assert_eq!(setting.ask(&opened).await.0, 200);
        assert_eq!(setting.server.requests().len(), 8, "{api:?}");
    }
    let budget = Watch { budget: 0, ..Watch::default() };
    let setting = Setting::with(Api::AnthropicMessages, budget, |_| {}).await;
    let opened = setting.open();
    let first = setting.ask(&opened).await;
    assert!(first.0 == 400 && first.1.contains("the budget of the day is used up"), "{first:?}");
    assert_eq!(setting.ask(&opened).await, first);
    assert_eq!(opened.ticket.step(), 2, "the budget was asked once");
}

#[tokio::test]
async fn what_was_said_last_stands_for_a_while_only() {
    let setting = Setting::new(Api::AnthropicMessages).await;
    let live = Arc::new(Live::open(setting.house.home.clone()).unwrap());
    let catalog = Catalog::new(setting.house.home.clone());
    let relay = Relay::new(live, catalog, setting.watch.clone(), 9).with_error_repeat(Duration::ZERO);
    let opened = relay.tickets().open(&order("coder"), Some(setting.api));
    let path = setting.path();
    let house = House::with_parts(ServerLimits::default(), |parts| parts.relay = Arc::new(relay)).await;
    setting.server.reply(Reply::status(403, "no"));
    let ask = || async {
        let call = Call::post(&path).json(&setting.body()).unwrap();
        let call = call.header("x-api-key", opened.relay.as_deref().unwrap());
        whole(Client::new(house.port).send(call, LIMIT).await.unwrap()).await.0
    };
    for expected in [400, 200] {
        assert_eq!(ask().await, expected);
    }
    assert_eq!(setting.server.requests().len(), 2);
    // What was forbidden is no reason any more for what goes wrong after the next call that is let through.
    for (model, expected) in [("fake/another", 400), ("fake/test-model", 200)] {
        setting.house.edit(|document| document["agents"]["defaults"]["model"] = json!({"primary": model}));
        assert_eq!(ask().await, expected);
        assert_eq!(opened.ticket.calls.now().forbidden.is_some(), expected == 400);
    }
}

#[tokio::test]
async fn a_model_is_sent_no_more_than_it_gives_whoever_it_stands_in_for() {
    let spare = ModelServer::start();
    let setting = Setting::with(Api::AnthropicMessages, Watch::default(), |document| {
        let mut smaller = provider(&spare, Api::AnthropicMessages);
        smaller["models"][0]["maxTokens"] = 200.into();
        document["models"]["providers"]["spare"] = smaller;
        document["agents"]["defaults"]["model"]["fallbacks"] = json!(["spare/test-model"]);
    })
    .await;
    let opened = setting.open();
    setting.server.reply(Reply::status(401, "no"));
    assert_eq!(setting.ask(&opened).await.0, 200);
    let mut expected = setting.body();
    expected["model"] = "test-model".into();
    assert_eq!(setting.server.requests()[0].body, expected);
    expected["max_tokens"] = 200.into();
    assert_eq!(String::from_utf8(spare.requests()[0].bytes.clone()).unwrap(), expected.to_string());
    let reserved: Vec<u64> = setting.watch.calls.lock().unwrap().iter().map(|call| call.max_output).collect();
    assert_eq!(reserved, [300, 200]);
}

#[tokio::test]
async fn a_count_that_fails_says_nothing_of_the_model() {
    let spare = ModelServer::start();
    let setting = Setting::with(Api::AnthropicMessages, Watch::default(), |document| {
        document["models"]["providers"]["spare"] = provider(&spare, Api::AnthropicMessages);
        document["agents"]["defaults"]["model"]["fallbacks"] = json!(["spare/test-model"]);
    })
    .await;
    let opened = setting.open();
    let count = async || {
        let call = Call::post("/relay/anthropic/v1/messages/count_tokens").json(&setting.body()).unwrap();
        setting.send(call.header("x-api-key", opened.relay.as_deref().unwrap())).await.0
    };
    for server in [&setting.server, &spare] {
        server.reply(Reply::status(500, "there is no counting here"));
    }
    assert_eq!(count().await, 400);
    assert_eq!((setting.server.requests().len(), spare.requests().len()), (1, 1), "each once");
    assert_eq!(opened.ticket.calls.now(), flock::runtime::program::gate::Count::default());
    assert_eq!(setting.ask(&opened).await.0, 200);
    assert_eq!((setting.server.requests().len(), spare.requests().len()), (2, 1), "the agent's own model");
    // Nor does one that goes well: the model that failed is still passed over.
    setting.server.reply(Reply::status(401, "no"));
    assert_eq!(setting.ask(&opened).await.0, 200);
    spare.reply(Reply::status(404, "not here"));
    assert_eq!((count().await, setting.server.requests().len(), spare.requests().len()), (200, 4, 3));
    assert_eq!(setting.ask(&opened).await.0, 200);
    assert_eq!((setting.server.requests().len(), spare.requests().len()), (4, 4));
}

#[tokio::test]
async fn another_model_answers_only_where_it_is_asked_the_same_way() {
    let (wrong, spare) = (ModelServer::start(), ModelServer::start());
    let setting = Setting::with(Api::AnthropicMessages, Watch::default(), |document| {
        document["models"]["providers"]["wrong"] = provider(&wrong, Api::OpenAiCompletions);
        document["models"]["providers"]["spare"] = provider(&spare, Api::AnthropicMessages);
        document["agents"]["defaults"]["model"]["fallbacks"] =
            json!(["missing/model", "wrong/test-model", "spare/test-model"]);
    })
    .await;
    let opened = setting.open();
    setting.server.reply(Reply::status(401, "no"));
    assert_eq!(setting.ask(&opened).await.0, 200);
    assert_eq!((setting.server.requests().len(), spare.requests().len(), wrong.requests().len()), (1, 1, 0));
    let models: Vec<String> =
        setting.watch.calls.lock().unwrap().iter().map(|call| call.model.to_string()).collect();
    assert_eq!(models, ["fake/test-model", "spare/test-model"], "each with a reservation of its own");
    assert!(matches!(setting.watch.settled()[..], [(0, CallUsage::Nothing), (1, CallUsage::Told(_))]));
    assert_eq!(opened.ticket.calls.now().refused, None);
    // The next call goes to the one that answers.
    assert_eq!(setting.ask(&opened).await.0, 200);
    assert_eq!((setting.server.requests().len(), spare.requests().len()), (1, 2));
    // A request that is wrong would be for others, too.
    spare.reply(Reply::status(400, "tools.0: wrong"));
    assert_eq!(setting.ask(&opened).await.0, 400);
    assert_eq!(setting.server.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_passed_on_as_far_as_it_came() {
    let setting = Setting::new(Api::OpenAiCompletions).await;
    let opened = setting.open();
    let begun = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    setting.server.reply(Reply::stream(vec![
        begun.into(),
        Chunk::Pause(Duration::from_millis(50)),
        Chunk::Reset,
    ]));
    let mut answer = setting.begin(setting.call(opened.relay.as_deref().unwrap())).await;
    assert_eq!(answer.chunk(LIMIT).await.unwrap().unwrap(), begun);
    assert!(answer.chunk(LIMIT).await.is_err(), "it is no whole answer");
    until(|| setting.watch.settled() == [(0, CallUsage::Begun)]).await;
    let count = opened.ticket.calls.now();
    assert_eq!((count.answered, count.refused.unwrap().0), (0, 0));
    // One that ends well in form but not in what it says is passed on whole, and counts as broken off.
    setting.server.reply(Reply::stream(vec![begun.into()]));
    assert_eq!(setting.ask(&opened).await, (200, begun.to_owned()));
    assert_eq!(setting.watch.settled()[1].1, CallUsage::Begun);
    // So does one whose server does not count: it is no free one.
    let uncounted =
        format!("{begun}data: {{\"choices\":[{{\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n");
    setting.server.reply(Reply::stream(vec![uncounted.as_str().into()]));
    assert_eq!(setting.ask(&opened).await.1, uncounted);
    assert_eq!(setting.watch.settled()[2].1, CallUsage::Begun);
    let count = opened.ticket.calls.now();
    assert_eq!((count.answered, count.refused), (1, None));
    // A failure that comes in the middle is the provider's word.
    let failed = format!("{begun}data: {{\"error\":{{\"message\":\"out of memory\",\"code\":500}}}}\n\n");
    setting.server.reply(Reply::stream(vec![
        begun.into(),
        Chunk::Pause(Duration::from_millis(50)),
        failed.as_str().into(),
    ]));
    assert!(setting.ask(&opened).await.1.ends_with(&failed));
    let refused = opened.ticket.calls.now().refused.unwrap();
    assert!(refused.1.contains("out of memory"), "{refused:?}");
}

#[tokio::test]
async fn an_answer_in_one_piece_is_counted_too() {
    let setting = Setting::new(Api::AnthropicMessages).await;
    let opened = setting.open();
    let document = json!({"type": "message", "stop_reason": "end_turn", "content": [{"type": "text", "text": "ok"}],
        "usage": {"input_tokens": 3, "output_tokens": 4}});
    setting.server.reply(Reply::body(200, "application/json", document.to_string()));
    assert_eq!(setting.ask(&opened).await, (200, document.to_string()));
    let count = opened.ticket.calls.now();
    assert_eq!((count.answered, count.usage.input, count.usage.output), (1, 3, 4));
}

#[tokio::test]
async fn a_request_that_is_too_large_or_names_another_model_is_not_passed_on() {
    let setting = Setting::new(Api::AnthropicMessages).await;
    let opened = setting.open();
    let token = opened.relay.clone().unwrap();
    let raw = |body: &[u8]| Call::post(&setting.path()).bytes(body).header("x-api-key", &token);
    let (status, text) = setting.send(raw(&vec![b' '; MAX_BODY + 1])).await;
    assert_eq!((status, text.contains("request_too_large")), (413, true), "{text}");
    for wrong in ["", "[]", "{\"model\":\"a\",\"Model\":\"b\"}", "{\"models\":[\"b\"]}"] {
        let (status, text) = setting.send(raw(wrong.as_bytes())).await;
        assert_eq!((status, text.contains("invalid_request_error")), (400, true), "{text}");
    }
    assert_eq!((setting.server.requests().len(), setting.watch.settled().len()), (0, 0));
}

#[tokio::test]
async fn a_model_that_was_taken_from_the_agent_is_sent_nothing_more() {
    let setting = Setting::new(Api::AnthropicMessages).await;
    let opened = setting.open();
    setting
        .house
        .edit(|document| document["agents"]["defaults"]["model"] = json!({"primary": "fake/another"}));
    assert_eq!(setting.ask(&opened).await.0, 400);
    let Some(CallRefusal::Settings(why)) = opened.ticket.calls.now().forbidden else { panic!() };
    assert!(why.contains("fake/test-model"), "{why}");
    setting.house.remove("coder");
    assert_eq!(setting.ask(&opened).await.0, 400);
    assert_eq!(setting.server.requests().len(), 0);
}

#[tokio::test]
async fn the_real_key_is_in_nothing_that_the_program_or_a_log_sees() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    for api in ALL {
        let setting = Setting::new(api).await;
        // A server that says what it was sent, in each way that it can.
        let echo = json!({"error": {"message": format!("bad {KEY}"), "type": KEY, KEY: [KEY]}}).to_string();
        let event = format!("data: {{\"echo\": \"{KEY}\"}}\n\n");
        let (one, two) = event.split_at(25);
        for reply in [
            Reply::body(400, "application/json", echo.clone()),
            Reply::body(401, "text/html", format!("<title>{KEY}</title>")),
            Reply::body(200, "application/json", echo.clone()),
            Reply::stream(vec![one.into(), Chunk::Pause(Duration::from_millis(5)), two.into()])
                .header("request-id", KEY),
            Reply::stream(vec![event.as_str().into(), event.as_str().into()]),
        ] {
            let opened = setting.open();
            setting.server.reply(reply);
            let answer = setting.begin(setting.call(opened.relay.as_deref().unwrap())).await;
            assert_ne!(answer.header("request-id"), Some(KEY));
            let text = whole(answer).await.1;
            assert!(!text.contains("planted"), "{api:?}: {text}");
            let seen = format!("{:?}", opened.ticket.calls.now());
            assert!(!seen.contains("planted"), "{seen}");
        }
        assert!(setting.server.requests().len() >= 5);
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("no model answered") && !log.contains("planted"), "{log}");
    assert!(!log.contains("flock-relay-"), "nor is the token");
    assert!(!log.contains(TOKEN));
}

#[tokio::test]
async fn a_placeholder_for_a_key_changes_nothing_of_what_a_server_says() {
    for api in ALL {
        for key in ["test", "k", "e", "ollama", "EMPTY", "sk-no-key-required"] {
            let setting = Setting::with(api, Watch::default(), |document| {
                document["models"]["providers"]["fake"]["apiKey"] = json!(key);
            })
            .await;
            let opened = setting.open();
            let said =
                json!({"unittest.py": format!("a test of {key}: k, ollama, EMPTY"), key: [key]}).to_string();
            let events = format!("data: {said}\n\ndata: {{\"path\": \"tests/{key}.py\"}}\n\n");
            for (status, kind, text) in [
                (200, "application/json", &said),
                (200, "text/event-stream", &events),
                (400, "application/json", &said),
            ] {
                setting.server.reply(Reply::body(status, kind, text.clone()).header("request-id", key));
                let answer = setting.begin(setting.call(opened.relay.as_deref().unwrap())).await;
                if status == 200 {
                    assert_eq!(
                        (answer.header("request-id"), answer.header("content-type")),
                        (Some(key), Some(kind))
                    );
                }
                let told = whole(answer).await;
                let read = |text: &str| serde_json::from_str::<Value>(text).ok();
                assert_eq!(told.0, status, "{api:?} {key}");
                assert!(
                    told.1 == *text || status == 400 && read(&told.1) == read(text),
                    "{api:?} {key}: {}",
                    told.1
                );
            }
            let refused = opened.ticket.calls.now().refused.unwrap();
            assert!(!refused.1.contains("[key]"), "{refused:?}");
        }
    }
}

#[tokio::test]
async fn from_a_sandbox_only_its_own_agents_tokens_open_these_paths_and_no_others_are_there() {
    let setting = Setting::new(Api::AnthropicMessages).await;
    let opened = setting.open();
    let (relay, mcp) = (opened.relay.clone().unwrap(), opened.mcp.clone());
    let own = setting.house.port;
    let ask = |agent: &'static str, line: &str, host: &str, token: &str, body: &str| {
        let gateway = setting.house.gateway.clone();
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nanthropic-version: 2023-06-01\r\n\
             Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        async move {
            let proxy = Proxy {
                agent: agent.parse().unwrap(),
                policy: Arc::new(Closed),
                dial: Arc::new(SystemDialer::default()),
                has_network: false,
                inside: Some(Arc::new(Middleware::new(gateway))),
            };
            let (mut inside, theirs) = tokio::io::duplex(1 << 16);
            tokio::spawn(Arc::new(proxy).serve(theirs));
            inside.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            tokio::time::timeout(LIMIT, inside.read_to_string(&mut answer)).await.unwrap().unwrap();
            answer
        }
    };
    let (here, body) = ("127.0.0.1:3128", setting.body().to_string());
    let path = format!("POST {}", setting.path());
    let status = |answer: &str| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    let answer = ask("coder", &path, here, &relay, &body).await;
    assert!(status(&answer) == "200" && answer.contains("ok") && answer.contains("message_stop"), "{answer}");
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}).to_string();
    let answer = ask("coder", "POST /mcp", here, &mcp, &hello).await;
    assert!(status(&answer) == "200" && answer.contains("serverInfo"), "{answer}");
    let far = format!("POST http://127.0.0.1:{own}{}", setting.path());
    for (agent, line, host, token, expected, word) in [
        ("tester", path.as_str(), here, relay.as_str(), "403", "permission_error"),
        ("tester", "POST /mcp", here, &mcp, "403", "foreign_token"),
        ("coder", &path, here, &mcp, "401", "authentication_error"),
        ("coder", &path, here, TOKEN, "403", "permission_error"),
        ("coder", &path, "evil.example", &relay, "403", "permission_error"),
        ("coder", &path, &format!("127.0.0.1:{own}"), &relay, "403", "permission_error"),
        ("coder", "GET /api/agents", here, TOKEN, "403", "no network"),
        ("coder", "GET /health", here, TOKEN, "403", "no network"),
        ("coder", "POST /mcp/x", here, &mcp, "403", "no network"),
        ("coder", &far, here, &relay, "403", "no network"),
        ("coder", "CONNECT 127.0.0.1:443", here, &relay, "403", "no network"),
    ] {
        let answer = ask(agent, line, host, token, &body).await;
        assert!(status(&answer) == expected && answer.contains(word), "{agent} {line} {host}: {answer}");
    }
    assert_eq!(setting.server.requests().len(), 1);
}

/// Lets nothing through.
struct Closed;

impl EgressPolicy for Closed {
    fn rules<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Vec<EgressRule>> {
        Box::pin(async { Vec::new() })
    }

    fn note(&self, _: &AgentId, connection: &ConnectionRecord) {
        panic!("nothing may be tried: {connection:?}");
    }
}

#[tokio::test]
async fn budgets_usage_and_the_answer_count_the_same_and_nothing_twice() {
    let server = ModelServer::start();
    let mut crew = Crew::with(Some(Api::AnthropicMessages), |document| {
        document["models"] = json!({"providers": {"fake": provider(&server, Api::AnthropicMessages)}});
        document["models"]["providers"]["fake"]["models"][0]["maxTokens"] = 80_000.into();
        document["agents"]["defaults"]["model"] = json!({"primary": "fake/test-model"});
        let own = &mut document["plugins"]["entries"]["flock"]["config"];
        own["budgets"] = json!({"agent": {"coder": {"tokens": 60_000}}});
    })
    .await;
    let (turn, answer) = crew.begin().await;
    // Before the first call nothing is set aside: the turn itself costs nothing.
    until_sums(&crew, (0, 0)).await;
    let call = |tokens: u64| {
        let body = json!({"model": "x", "max_tokens": tokens, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
        let call = Call::post("/relay/anthropic/v1/messages").json(&body).unwrap();
        call.header("x-api-key", turn.relay.as_deref().unwrap()).header("anthropic-version", "2023-06-01")
    };
    for _ in 0..2 {
        let (status, _) = whole(Client::new(crew.port).send(call(300), LIMIT).await.unwrap()).await;
        assert_eq!(status, 200);
    }
    until_sums(&crew, (2, 30)).await;
    // What is asked for does not fit any more; it is said to the program, and costs nothing.
    let (status, text) = whole(Client::new(crew.port).send(call(70_000), LIMIT).await.unwrap()).await;
    assert!(status == 400 && text.contains("budget"), "{text}");
    assert!(turn.ticket.calls.now().forbidden.is_some());
    assert_eq!(server.requests().len(), 2);
    let count = turn.ticket.calls.now();
    assert_eq!((count.answered, count.usage.input + count.usage.output), (2, 30));
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    until_sums(&crew, (2, 30)).await;
    let (_, by_model) = crew.ask(Call::get("/api/usage?by=model")).await;
    assert_eq!(by_model["usage"][0]["name"], "fake/test-model");
    let sessions = flock::store::Store::open(&crew.home).unwrap().sessions().list(None, 10).await.unwrap();
    let counted: Vec<u64> =
        sessions.iter().map(|session| session.tokens.input + session.tokens.output).collect();
    assert_eq!(counted, [30], "the answer's own count");
    crew.stopped().await;
}

#[tokio::test]
async fn a_turn_that_a_budget_ends_is_paused_and_none_begins_until_there_is_room_for_what_had_none() {
    let server = ModelServer::start();
    let mut crew = Crew::with(Some(Api::AnthropicMessages), |document| {
        document["models"] = json!({"providers": {"fake": provider(&server, Api::AnthropicMessages)}});
        document["agents"]["defaults"]["model"] = json!({"primary": "fake/test-model"});
        let own = &mut document["plugins"]["entries"]["flock"]["config"];
        own["budgets"] = json!({"agent": {"coder": {"tokens": 60_000}}});
    })
    .await;
    let (turn, answer) = crew.begin().await;
    let paused =
        || RuntimeError::Paused { why: PauseReason::Budget("no room".to_owned()), call: (1_000, 70_000) };
    turn.fail(paused());
    let (status, body) = answer.await.unwrap();
    assert_eq!((status, &body["error"]["code"]), (402, &json!("agent_paused")), "{body}");
    // What any turn is looked at for would fit.
    let (status, body) = crew.say(json!({"agent": "coder", "prompt": "again"})).await.unwrap();
    assert_eq!((status, &body["error"]["code"]), (402, &json!("agent_paused")), "{body}");
    flock::config::edit(&crew.home, |document| {
        let own = &mut document["plugins"]["entries"]["flock"]["config"];
        own["budgets"] = json!({"agent": {"coder": {"tokens": 90_000}}});
        Ok::<_, flock::config::ConfigError>(())
    })
    .unwrap();
    let (turn, answer) = crew.begin().await;
    turn.say("there is room");
    assert_eq!(answer.await.unwrap().0, 200);
    until_sums(&crew, (0, 0)).await;
    crew.stopped().await;
}

#[tokio::test]
async fn what_a_program_said_that_it_took_is_charged_however_its_turn_ends() {
    let mut crew = Crew::new().await;
    let took = |input, cost| RuntimeEvent::Usage(Usage { input, cost: Some(cost), ..Usage::default() });
    let (turn, answer) = crew.begin().await;
    turn.tell(took(1_000, 5_000));
    turn.tell(took(3_000, 7_000));
    turn.fail(RuntimeError::Failed { program: "Played".into(), message: "no".into(), hint: String::new() });
    assert_eq!(answer.await.unwrap().0, 424);
    until_sums(&crew, (1, 3_000)).await;
    let (turn, answer) = crew.begin().await;
    turn.tell(took(400, 2_000));
    let program = Client::new(crew.port).with_token(&turn.token);
    // What was told before is heard before the second of these.
    for id in 0..2 {
        let params = json!({"name": "flock_status", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        assert_eq!(crew.send(&program, Call::post("/mcp").json(&call).unwrap()).await.0, 200);
    }
    crew.gateway.driver.cancel_agent(&"coder".parse().unwrap());
    turn.ended().await;
    assert_eq!(answer.await.unwrap().0, 424);
    until_sums(&crew, (2, 3_400)).await;
    let (_, body) = crew.ask(Call::get("/api/usage?by=agent")).await;
    assert_eq!(body["total"]["costMicros"], 9_000, "{body}");
    // What nothing was begun of costs nothing.
    let (turn, answer) = crew.begin().await;
    turn.fail(RuntimeError::NotBegun { program: "Played".into(), reason: "no".into(), hint: String::new() });
    let (status, body) = answer.await.unwrap();
    assert_eq!((status, &body["error"]["code"]), (503, &json!("runtime_not_begun")), "{body}");
    until_sums(&crew, (2, 3_400)).await;
    crew.stopped().await;
}

/// Waits until `GET /api/usage` tells of so many calls and tokens.
async fn until_sums(crew: &Crew, expected: (u64, u64)) {
    let end = std::time::Instant::now() + LIMIT;
    loop {
        let (_, body) = crew.ask(Call::get("/api/usage?by=agent")).await;
        if (&body["total"]["calls"], &body["total"]["tokens"]) == (&expected.0.into(), &expected.1.into()) {
            return;
        }
        assert!(std::time::Instant::now() < end, "{body}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Not a promise but a measure: `cargo test --test suite -- --ignored --nocapture relays_added`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn what_the_relays_added_time_to_the_first_byte_is() {
    let setting = Setting::new(Api::AnthropicMessages).await;
    setting.server.forget_requests();
    let opened = setting.open();
    let direct = Client::new(setting.server.address().port());
    let mut body = setting.body();
    body["system"] = "word ".repeat(18_000).into();
    let call = |path: &str, token: &str| {
        let call = Call::post(path).json(&body).unwrap();
        call.header("x-api-key", token).header("anthropic-version", "2023-06-01")
    };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..200 {
        for (relayed, times) in times.iter_mut().enumerate() {
            let from = std::time::Instant::now();
            let mut answer = if relayed == 1 {
                setting.begin(call(&setting.path(), opened.relay.as_deref().unwrap())).await
            } else {
                direct.send(call("/v1/messages", KEY), LIMIT).await.unwrap()
            };
            answer.chunk(LIMIT).await.unwrap().unwrap();
            times.push(from.elapsed());
            while answer.chunk(LIMIT).await.unwrap().is_some() {}
        }
    }
    let [direct, relayed] = times.map(|mut times| {
        times.sort_unstable();
        (times[100], times[190])
    });
    println!("to the first byte, median and 95 of 100: direct {direct:?}, relayed {relayed:?}");
}

#[tokio::test]
async fn azure_is_shown_its_key_in_its_own_header() {
    let setting = Setting::with(Api::OpenAiResponses, Watch::default(), |document| {
        let mut azure = document["models"]["providers"]["fake"].clone();
        azure["baseUrl"] = azure["baseUrl"].as_str().unwrap().trim_end_matches("/v1").into();
        document["models"]["providers"]["my-azure"] = azure;
        document["agents"]["defaults"]["model"]["primary"] = "my-azure/test-model".into();
    })
    .await;
    let order = RuntimeRequest { model: "my-azure/test-model".parse().unwrap(), ..order("coder") };
    let opened = setting.tickets.open(&order, Some(Api::OpenAiResponses));
    let (status, text) = setting.ask(&opened).await;
    assert_eq!(status, 200, "{text}");
    let asked = setting.server.requests().pop().unwrap();
    assert_eq!((asked.path.as_str(), asked.header("api-key")), ("/openai/v1/responses", KEY));
    assert_eq!(asked.header("authorization"), "");
}

#[tokio::test]
async fn a_turn_begins_only_where_its_program_can_ask_its_model() {
    let setting = Setting::with(Api::AnthropicMessages, Watch::default(), |document| {
        document["plugins"]["entries"]["flock"]["config"]["gateway"]["port"] = 4.into();
        let providers = &mut document["models"]["providers"];
        for (id, change) in [
            ("other", json!({"api": "openai-completions"})),
            ("signed", json!({"api": "bedrock-converse-stream"})),
            ("keyless", json!({"apiKey": "env:FLOCK_TEST_NO_SUCH"})),
        ] {
            providers[id] = providers["fake"].clone();
            for (name, value) in change.as_object().unwrap() {
                providers[id][name] = value.clone();
            }
        }
    })
    .await;
    let claude = program::listed("claude").unwrap();
    let relay = setting.house.gateway.relay.clone();
    let open = |model: &str, own_login| {
        relay.open(&RuntimeRequest { model: model.parse().unwrap(), ..order("coder") }, claude, own_login)
    };
    let pass = open("fake/test-model", false).unwrap();
    let relayed = pass.relay.clone().unwrap();
    assert_eq!((relayed.api, relayed.context_window, relayed.max_tokens), (setting.api, 100_000, 1_000));
    // The port that is listened on is not the one of a configuration that was changed since.
    assert_eq!(pass.host_origin, format!("http://127.0.0.1:{}", setting.house.port));
    assert_eq!(setting.send(setting.call(&relayed.token)).await.0, 200);
    assert_eq!(pass.calls.now().answered, 1);
    drop(pass);
    assert_eq!(setting.send(setting.call(&relayed.token)).await.0, 401);
    for (model, why, mend) in [
        (
            "other/test-model",
            "Claude Code does not speak",
            "flock config set agents.list[coder].model.primary",
        ),
        ("signed/test-model", "can't be passed on", "flock config set agents.list[coder].model.primary"),
        ("keyless/test-model", "FLOCK_TEST_NO_SUCH", "flock config set models.providers.keyless.apiKey"),
        ("script/demo", "played by flock itself", "flock config set"),
    ] {
        // What is in this home and can't be used is a mistake, not a reason for another account.
        for own_login in [false, true] {
            let Err(error) = open(model, own_login) else { panic!("{model} can't be asked") };
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.hint().unwrap().starts_with(mend), "{:?}", error.hint());
            assert!(!error.is_passing() && !error.may_have_begun());
        }
    }
    assert!(open("nowhere/model", false).is_err());
    let own = open("nowhere/model", true).unwrap();
    assert!(own.relay.is_none() && setting.tickets.mcp(own.mcp_token.as_bytes()).is_some());
}

/// What is written to a log that takes everything.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

//! Tools that a client brings, over both APIs, with a gateway of its own process and a model that follows a script.

use flock::supervise::gateway_client::{Call, Client};
use serde_json::{Value, json};

use super::house::LIMIT;
use crate::support::home::TempHome;
use crate::team::stage::{Served, add, transcripts};

const KEY: &str = "agent:coder:flock:main:ann";

struct Scene {
    home: TempHome,
    served: Option<Served>,
}

/// The script of the agents: what the model does for these words.
fn replies() -> Value {
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let weather = call("weather", json!({"city": "Oslo"}));
    json!([
        {"when": "two cities", "steps": [
            {"say": "I look.", "calls": [weather, call("flock_status", json!({})), call("weather", json!({"city": "Rome"}))]},
            {"say": "It is: {{last_result}}"}]},
        {"when": "twice", "steps": [
            {"calls": [weather]}, {"calls": [call("weather", json!({"city": "Rome"}))]}, {"say": "Both."}]},
        {"when": "form", "steps": [{"calls": [weather]}, {"say": "{\"n\": 3}"}]},
        {"when": "weather", "steps": [{"calls": [weather]}, {"say": "It is: {{last_result}}"}]},
        {"when": "never mind", "steps": [{"say": "As you like."}]},
        {"steps": [{"say": "hello"}]},
    ])
}

fn chat_tools() -> Value {
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!([{"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": parameters}}])
}

fn response_tools() -> Value {
    let mut tool = chat_tools()[0]["function"].clone();
    tool["type"] = json!("function");
    json!([tool])
}

impl Scene {
    async fn new() -> Self {
        // The commands wait for threads of their own.
        tokio::task::spawn_blocking(|| {
            let home = TempHome::new().init();
            add(&home, "coder", &replies());
            add(&home, "delegate", &replies());
            let mut config = home.config();
            let agents =
                config["plugins"]["entries"]["flock"]["config"]["gatewayAgents"].as_array_mut().unwrap();
            agents.iter_mut().find(|agent| agent["id"] == "delegate").unwrap()["runtime"] = json!("openclaw");
            std::fs::write(home.file("config.json"), config.to_string()).unwrap();
            let served = Some(Served::start(&home));
            Self { home, served }
        })
        .await
        .unwrap()
    }

    /// Kills the gateway and starts another one.
    async fn crash(mut self) -> Self {
        tokio::task::spawn_blocking(|| {
            self.served.take().unwrap().kill();
            self.served = Some(Served::start(&self.home));
            self
        })
        .await
        .unwrap()
    }

    fn owner(&self) -> Client {
        self.home.owner()
    }

    async fn send(&self, client: &Client, call: Call) -> (u16, Value) {
        let answer = client.send(call, LIMIT).await.unwrap();
        let status = answer.status();
        (status, answer.json(LIMIT).await.unwrap())
    }

    async fn get(&self, path: &str) -> Value {
        self.send(&self.owner(), Call::get(path)).await.1
    }

    /// Sends messages with the tool.
    async fn try_chat(&self, messages: Value, more: Value, headers: &[(&'static str, &str)]) -> (u16, Value) {
        let mut body = json!({"model": "coder", "messages": messages, "tools": chat_tools()});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        let call = Call::post("/v1/chat/completions").json(&body).unwrap();
        let call = headers.iter().fold(call, |call, (name, value)| call.header(name, value));
        self.send(&self.owner(), call).await
    }

    async fn chat(&self, messages: Value, more: Value, headers: &[(&'static str, &str)]) -> Value {
        let (status, body) = self.try_chat(messages, more, headers).await;
        assert_eq!(status, 200, "{body}");
        body["choices"][0].clone()
    }

    async fn fails(&self, messages: Value, headers: &[(&'static str, &str)], code: &str) {
        let (status, body) = self.try_chat(messages, json!({}), headers).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!(code)), "{body}");
    }

    async fn try_respond(&self, more: Value) -> (u16, Value) {
        let mut body = json!({"model": "coder", "tools": response_tools()});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        self.send(&self.owner(), Call::post("/v1/responses").json(&body).unwrap()).await
    }

    async fn respond(&self, more: Value) -> Value {
        let (status, body) = self.try_respond(more).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    async fn pending(&self, key: &str) -> usize {
        let sessions = self.get("/api/sessions?agent=coder").await;
        let found = sessions["sessions"].as_array().unwrap().iter().find(|session| session["key"] == key);
        found.unwrap_or_else(|| panic!("{sessions}"))["pendingCalls"].as_array().unwrap().len()
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn tool(call: &Value, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": call["id"], "content": text})
}

/// The data of a stream's events.
async fn events(client: &Client, path: &str, body: &Value) -> Vec<Value> {
    let answer = client.send(Call::post(path).json(body).unwrap(), LIMIT).await.unwrap();
    assert_eq!(answer.status(), 200);
    let text = String::from_utf8(answer.bytes(1 << 20, LIMIT).await.unwrap().to_vec()).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn a_client_that_keeps_its_conversation_answers_calls_in_the_same_session() {
    let scene = Scene::new().await;
    let asked = user("two cities, please");
    let choice = scene.chat(json!([asked]), json!({}), &[]).await;
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], "I look.");
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    // The agent's own call in the middle was run, and is not the client's to see.
    assert_eq!(calls.len(), 2, "{choice}");
    assert_eq!(calls[1]["function"], json!({"name": "weather", "arguments": "{\"city\":\"Rome\"}"}));
    let conversation = |more: &[Value]| {
        let begun = [asked.clone(), choice["message"].clone()];
        json!(begun.iter().chain(more).collect::<Vec<_>>())
    };
    let (oslo, rome) = (tool(&calls[0], "mild"), tool(&calls[1], "hot"));
    scene.fails(conversation(std::slice::from_ref(&oslo)), &[], "tool_call_missing").await;
    scene.fails(conversation(&[oslo.clone(), oslo.clone()]), &[], "tool_call_doubled").await;
    let stranger = json!({"role": "tool", "tool_call_id": "call_1", "content": "x"});
    scene.fails(conversation(&[oslo.clone(), stranger]), &[], "tool_call_not_pending").await;
    let whole = conversation(&[oslo, rome]);
    let done = scene.chat(whole.clone(), json!({}), &[]).await;
    assert_eq!((&done["finish_reason"], &done["message"]["content"]), (&json!("stop"), &json!("It is: hot")));
    // Both turns are in one transcript, with the agent's own call.
    let kept = transcripts(&scene.home, "coder");
    assert_eq!(kept.len(), 1);
    assert!(kept[0].contains("flock_status") && kept[0].contains("mild"));
    // The same once more: the client's conversation stands for itself, in a session of its own.
    let again = scene.chat(whole.clone(), json!({}), &[]).await;
    assert_eq!(again["message"]["content"], "It is: hot");
    assert_eq!(transcripts(&scene.home, "coder").len(), 2);
    let mut messages = whole.as_array().unwrap().clone();
    messages.extend([again["message"].clone(), user("thanks")]);
    assert_eq!(scene.chat(json!(messages), json!({}), &[]).await["message"]["content"], "hello");
    // The audit has the calls and their results, and no word of them.
    let audit = scene.get("/api/audit?limit=100").await.to_string();
    for words in ["handed to the client", "tool.result", "from the client, untrusted, 4 bytes"] {
        assert!(audit.contains(words), "{words}: {audit}");
    }
    assert!(!audit.contains("mild"));
}

#[tokio::test]
async fn a_session_by_its_key_waits_for_results_through_a_crash_and_a_freeze() {
    let scene = Scene::new().await;
    let key = [("x-openclaw-session-key", KEY)];
    let choice = scene.chat(json!([user("the weather twice")]), json!({}), &key).await;
    let first = choice["message"]["tool_calls"][0].clone();
    assert_eq!(scene.pending(KEY).await, 1);
    let listed = scene.home.flock(["session", "list"]).ok();
    assert!(listed.stdout.contains("waits for a client: weather"), "{listed:?}");
    let turns = scene.get(&format!("/api/sessions/{KEY}/transcript")).await.to_string();
    assert!(turns.contains("\"result\":null"), "{turns}");
    let scene = scene.crash().await;
    assert_eq!(scene.pending(KEY).await, 1);
    scene.home.flock(["freeze", "coder"]).ok();
    let (status, _) = scene.try_chat(json!([tool(&first, "mild")]), json!({}), &key).await;
    assert_eq!(status, 423);
    scene.home.flock(["thaw", "coder"]).ok();
    // Only the result is sent: the session has the rest.
    let choice = scene.chat(json!([tool(&first, "mild")]), json!({}), &key).await;
    let second = choice["message"]["tool_calls"][0].clone();
    assert_ne!(first["id"], second["id"]);
    scene.fails(json!([tool(&first, "mild")]), &key, "tool_call_not_pending").await;
    // A result and a new message may come together.
    let done = scene.chat(json!([tool(&second, "hot"), user("never mind")]), json!({}), &key).await;
    assert_eq!(done["message"]["content"], "As you like.");
    assert_eq!(scene.pending(KEY).await, 0);
    // A new message instead of a result.
    scene.chat(json!([user("the weather")]), json!({}), &key).await;
    let done = scene.chat(json!([user("never mind")]), json!({}), &key).await;
    assert_eq!(done["message"]["content"], "As you like.");
    assert!(transcripts(&scene.home, "coder")[0].contains("was not answered"));
    // The listing shows the results beside their calls.
    let turns = scene.get(&format!("/api/sessions/{KEY}/transcript")).await.to_string();
    assert!(turns.contains("mild") && !turns.contains("\"result\":null"), "{turns}");
    // Another client has no part in it.
    let paused = scene.chat(json!([user("the weather")]), json!({}), &key).await;
    let made = scene.home.flock(["token", "add", "bot", "--agents", "coder", "--rights", "chat", "--json"]);
    let bot = Client::new(scene.home.port()).with_token(made.ok().json()["token"].as_str().unwrap());
    let call = &paused["message"]["tool_calls"][0];
    let body = json!({"model": "coder", "messages": [tool(call, "x")], "tools": chat_tools()});
    let (status, body) = scene.send(&bot, Call::post("/v1/chat/completions").json(&body).unwrap()).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("tool_call_not_pending")));
    assert_eq!(scene.pending(KEY).await, 1);
}

#[tokio::test]
async fn a_stream_hands_out_calls_and_a_key_repeats_them() {
    let scene = Scene::new().await;
    let body =
        json!({"model": "coder", "messages": [user("two cities")], "tools": chat_tools(), "stream": true});
    let chunks = events(&scene.owner(), "/v1/chat/completions", &body).await;
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "I look.");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    let deltas: Vec<&Value> = chunks
        .iter()
        .flat_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten())
        .collect();
    assert_eq!((deltas.len(), &deltas[3]["index"]), (4, &json!(1)), "{deltas:?}");

    // A repeat under the same key is the same answer, also after the calls were answered and over a crash.
    let once = [("idempotency-key", "k1"), ("x-openclaw-session-key", KEY)];
    let messages = json!([user("the weather")]);
    let first = scene.chat(messages.clone(), json!({}), &once).await;
    assert_eq!(scene.chat(messages.clone(), json!({}), &once).await, first);
    let answer = json!([tool(&first["message"]["tool_calls"][0], "mild")]);
    let answered = [("idempotency-key", "k2"), ("x-openclaw-session-key", KEY)];
    let done = scene.chat(answer.clone(), json!({}), &answered).await;
    assert_eq!(done["message"]["content"], "It is: mild");
    assert_eq!(scene.chat(answer.clone(), json!({}), &answered).await, done);
    let scene = scene.crash().await;
    assert_eq!(scene.chat(answer, json!({}), &answered).await, done);
    assert_eq!(scene.chat(messages, json!({}), &once).await, first);
}

#[tokio::test]
async fn responses_hand_out_function_calls_and_take_their_outputs() {
    let scene = Scene::new().await;
    let first = scene.respond(json!({"input": "two cities"})).await;
    let kinds = |response: &Value| -> Vec<String> {
        let items = response["output"].as_array().unwrap().iter();
        items.map(|item| item["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&first), ["message", "mcp_call", "function_call", "function_call"]);
    assert_eq!((&first["status"], &first["tools"][0]["name"]), (&json!("completed"), &json!("weather")));
    let call = |at: usize| first["output"][at]["call_id"].clone();
    let output =
        |call: Value, text: &str| json!({"type": "function_call_output", "call_id": call, "output": text});
    let previous = |input: Value| json!({"input": input, "previous_response_id": first["id"]});
    let (status, body) = scene.try_respond(previous(json!([output(call(2), "mild")]))).await;
    assert_eq!(
        (status, &body["error"]["code"], &body["error"]["param"]),
        (400, &json!("tool_call_missing"), &json!("input"))
    );
    let done = scene.respond(previous(json!([output(call(2), "mild"), output(call(3), "hot")]))).await;
    assert_eq!(done["output"][0]["content"][0]["text"], "It is: hot");

    // Streamed, by a client that keeps the conversation itself and refers to what is stored.
    let mut body =
        json!({"model": "coder", "tools": response_tools(), "input": "the weather", "stream": true});
    let told = events(&scene.owner(), "/v1/responses", &body).await;
    let arguments: String = told
        .iter()
        .filter(|event| event["type"] == "response.function_call_arguments.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(arguments, "{\"city\":\"Oslo\"}");
    let item = &told.last().unwrap()["response"]["output"][0];
    assert_eq!(scene.pending_in_requests().await, 1);
    body["input"] = json!([user("the weather"), {"type": "item_reference", "id": item["id"]},
        output(item["call_id"].clone(), "mild")]);
    let told = events(&scene.owner(), "/v1/responses", &body).await;
    let response = &told.last().unwrap()["response"];
    assert_eq!(response["output"][0]["content"][0]["text"], "It is: mild");
    assert_eq!(scene.pending_in_requests().await, 0);
    let unknown = json!({"input": [user("x"), {"type": "item_reference", "id": "fc_x_0"}]});
    assert_eq!(scene.try_respond(unknown).await.0, 400);
}

#[tokio::test]
async fn a_response_that_is_not_stored_keeps_its_session_until_its_calls_are_answered() {
    let scene = Scene::new().await;
    let first = scene.respond(json!({"input": "the weather", "store": false})).await;
    let call = first["output"][0].clone();
    assert_eq!(transcripts(&scene.home, "coder").len(), 1);
    let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "mild"});
    let done = scene.respond(json!({"input": [user("the weather"), call, output], "store": false})).await;
    assert_eq!(done["output"][0]["content"][0]["text"], "It is: mild");
    assert_eq!(transcripts(&scene.home, "coder"), Vec::<String>::new());
    // A form is asked of the last answer, not of the calls before it.
    let format = json!({"format": {"type": "json_schema", "name": "n", "schema": {"type": "object", "required": ["n"]}}});
    let first = scene.respond(json!({"input": "the form", "text": format})).await;
    let output =
        json!({"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "x"});
    let done =
        scene.respond(json!({"input": [output], "previous_response_id": first["id"], "text": format})).await;
    assert_eq!(done["output"][0]["content"][0]["text"], "{\"n\": 3}");
}

#[tokio::test]
async fn tools_are_refused_by_name_where_they_can_not_be() {
    let scene = Scene::new().await;
    for (name, code) in
        [("read", "tool_name_taken"), ("Exec", "tool_name_taken"), ("flock_x", "tool_name_taken")]
    {
        let tools = json!([{"type": "function", "function": {"name": name}}]);
        let (status, body) = scene.try_chat(json!([user("hi")]), json!({"tools": tools}), &[]).await;
        assert_eq!(
            (status, &body["error"]["code"], &body["error"]["param"]),
            (400, &json!(code), &json!("tools"))
        );
    }
    let (status, body) = scene.try_chat(json!([user("hi")]), json!({"tool_choice": "required"}), &[]).await;
    assert_eq!((status, &body["error"]["code"]), (424, &json!("tool_choice_not_met")), "{body}");
    let none = scene.chat(json!([user("hi")]), json!({"tool_choice": "none"}), &[]).await;
    assert_eq!(none["finish_reason"], "stop");
    // An agent whose turns another program runs.
    let (status, body) = scene.try_chat(json!([user("hi")]), json!({"model": "delegate"}), &[]).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("tools_not_supported")), "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("openclaw"), "{body}");
}

impl Scene {
    /// The number of calls that wait in sessions of single requests.
    async fn pending_in_requests(&self) -> usize {
        let sessions = self.get("/api/sessions?agent=coder").await;
        let requests =
            sessions["sessions"].as_array().unwrap().iter().filter(|session| session["kind"] == "request");
        requests.map(|session| session["pendingCalls"].as_array().unwrap().len()).sum()
    }
}

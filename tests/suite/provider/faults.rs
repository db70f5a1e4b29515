//! Every way in which a provider can fail.

use std::time::Duration;

use flock::config::model::Api;
use flock::error::Explain as _;
use flock::provider::ProviderError;
use flock::provider::http::HttpLimits;
use serde_json::json;

use super::{ALL, KEY, Stage, hello, plain_all, said, short, small, text};
use crate::support::model_server::{Chunk, Reply};

/// An event of a stream.
fn event(event: &serde_json::Value) -> Chunk {
    Chunk::Bytes(format!("data: {event}\n\n").into_bytes())
}

/// The beginning of an answer: one text, nothing of its end.
fn half(api: Api) -> Chunk {
    let delta = match api {
        Api::AnthropicMessages => {
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}})
        }
        Api::OpenAiResponses | Api::OpenAiCodexResponses => {
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "half"})
        }
        Api::GoogleGenerativeAi => json!({"candidates": [{"content": {"parts": [{"text": "half"}]}}]}),
        _ => json!({"choices": [{"delta": {"content": "half"}}]}),
    };
    event(&delta)
}

/// Its end, without what says that nothing else comes, where there is such a thing.
fn stop(api: Api) -> Chunk {
    event(&match api {
        Api::AnthropicMessages => {
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}})
        }
        Api::OpenAiResponses | Api::OpenAiCodexResponses => {
            json!({"type": "response.completed", "response": {"status": "completed"}})
        }
        Api::GoogleGenerativeAi => json!({"candidates": [{"finishReason": "STOP"}]}),
        _ => json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    })
}

#[tokio::test]
async fn a_status_says_what_failed() {
    for api in ALL {
        let stage = Stage::new(api);
        let message = format!("bad key {KEY}");
        stage.server.reply(Reply::status(401, &message));
        let error = stage.fail().await;
        assert!(matches!(&error, ProviderError::Unauthorised { status: 401, .. }), "{error:?}");
        assert_eq!(error.to_string(), "test refused the key (401): bad key [key]");
        assert_eq!(error.hint().unwrap(), "flock config set models.providers.test.apiKey -");

        for status in [400, 402, 404, 413, 422] {
            stage.server.reply(Reply::status(status, "no"));
            let error = stage.fail().await;
            assert!(matches!(error, ProviderError::Rejected { status: s, .. } if s == status), "{error:?}");
        }
        for status in [500, 502, 503] {
            stage.server.reply(Reply::status(status, "no"));
            assert!(matches!(stage.fail().await, ProviderError::Failed { .. }));
        }
        stage.server.reply(Reply::status(529, "overloaded"));
        assert!(matches!(stage.fail().await, ProviderError::Limited { status: 529, .. }));
    }
}

#[tokio::test]
async fn the_wait_a_provider_asks_for_is_read() {
    for api in ALL {
        let stage = Stage::new(api);
        for (name, value, expected) in
            [("retry-after", "7", 7_000), ("retry-after-ms", "250", 250), ("Retry-After", "1.5", 1_500)]
        {
            stage.server.reply(Reply::status(429, "slow").header(name, value));
            let error = stage.fail().await;
            let ProviderError::Limited { retry_after: Some(wait), .. } = error else { panic!("{error:?}") };
            assert_eq!(wait.as_millis(), expected);
        }
        stage.server.reply(Reply::status(503, "slow").header("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT"));
        let error = stage.fail().await;
        let ProviderError::Failed { retry_after: Some(wait), .. } = error else { panic!("{error:?}") };
        assert!(wait > Duration::from_secs(86_400));
        stage.server.reply(Reply::status(429, "slow"));
        assert!(matches!(stage.fail().await, ProviderError::Limited { retry_after: None, .. }));
    }
}

#[tokio::test]
async fn no_money_left_is_not_too_many_requests() {
    let stage = Stage::new(Api::OpenAiCompletions);
    let body = json!({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}});
    stage.server.reply(Reply::body(429, "application/json", body.to_string()));
    assert!(matches!(stage.fail().await, ProviderError::Rejected { status: 429, .. }));
    // Anthropic's words come with 400, MiniMax's with 500.
    for (status, kind, message) in [
        (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
        (500, "api_error", "insufficient balance (1008)"),
        (402, "insufficient_balance_error", "insufficient balance (1008)"),
    ] {
        let stage = Stage::new(Api::AnthropicMessages);
        let body = json!({"type": "error", "error": {"type": kind, "message": message}});
        stage.server.reply(Reply::body(status, "application/json", body.to_string()));
        let error = stage.fail().await;
        assert!(matches!(error, ProviderError::Rejected { status: 402, .. }), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn what_a_failure_says_is_bounded_and_clean() {
    for api in ALL {
        let stage = Stage::new(api);
        stage.server.reply(Reply::body(500, "text/plain", "x".repeat(3_000_000)));
        assert!(stage.fail().await.to_string().len() < 800);
        stage.server.reply(Reply::body(400, "text/plain", "a\x1b[31mb\r\n\0c\u{202e}"));
        let text = stage.fail().await.to_string();
        assert!(!text.chars().any(char::is_control), "{text:?}");
        stage.server.reply(Reply::body(500, "text/html", "<html><title>Bad gateway</title>"));
        assert!(stage.fail().await.to_string().contains("Bad gateway"));
        stage.server.reply(Reply::body(404, "text/html", "<html>no"));
        assert!(stage.fail().await.to_string().contains("nothing answers at /"));
        let endless = Reply::Raw {
            status: 500,
            headers: Vec::new(),
            chunks: vec![Chunk::Bytes(vec![b'x'; 200_000]), Chunk::Hang],
        };
        stage.server.reply(endless);
        stage.fail().await;
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    for api in ALL {
        let stage = Stage::new(api);
        let elsewhere = Stage::new(api);
        let target = format!("{}/v1/messages", elsewhere.server.base_url());
        stage.server.reply(Reply::status(307, "").header("location", &target));
        assert!(matches!(stage.fail().await, ProviderError::Rejected { status: 307, .. }));
        assert!(elsewhere.server.requests().is_empty());
    }
}

#[tokio::test]
async fn a_web_page_or_garbage_is_no_answer() {
    for api in ALL {
        let stage = Stage::new(api);
        for (kind, body) in [
            ("text/html", &b"  <!doctype html><title>Sign in</title>"[..]),
            ("text/event-stream", b"garbage\n\ngarbage"),
            ("text/event-stream", b"data: garbage\n\n"),
            ("text/event-stream", b"data: [1,2]\n\n"),
            ("text/event-stream", b"data: \"text\"\n\n"),
            ("text/event-stream", b"data: {\"choices\": 7, \"type\": 7, \"candidates\": 7}\n\n"),
            ("text/event-stream", b"data: [DONE]\n\n"),
            ("application/json", b"{\"unexpected\": true}"),
            ("application/json", b"{"),
            ("application/json", b"[]"),
            ("application/octet-stream", b"\xff\xfe\x00\x01\x02"),
        ] {
            stage.server.reply(Reply::body(200, kind, body));
            let error = stage.fail().await;
            assert!(matches!(error, ProviderError::Garbled { .. }), "{api:?} {error:?}");
            assert!(error.hint().is_some());
        }
        stage.server.reply(Reply::body(200, "text/event-stream", ""));
        assert!(matches!(stage.fail().await, ProviderError::Failed { .. }));
    }
}

#[tokio::test]
async fn bytes_that_are_not_utf8_cost_a_letter_and_not_the_answer() {
    for api in ALL {
        let stage = Stage::new(api);
        let Chunk::Bytes(mut bytes) = half(api) else { unreachable!() };
        let at = bytes.windows(4).position(|window| window == b"half").unwrap();
        bytes[at + 1] = 0xe2;
        stage.server.reply(Reply::stream(vec![Chunk::Bytes(bytes), stop(api)]));
        let answer = stage.ask(&hello()).await.0.unwrap();
        assert_eq!(plain_all(&answer.content), [text("h\u{fffd}lf")]);
    }
}

#[tokio::test]
async fn half_a_stream_is_no_answer() {
    for api in ALL {
        for end in
            [vec![], vec![Chunk::Reset], vec!["data: {\"typ".into()], vec!["data: ".into(), Chunk::Reset]]
        {
            let stage = Stage::new(api);
            let mut chunks = vec![half(api)];
            chunks.extend(end);
            stage.server.reply(Reply::stream(chunks));
            let (answer, deltas) = stage.ask(&hello()).await;
            assert!(matches!(answer, Err(ProviderError::Failed { .. })), "{api:?} {answer:?}");
            assert_eq!(said(&deltas), "half");
        }
    }
}

#[tokio::test]
async fn an_answer_is_complete_once_the_model_has_stopped() {
    for api in ALL {
        for end in [
            vec![],
            vec![Chunk::Reset],
            vec![Chunk::Hang],
            vec!["data: garbage\n\n".into()],
            vec!["data: {\"c".into()],
        ] {
            let stage = Stage::with_limits(api, small());
            let mut chunks = vec![half(api), stop(api)];
            chunks.extend(end);
            stage.server.reply(Reply::stream(chunks));
            let answer = stage.ask(&hello()).await.0.unwrap();
            assert_eq!(plain_all(&answer.content), [text("half")]);
        }
    }
}

#[tokio::test]
async fn a_failure_in_the_middle_of_a_stream_is_that_failure() {
    let stage = Stage::new(Api::AnthropicMessages);
    let event = |kind: &str| {
        let event = json!({"type": "error", "error": {"type": kind, "message": format!("{kind} {KEY}")}});
        Chunk::Bytes(format!("event: error\ndata: {event}\n\n").into_bytes())
    };
    stage.server.reply(Reply::stream(vec![half(Api::AnthropicMessages), event("overloaded_error")]));
    assert!(matches!(stage.fail().await, ProviderError::Limited { status: 529, .. }));
    stage.server.reply(Reply::stream(vec![event("api_error")]));
    assert!(matches!(stage.fail().await, ProviderError::Failed { .. }));
    stage.server.reply(Reply::stream(vec![event("invalid_request_error")]));
    assert!(matches!(stage.fail().await, ProviderError::Rejected { status: 400, .. }));

    let stage = Stage::new(Api::OpenAiCompletions);
    let event = |error: serde_json::Value| {
        Chunk::Bytes(format!("data: {}\n\n", json!({"error": error})).into_bytes())
    };
    let limited = json!({"code": 429, "message": format!("slow {KEY}")});
    stage.server.reply(Reply::stream(vec![half(Api::OpenAiCompletions), event(limited)]));
    assert!(matches!(stage.fail().await, ProviderError::Limited { status: 429, .. }));
    stage.server.reply(Reply::stream(vec![event(json!("out of memory"))]));
    let error = stage.fail().await;
    assert!(error.to_string().contains("out of memory"), "{error}");
    let choice = json!({"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "up"}}]});
    stage.server.reply(Reply::stream(vec![Chunk::Bytes(format!("data: {choice}\n\n").into_bytes())]));
    assert!(matches!(stage.fail().await, ProviderError::Failed { .. }));
    let whole = json!({"error": {"message": "model not loaded", "type": "invalid_request_error"}});
    stage.server.reply(Reply::body(200, "application/json", whole.to_string()));
    assert!(matches!(stage.fail().await, ProviderError::Rejected { .. }));
}

#[tokio::test]
async fn a_silent_provider_is_given_up() {
    for api in ALL {
        // Nothing at all.
        let stage = Stage::with_limits(api, short());
        stage.server.reply(Reply::stream(vec![Chunk::Hang]));
        assert!(matches!(stage.fail().await, ProviderError::TimedOut { .. }));
        // Nothing after a beginning.
        stage.server.reply(Reply::stream(vec![half(api), Chunk::Hang]));
        assert!(matches!(stage.fail().await, ProviderError::TimedOut { .. }));
    }
    // A connection that is taken and never answered.
    let mut stage = Stage::with_limits(Api::OpenAiCompletions, short());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    stage.config.providers.get_mut("test").unwrap().base_url = Some(url);
    let error = stage.fail().await;
    assert!(matches!(error, ProviderError::TimedOut { .. }), "{error:?}");
}

#[test]
fn minutes_of_silence_are_the_limit() {
    let HttpLimits { first_byte, near_first_byte, idle, .. } = HttpLimits::default();
    assert_eq!([first_byte, near_first_byte, idle].map(|limit| limit.as_secs()), [120, 400, 300]);
}

#[tokio::test]
async fn a_refused_connection_names_the_address() {
    for api in ALL {
        let mut stage = Stage::new(api);
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        stage.config.providers.get_mut("test").unwrap().base_url = Some(format!("http://{free}/v1"));
        let error = stage.fail().await;
        assert!(matches!(error, ProviderError::Failed { .. }));
        let text = error.to_string();
        assert!(text.contains(&free.to_string()) && text.contains("refused"), "{text}");
    }
}

#[tokio::test]
async fn a_server_without_tls_behind_an_https_address_is_a_failure() {
    for api in ALL {
        let mut stage =
            Stage::with_limits(api, HttpLimits { connect: Duration::from_secs(2), ..HttpLimits::default() });
        let address = stage.server.address();
        stage.config.providers.get_mut("test").unwrap().base_url = Some(format!("https://{address}/v1"));
        let error = stage.fail().await;
        assert!(matches!(error, ProviderError::Failed { .. }), "{error:?}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    for api in ALL {
        let stage = Stage::with_limits(api, small());
        let Chunk::Bytes(one) = half(api) else { unreachable!() };
        stage.server.reply(Reply::stream(vec![Chunk::Bytes(one.repeat(20_000)), Chunk::Hang]));
        assert!(matches!(stage.fail().await, ProviderError::Garbled { .. }), "many pieces");
        stage.server.reply(Reply::stream(vec![Chunk::Bytes(vec![b'x'; 1_000_000]), Chunk::Hang]));
        assert!(matches!(stage.fail().await, ProviderError::Garbled { .. }), "one line");
        stage.server.reply(Reply::stream(vec![Chunk::Bytes(b": ping\n\n".repeat(1_000_000)), Chunk::Hang]));
        assert!(matches!(stage.fail().await, ProviderError::Garbled { .. }), "nothing but comments");
        let mut document = b"{".to_vec();
        document.resize(1_000_000, b' ');
        stage.server.reply(Reply::body(200, "application/json", document));
        assert!(matches!(stage.fail().await, ProviderError::Garbled { .. }), "one document");
    }
}

#[tokio::test]
async fn dropping_the_call_ends_the_request() {
    for api in ALL {
        let stage = Stage::new(api);
        let gone = stage.server.reply_until_gone(half(api));
        let resolved = stage.resolve();
        let request = hello();
        let (sent, first) = tokio::sync::oneshot::channel();
        let mut sent = Some(sent);
        let mut sink = move |_| {
            if let Some(sent) = sent.take() {
                let _ = sent.send(());
            }
        };
        tokio::select! {
            _ = resolved.provider.call(&request, &mut sink) => panic!("it never ends"),
            _ = first => {}
        }
        tokio::time::timeout(Duration::from_secs(10), gone).await.expect("the server sees it").unwrap();
    }
}

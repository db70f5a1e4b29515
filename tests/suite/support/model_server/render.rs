//! An answer in each wire format, streamed or whole as the request asks.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Answer;

fn is_stream(request: &Value) -> bool {
    request["stream"] == true
}

pub fn anthropic(request: &Value, answer: &Answer) -> (&'static str, String) {
    let stop = match answer.finish.as_deref() {
        Some("length") => "max_tokens",
        Some("tool_calls") => "tool_use",
        Some(_) => "end_turn",
        None if answer.calls.is_empty() => "end_turn",
        None => "tool_use",
    };
    let (input, output) = (answer.usage.0 - answer.cached, answer.usage.1);
    let cached = answer.cached;
    if !is_stream(request) {
        let mut content = vec![json!({"type": "text", "text": answer.pieces.concat()})];
        for (id, name, arguments) in &answer.calls {
            let input: Value = serde_json::from_str(arguments).unwrap();
            content.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
        }
        let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": content,
            "stop_reason": stop, "usage": {"input_tokens": input, "output_tokens": output, "cache_read_input_tokens": cached}});
        return ("application/json", message.to_string());
    }
    let mut text = String::new();
    let mut event = |value: Value| {
        writeln!(text, "event: {}\ndata: {value}\n", value["type"].as_str().unwrap()).unwrap();
    };
    event(json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "content": [], "stop_reason": null, "usage": {"input_tokens": input, "output_tokens": 1,
            "cache_read_input_tokens": cached}}}));
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        event(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        event(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    };
    if !answer.thinking.is_empty() {
        block(
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            vec![
                json!({"type": "thinking_delta", "thinking": answer.thinking}),
                json!({"type": "signature_delta", "signature": "c2lnbmVk"}),
            ],
        );
    }
    if !answer.pieces.is_empty() {
        let delta = |piece: &String| json!({"type": "text_delta", "text": piece});
        block(json!({"type": "text", "text": ""}), answer.pieces.iter().map(delta).collect());
    }
    for (id, name, arguments) in &answer.calls {
        let (first, second) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
        block(
            json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
            [first, second]
                .map(|part| json!({"type": "input_json_delta", "partial_json": part}))
                .into_iter()
                .collect(),
        );
    }
    event(
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": output}}),
    );
    event(json!({"type": "message_stop"}));
    ("text/event-stream", text)
}

pub fn openai(request: &Value, answer: &Answer) -> (&'static str, String) {
    let by_itself = if answer.calls.is_empty() { "stop" } else { "tool_calls" };
    let finish = answer.finish.as_deref().unwrap_or(by_itself);
    let (input, output) = answer.usage;
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
        "prompt_tokens_details": {"cached_tokens": answer.cached}});
    if !is_stream(request) {
        let calls: Vec<Value> = answer
            .calls
            .iter()
            .map(|(id, name, arguments)| {
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        let mut message = json!({"role": "assistant", "content": answer.pieces.concat()});
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        let whole = json!({"id": "c1", "object": "chat.completion", "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}]});
        return ("application/json", whole.to_string());
    }
    let mut text = String::new();
    let mut chunk = |delta: Value, finish: Value| {
        let value = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        write!(text, "data: {value}\n\n").unwrap();
    };
    chunk(json!({"role": "assistant", "content": ""}), Value::Null);
    if !answer.thinking.is_empty() {
        chunk(json!({"reasoning_content": answer.thinking}), Value::Null);
    }
    for piece in &answer.pieces {
        chunk(json!({"content": piece}), Value::Null);
    }
    for (index, (id, name, arguments)) in answer.calls.iter().enumerate() {
        let (first, second) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
        chunk(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                "function": {"name": name, "arguments": ""}}]}),
            Value::Null,
        );
        for part in [first, second] {
            let delta = json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]});
            chunk(delta, Value::Null);
        }
    }
    chunk(json!({}), json!(finish));
    // Mistral counts unasked.
    let unasked = request["model"].as_str().is_some_and(|model| model.starts_with("mistral"));
    if unasked || request["stream_options"]["include_usage"] == true {
        let last = json!({"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": usage});
        write!(text, "data: {last}\n\n").unwrap();
    }
    text.push_str("data: [DONE]\n\n");
    ("text/event-stream", text)
}

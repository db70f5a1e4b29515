use serde_json::{Value, json};

use super::*;
use crate::provider::{Block, Message, Role, StopReason};

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    fs_err::create_dir(home.scripts()).unwrap();
    (folder, home)
}

fn request(messages: Vec<Message>) -> Request {
    let messages = messages.into_iter().map(Arc::new).collect();
    Request { model: "demo".into(), messages, max_tokens: 100, ..Request::default() }
}

fn script(document: &Value) -> Script {
    Script { document: Arc::new(ScriptDocument::parse(document.to_string().as_bytes()).unwrap()) }
}

async fn ask(script: &Script, messages: Vec<Message>) -> (Result<Response, ProviderError>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let request = request(messages);
    let answer = script.call(&request, &mut |delta| deltas.push(delta)).await;
    (answer, deltas)
}

fn result(id: &str, text: &str) -> Message {
    Message {
        role: Role::Tool,
        content: vec![Block::ToolResult {
            call_id: id.to_owned(),
            name: "exec".to_owned(),
            content: [Block::text(text)].into(),
            is_error: false,
        }],
    }
}

#[tokio::test]
async fn the_demo_writes_runs_and_reports_what_was_printed() {
    let (_folder, home) = home();
    let demo = Script::open(&home, "demo").unwrap();
    let mut messages = vec![Message::text(Role::User, "Please write FizzBuzz")];
    let mut names = Vec::new();
    loop {
        let (answer, deltas) = ask(&demo, messages.clone()).await;
        let answer = answer.unwrap();
        let said = Message { role: Role::Assistant, content: answer.content };
        let streamed: String = deltas
            .iter()
            .map(|delta| match delta {
                Delta::Text(text) => text.as_str(),
                Delta::Thinking(_) | Delta::ToolCall => "",
            })
            .collect();
        assert_eq!(streamed, said.joined_text());
        if answer.stop == StopReason::End {
            assert!(said.joined_text().contains("really printed this"));
            assert!(said.joined_text().contains("not a model"));
            break;
        }
        let call = said.tool_calls().next().unwrap();
        names.push(call.name.to_owned());
        let id = call.id.to_owned();
        messages.push(said);
        messages.push(result(&id, "really printed this"));
    }
    assert_eq!(names, ["write", "exec"]);
}

#[tokio::test]
async fn the_demo_says_of_itself_that_it_is_no_model() {
    let (_folder, home) = home();
    let demo = Script::open(&home, "demo").unwrap();
    let (answer, deltas) = ask(&demo, vec![Message::text(Role::User, "hello")]).await;
    let text = crate::provider::message::joined_text(&answer.unwrap().content);
    assert!(text.contains("not a model"), "{text}");
    assert!(deltas.len() > 3, "the text comes in pieces");
}

#[tokio::test]
async fn broken_arguments_stay_a_string_and_ids_are_not_used_twice() {
    let script = script(&json!({"replies": [{"steps": [
        {"calls": [{"name": "a", "arguments": "{\"path\": "}, {"name": "b"}]},
        {"calls": [{"name": "c", "arguments": {"x": ["{{last_message}}"]}}]}
    ]}]}));
    let mut messages = vec![Message::text(Role::User, "go")];
    let (first, _) = ask(&script, messages.clone()).await;
    let first = Message { role: Role::Assistant, content: first.unwrap().content };
    let calls: Vec<_> = first.tool_calls().collect();
    assert_eq!(calls[0].arguments, &json!("{\"path\": "));
    assert_eq!(calls[1].arguments, &json!({}));
    assert_eq!((calls[0].id, calls[1].id), ("call_script_1", "call_script_2"));
    messages.push(first);
    let (second, _) = ask(&script, messages).await;
    let second = Message { role: Role::Assistant, content: second.unwrap().content };
    let call = second.tool_calls().next().unwrap();
    assert_eq!((call.id, call.arguments), ("call_script_3", &json!({"x": ["go"]})));
}

#[tokio::test]
async fn errors_and_half_a_stream_are_played() {
    let script = script(&json!({"replies": [
        {"when": "limit", "steps": [{"error": {"status": 429, "message": "slow down", "retry_after_ms": 1500}}]},
        {"steps": [{"say": "half of", "error": {}}]}
    ]}));
    let (limited, _) = ask(&script, vec![Message::text(Role::User, "LIMIT me")]).await;
    assert!(matches!(
        limited,
        Err(ProviderError::Limited { status: 429, retry_after: Some(after), .. }) if after.as_millis() == 1500
    ));
    let (broken, deltas) = ask(&script, vec![Message::text(Role::User, "x")]).await;
    assert!(matches!(broken, Err(ProviderError::Failed { .. })));
    assert_eq!(deltas, [Delta::Text("half of".to_owned())]);
}

#[tokio::test]
async fn a_script_without_a_fitting_step_ends_the_turn() {
    let script = script(&json!({"replies": [{"when": "x", "steps": []}]}));
    for asked in ["x", "y"] {
        let (answer, _) = ask(&script, vec![Message::text(Role::User, asked)]).await;
        assert_eq!(answer.unwrap().stop, StopReason::End);
    }
    let (answer, _) = ask(&script, Vec::new()).await;
    assert!(answer.is_ok());
}

#[test]
fn a_script_comes_only_from_its_folder() {
    let (folder, home) = home();
    fs_err::write(folder.path().join("outside.json"), "{\"replies\": []}").unwrap();
    fs_err::write(home.scripts().join("good.json"), "{\"replies\": []}").unwrap();
    fs_err::write(home.scripts().join("bad.json"), "{\"replies\": [], \"oops\": 1}").unwrap();
    std::os::unix::fs::symlink("../outside.json", home.scripts().join("link.json")).unwrap();
    nix::unistd::mkfifo(&home.scripts().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(Script::open(&home, "good.json").is_ok());
    for name in ["../outside.json", "link.json", "fifo", "none.json", ".", "..", "a/b", "bad.json", "é"] {
        assert!(Script::open(&home, name).is_err(), "{name}");
    }
    assert!(Script::open(&home, "bad.json").unwrap_err().contains("oops"));
}

//! The requests of the Bot API, against a server that answers what a test says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::*;
use crate::bridge::message::{Button, OutgoingFile, Sender};

const TOKEN: &str = "7000000001:AAbbCCddEEffGGhhIIjjKK";
const GROUP: &str = "-1001234567890";

/// Answers for each method, and the requests that came.
#[derive(Default)]
struct Api {
    answers: Mutex<HashMap<String, VecDeque<(u16, Value)>>>,
    seen: Mutex<Vec<(String, String)>>,
    /// The cursor that the receiver has stored, and the one at the last request for updates.
    stored: AtomicI64,
    confirmed: Mutex<Vec<(Option<i64>, i64)>>,
}

impl Api {
    /// Starts the server, and returns it with a bot.
    async fn start() -> (Arc<Self>, Telegram) {
        let api = Arc::new(Self::default());
        let routes = axum::Router::new()
            .route("/bot{token}/{method}", axum::routing::post(answer))
            .route("/file/bot{token}/{*path}", axum::routing::get(async || "content"))
            .with_state(api.clone());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let telegram = Telegram::new(&address, TOKEN.to_owned()).unwrap();
        (api, telegram)
    }

    fn will(&self, method: &str, result: Value) {
        self.fails(method, 200, json!({"ok": true, "result": result}));
    }

    fn refuses(&self, method: &str, code: u16, description: &str) {
        self.fails(method, code, json!({"ok": false, "error_code": code, "description": description}));
    }

    fn fails(&self, method: &str, status: u16, body: Value) {
        self.answers.lock().unwrap().entry(method.to_owned()).or_default().push_back((status, body));
    }

    /// Returns what was asked of a method.
    fn asked(&self, method: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        let of_method = seen.iter().filter(|(asked, _)| asked == method);
        of_method.map(|(_, body)| serde_json::from_str(body).unwrap_or_else(|_| json!(body))).collect()
    }

    fn methods(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(method, _)| method.clone()).collect()
    }
}

async fn answer(
    State(api): State<Arc<Api>>,
    Path((_, method)): Path<(String, String)>,
    body: Bytes,
) -> (StatusCode, String) {
    let body = String::from_utf8_lossy(&body).into_owned();
    if method == "getUpdates" {
        let offset = serde_json::from_str::<Value>(&body).unwrap()["offset"].as_i64();
        api.confirmed.lock().unwrap().push((offset, api.stored.load(Ordering::SeqCst)));
    }
    api.seen.lock().unwrap().push((method.clone(), body));
    let next = api.answers.lock().unwrap().get_mut(&method).and_then(VecDeque::pop_front);
    let (status, body) = next.unwrap_or_else(|| {
        let result = match method.as_str() {
            "getMe" => json!({"id": 7, "username": "flock_bot", "can_read_all_group_messages": true}),
            "sendMessage" | "sendDocument" => json!({"message_id": 10}),
            _ => json!(true),
        };
        (200, json!({"ok": true, "result": result}))
    });
    (StatusCode::from_u16(status).unwrap(), body.to_string())
}

fn message<'a>(external: &'a str, markdown: &'a str) -> OutgoingMessage<'a> {
    OutgoingMessage { external, author: "coder", markdown, key: "key-1", ..OutgoingMessage::default() }
}

fn file(name: &str, content: &[u8]) -> OutgoingFile {
    OutgoingFile { name: name.to_owned(), content: content.to_vec() }
}

#[tokio::test]
async fn a_message_is_sent_with_its_markup_and_without_a_preview() {
    let (api, telegram) = Api::start().await;
    let sent = OutgoingMessage { reply_to: Some("9"), ..message("-1001234567890/4", "a **b**") };
    assert_eq!(telegram.send(&sent).await, Ok("10".to_owned()));
    let wanted = json!({
        "chat_id": -1_001_234_567_890_i64, "message_thread_id": 4,
        "reply_parameters": {"message_id": 9, "allow_sending_without_reply": true},
        "text": "<b>[coder]</b> a <b>b</b>", "parse_mode": "HTML", "link_preview_options": {"is_disabled": true},
    });
    assert_eq!(api.asked("sendMessage"), [wanted]);
}

#[tokio::test]
async fn a_single_file_has_the_text_below_it() {
    let (api, telegram) = Api::start().await;
    let files = [file("a.txt", b"one")];
    let buttons = [Button { id: "yes".to_owned(), label: "Yes".to_owned(), is_positive: true }];
    let sent = OutgoingMessage { files: &files, buttons: &buttons, ..message(GROUP, "look") };
    assert_eq!(telegram.send(&sent).await, Ok("10".to_owned()));
    let form = api.asked("sendDocument")[0].as_str().unwrap().to_owned();
    for part in ["<b>[coder]</b> look", "filename=\"a.txt\"", "\r\n\r\none\r\n", "callback_data", "HTML"] {
        assert!(form.contains(part), "{part}: {form}");
    }
    assert_eq!(api.asked("sendMessage"), Vec::<Value>::new());
}

#[tokio::test]
async fn an_attempt_goes_on_where_the_last_one_ended() {
    let (api, telegram) = Api::start().await;
    let files = [file("a", b"1"), file("empty", b""), file("b", b"2")];
    let sent = OutgoingMessage { files: &files, ..message(GROUP, "two files") };
    api.will("sendMessage", json!({"message_id": 20}));
    api.will("sendDocument", json!({"message_id": 21}));
    api.will("sendMessage", json!({"message_id": 22}));
    api.refuses("sendDocument", 502, "Bad Gateway");
    assert!(matches!(telegram.send(&sent).await, Err(PlatformError::Unavailable(_))));
    assert_eq!(telegram.send(&sent).await, Ok("20".to_owned()));
    assert_eq!(api.methods(), ["sendMessage", "sendDocument", "sendMessage", "sendDocument", "sendDocument"]);
    assert!(api.asked("sendMessage")[1]["text"].as_str().unwrap().contains("empty"));
    // What was sent whole is not remembered.
    assert!(telegram.started.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_edit_takes_the_buttons_away() {
    let (api, telegram) = Api::start().await;
    assert_eq!(telegram.edit("10", &message(GROUP, "new")).await, Ok(()));
    let asked = api.asked("editMessageText");
    assert_eq!((&asked[0]["message_id"], asked[0].get("reply_markup")), (&json!(10), None));
    let same =
        "Bad Request: message is not modified: specified new message content and reply markup are the same";
    api.refuses("editMessageText", 400, same);
    assert_eq!(telegram.edit("10", &message(GROUP, "new")).await, Ok(()));
    api.refuses("editMessageText", 400, "Bad Request: there is no text in the message to edit");
    assert_eq!(telegram.edit("10", &message(GROUP, "new")).await, Ok(()));
    assert_eq!(api.asked("editMessageCaption")[0]["caption"], "<b>[coder]</b> new");
    api.refuses("editMessageText", 400, "Bad Request: message can't be edited");
    assert!(matches!(telegram.edit("10", &message(GROUP, "new")).await, Err(PlatformError::Refused(_))));
    assert!(matches!(telegram.edit("g10", &message(GROUP, "new")).await, Err(PlatformError::Refused(_))));
}

#[tokio::test]
async fn small_things_are_done_with_their_parameters() {
    let (api, telegram) = Api::start().await;
    assert_eq!(telegram.react(GROUP, "10", "✅").await, Ok(()));
    assert_eq!(api.asked("setMessageReaction")[0]["reaction"], json!([{"type": "emoji", "emoji": "👍"}]));
    assert!(matches!(telegram.react(GROUP, "10", "🐑").await, Err(PlatformError::Refused(_))));
    assert_eq!(telegram.show_typing("-1001234567890/4").await, Ok(()));
    let typing = json!({"chat_id": -1_001_234_567_890_i64, "action": "typing", "message_thread_id": 4});
    assert_eq!(api.asked("sendChatAction"), [typing]);
    api.refuses("deleteMessage", 400, "Bad Request: message to delete not found");
    assert_eq!(telegram.delete(GROUP, "10").await, Ok(()));
    api.refuses("setChatDescription", 400, "Bad Request: chat description is not modified");
    assert_eq!(telegram.set_topic(GROUP, &"가".repeat(300)).await, Ok(()));
    assert_eq!(api.asked("setChatDescription")[0]["description"], json!("가".repeat(255)));
    assert!(matches!(telegram.set_topic("-1001234567890/4", "x").await, Err(PlatformError::Refused(_))));
    assert!(matches!(telegram.history(GROUP, 0, 1).await, Err(PlatformError::Refused(_))));
    assert_eq!(telegram.has_message(GROUP, "10").await, Ok(None));
}

#[tokio::test]
async fn an_answer_goes_to_the_sender_alone_or_else_to_the_group() {
    let (api, telegram) = Api::start().await;
    let to = IncomingMessage {
        external: GROUP.to_owned(),
        id: "9".to_owned(),
        sender: Sender { account: "5500000001".to_owned(), ..Sender::default() },
        ..IncomingMessage::default()
    };
    assert_eq!(telegram.answer_apart(&to, "psst").await, Ok(()));
    api.refuses("sendMessage", 403, "Forbidden: bot can't initiate conversation with a user");
    assert_eq!(telegram.answer_apart(&to, "psst").await, Ok(()));
    let chats: Vec<Value> = api.asked("sendMessage").iter().map(|asked| asked["chat_id"].clone()).collect();
    assert_eq!(json!(chats), json!([5_500_000_001_i64, 5_500_000_001_i64, -1_001_234_567_890_i64]));
    assert_eq!(api.asked("sendMessage")[2]["reply_parameters"]["message_id"], 9);
}

#[tokio::test]
async fn a_group_that_became_a_supergroup_is_found_and_told() {
    let (api, telegram) = Api::start().await;
    let moved = json!({"ok": false, "error_code": 400, "description": "Bad Request: group chat was upgraded",
        "parameters": {"migrate_to_chat_id": -1_001_234_567_890_i64}});
    api.fails("sendMessage", 400, moved);
    assert!(matches!(telegram.send(&message("-41", "x")).await, Err(PlatformError::Unavailable(_))));
    assert_eq!(telegram.send(&message("-41", "x")).await, Ok("10".to_owned()));
    assert_eq!(api.asked("sendMessage")[1]["chat_id"], json!(-1_001_234_567_890_i64));
    api.will("getUpdates", json!([]));
    api.refuses("getUpdates", 409, "Conflict: terminated by other getUpdates request");
    let (events, error) = followed(&api, &telegram, None).await;
    assert!(
        events.contains(&PlatformEvent::Moved { from: "-41".to_owned(), to: GROUP.to_owned() }),
        "{events:?}"
    );
    assert!(matches!(error, PlatformError::Refused(text) if text.contains("Another program")));
}

#[tokio::test]
async fn a_download_stops_at_its_limit() {
    let (api, telegram) = Api::start().await;
    let file = |bytes| IncomingFile { id: "A".to_owned(), bytes, ..IncomingFile::default() };
    api.will("getFile", json!({"file_path": "documents/file_1.txt"}));
    assert_eq!(telegram.download(&file(7), 7).await, Ok(b"content".to_vec()));
    api.will("getFile", json!({"file_path": "documents/file_1.txt"}));
    assert!(matches!(telegram.download(&file(0), 6).await, Err(PlatformError::Refused(_))));
    assert!(matches!(telegram.download(&file(8), 7).await, Err(PlatformError::Refused(_))));
    api.will("getFile", json!({"file_path": "/etc/passwd"}));
    assert!(matches!(telegram.download(&file(7), 7).await, Err(PlatformError::Refused(_))));
}

/// Follows the updates until the connection fails. Each event takes the receiver a while.
async fn followed(
    api: &Api,
    telegram: &Telegram,
    cursor: Option<&str>,
) -> (Vec<PlatformEvent>, PlatformError) {
    let (sender, mut receiver) = mpsc::channel(1);
    let from = Position { cursor: cursor.map(str::to_owned), channels: Vec::new() };
    let taking = async {
        let mut taken = Vec::new();
        while let Some(event) = receiver.recv().await {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            if let PlatformEvent::Cursor(cursor) = &event {
                api.stored.store(cursor.parse().unwrap(), Ordering::SeqCst);
            }
            taken.push(event);
        }
        taken
    };
    let (error, taken) = tokio::join!(telegram.connect(from, sender), taking);
    (taken, error)
}

fn update(number: i64) -> Value {
    let chat = json!({"id": -1_001_234_567_890_i64, "type": "supergroup"});
    json!({"update_id": number, "message": {"message_id": number, "chat": chat, "text": "x", "from": {"id": 5}}})
}

#[tokio::test]
async fn updates_are_confirmed_only_after_their_cursor_is_stored() {
    let (api, telegram) = Api::start().await;
    for batch in 0..4 {
        let updates: Vec<Value> = (0..3).map(|number| update(100 + 3 * batch + number)).collect();
        api.will("getUpdates", json!(updates));
    }
    api.refuses("getUpdates", 401, "Unauthorized");
    let (events, error) = followed(&api, &telegram, Some("100")).await;
    assert!(matches!(error, PlatformError::Unauthorized(_)));
    let numbers = events.iter().filter_map(|event| match event {
        PlatformEvent::Message(message) => message.id.parse::<i64>().ok(),
        _ => None,
    });
    assert_eq!(numbers.collect::<Vec<_>>(), (100..112).collect::<Vec<_>>());
    let confirmed = api.confirmed.lock().unwrap().clone();
    assert_eq!(
        confirmed,
        [(Some(100), 0), (Some(103), 103), (Some(106), 106), (Some(109), 109), (Some(112), 112)]
    );
}

#[tokio::test]
async fn a_pressed_button_is_answered_at_once_and_told() {
    let (api, telegram) = Api::start().await;
    let chat = json!({"id": -1_001_234_567_890_i64, "type": "supergroup"});
    let query =
        json!({"id": "77", "from": {"id": 5}, "data": "yes", "message": {"message_id": 3, "chat": chat}});
    api.will("getUpdates", json!([{"update_id": 1, "callback_query": query}]));
    api.refuses("answerCallbackQuery", 400, "Bad Request: query is too old");
    api.refuses("getUpdates", 500, "Internal Server Error");
    let (events, _) = followed(&api, &telegram, None).await;
    assert_eq!(api.asked("answerCallbackQuery"), [json!({"callback_query_id": "77"})]);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, PlatformEvent::Pressed(pressed) if pressed.button == "yes"))
    );
}

#[tokio::test]
async fn a_topic_is_opened_where_its_group_is_named() {
    let (api, telegram) = Api::start().await;
    assert!(matches!(telegram.create_channel("fizzbuzz", "").await, Err(PlatformError::Refused(_))));
    api.will("createForumTopic", json!({"message_thread_id": 9}));
    let chat = json!({"id": -1_001_234_567_890_i64, "type": "supergroup", "title": "Team", "is_forum": true});
    api.will("getChat", chat);
    api.will("getChatMember", json!({"status": "administrator"}));
    api.will("getChatAdministrators", json!([{"user": {"id": 5}}, {"user": {"id": 7, "is_bot": true}}]));
    let made = telegram.create_channel("-1001234567890/Fizz", "").await.unwrap();
    assert_eq!((made.id.as_str(), made.title.as_str()), ("-1001234567890/9", "Team / Fizz"));
    assert_eq!(made.members, Some(vec!["5".to_owned()]));
}

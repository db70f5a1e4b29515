use serde_json::json;

use super::*;

const GROUP: i64 = -1_001_234_567_890;

fn bot() -> Bot {
    Bot { id: 7, username: "flock_bot".to_owned() }
}

fn read(update: &Value) -> Vec<PlatformEvent> {
    events(update, &bot(), &Topics::default())
}

/// A message of Ann's with these fields.
fn with(fields: Value) -> Value {
    let mut message = json!({
        "message_id": 10, "date": 1_700_000_000, "chat": {"id": GROUP, "type": "supergroup", "title": "Team"},
        "from": {"id": 5, "is_bot": false, "first_name": "Ann", "username": "ann"},
    });
    for (key, value) in fields.as_object().unwrap() {
        message[key] = value.clone();
    }
    message
}

fn taken(fields: Value) -> IncomingMessage {
    let events = read(&json!({"update_id": 1, "message": with(fields)}));
    let [PlatformEvent::Message(message)] = events.as_slice() else { panic!("{events:?}") };
    message.clone()
}

#[test]
fn a_message_is_read_with_its_sender() {
    let message = taken(json!({"text": "hi"}));
    assert_eq!((message.external.as_str(), message.id.as_str()), ("-1001234567890", "10"));
    assert_eq!((message.text.as_str(), message.sent_at), ("hi", 1_700_000_000_000));
    assert_eq!(message.sender, person(&json!({"id": 5, "username": "ann"})));
    assert_eq!((message.thread, message.is_direct, message.reply_to), (None, false, None));
}

#[test]
fn a_message_in_a_topic_names_it_and_answers_nothing_by_itself() {
    let root = json!({"message_id": 4, "forum_topic_created": {"name": "Lunch"}});
    let in_topic =
        json!({"text": "x", "is_topic_message": true, "message_thread_id": 4, "reply_to_message": root});
    let message = taken(in_topic);
    assert_eq!(message.external, "-1001234567890/4");
    assert_eq!(message.thread, Some(Thread { channel: GROUP.to_string(), title: "Lunch".to_owned() }));
    assert_eq!(message.reply_to, None);
    let answer = json!({"text": "x", "message_thread_id": 4, "reply_to_message": {"message_id": 4}});
    let message = taken(answer);
    assert_eq!((message.external.as_str(), message.reply_to.as_deref()), ("-1001234567890", Some("4")));
}

#[test]
fn a_private_message_is_to_flock_alone() {
    let message = taken(json!({"text": "x", "chat": {"id": 5, "type": "private"}}));
    assert!(message.is_direct && message.external == "5");
}

#[test]
fn who_writes_in_the_name_of_a_chat_is_no_person() {
    let anonymous = json!({"text": "x", "sender_chat": {"id": GROUP, "title": "Team"},
        "from": {"id": 1_087_968_824, "is_bot": true, "username": "GroupAnonymousBot"}});
    let sender = taken(anonymous).sender;
    assert_eq!((sender.account.as_str(), sender.is_bot), ("-1001234567890", true));
    let linked =
        json!({"text": "x", "sender_chat": {"id": -100_i64, "title": "News"}, "from": {"id": 777_000}});
    assert!(taken(linked).sender.is_bot);
    let post = json!({"channel_post": {"message_id": 1, "chat": {"id": -5, "type": "channel", "title": "C"}, "text": "x"}});
    let events = read(&post);
    let [PlatformEvent::Message(message)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((message.sender.account.as_str(), message.sender.is_bot), ("-5", true));
    assert!(
        taken(json!({"text": "x", "from": {"id": 6, "is_bot": true, "username": "other_bot"}})).sender.is_bot
    );
}

#[test]
fn own_messages_and_empty_ones_are_left_out() {
    for fields in [
        json!({"text": "x", "from": {"id": 7, "is_bot": true}}),
        json!({}),
        json!({"new_chat_members": [{"id": 6}]}),
        json!({"text": "x", "message_id": "10"}),
        json!({"text": "x", "chat": {}}),
        json!({"text": ["x"]}),
    ] {
        assert_eq!(read(&json!({"message": with(fields.clone())})), [], "{fields}");
    }
}

#[test]
fn what_makes_no_sense_is_passed_over() {
    for update in
        [json!(null), json!([]), json!("x"), json!({"message": 1}), json!({"callback_query": {"id": "1"}})]
    {
        assert_eq!(read(&update), [], "{update}");
    }
}

#[test]
fn an_edit_has_the_new_text_and_the_old_id() {
    let events = read(&json!({"edited_message": with(json!({"text": "new", "edit_date": 1}))}));
    let [PlatformEvent::Edited(message)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((message.id.as_str(), message.text.as_str()), ("10", "new"));
}

#[test]
fn what_happens_to_a_chat_is_told() {
    let moved = PlatformEvent::Moved { from: "-41".to_owned(), to: GROUP.to_string() };
    let old = json!({"chat": {"id": -41, "type": "group"}, "migrate_to_chat_id": GROUP});
    assert_eq!(read(&json!({"message": with(old)})), std::slice::from_ref(&moved));
    assert_eq!(read(&json!({"message": with(json!({"migrate_from_chat_id": -41}))})), [moved]);
    let renamed = |external: &str, title: &str| PlatformEvent::Renamed {
        external: external.to_owned(),
        title: title.to_owned(),
    };
    let title = json!({"new_chat_title": "New", "from": {"id": 7}});
    assert_eq!(read(&json!({"message": with(title)})), [renamed("-1001234567890", "New")]);
    let topic =
        json!({"forum_topic_edited": {"name": "Soup"}, "is_topic_message": true, "message_thread_id": 4});
    assert_eq!(read(&json!({"message": with(topic)})), [renamed("-1001234567890/4", "Team / Soup")]);
}

#[test]
fn a_pressed_button_names_the_message_that_telegram_says() {
    let query = json!({"id": "1", "from": {"id": 5, "first_name": "Ann"}, "data": "yes", "message": with(json!({"text": "x"}))});
    let events = read(&json!({"callback_query": query}));
    let [PlatformEvent::Pressed(pressed)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((pressed.external.as_str(), pressed.message.as_str()), ("-1001234567890", "10"));
    assert_eq!((pressed.sender.account.as_str(), pressed.button.as_str()), ("5", "yes"));
}

#[test]
fn words_of_others_do_not_look_like_the_senders() {
    let forwarded = json!({"text": "a\nb", "forward_origin": {"type": "user", "sender_user": {"id": 9, "username": "eve"}}});
    assert_eq!(taken(forwarded).text, "(forwarded from eve)\n> a\n> b");
    let quote = json!({"text": "yes", "quote": {"text": "ok?", "is_manual": true}, "reply_to_message": {"message_id": 8}});
    let message = taken(quote);
    assert_eq!((message.text.as_str(), message.reply_to.as_deref()), ("> ok?\n\nyes", Some("8")));
}

#[test]
fn what_is_no_text_is_described() {
    for (fields, wanted) in [
        (json!({"sticker": {"emoji": "😀", "file_id": "x"}}), "😀"),
        (
            json!({"poll": {"question": "Soup?", "options": [{"text": "yes"}, {"text": "no"}]}}),
            "Poll: Soup?\n- yes\n- no",
        ),
        (json!({"location": {"latitude": 1.5, "longitude": 2}}), "Location: 1.5, 2"),
        (json!({"contact": {"phone_number": "1", "first_name": "Ann"}}), "Contact: Ann 1"),
    ] {
        assert_eq!(taken(fields).text, wanted);
    }
}

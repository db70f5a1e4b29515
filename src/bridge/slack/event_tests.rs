use serde_json::json;

use super::*;

fn own() -> Own {
    Own { user: "UBOT".to_owned(), bot: "BBOT".to_owned(), name: "flock".to_owned() }
}

fn read(event: Value) -> Option<Happening> {
    happening(&json!({"event": event}), &own())
}

fn said(more: Value) -> Value {
    let mut event =
        json!({"type": "message", "channel": "C1", "user": "U1", "text": "hi", "ts": "100.000001"});
    for (key, value) in more.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

fn message_of(more: Value) -> RawMessage {
    match read(said(more)) {
        Some(Happening::Message(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn ts(text: &str) -> Ts {
    text.parse().unwrap()
}

#[test]
fn a_message_is_read() {
    let message = message_of(json!({"unknown": [1]}));
    assert_eq!(
        (message.channel.as_str(), message.sender.as_str(), message.text.as_str()),
        ("C1", "U1", "hi")
    );
    assert_eq!(
        (message.external().as_str(), message.thread, message.is_bot, message.is_direct),
        ("C1", None, false, false)
    );
    let direct = message_of(json!({"channel": "D1", "channel_type": "im"}));
    assert!(direct.is_direct);
}

#[test]
fn a_reply_is_in_its_thread_and_the_first_message_is_not() {
    let reply = message_of(json!({"thread_ts": "99.000001", "subtype": "thread_broadcast"}));
    assert_eq!((reply.external().as_str(), reply.thread), ("C1/99.000001", Some(ts("99.000001"))));
    assert_eq!(message_of(json!({"thread_ts": "100.000001"})).external(), "C1");
}

#[test]
fn own_messages_and_notices_are_left_out() {
    for more in [
        json!({"user": "UBOT"}),
        json!({"user": null, "bot_id": "BBOT", "subtype": "bot_message", "username": "coder"}),
        json!({"subtype": "channel_join"}),
        json!({"subtype": "message_replied"}),
        json!({"subtype": "tombstone"}),
    ] {
        assert_eq!(read(said(more.clone())), Some(Happening::Nothing), "{more}");
    }
    assert_eq!(
        read(json!({"type": "app_mention", "channel": "C1", "ts": "1.000001"})),
        Some(Happening::Nothing)
    );
}

#[test]
fn other_bots_are_marked() {
    let bot = message_of(json!({"user": null, "bot_id": "B2", "subtype": "bot_message", "username": "ci"}));
    assert_eq!((bot.sender.as_str(), bot.is_bot, bot.bot_name.as_deref()), ("B2", true, Some("ci")));
    assert!(message_of(json!({"user": "USLACKBOT"})).is_bot);
}

#[test]
fn files_are_read_and_those_without_content_are_not() {
    let message = message_of(json!({"subtype": "file_share", "files": [
        {"id": "F1", "name": "a.txt", "size": 3}, {"id": "F2", "mode": "tombstone"}, {"name": "x"}, 5,
    ]}));
    let file = IncomingFile { id: "F1".to_owned(), name: "a.txt".to_owned(), bytes: 3 };
    assert_eq!(message.files, [file]);
}

#[test]
fn a_changed_text_is_an_edit_and_a_picture_of_a_link_is_not() {
    let change = |new: &str, by: Value| {
        let mut message = json!({"type": "message", "text": new, "ts": "90.000001", "user": "U1"});
        message.as_object_mut().unwrap().extend(by.as_object().unwrap().clone());
        read(json!({
            "type": "message", "subtype": "message_changed", "channel": "C1", "ts": "100.000001", "message": message,
            "previous_message": {"type": "message", "text": "old", "ts": "90.000001", "user": "U1"},
        }))
    };
    let Some(Happening::Edited(message, at)) = change("new", json!({})) else { panic!() };
    assert_eq!((message.ts, message.text.as_str(), at), (ts("90.000001"), "new", ts("100.000001")));
    assert_eq!(change("old", json!({"attachments": [{}]})), Some(Happening::Nothing));
    assert_eq!(change("new", json!({"bot_id": "B2"})), Some(Happening::Nothing));
    assert_eq!(change("new", json!({"user": "UBOT"})), Some(Happening::Nothing));
}

#[test]
fn a_deletion_names_the_message_and_its_thread() {
    let deletion = |subtype: &str, more: Value| {
        let mut event = said(more);
        event["subtype"] = subtype.into();
        event["previous_message"] = json!({"ts": "90.000001", "thread_ts": "80.000001", "user": "U1"});
        read(event)
    };
    let wanted = Happening::Deleted {
        channel: "C1".to_owned(),
        thread: Some(ts("80.000001")),
        ts: ts("90.000001"),
        at: ts("100.000001"),
    };
    assert_eq!(deletion("message_deleted", json!({})), Some(wanted.clone()));
    let tombstone = json!({"message": {"subtype": "tombstone", "ts": "90.000001"}});
    assert_eq!(deletion("message_changed", tombstone), Some(wanted));
}

#[test]
fn channels_are_renamed_and_moved() {
    let renamed = read(json!({"type": "channel_rename", "channel": {"id": "C1", "name": "new"}}));
    let wanted = PlatformEvent::Renamed { external: "C1".to_owned(), title: "#new".to_owned() };
    assert_eq!(renamed, Some(Happening::Other(wanted)));
    let moved = read(json!({"type": "channel_id_changed", "old_channel_id": "C1", "new_channel_id": "C2"}));
    let wanted = PlatformEvent::Moved { from: "C1".to_owned(), to: "C2".to_owned() };
    assert_eq!(moved, Some(Happening::Other(wanted)));
}

#[test]
fn revoked_tokens_are_those_of_flock() {
    assert_eq!(read(json!({"type": "app_uninstalled"})), Some(Happening::Revoked));
    assert_eq!(
        read(json!({"type": "tokens_revoked", "tokens": {"bot": ["UBOT"]}})),
        Some(Happening::Revoked)
    );
    assert_eq!(
        read(json!({"type": "tokens_revoked", "tokens": {"oauth": ["U1"]}})),
        Some(Happening::Nothing)
    );
}

#[test]
fn what_can_not_be_read_is_told_from_what_is_not_taken() {
    assert_eq!(happening(&json!({}), &own()), None);
    assert_eq!(read(said(json!({"ts": "x"}))), None);
    assert_eq!(read(said(json!({"channel": 5}))), None);
    assert_eq!(read(json!({"type": "something new"})), Some(Happening::Nothing));
}

#[test]
fn a_press_names_the_button_the_message_and_the_person() {
    let press = pressed(&json!({
        "type": "block_actions", "user": {"id": "U1", "username": "ann"},
        "container": {"channel_id": "C1", "message_ts": "100.000001", "thread_ts": "90.000001"},
        "actions": [{"type": "button", "value": "yes", "action_id": "flock-0"}],
    }));
    let press = press.unwrap();
    assert_eq!(
        (press.external.as_str(), press.message.as_str(), press.button.as_str()),
        ("C1/90.000001", "100.000001", "yes")
    );
    assert_eq!((press.sender.account.as_str(), press.sender.username.as_str()), ("U1", "ann"));
    for broken in [json!({}), json!({"type": "block_actions"}), json!({"type": "view_submission"})] {
        assert_eq!(pressed(&broken), None);
    }
}

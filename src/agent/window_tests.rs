use proptest::prelude::*;
use serde_json::json;

use super::*;

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| Block::call(*id, "t", json!({}));
    Message { role: Role::Assistant, content: ids.iter().map(call).collect() }
}

fn result(id: &str, text: &str) -> Block {
    let content = vec![Block::text(text)];
    Block::ToolResult { call_id: id.to_owned(), name: "t".into(), content: content.into(), is_error: false }
}

fn results(ids: &[&str]) -> Message {
    Message { role: Role::Tool, content: ids.iter().map(|id| result(id, "done")).collect() }
}

/// What must hold of every request.
fn check(messages: &[Arc<Message>]) -> Result<(), String> {
    if messages.first().is_none_or(|first| first.role != Role::User) {
        return Err("the first message is not a user's".to_owned());
    }
    for (at, message) in messages.iter().enumerate() {
        if message.content.is_empty() {
            return Err(format!("message {at} is empty"));
        }
        let wanted: Vec<&str> = message.tool_calls().map(|call| call.id).collect();
        let next = messages.get(at + 1).filter(|next| next.role == Role::Tool);
        let given: Vec<&str> = next.into_iter().flat_map(|next| &next.content).map(call_id).collect();
        if wanted != given {
            return Err(format!("message {at} calls {wanted:?} and gets {given:?}"));
        }
    }
    Ok(())
}

fn call_id(block: &Block) -> &str {
    match block {
        Block::ToolResult { call_id, .. } => call_id,
        _ => "not a result",
    }
}

#[test]
fn an_open_call_gets_a_result_and_a_stray_result_goes() {
    let past = vec![vec![
        user("a"),
        calls(&["1", "2"]),
        Message { role: Role::Tool, content: vec![result("2", "two"), result("9", "stray")] },
        results(&["8"]),
    ]];
    let window = Window::new(10_000, Images::Shown, past, vec![user("b")]);
    let messages = window.messages();
    check(messages).unwrap();
    assert_eq!(messages.len(), 4);
    assert_eq!(messages[2].content, [unknown_result("1", "t"), result("2", "two")]);
}

#[test]
fn old_turns_go_first_and_whole() {
    let past = vec![vec![user(&"x".repeat(400))], vec![user("old"), calls(&["1"]), results(&["1"])]];
    let mut window = Window::new(100, Images::Shown, past, vec![user("new")]);
    assert_eq!(window.messages().len(), 4, "the large oldest one is left out");
    window.push(calls(&["2"]), vec![result("2", &"y".repeat(200))]);
    assert_eq!(*window.messages()[0], user("new"), "the turn before is left out whole");
    window.push(calls(&["3"]), vec![result("3", &"z".repeat(200))]);
    let messages = window.messages();
    check(messages).unwrap();
    assert_eq!(messages.len(), 3, "the first step is left out");
    assert!(messages[0].joined_text().contains("left out"));
    window.push(calls(&["4"]), vec![result("4", &"z".repeat(4_000))]);
    let messages = window.messages();
    check(messages).unwrap();
    let Block::ToolResult { content, .. } = &messages[2].content[0] else { panic!() };
    assert!(cost(content) < 100, "a result that does not fit is cut");
}

#[test]
fn what_is_delivered_stays_when_steps_are_left_out() {
    let mut window = Window::new(120, Images::Shown, Vec::new(), vec![user("the question")]);
    let free = window.free();
    window.push(calls(&["1"]), vec![result("1", &"y".repeat(200))]);
    assert!(window.free() < free, "a step takes room");
    window.deliver(user("and one thing more"));
    window.push(calls(&["2"]), vec![result("2", &"z".repeat(200))]);
    let messages = window.messages();
    check(messages).unwrap();
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert!(messages[0].joined_text().contains("left out"));
    assert_eq!(*messages[1], user("and one thing more"));
    window.push(calls(&["3"]), vec![result("3", &"z".repeat(4_000))]);
    let messages = window.messages();
    check(messages).unwrap();
    assert_eq!(*messages[1], user("and one thing more"));
    let Block::ToolResult { content, .. } = &messages[3].content[0] else { panic!() };
    assert!(cost(content) < 100, "the result is cut, not the message");
    assert_eq!(window.free(), 0);
}

#[test]
fn a_window_can_be_narrowed_as_long_as_there_is_something_to_leave_out() {
    let past = (0..4).map(|n| vec![user(&format!("{n}{}", "x".repeat(400)))]).collect();
    let mut window = Window::new(10_000, Images::Shown, past, vec![user("new")]);
    assert!(window.narrow());
    assert!(window.messages().len() < 4);
    while window.narrow() {}
    assert_eq!(window.messages(), [user("new").into()]);
}

#[test]
fn thinking_stays_in_its_turn_and_pictures_with_those_who_see() {
    let thought = Block::Thinking { thinking: "hm".into(), signature: None, redacted: None };
    let thinking = Message { role: Role::Assistant, content: vec![thought.clone()] };
    let picture = Block::Image { media_type: "image/png".into(), data: "AAAA".into() };
    let past = vec![vec![user("a"), thinking]];
    let input = Message { role: Role::User, content: vec![picture] };
    let mut window = Window::new(10_000, Images::Named, past, vec![input]);
    assert_eq!(window.messages().len(), 2, "an answer of nothing but thinking goes");
    assert!(window.messages()[1].joined_text().contains("image/png"));
    let mut answer = calls(&["1"]);
    answer.content.insert(0, thought.clone());
    window.push(answer, vec![result("1", "x")]);
    assert_eq!(window.messages()[2].content[0], thought);
}

#[test]
fn a_conversation_that_begins_with_an_answer_begins_with_its_first_question() {
    let input = vec![Message::text(Role::Assistant, "welcome"), calls(&["1"]), results(&["1"]), user("hi")];
    let window = Window::new(10_000, Images::Shown, Vec::new(), input);
    assert_eq!(window.messages(), [user("hi").into()]);
}

fn any_block() -> impl Strategy<Value = Block> {
    prop_oneof![
        "[a-z]{0,40}".prop_map(Block::text),
        "[a-d]".prop_map(|id| Block::call(id, "t", json!({}))),
        ("[a-d]", "[a-z]{0,80}").prop_map(|(id, text)| result(&id, &text)),
        Just(Block::Thinking { thinking: "t".into(), signature: None, redacted: None }),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::Tool)];
    (role, proptest::collection::vec(any_block(), 0..5)).prop_map(|(role, content)| Message { role, content })
}

fn any_turn() -> impl Strategy<Value = Vec<Message>> {
    proptest::collection::vec(any_message(), 0..8)
}

proptest! {
    #[test]
    fn whatever_was_said_is_shown_well_formed(
        past in proptest::collection::vec(any_turn(), 0..6),
        steps in proptest::collection::vec((1_usize..4, "[a-z]{0,400}", proptest::option::of("came: [a-z]{1,20}")), 0..6),
        room in 60_u64..2_000,
    ) {
        let mut said = Vec::new();
        let mut window = Window::new(room, Images::Shown, past, vec![user("the new input")]);
        for (count, text, delivered) in steps {
            let ids: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            window.push(calls(&ids), ids.iter().map(|id| result(id, &text)).collect());
            let messages = window.messages();
            prop_assert_eq!(check(messages), Ok(()));
            prop_assert!(messages.iter().any(|message| message.joined_text().starts_with("the new input")));
            // The newest step is there, with at least the ends of its results.
            let last: Vec<&str> = messages[messages.len() - 1].content.iter().map(call_id).collect();
            prop_assert_eq!(last, ids);
            if let Some(text) = delivered {
                said.push(user(&text));
                window.deliver(user(&text));
                prop_assert_eq!(check(window.messages()), Ok(()));
            }
            // What was said to the model is never left out, and stays in its order.
            let shown = window.messages().iter().filter(|message| said.contains(message)).count();
            prop_assert_eq!(shown, said.len());
        }
        prop_assert_eq!(check(window.messages()), Ok(()));
    }

    #[test]
    fn the_newest_turns_that_fit_are_kept(costs in proptest::collection::vec(0_usize..600, 0..8), room in 60_u64..1_000) {
        let turns: Vec<Vec<Message>> = costs.iter().map(|bytes| vec![user(&format!("t{}", "x".repeat(*bytes)))]).collect();
        let input = vec![user("now")];
        let turn_cost = |turn: &[Message]| turn.iter().map(message_cost).sum::<u64>();
        let mut left = room - turn_cost(&input);
        let kept = turns.iter().rev().take_while(|turn| {
            let fits = turn_cost(turn) <= left;
            left = left.saturating_sub(turn_cost(turn));
            fits
        }).count();
        let shown = Window::new(room, Images::Shown, turns.clone(), input.clone()).messages().to_vec();
        let expected: Vec<Message> = turns[turns.len() - kept..].iter().flatten().chain(&input).cloned().collect();
        let expected: Vec<Arc<Message>> = expected.into_iter().map(Arc::new).collect();
        prop_assert_eq!(&shown, &expected);
        prop_assert!(shown.iter().map(|message| message_cost(message)).sum::<u64>() <= room);
    }
}

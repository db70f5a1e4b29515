//! Tests of the numbers and of what is kept.

use super::*;

fn number(value: u32) -> Number {
    Number::new(value).unwrap()
}

fn frame(number: Number) -> Frame {
    Frame { kind: 2, nonce: [0; 16], number, payload: vec![0; 10] }
}

fn bytes(length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::encode(2, &[0; 16], &vec![0; length], &mut bytes).unwrap();
    bytes
}

#[test]
fn numbers_go_on_after_the_last_one() {
    let last = number((1 << 24) - 1);
    assert_eq!(last.next(), number(1));
    assert_eq!(number(3).since(last), 3);
    assert_eq!(number(3).since(Number::default()), 3);
    assert!(Number::new(1 << 24).is_none());
}

#[test]
fn what_is_not_confirmed_is_kept_up_to_a_limit() {
    let mut sent = Sent::default();
    for _ in 0..5 {
        sent.add(&mut bytes(10));
    }
    sent.confirm(number(2));
    assert_eq!(sent.kept().count(), 3);
    assert!(sent.has_after(number(2)) && sent.has_after(number(5)));
    assert!(!sent.has_after(number(1)), "it was confirmed before");
    assert!(!sent.has_after(number(6)), "it was never sent");
    sent.confirm(number(9));
    assert_eq!(sent.kept().count(), 3, "a number that was never sent confirms nothing");
    for _ in 0..6 {
        sent.add(&mut bytes(1 << 20));
    }
    assert!(sent.kept().count() <= 4);
    assert!(!sent.has_after(number(5)), "too many were not confirmed");
    sent.confirm(number(11));
    assert!(sent.has_after(number(11)));
    assert_eq!(sent.kept().count(), 0);
}

#[test]
fn a_frame_is_taken_once_and_a_missing_one_is_asked_for_once() {
    let mut received = Received::default();
    assert_eq!(received.note(&frame(Number::default())), Arrival::Take, "it has no number");
    assert_eq!(received.note(&frame(number(1))), Arrival::Take);
    assert_eq!(received.note(&frame(number(1))), Arrival::Drop);
    assert_eq!(received.note(&frame(number(3))), Arrival::AskAgain);
    assert_eq!(received.note(&frame(number(4))), Arrival::Drop);
    assert_eq!(received.told(), number(1));
    assert_eq!(received.note(&frame(number(2))), Arrival::Take);
    assert_eq!(received.note(&frame(number(3))), Arrival::Take);
    assert_eq!(received.note(&frame(number(5))), Arrival::AskAgain);
    assert_eq!(received.resumed(), number(3));
    assert_eq!(received.note(&frame(number(5))), Arrival::AskAgain, "new streams may bring it");
    assert_eq!(received.due(), None);
    for value in 4..200 {
        assert_eq!(received.note(&frame(number(value))), Arrival::Take);
    }
    assert_eq!(received.due(), Some(number(199)));
    assert_eq!(received.due(), None);
}

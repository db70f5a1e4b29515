use proptest::prelude::*;

use super::*;

const OPENING: u8 = 1;

fn frames(decoder: &mut Decoder, bytes: &[u8], step: usize) -> Vec<Frame> {
    let mut found = Vec::new();
    for piece in bytes.chunks(step.max(1)) {
        decoder.push(piece);
        found.extend(std::iter::from_fn(|| decoder.next_frame()));
        assert!(decoder.buffer.len() <= HEADER + MAX_PAYLOAD + step);
    }
    found
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    encode(frame.kind, &frame.nonce, &frame.payload, &mut out).unwrap();
    out
}

fn frame() -> impl Strategy<Value = Frame> {
    (
        prop_oneof![3 => any::<u8>(), 1 => Just(OPENING)],
        any::<Nonce>(),
        proptest::collection::vec(any::<u8>(), 0..200),
    )
        .prop_map(|(kind, nonce, payload)| Frame { kind, nonce, number: Number::default(), payload })
}

/// Returns bytes of a hostile peer: pieces of real frames, magic bytes and random noise.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..100),
        proptest::collection::vec(proptest::sample::select(MAGIC.to_vec()), 0..50),
        (frame(), any::<prop::sample::Index>()).prop_map(|(frame, cut)| {
            let bytes = encoded(&frame);
            bytes[..cut.index(bytes.len())].to_vec()
        }),
        (frame(), any::<prop::sample::Index>(), 1..255_u8).prop_map(|(frame, at, flip)| {
            let mut bytes = encoded(&frame);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            bytes
        }),
    ]
}

proptest! {
    #[test]
    fn frames_decode_the_same_at_any_chunk_size(sent in proptest::collection::vec(frame(), 0..8), step in 1..300_usize) {
        let bytes: Vec<u8> = sent.iter().flat_map(encoded).collect();
        prop_assert_eq!(frames(&mut Decoder::new(OPENING), &bytes, step), sent);
    }

    #[test]
    fn an_opening_frame_is_found_after_any_noise(
        noise in proptest::collection::vec(noise(), 0..6),
        nonce: Nonce,
        step in 1..300_usize,
    ) {
        let opening = Frame { kind: OPENING, nonce, number: Number::default(), payload: vec![1, 0, 0, 0] };
        let mut bytes = noise.concat();
        bytes.extend(encoded(&opening));
        let mut decoder = Decoder::new(OPENING);
        let found = frames(&mut decoder, &bytes, step);
        prop_assert_eq!(found.last(), Some(&opening));
        // The decoder is in step with the stream again.
        let next = Frame { kind: 9, nonce, number: Number::default(), payload: b"next".to_vec() };
        prop_assert_eq!(frames(&mut decoder, &encoded(&next), step), vec![next]);
    }

    #[test]
    fn any_payload_is_a_message_that_encodes_back_or_none(kind: u8, payload: Vec<u8>) {
        use crate::sandbox::helper::message::{Reply, Request};
        if let Some(request) = Request::decode(kind, &payload) {
            prop_assert_eq!(request.encode(), (kind, payload.clone()));
        }
        if let Some(reply) = Reply::decode(kind, &payload) {
            prop_assert_eq!(reply.encode().0, kind);
        }
    }
}

#[test]
fn an_opening_frame_is_found_behind_one_that_was_cut_inside_an_unfinished_frame() {
    let outer =
        encoded(&Frame { kind: 4, nonce: [3; 16], number: Number::default(), payload: vec![5; 1000] });
    let cut =
        encoded(&Frame { kind: OPENING, nonce: [7; 16], number: Number::default(), payload: vec![9; 60] });
    let opening =
        Frame { kind: OPENING, nonce: [8; 16], number: Number::default(), payload: vec![1, 0, 0, 0] };
    let bytes = [&outer[..40], &cut[..HEADER + 2], &encoded(&opening)].concat();
    for step in [1, 7, bytes.len()] {
        assert_eq!(
            frames(&mut Decoder::new(OPENING), &bytes, step),
            std::slice::from_ref(&opening),
            "{step}"
        );
    }
    // A frame whose rest arrives later is found at the place where it was first seen.
    let late = Frame { kind: OPENING, nonce: [7; 16], number: Number::default(), payload: vec![9; 60] };
    for step in [1, 7, 40] {
        let bytes = [&outer[..40], &encoded(&late)].concat();
        assert_eq!(frames(&mut Decoder::new(OPENING), &bytes, step), std::slice::from_ref(&late), "{step}");
    }
}

#[test]
fn an_opening_frame_is_found_where_its_first_bytes_complete_one_that_was_cut() {
    let opening =
        Frame { kind: OPENING, nonce: [8; 16], number: Number::default(), payload: vec![1, 0, 0, 0] };
    for missing in 1..=MAGIC.len() {
        let nonce = [47; 16];
        let mut payload = vec![0; 39];
        for (byte, wanted) in payload[39 - missing..].iter_mut().zip(MAGIC) {
            *byte = wanted ^ nonce[0];
        }
        let before = Frame { kind: 4, nonce, number: Number::default(), payload };
        let whole = encoded(&before);
        let cut = [&whole[..whole.len() - missing], &encoded(&opening)].concat();
        let uncut = [whole.as_slice(), &encoded(&opening)].concat();
        for (bytes, step) in [(&cut, 1), (&cut, cut.len()), (&uncut, 1), (&uncut, uncut.len())] {
            let found = frames(&mut Decoder::new(OPENING), bytes, step);
            assert_eq!(found, [before.clone(), opening.clone()], "{missing} {step}");
        }
    }
}

#[test]
fn an_opening_frame_inside_a_payload_is_ignored() {
    // A job may be given an exact hello as its input. The mask makes it something else, even while the frame around it
    // is incomplete.
    let hello = encoded(&Frame {
        kind: OPENING,
        nonce: [7; 16],
        number: Number::default(),
        payload: vec![1, 0, 0, 0],
    });
    let outer = Frame {
        kind: 4,
        nonce: *b"unknown to a job",
        number: Number::default(),
        payload: [hello.as_slice(), &[0; 1000]].concat(),
    };
    let bytes = encoded(&outer);
    assert_eq!(frames(&mut Decoder::new(OPENING), &bytes, 100), [outer]);
}

#[test]
fn payloads_have_a_limit_on_both_sides() {
    let mut out = Vec::new();
    assert_eq!(encode(2, &[1; 16], &vec![0; MAX_PAYLOAD + 1], &mut out), Err(TooLarge));
    assert!(out.is_empty());
    let largest = Frame { kind: 2, nonce: [1; 16], number: Number::default(), payload: vec![5; MAX_PAYLOAD] };
    assert_eq!(frames(&mut Decoder::new(OPENING), &encoded(&largest), 65_536), [largest]);
    let mut lying =
        encoded(&Frame { kind: 2, nonce: [1; 16], number: Number::default(), payload: Vec::new() });
    lying[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let next = Frame { kind: 3, nonce: [1; 16], number: Number::default(), payload: Vec::new() };
    lying.extend(encoded(&next));
    assert_eq!(frames(&mut Decoder::new(OPENING), &lying, 7), [next]);
}

#[test]
fn memory_of_a_large_frame_is_released() {
    let mut decoder = Decoder::new(OPENING);
    let large =
        encoded(&Frame { kind: 2, nonce: [1; 16], number: Number::default(), payload: vec![5; MAX_PAYLOAD] });
    frames(&mut decoder, &large, 65_536);
    frames(
        &mut decoder,
        &encoded(&Frame { kind: 2, nonce: [1; 16], number: Number::default(), payload: Vec::new() }),
        100,
    );
    assert!(decoder.buffer.capacity() <= 256 * 1024);
}

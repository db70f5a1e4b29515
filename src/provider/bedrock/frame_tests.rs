use proptest::prelude::*;

use super::*;

/// Returns a frame with these text headers.
fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (name, value) in headers {
        packed.push(u8::try_from(name.len()).unwrap());
        packed.extend_from_slice(name.as_bytes());
        packed.push(7);
        packed.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        packed.extend_from_slice(value.as_bytes());
    }
    raw(&packed, payload)
}

fn raw(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = u32::try_from(PRELUDE_BYTES + headers.len() + payload.len() + CHECKSUM_BYTES).unwrap();
    let mut bytes = total.to_be_bytes().to_vec();
    bytes.extend_from_slice(&u32::try_from(headers.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(&crc32(&bytes).to_be_bytes());
    bytes.extend_from_slice(headers);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&crc32(&bytes).to_be_bytes());
    bytes
}

fn event(name: &str, payload: &[u8]) -> Vec<u8> {
    frame(&[(":message-type", "event"), (":event-type", name)], payload)
}

fn feed(pieces: &[&[u8]]) -> Result<Vec<(String, Vec<u8>)>, FrameError> {
    let mut frames = FrameParser::new(1 << 20);
    let mut seen = Vec::new();
    for piece in pieces {
        frames.feed(piece, |frame| {
            seen.push((frame.name.to_owned(), frame.payload.to_vec()));
            Ok::<(), FrameError>(())
        })?;
    }
    Ok(seen)
}

#[test]
fn crc32_matches_the_published_check_value() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    assert_eq!(crc32(b""), 0);
}

#[test]
fn a_frame_has_its_kind_its_name_and_its_payload() {
    let mut frames = FrameParser::new(1000);
    let mut seen = false;
    let bytes = frame(&[(":message-type", "exception"), (":exception-type", "x"), ("other", "y")], b"{}");
    frames
        .feed(&bytes, |frame| {
            assert_eq!((frame.kind, frame.name, frame.payload), ("exception", "x", &b"{}"[..]));
            seen = true;
            Ok::<(), FrameError>(())
        })
        .unwrap();
    assert!(seen && !frames.is_pending());
}

#[test]
fn a_damaged_frame_ends_the_stream() {
    let good = event("a", b"payload");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(feed(&[&bad]).is_err(), "byte {at}");
    }
    assert_eq!(feed(&[b"HTTP/1.1 200 OK\r\n"]), Err(FrameError::Prelude));
    assert_eq!(feed(&[br#"{"message": "no stream"}"#]), Err(FrameError::Prelude));
    let mut long = u32::MAX.to_be_bytes().to_vec();
    long.extend_from_slice(&0u32.to_be_bytes());
    long.extend_from_slice(&crc32(&long).to_be_bytes());
    assert_eq!(feed(&[&long]), Err(FrameError::TooLong));
    for headers in [&b"\x05ab"[..], b"\x01a\x63", b"\x01a\x07\xff\xff", b"\x01a\x07\x00\x01\xff"] {
        assert_eq!(feed(&[&raw(headers, b"")]), Err(FrameError::Headers), "{headers:?}");
    }
}

proptest! {
    #[test]
    fn where_the_stream_is_cut_does_not_matter(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..5),
        cuts in prop::collection::vec(0usize..400, 0..8),
    ) {
        let bytes: Vec<u8> = payloads.iter().flat_map(|payload| event("e", payload)).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let seen = feed(&pieces).unwrap();
        prop_assert_eq!(seen.into_iter().map(|(_, payload)| payload).collect::<Vec<_>>(), payloads);
    }

    #[test]
    fn any_bytes_are_frames_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        headers in prop::collection::vec(any::<u8>(), 0..60),
        payload in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let _ = feed(&[&bytes]);
        // With correct checksums, the content of the frame is parsed too.
        let _ = feed(&[&raw(&headers, &payload)]);
        let mut after = event("e", b"");
        after.extend_from_slice(&bytes);
        let _ = feed(&[&after]);
    }
}

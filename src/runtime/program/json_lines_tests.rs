use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(pieces: &[&[u8]], line: usize, whole: usize) -> Vec<String> {
    let mut lines = LineSplitter::default();
    let mut seen = Vec::new();
    let mut tell = |line: OutputLine<'_>| {
        seen.push(match line {
            OutputLine::Event(event) => format!("event {event}"),
            OutputLine::Noise(text) => format!("noise {text}"),
        });
    };
    for piece in pieces {
        lines.push_within(piece, line, whole, &mut tell);
    }
    lines.end(&mut tell);
    seen
}

#[test]
fn lines_are_put_together() {
    assert_eq!(
        read(&[b"{\"a\":", b"1}\n\n \r\n{\"b\":2}\r\nplain [x]\n3\n[1]\n{\"c\"", b":3}"], 100, 1000),
        [
            r#"event {"a":1}"#,
            r#"event {"b":2}"#,
            "noise plain [x]",
            "noise 3",
            "noise [1]",
            r#"event {"c":3}"#
        ]
    );
}

#[test]
fn split_and_invalid_utf8_is_accepted() {
    let line = "{\"a\":\"한\"}\n".as_bytes();
    assert_eq!(read(&[&line[..7], &line[7..]], 100, 100), ["event {\"a\":\"한\"}"]);
    assert_eq!(
        read(&[b"{\"a\":\"\xff\"}\n\xff\n"], 100, 100),
        ["event {\"a\":\"\u{fffd}\"}", "noise \u{fffd}"]
    );
}

#[test]
fn only_the_overlong_line_is_lost() {
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(50));
    let seen = read(&[&long.as_bytes()[..20], &long.as_bytes()[20..], b"\n{\"b\":1}\n"], 40, 1000);
    assert_eq!(seen, ["noise (a line that was too long was passed over)", "event {\"b\":1}"]);
    assert_eq!(read(&[long.as_bytes()], 40, 1000), ["noise (a line that was too long was passed over)"]);
    assert_eq!(read(&[long.as_bytes()], 58, 1000).len(), 1);
}

#[test]
fn output_beyond_the_total_limit_is_skipped() {
    let seen = read(&[b"{\"a\":1}\n", b"{\"b\":1}\n", b"{\"c\":1}\n", b"{\"d\":1}\n"], 100, 17);
    assert_eq!(
        seen,
        ["event {\"a\":1}", "event {\"b\":1}", "noise (what came after was too much and was passed over)"]
    );
}

#[test]
fn deep_nesting_is_noise() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    let seen = read(&[deep.as_bytes()], 20_000, 20_000);
    assert!(seen[0].starts_with("noise {\"a\":[[[") && seen[0].len() < 600, "{seen:?}");
}

proptest! {
    #[test]
    fn events_do_not_depend_on_how_the_bytes_come(
        values in proptest::collection::vec("[ -~한\u{1b}\u{7}]{0,20}", 0..6),
        cuts in proptest::collection::vec(0usize..200, 0..6),
    ) {
        let whole: String = values.iter().map(|value| format!("{}\n", json!({ "v": value }))).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= whole.len()).collect();
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &whole.as_bytes()[w[0]..w[1]]).collect();
        prop_assert_eq!(read(&pieces, 1000, 10_000), read(&[whole.as_bytes()], 1000, 10_000));
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300), line in 0usize..50) {
        for seen in read(&[&bytes], line, 200) {
            prop_assert!(seen.len() <= 4 * MAX_SHOWN + 6);
        }
    }
}

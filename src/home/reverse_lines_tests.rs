use super::*;
use std::io::Write as _;

fn read_reversed(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let mut tail = ReverseLines::new(&file).unwrap();
    let mut lines = Vec::new();
    while let Some(line) = tail.next_line().unwrap() {
        lines.push(line.to_owned());
    }
    lines
}

#[test]
fn lines_of_small_files_are_read_backwards() {
    assert!(read_reversed(b"").is_empty());
    assert_eq!(read_reversed(b"\n"), [b""]);
    assert_eq!(read_reversed(b"a"), [b"a"]);
    assert_eq!(read_reversed(b"a\nbc\n"), [&b"bc"[..], b"a"]);
    assert_eq!(read_reversed(b"a\n\nbc"), [&b"bc"[..], b"", b"a"]);
}

proptest::proptest! {
    #[test]
    fn lines_of_any_file_are_read_backwards(lengths in proptest::collection::vec(0_usize..60_000, 0..12), end: bool) {
        let lines: Vec<Vec<u8>> = lengths.iter().map(|length| vec![b'x'; *length]).collect();
        let mut bytes = lines.join(&b'\n');
        if end && !lines.is_empty() { bytes.push(b'\n'); }
        let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        if expected.last().is_some_and(|line| line.is_empty()) { expected.pop(); }
        expected.reverse();
        proptest::prop_assert!(read_reversed(&bytes) == expected);
    }

    #[test]
    fn blocks_and_single_lines_can_be_mixed(
        lengths in proptest::collection::vec(0_usize..40_000, 0..12),
        end: bool,
        most in 0_usize..100_000,
        single in 0_usize..4,
    ) {
        let lines: Vec<Vec<u8>> = lengths.iter().map(|length| vec![b'x'; *length]).collect();
        let mut bytes = lines.join(&b'\n');
        if end && !lines.is_empty() { bytes.push(b'\n'); }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let mut tail = ReverseLines::new(&file).unwrap();
        let mut left = bytes.len();
        for turn in 0.. {
            let is_single = turn % 4 < single;
            let (at, given) = if is_single {
                let Some(given) = tail.next_line().unwrap().map(<[u8]>::to_owned) else { break };
                (tail.place(), given)
            } else {
                let (at, given) = tail.lines(most).unwrap();
                let given = (at, given.to_owned());
                proptest::prop_assert_eq!(at, tail.place());
                if given.1.is_empty() { break }
                given
            };
            let at = usize::try_from(at).unwrap();
            proptest::prop_assert!(at == 0 || bytes[at - 1] == b'\n', "only whole lines");
            let there = &bytes[at..left];
            let there = if is_single { there.strip_suffix(b"\n").unwrap_or(there) } else { there };
            proptest::prop_assert!(given == there);
            left = at;
        }
        proptest::prop_assert_eq!(left, 0);
    }
}

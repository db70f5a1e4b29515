use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn passed(key: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let mut redaction = SecretFilter::new(Some(key));
    let mut all: Vec<u8> =
        pieces.iter().flat_map(|piece| redaction.pass(Bytes::copy_from_slice(piece))).collect();
    all.extend(redaction.rest().into_iter().flatten());
    all
}

#[test]
fn a_repeated_key_is_replaced_however_chunks_divide_it() {
    let said = b"your key sk-planted, sk-plan and sk-sk-planted".as_slice();
    for at in 0..said.len() {
        let passed = passed("sk-planted", &[&said[..at], &said[at..]]);
        assert_eq!(String::from_utf8(passed).unwrap(), "your key [key], sk-plan and sk-[key]", "{at}");
    }
}

#[test]
fn replacing_a_key_keeps_the_surrounding_json_unchanged() {
    for (key, said, expected) in [
        (
            "1234567890123456",
            r#"{"id":1234567890123456,"a":"1234567890123456"}"#,
            r#"{"id":1234567890123456,"a":"[key]"}"#,
        ),
        (
            "nvapi-planted-key",
            r#"{"a":"\nvapi-planted-key nvapi-planted-key"}"#,
            r#"{"a":"\nvapi-planted-key [key]"}"#,
        ),
        (r#"pl"an\ted"#, r#"{"a":"pl\"an\\ted","pl":"an"}"#, r#"{"a":"[key]","pl":"an"}"#),
        ("true,false,null,", r#"[true,false,null,"true,false,null,"]"#, r#"[true,false,null,"[key]"]"#),
    ] {
        for at in 0..said.len() {
            let (one, two) = said.as_bytes().split_at(at);
            let passed = String::from_utf8(passed(key, &[one, two])).unwrap();
            assert_eq!(passed, expected, "{at}");
            serde_json::from_str::<Value>(&passed).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn text_without_the_key_passes_unchanged(text in "[aks-]{0,60}", cuts in prop::collection::vec(0usize..60, 0..5)) {
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let expected = text.replace("ska-s", "[key]");
        prop_assert_eq!(String::from_utf8(passed("ska-s", &pieces)).unwrap(), expected);
    }

    #[test]
    fn json_stays_json_whatever_the_key_is(
        key in r#"[12n\\":,\[\]{}-]{2,4}"#, texts in prop::collection::vec(r#"[12n\\":,\n\[\]{}-]{0,8}"#, 0..5),
        number in any::<u64>(), at in any::<prop::sample::Index>(),
    ) {
        let said = json!({"texts": texts, "number": number, "list": [12, [1, {"n": 2}], -1, null]});
        let bytes = said.to_string().into_bytes();
        let (one, two) = bytes.split_at(at.index(bytes.len()));
        let passed: Value = serde_json::from_slice(&passed(&key, &[one, two])).unwrap();
        let of = |document: &Value, name: &str| document[name].clone();
        prop_assert_eq!(of(&passed, "list"), of(&said, "list"));
        prop_assert_eq!(of(&passed, "number"), of(&said, "number"));
        prop_assert_eq!(passed["texts"].as_array().map(Vec::len), Some(texts.len()));
    }
}

use super::*;

fn rewritten_ids(ids: IdFormat, raw: &[(&'static str, bool)]) -> Vec<String> {
    let mut used = UsedIds::default();
    raw.iter().map(|(raw, own)| used.next(raw, *own, ids).into_owned()).collect()
}

#[test]
fn ids_follow_each_format() {
    let long: &'static str = "c123456789_123456789_123456789_123456789_123456789_123456789_123456789";
    let raw = [
        ("call_1", true),
        ("", false),
        ("é|", false),
        (long, true),
        ("toolu_A_9", false),
        ("functions.exec:0", true),
    ];
    assert_eq!(
        rewritten_ids(IdFormat::Strict, &raw),
        [
            "call1",
            "defaulttoolid",
            "sanitizedtoolid",
            "c123456789123456789123456789123456789123",
            "tooluA9",
            "functions.exec:0"
        ]
    );
    assert_eq!(rewritten_ids(IdFormat::Native, &raw)[..1], ["call_1"]);
    assert_eq!(rewritten_ids(IdFormat::Native, &raw)[4..], ["toolu_A_9", "functionsexec0"]);
    let nine = rewritten_ids(
        IdFormat::Nine,
        &[("call_123456789", true), ("call_1", true), ("", true), ("_", true), ("abc123XYZ", true)],
    );
    assert_eq!(nine[0], "call12345");
    assert_eq!(nine[1], plain_ids::digits("call1", 9));
    assert_eq!(nine[2..], ["defaultid".to_owned(), plain_ids::digits("sanitized", 9), "abc123XYZ".into()]);
    assert_eq!(
        rewritten_ids(
            IdFormat::Own,
            &[("functions.exec:0", true), ("functions.exec:1", false), ("a|b", false)]
        )[..],
        ["functions.exec:0", "functionsexec1", "ab"]
    );
}

#[test]
fn clashing_ids_become_distinct_and_stable() {
    for ids in [IdFormat::Own, IdFormat::Strict, IdFormat::Native, IdFormat::Nine, IdFormat::Pairs] {
        let raw = [
            ("a_1", false),
            ("a1", false),
            ("a_1", false),
            ("a-1", true),
            ("a1", true),
            ("a_1", false),
            ("call_1|fc_1", false),
            ("call_1|fc_1", false),
            ("call_2|fc_1", true),
        ];
        let once = rewritten_ids(ids, &raw);
        let unique: HashSet<&str> = once
            .iter()
            .map(|id| if ids == IdFormat::Pairs { responses_ids::halves(id).0 } else { id })
            .collect();
        assert_eq!(unique.len(), raw.len(), "{ids:?} {once:?}");
        let mut used = UsedIds::default();
        let twice: Vec<String> =
            once.iter().zip(raw).map(|(id, (_, own))| used.next(id, own, ids).into_owned()).collect();
        assert_eq!(once, twice, "{ids:?}");
        assert_eq!(rewritten_ids(ids, &raw), once);
    }
}

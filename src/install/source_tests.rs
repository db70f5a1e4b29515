use super::*;

fn head(name: &str, digit: char, target: Option<&str>) -> RemoteReference {
    RemoteReference {
        name: name.to_owned(),
        commit: std::iter::repeat_n(digit, 40).collect(),
        target: target.map(str::to_owned),
    }
}

#[test]
fn a_reference_is_a_branch_a_tag_or_a_commit() {
    let heads = [
        head("HEAD", 'a', Some("refs/heads/main")),
        head("refs/heads/main", 'a', None),
        head("refs/heads/v1", 'b', None),
        head("refs/tags/v1", 'c', None),
        head("refs/tags/v2", 'd', None),
        head("refs/tags/v2^{}", 'e', None),
    ];
    let found = |reference: &str| {
        select_reference(&heads, reference).map(|tip| {
            let digit = tip.commit.and_then(|commit| commit.chars().next()).unwrap_or('-');
            (tip.name.unwrap_or_default(), digit, tip.is_branch)
        })
    };
    assert_eq!(found("main"), Some(("refs/heads/main".into(), 'a', true)));
    assert_eq!(found("HEAD"), Some(("refs/heads/main".into(), 'a', true)));
    assert_eq!(found("v1"), Some(("refs/heads/v1".into(), 'b', true)));
    assert_eq!(found("refs/tags/v1"), Some(("refs/tags/v1".into(), 'c', false)));
    assert_eq!(found("v2"), Some(("refs/tags/v2".into(), 'e', false)));
    assert_eq!(found(&"f".repeat(40)), Some((String::new(), 'f', false)));
    assert_eq!(found("abcdef1"), Some((String::new(), '-', false)));
    assert_eq!(found("none"), None);
    // A branch or tag cannot take the name of a commit.
    let full = "f".repeat(40);
    let taken =
        [head(&format!("refs/heads/{full}"), 'a', None), head(&format!("refs/tags/{full}"), 'b', None)];
    let tip = select_reference(&taken, &full).unwrap();
    assert_eq!((tip.name, tip.commit), (None, Some(full)));
    assert_eq!(found("abc"), None);
}

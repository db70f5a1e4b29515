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

#[test]
fn a_repository_is_a_url_or_a_path_and_has_no_password() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().canonicalize().unwrap().join("50% off");
    std::fs::create_dir(&folder).unwrap();
    let path = RepositoryAddress::parse(folder.to_str().unwrap()).unwrap();
    assert!(path.url.starts_with("file:///") && path.url.ends_with("/50%25 off"), "{path:?}");
    for good in [
        "https://example.org/a.git",
        "ssh://git@example.org:22/a",
        "git@example.org:a/b.git",
        "https://a.org/@b",
    ] {
        assert_eq!(RepositoryAddress::parse(good).unwrap().url, good);
    }
    for bad in [
        "",
        "--upload-pack=x",
        "https://ann:secret@example.org/a",
        "https://secret@example.org/a",
        "http://secret:x-oauth-basic@example.org/a",
        "HTTPS://secret@example.org/a",
        "ssh://git:secret@example.org/a",
        "ftp://example.org",
        "/no/such",
        "a\nb",
    ] {
        let told = RepositoryAddress::parse(bad).unwrap_err().to_string();
        assert!(!told.contains("secret"), "{told}");
    }
}

#[test]
fn unencrypted_addresses_are_refused() {
    for good in [
        "https://example.org/a.git",
        "ssh://git@example.org/a",
        "git@example.org:a/b.git",
        "http://127.0.0.1/a",
        "http://127.0.0.1:8080/a",
        "http://localhost:80/a",
        "http://LOCALHOST/a",
        "http://[::1]:8080/a",
        "git://localhost/a",
    ] {
        assert!(RepositoryAddress::parse_encrypted(good).is_ok(), "{good}");
    }
    for bad in [
        "http://example.org/a.git",
        "git://example.org/a.git",
        "http://127.0.0.1.example.org/a",
        "http://localhost.example.org/a",
        "git://localhost@example.org/a",
        "git://example.org\\@localhost/a",
        "http://localhost:80x/a",
        "http://[::1].example.org/a",
        "http://2130706433.example.org/a",
        "http:///a",
    ] {
        let told = RepositoryAddress::parse_encrypted(bad).unwrap_err().to_string();
        assert!(told.contains("not encrypted") && told.contains("https or ssh"), "{bad}: {told}");
    }
}

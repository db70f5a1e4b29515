use super::*;
use crate::receipt::objects::ObjectMap;
use crate::receipt::testing::{self, Object};

#[test]
fn a_tree_is_read_from_its_objects_and_checked_against_its_hash() {
    let mut map = ObjectMap::default();
    let run = testing::put(&mut map, Object::Blob(b"#!/bin/sh\n"));
    let link = testing::put(&mut map, Object::Blob(b"/etc/passwd"));
    let inner = testing::put(&mut map, Object::Tree(&[("100755", "run", &run)]));
    let entries = [("40000", "a", inner.as_str()), ("120000", "link", &link), ("160000", "other", &run)];
    let root = testing::put(&mut map, Object::Tree(&entries));
    let tree = Tree::load(Arc::new(map), &root).unwrap();
    let paths: Vec<_> = tree.files().iter().map(|file| (file.path.to_str().unwrap(), file.kind)).collect();
    let expected = [
        ("a/run", TreeFileKind::Executable),
        ("link", TreeFileKind::Link),
        ("other", TreeFileKind::Submodule),
    ];
    assert_eq!(paths, expected);
    assert_eq!(tree.content(&tree.files()[0]).unwrap(), b"#!/bin/sh\n");
    assert!(tree.has(Path::new("a")) && !tree.has(Path::new("b")));
    assert_eq!(tree.objects().len(), 4);
    assert_eq!(tree.text(Path::new("link")), None, "a link is no text");
}

#[test]
fn names_that_lead_out_of_the_tree_or_stand_twice_are_refused() {
    for names in [
        vec!["."],
        vec![".."],
        vec![""],
        vec!["a/b"],
        vec![".git"],
        vec![".GIT"],
        vec!["a", "a"],
        vec!["a", "A"],
    ] {
        let mut map = ObjectMap::default();
        let blob = testing::put(&mut map, Object::Blob(b"x"));
        let entries: Vec<_> = names.iter().map(|name| ("100644", *name, blob.as_str())).collect();
        let root = testing::put(&mut map, Object::Tree(&entries));
        let error = Tree::load(Arc::new(map), &root).err().unwrap();
        assert!(matches!(error, ReceiptError::Tree { .. }), "{names:?}: {error}");
    }
}

#[test]
fn an_object_that_is_not_what_its_hash_says_is_refused() {
    let mut map = ObjectMap::default();
    let blob = testing::put(&mut map, Object::Blob(b"x"));
    let root = testing::put(&mut map, Object::Tree(&[("100644", "a", &blob)]));
    map.0.insert(blob.clone(), b"y".to_vec());
    let tree = Tree::load(Arc::new(map), &root).unwrap();
    assert!(matches!(tree.sha256(), Err(ReceiptError::Object { .. })));
    let mut map = ObjectMap::default();
    // A tree that claims to be a blob, a mode that git does not know, and bytes that are no tree.
    let inner = testing::put(&mut map, Object::Tree(&[]));
    let blob = testing::put(&mut map, Object::Blob(b"x"));
    let wrong_kind = testing::put(&mut map, Object::Tree(&[("100644", "a", &inner)]));
    let wrong_mode = testing::put(&mut map, Object::Tree(&[("100600", "a", &blob)]));
    let map = Arc::new(map);
    assert!(Tree::load(Arc::clone(&map) as _, &wrong_kind).unwrap().sha256().is_err());
    assert!(Tree::load(Arc::clone(&map) as _, &wrong_mode).is_err());
    assert!(Tree::load(Arc::clone(&map) as _, &blob).is_err());
    for id in ["", "HEAD", "../x", &blob[..8], &blob.to_uppercase()] {
        assert!(Tree::load(Arc::clone(&map) as _, id).is_err(), "{id}");
    }
}

#[test]
fn changes_are_named_by_what_happened() {
    let tree = |files: &[(&str, &str, &str)]| testing::tree(files);
    let base =
        tree(&[("a", "100644", "1"), ("b", "100644", "2"), ("c", "100644", "3"), ("d", "100644", "4")]);
    let after =
        tree(&[("a", "100644", "1"), ("b", "100644", "x"), ("c", "120000", "3"), ("e", "100644", "4")]);
    let found: Vec<_> = changes(&base, &after)
        .into_iter()
        .map(|(path, change)| (path.display().to_string(), change))
        .collect();
    let expected = [
        ("b", FileChange::Modified),
        ("c", FileChange::Kind),
        ("d", FileChange::Deleted),
        ("e", FileChange::Added),
    ]
    .map(|(path, change)| (path.to_owned(), change));
    assert_eq!(found, expected);
}

use proptest::prelude::*;

use super::*;
use crate::tool::files::patch::{FileOperation, parse};

/// Parses the hunks of one file from the body of a patch.
fn hunks(body: &str) -> Vec<Hunk> {
    let patch = format!("*** Begin Patch\n*** Update File: x\n{body}\n*** End Patch");
    match parse::parse(&patch).unwrap().remove(0) {
        FileOperation::Update { hunks, .. } => hunks,
        other => panic!("{other:?}"),
    }
}

#[test]
fn hunks_change_what_they_name() {
    for (what, text, body, want) in [
        ("replaces", "a\nb\nc\n", "@@\n a\n-b\n+B\n c", "a\nB\nc\n"),
        ("the first of two", "x\ny\nx\n", "@@\n-x\n+z", "z\ny\nx\n"),
        ("after a header", "f\nx\ng\nx\n", "@@ g\n-x\n+z", "f\nx\ng\nz\n"),
        (
            "after two headers",
            "A\n f\n  x\nB\n f\n  x\n",
            "@@ B\n@@  f\n-  x\n+  y",
            "A\n f\n  x\nB\n f\n  y\n",
        ),
        ("a header cut short", "class Foo(Base):\n x\n", "@@ class Foo\n- x\n+ y", "class Foo(Base):\n y\n"),
        ("the header said again", "f\nx\n", "@@ f\n f\n-x\n+y", "f\ny\n"),
        ("the same header twice", "f\na\nb\n", "@@ f\n-a\n+A\n@@ f\n-b\n+B", "f\nA\nB\n"),
        ("in order", "x\ny\nx\n", "@@\n-x\n+1\n@@\n-x\n+2", "1\ny\n2\n"),
        ("adds at the end", "a\n", "@@\n+b", "a\nb\n"),
        ("adds after a header", "a\nb\n", "@@ a\n+x", "a\nx\nb\n"),
        ("adds to nothing", "", "@@\n+a", "a\n"),
        ("removes all", "a\n", "@@\n-a", ""),
        ("at the end", "x\ny\nx\n", "@@\n-x\n+z\n*** End of File", "x\ny\nz\n"),
        ("no last line end", "a\nb", "@@\n-b\n+c", "a\nc"),
        ("own whitespace stays", "\ta  \nb\n", "@@\n a\n-b\n+c", "\ta  \nc\n"),
        ("typographic", "say “hi” – now\nb\n", "@@\n say \"hi\" - now\n-b\n+c", "say “hi” – now\nc\n"),
        ("line ends stay", "a\r\nb\r\n", "@@\n a\n-b\n+c\n+d", "a\r\nc\r\nd\r\n"),
        ("mixed line ends stay", "a\r\nb\nc\n", "@@\n-b\n+x", "a\r\nx\nc\n"),
        ("a last empty context", "a\nb\n", "@@\n-b\n+c\n ", "a\nc\n"),
        ("in the middle of many", "1\n2\n3\n4\n5\n", "@@\n 2\n-3\n 4", "1\n2\n4\n5\n"),
    ] {
        assert_eq!(apply(text, &hunks(body)).as_deref(), Ok(want), "{what}");
    }
}

#[test]
fn hunks_that_do_not_fit_are_named() {
    for (text, body, part) in [
        ("a\n", "@@\n-b\n+c", "hunk 1: these lines are not in the file: [\"b\"]"),
        ("a\n", "@@ g\n-a\n+c", "hunk 1: there is no line \"g\""),
        (
            "a\nb\n",
            "@@\n-b\n+B\n@@\n-a\n+A",
            "hunk 2: these lines are not in the file: [\"a\"]; they are before",
        ),
        ("f\nb\n", "@@\n-b\n+B\n@@ f\n+A", "hunk 2: there is no line \"f\""),
        ("", "@@\n-a\n+b", "not in the file"),
    ] {
        let error = apply(text, &hunks(body)).unwrap_err();
        assert!(error.contains(part), "{body}: {error}");
    }
}

#[test]
fn a_search_that_would_take_too_long_is_refused() {
    let lines = vec![HunkLine::Removed("x".to_owned()); 3000];
    let error = apply(&"x\n".repeat(100_000), &[Hunk { headers: vec![], lines, at_end: false }]).unwrap_err();
    assert!(error.contains("too many for a file of 100000"), "{error}");
}

proptest! {
    /// Checks that a hunk made from two texts turns the first one into the second.
    #[test]
    fn a_whole_file_hunk_is_exact(
        old in proptest::collection::vec("[ab ]{0,3}", 1..8),
        new in proptest::collection::vec("[ab ]{0,3}", 1..8),
    ) {
        let lines = old.iter().cloned().map(HunkLine::Removed).chain(new.iter().cloned().map(HunkLine::Added)).collect();
        let hunk = Hunk { headers: vec![], lines, at_end: false };
        let text = |lines: &[String]| lines.join("\n") + "\n";
        prop_assert_eq!(apply(&text(&old), &[hunk]).unwrap(), text(&new));
    }

    #[test]
    fn any_hunk_on_any_text_is_applied_or_refused(text in "[ab\r\n ]{0,40}", body in "(@@[ ab]{0,3}\n)?([-+ ][ab]{0,2}\n){0,4}[-+][ab]{0,2}(\n\\*\\*\\* End of File)?") {
        let _ = apply(&text, &hunks(&body));
    }
}

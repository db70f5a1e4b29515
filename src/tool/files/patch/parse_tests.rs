use proptest::prelude::*;

use super::*;

fn context(text: &str) -> HunkLine {
    HunkLine::Context(text.to_owned())
}

fn removed(text: &str) -> HunkLine {
    HunkLine::Removed(text.to_owned())
}

fn added(text: &str) -> HunkLine {
    HunkLine::Added(text.to_owned())
}

#[test]
fn all_operations_are_read() {
    let patch = "*** Begin Patch
*** Add File: a/new.txt
+one
+
+two
*** Delete File: old.txt
*** Update File: src/x.py
*** Move to: src/y.py
@@ class A
@@ def f(self):
 context

-old
+new
@@
-last
+end
*** End of File
*** End Patch
";
    assert_eq!(
        parse(patch).unwrap(),
        [
            FileOperation::Add { path: "a/new.txt".to_owned(), content: "one\n\ntwo\n".to_owned() },
            FileOperation::Delete { path: "old.txt".to_owned() },
            FileOperation::Update {
                path: "src/x.py".to_owned(),
                to: Some("src/y.py".to_owned()),
                hunks: vec![
                    Hunk {
                        headers: vec!["class A".to_owned(), "def f(self):".to_owned()],
                        lines: vec![context("context"), context(""), removed("old"), added("new")],
                        at_end: false,
                    },
                    Hunk { headers: vec![], lines: vec![removed("last"), added("end")], at_end: true },
                ],
            },
        ]
    );
}

#[test]
fn sloppy_but_clear_patches_are_read() {
    let want = vec![FileOperation::Update {
        path: "x".to_owned(),
        to: None,
        hunks: vec![Hunk { headers: vec![], lines: vec![removed("a"), added("b")], at_end: false }],
    }];
    for patch in [
        "*** Begin Patch\n*** Update File: x\n@@\n-a\n+b\n*** End Patch",
        "*** Begin Patch\n*** Update File: x\n-a\n+b\n*** End Patch",
        "\n*** Begin Patch  \n*** Update File:   x  \n@@\n-a\n+b\n\n*** End Patch\n\n",
        "<<'EOF'\n*** Begin Patch\n*** Update File: x\n-a\n+b\n*** End Patch\nEOF\n",
        "```\n*** Begin Patch\n*** Update File: x\n-a\n+b\n*** End Patch\n```",
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: x\n-a\n+b\n*** End Patch\nEOF",
        "*** Begin Patch\r\n*** Update File: x\r\n@@\r\n-a\r\n+b\r\n*** End Patch\r\n",
        "*** Begin Patch\n*** Update File: x\n@@ -1,3 +1,3 @@\n-a\n+b\n*** End Patch",
    ] {
        assert_eq!(parse(patch).as_ref(), Ok(&want), "{patch}");
    }
    let renamed = parse("*** Begin Patch\n*** Update File: x\n*** Move to: y\n*** End Patch").unwrap();
    assert_eq!(
        renamed,
        [FileOperation::Update { path: "x".to_owned(), to: Some("y".to_owned()), hunks: vec![] }]
    );
}

#[test]
fn a_header_may_be_that_of_a_unified_diff() {
    let patch = "*** Begin Patch\n*** Update File: x\n@@ -10,3 +10,3 @@ fn main() {\n-a\n+b\n*** End Patch";
    let FileOperation::Update { hunks, .. } = parse(patch).unwrap().remove(0) else { panic!() };
    assert_eq!(hunks[0].headers, ["fn main() {"]);
}

#[test]
fn unclear_patches_are_refused() {
    for (body, part) in [
        ("", "must begin with"),
        ("--- a\n+++ b\n", "must begin with"),
        ("*** Begin Patch\n*** Add File: x\n+a\n", "cut off"),
        ("*** Begin Patch\n*** End Patch", "changes no file"),
        ("*** Begin Patch\nhello\n*** End Patch", "line 2: expected"),
        ("*** Begin Patch\n*** Add File:\n+a\n*** End Patch", "line 2: the file's name is missing"),
        ("*** Begin Patch\n*** Add File: x\na\n*** End Patch", "line 3: each line of a new file"),
        ("*** Begin Patch\n*** Update File: x\n*** End Patch", "no hunk"),
        ("*** Begin Patch\n*** Update File: x\n@@\n*** End Patch", "has no lines"),
        ("*** Begin Patch\n*** Update File: x\n@@\n a\n*** End Patch", "changes nothing"),
        ("*** Begin Patch\n*** Update File: x\n@@\n-a\nb\n*** End Patch", "line 5: each line of a hunk"),
        ("*** Begin Patch\n*** Rename File: x\n*** End Patch", "line 2: expected"),
    ] {
        let error = parse(body).unwrap_err();
        assert!(error.contains(part), "{body:?}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(\\*\\*\\* (Begin Patch|End Patch|Add File: x|Update File: x|Delete File: x|Move to: y|End of File)|@@.{0,3}|[-+ ].{0,3}|.{0,3}|\n){0,20}") {
        let _ = parse(&text);
        let _ = parse(&format!("*** Begin Patch\n{text}\n*** End Patch"));
    }
}

use super::*;
use crate::receipt::testing;

const BASE: &[(&str, &str, &str)] = &[
    ("Cargo.toml", "100644", "[package]\nname = \"x\"\nversion = \"1\"\n[[test]]\nname = \"all\"\n"),
    ("Makefile", "100644", "test:\n\tpytest\n"),
    ("README.md", "100644", "hello\n"),
    ("ci/check.sh", "100755", "pytest\n"),
    ("lib.py", "100644", "def f():\n    return 1\n"),
    ("package.json", "100644", r#"{"version":"1","scripts":{"test":"jest"},"dependencies":{"a":"1"}}"#),
    ("pyproject.toml", "100644", "[project]\nversion = \"1\"\n[tool.pytest.ini_options]\naddopts = \"-q\"\n"),
    ("src/lib.rs", "100644", "fn f() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {}\n}\n"),
    ("tests/fixture.json", "100644", "{}\n"),
    ("tests/test_a.py", "100644", "def test_a():\n    assert f() == 1\n"),
];

/// The changes that a person has to see, and those that are only shown, with the base changed by `change`. An empty text
/// deletes the file.
fn found(commands: &[&str], change: &[(&str, &str, &str)]) -> (Vec<String>, Vec<String>) {
    let checks = Checks { files: vec!["golden/".to_owned()], ..Checks::of(commands) };
    let mut files: BTreeMap<&str, (&str, &str)> =
        BASE.iter().map(|(path, mode, text)| (*path, (*mode, *text))).collect();
    for (path, mode, text) in change {
        if text.is_empty() {
            files.remove(path);
        } else {
            files.insert(path, (mode, text));
        }
    }
    let files: Vec<_> = files.into_iter().map(|(path, (mode, text))| (path, mode, text)).collect();
    let changed = changed(&checks, &testing::tree(BASE), &testing::tree(&files));
    let paths = |person: bool| {
        changed.iter().filter(|file| file.needs_person == person).map(|file| file.path.clone()).collect()
    };
    (paths(true), paths(false))
}

fn person(commands: &[&str], change: &[(&str, &str, &str)]) -> Vec<String> {
    found(commands, change).0
}

#[test]
fn ordinary_work_and_new_tests_concern_no_check() {
    let changes: [&[(&str, &str, &str)]; 9] = [
        &[("lib.py", "100644", "def f():\n    return 2\n")],
        &[("new.py", "100644", "import sys\nsys.exit(main())\n")],
        &[("README.md", "100644", "hello\nworld\n")],
        &[("docs/a.md", "100644", "text\n")],
        &[(
            "pyproject.toml",
            "100644",
            "[project]\nversion = \"2\"\n[tool.pytest.ini_options]\naddopts = \"-q\"\n",
        )],
        &[(
            "package.json",
            "100644",
            r#"{"version":"2","scripts":{"test":"jest"},"dependencies":{"a":"2","b":"1"}}"#,
        )],
        &[(
            "Cargo.toml",
            "100644",
            "[package]\nname = \"x\"\nversion = \"2\"\n[dependencies]\nserde = \"1\"\n[[test]]\nname = \"all\"\n",
        )],
        &[("src/lib.rs", "100644", "fn g() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {}\n}\n")],
        &[("lib.py", "100644", "")],
    ];
    for change in changes {
        assert_eq!(found(&["pytest"], change), (Vec::new(), Vec::new()), "{change:?}");
    }
    let new = [("tests/test_b.py", "100644", "def test_b():\n    assert f() == 2\n")];
    assert_eq!(found(&["pytest"], &new), (Vec::new(), vec!["tests/test_b.py".to_owned()]));
}

#[test]
fn changes_of_the_checks_are_for_a_person() {
    let one = |path: &'static str, text: &'static str| (path, "100644", text);
    let cases = [
        one("tests/test_a.py", "def test_a():\n    pass\n"),
        one("tests/test_a.py", ""),
        one("tests/fixture.json", "[]\n"),
        one("tests/conftest.py", "x = 1\n"),
        one("tests/__init__.py", "x = 1\n"),
        one("conftest.py", "x = 1\n"),
        one("pytest.ini", "[pytest]\naddopts = -k nothing\n"),
        one("tox.ini", "[pytest]\naddopts = -k nothing\n"),
        one("setup.cfg", "[tool:pytest]\naddopts = -k nothing\n"),
        one("pyproject.toml", "[project]\nversion = \"1\"\n[tool.pytest.ini_options]\naddopts = \"-k x\"\n"),
        one("pyproject.toml", "[\"tool\".'pytest'.ini_options]\naddopts = \"-k x\"\n"),
        one("pyproject.toml", ""),
        one("package.json", r#"{"version":"1","scripts":{"test":"true"},"dependencies":{"a":"1"}}"#),
        one("package.json", r#"{"version":"1","scripts":{"test":"jest"},"jest":{"testMatch":[]}}"#),
        one("package.json", "not JSON"),
        one(
            "Cargo.toml",
            "[package]\nname = \"x\"\nversion = \"1\"\n[[test]]\nname = \"all\"\nharness = false\n",
        ),
        one(".cargo/config.toml", "[target.x86_64-unknown-linux-gnu]\nrunner = \"true\"\n"),
        one("Makefile", "test:\n\ttrue\n"),
        one("jest.config.ts", "export default {}\n"),
        one("sitecustomize.py", "x = 1\n"),
        one("pytest.py", "x = 1\n"),
        one("_pytest/config.py", "x = 1\n"),
        one("node_modules/.bin/jest", "#!/bin/sh\n"),
        one("a.pth", "import x\n"),
        one("golden/a.txt", "x\n"),
        one("src/lib.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() { return; }\n}\n"),
        one("src/lib.rs", "fn f() {}\n"),
        one("lib.py", "def f():\n    print('===== 10 passed in 0.1s =====')\n"),
        one("lib.py", "import os\ndef f():\n    os._exit(0)\n"),
        ("lib2_test.go", "120000", "/tmp/x"),
        ("tests/test_c.py", "120000", "../lib.py"),
    ];
    for case in cases {
        assert_eq!(person(&["pytest"], &[case]), [case.0], "{case:?}");
    }
}

#[test]
fn a_program_of_the_tree_that_a_check_runs_belongs_to_the_check() {
    let changed = [("ci/check.sh", "100755", "exit 0\n")];
    for command in [
        "ci/check.sh",
        "./ci/check.sh",
        "sh ci/check.sh",
        "cd . && /workspace/ci/check.sh",
        "ci/../ci/check.sh",
    ] {
        assert_eq!(person(&[command], &changed), ["ci/check.sh"], "{command}");
    }
    assert_eq!(person(&["pytest"], &changed), ["ci/check.sh"], "its folder is that of checks");
    let other = [("tools/x.sh", "100755", "exit 0\n")];
    assert!(person(&["pytest"], &other).is_empty(), "no check runs it");
    // A name of a program that only the branch has.
    let added = [("run", "100755", "exit 0\n")];
    assert_eq!(person(&["./run"], &added), ["run"]);
}

#[test]
fn links_that_a_check_names_are_for_a_person() {
    let link = [("ci/check.sh", "120000", "../real.sh"), ("real.sh", "100755", "exit 0\n")];
    let found = person(&["ci/check.sh"], &link);
    assert_eq!(found, ["ci/check.sh", "real.sh"]);
    let folder = [
        ("tests/test_a.py", "100644", ""),
        ("tests/fixture.json", "100644", ""),
        ("tests", "120000", "mine"),
        ("mine/test_a.py", "100644", "def test_a(): pass\n"),
    ];
    let found = person(&["pytest tests"], &folder);
    assert!(found.contains(&"tests".to_owned()) && found.contains(&"mine/test_a.py".to_owned()), "{found:?}");
    let outside = [("ci/check.sh", "120000", "/bin/true")];
    assert_eq!(person(&["ci/check.sh"], &outside), ["ci/check.sh"]);
    let circle = [("a", "120000", "b"), ("b", "120000", "a")];
    assert!(!person(&["./a"], &circle).is_empty());
}

/// The reasons of a person for a change of another base.
fn reasons(
    commands: &[&str],
    base: &[(&str, &str, &str)],
    delivered: &[(&str, &str, &str)],
) -> Vec<(String, String)> {
    let checks = Checks::of(commands);
    let found = changed(&checks, &testing::tree(base), &testing::tree(delivered));
    found.into_iter().filter(|file| file.needs_person).map(|file| (file.path, file.reason)).collect()
}

#[test]
fn what_scripts_and_tests_use_belongs_to_the_checks() {
    let base = [
        ("data/prices.golden", "100644", "1\n"),
        ("lib/count.sh", "100644", "count() { wc; }\n"),
        ("run.sh", "100644", "sh steps.sh\nPYTHONPATH=. python3 tools/sum.py > out/sum\nPATH=bin:$PATH\n"),
        ("steps.sh", "100644", "pytest\n"),
        ("tests/test_a.py", "100644", "open('data/prices.golden')\n"),
        ("tests/unit.sh", "100644", ". \"$(dirname \"$0\")/../lib/count.sh\"\n"),
        ("verify/all.py", "100644", "import unittest\n"),
    ];
    let cases: [(&str, (&str, &str, &str)); 11] = [
        ("find . -name '*_check.py' | xargs python3", ("tools/a_check.py", "100644", "x = 1\n")),
        (
            "dir=verify; for name in all; do python3 $dir/$name.py; done",
            ("verify/all.py", "100644", "x = 1\n"),
        ),
        ("python3 -m verify.all", ("verify/all/__main__.py", "100644", "x = 1\n")),
        ("sh run.sh", ("steps.sh", "100644", "true\n")),
        ("sh tests/unit.sh", ("lib/count.sh", "100644", "count() { true; }\n")),
        ("pytest", ("data/prices.golden", "100644", "2\n")),
        ("python3 -m verify.all", ("verify/all.py", "100644", "x = 1\n")),
        ("pytest", ("verify/all.py", "100644", "x = 1\n")),
        ("sh run.sh", ("out", "120000", "data")),
        ("sh run.sh", ("bin/diff", "100755", "exit 0\n")),
        ("pytest", ("traceback.py", "100644", "x = 1\n")),
    ];
    for (command, change) in cases {
        let mut delivered: Vec<_> = base.iter().filter(|file| file.0 != change.0).copied().collect();
        delivered.push(change);
        delivered.sort_unstable();
        let found = reasons(&[command], &base, &delivered);
        assert!(found.iter().any(|(path, _)| path == change.0), "{command}: {change:?}: {found:?}");
    }
}

#[test]
fn a_new_test_in_a_folder_that_a_check_only_names_is_only_shown() {
    let base = [("src/lib.py", "100644", "x = 1\n"), ("tests/test_a.py", "100644", "import unittest\n")];
    let new = ("tests/test_b.py", "100644", "import unittest\n");
    let delivered = [base[0], base[1], new];
    let check = "PYTHONPATH=src python3 -m unittest discover -s tests -t .";
    assert_eq!(reasons(&[check], &base, &delivered), []);
    let searched = "PATH=tests:$PATH python3 -m unittest";
    assert_ne!(reasons(&[searched], &base, &delivered), []);
}

#[test]
fn a_program_that_a_script_runs_is_not_read_by_it() {
    let script = ("run.sh", "100644", "test \"$(PYTHONPATH=. python3 tools/sum.py)\" = 3 && ls .\n");
    let base = [script, ("tools/sum.py", "100644", "print(3)\n")];
    let delivered = [script, ("tools/sum.py", "100644", "print(1 + 2)\n")];
    assert_eq!(reasons(&["sh run.sh"], &base, &delivered), []);
}

#[test]
fn new_data_and_new_folders_of_tests_are_only_shown() {
    let base = [("lib.py", "100644", "x = 1\n"), ("tests/test_a.py", "100644", "def test_a(): pass\n")];
    let mut delivered = base.to_vec();
    delivered.push(("tests/data/a.json", "100644", "{}\n"));
    delivered.push(("tests/unit/__init__.py", "100644", "# Tests of units.\n"));
    delivered.push(("tests/unit/test_b.py", "100644", "def test_b(): pass\n"));
    assert_eq!(reasons(&["pytest"], &base, &delivered), []);
    for new in [
        ("tests/__init__.py", "100644", ""),
        ("tests/helper.py", "100644", "x = 1\n"),
        ("tests/__pycache__/test_a.pyc", "100644", "x"),
        ("shop/types.so", "100644", "x"),
        ("elsewhere", "120000", "/etc"),
        ("above", "120000", "../x"),
    ] {
        let mut delivered = base.to_vec();
        delivered.push(new);
        assert_eq!(reasons(&["pytest"], &base, &delivered).len(), 1, "{new:?}");
    }
}

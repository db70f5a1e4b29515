use super::*;

/// `(runner, passed, failed, skipped, filtered, summaries)`.
type Numbers = (&'static str, u64, u64, u64, u64, u64);

#[test]
fn the_summaries_of_the_usual_runners_are_read() {
    let cases: &[(&str, Numbers)] = &[
        (
            "=== 3 passed, 1 failed, 2 skipped, 4 deselected, 1 warning in 0.12s ===",
            ("pytest", 3, 1, 2, 4, 1),
        ),
        (
            "\u{1b}[32m==== \u{1b}[1m12 passed\u{1b}[0m in 75.20s (0:01:15) ====\u{1b}[0m",
            ("pytest", 12, 0, 0, 0, 1),
        ),
        ("2 passed, 1 xfailed, 1 xpassed, 2 errors in 1.00s", ("pytest", 3, 2, 1, 0, 1)),
        ("===== no tests ran in 0.01s =====", ("pytest", 0, 0, 0, 0, 1)),
        ("5 deselected in 0.01s", ("pytest", 0, 0, 0, 5, 1)),
        ("Ran 5 tests in 0.001s\n\nOK (skipped=1, expected failures=1)\n", ("unittest", 3, 0, 2, 0, 1)),
        ("Ran 4 tests in 0.001s\n\nFAILED (failures=1, errors=2)\n", ("unittest", 1, 3, 0, 0, 1)),
        ("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", ("unittest", 0, 0, 0, 0, 1)),
        (
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.5s",
            ("cargo test", 6, 1, 1, 2, 2),
        ),
        (
            "     Summary [   0.123s] 5 tests run: 4 passed (1 slow, 1 flaky), 1 failed, 2 skipped",
            ("nextest", 4, 1, 2, 0, 1),
        ),
        (
            "     Summary [  10.0s] 3/9 tests run: 2 passed, 1 timed out, 4 skipped",
            ("nextest", 2, 1, 4, 0, 1),
        ),
        (
            "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/x (0.00s)\n--- SKIP: TestB (0.00s)\n\
             --- FAIL: TestC (0.00s)\nFAIL\nFAIL\texample.com/a\t0.003s\nok  \texample.com/b\t0.01s",
            ("go test", 2, 1, 1, 0, 2),
        ),
        (
            "ok  \texample.com/a\t(cached)\nok  \texample.com/b\t0.1s [no tests to run]\n\
             ?   \texample.com/c\t[no test files]",
            ("go test", 1, 0, 0, 0, 3),
        ),
        (
            "{\"Time\":\"x\",\"Action\":\"run\",\"Package\":\"a\",\"Test\":\"TestA\"}\n\
             {\"Action\":\"pass\",\"Package\":\"a\",\"Test\":\"TestA\",\"Elapsed\":0}\n\
             {\"Action\":\"skip\",\"Package\":\"a\",\"Test\":\"TestB\"}\n\
             {\"Action\":\"pass\",\"Package\":\"a\",\"Elapsed\":0.1}",
            ("go test", 1, 0, 1, 0, 1),
        ),
        (
            "Test Suites: 1 failed, 2 passed, 3 total\nTests:       1 failed, 2 skipped, 1 todo, 10 passed, 14 total",
            ("jest", 10, 1, 3, 0, 1),
        ),
        ("      Tests  1 failed | 10 passed | 2 skipped (13)\n", ("vitest", 10, 1, 2, 0, 1)),
        ("\n  10 passing (20ms)\n  2 pending\n  1 failing\n", ("mocha", 10, 1, 2, 0, 1)),
        (
            "ℹ tests 5\nℹ suites 0\nℹ pass 3\nℹ fail 1\nℹ cancelled 0\nℹ skipped 1\nℹ todo 0\n",
            ("node", 3, 1, 1, 0, 1),
        ),
        (
            "TAP version 13\nok 1 - a\n1..1\n# tests 1\n# pass 1\n# fail 0\n# skipped 0",
            ("node", 1, 0, 0, 0, 1),
        ),
        (
            "<testsuites tests=\"5\" failures=\"1\" errors=\"1\">\n<testsuite name=\"a\" tests=\"5\" skipped=\"1\">",
            ("junit", 3, 2, 0, 0, 1),
        ),
        (
            "<testsuites><testsuite tests=\"2\" failures=\"0\" skipped=\"1\"/><testsuite tests=\"3\"/></testsuites>",
            ("junit", 4, 0, 1, 0, 2),
        ),
        ("1..4\nok 1\nnot ok 2 - b\nok 3 # SKIP no disk\nnot ok 4 # TODO later\n", ("tap", 1, 1, 2, 0, 1)),
    ];
    for (output, (runner, passed, failed, skipped, filtered, summaries)) in cases {
        let expected = TestCounts {
            runner: (*runner).to_owned(),
            passed: *passed,
            failed: *failed,
            skipped: *skipped,
            filtered: *filtered,
            summaries: *summaries,
        };
        assert_eq!(count(output), [expected], "{output}");
    }
}

#[test]
fn hostile_and_unrelated_outputs_give_no_numbers() {
    let long = "9".repeat(40);
    let outputs = [
        String::new(),
        "all is well in 3s".to_owned(),
        "we passed in 0.1s".to_owned(),
        format!("{long} passed in 0.1s"),
        format!("test result: ok. {long} passed; 0 failed"),
        "3 passed, and I did it in 0.1s".to_owned(),
        "Ran to the shop".to_owned(),
        "test result: ok. -5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out".to_owned(),
        "{\"Action\":\"pass\"".to_owned(),
        "ok, done".to_owned(),
        "Tests: many passed".to_owned(),
        "<testsuite tests=\"".to_owned(),
        "\u{1b}[".to_owned(),
        "\u{1b}".repeat(1000),
    ];
    for output in outputs {
        assert_eq!(count(&output), [], "{output}");
    }
}

fn pytest(passed: u64, skipped: u64, filtered: u64, summaries: u64) -> TestCounts {
    TestCounts { passed, skipped, filtered, summaries, ..TestCounts::new("pytest") }
}

#[test]
fn a_run_of_less_than_before_is_named() {
    let before = [pytest(10, 1, 0, 1)];
    let runner = || "pytest".to_owned();
    let after = |counts| compare(&before, &[counts], true);
    assert_eq!(after(pytest(10, 1, 0, 1)), []);
    assert_eq!(after(pytest(12, 0, 0, 1)), []);
    assert_eq!(after(pytest(9, 1, 0, 1)), [CountChange::Fewer { runner: runner(), before: 10, after: 9 }]);
    assert_eq!(after(pytest(10, 2, 0, 1)), [CountChange::Skipped { runner: runner(), before: 1, after: 2 }]);
    assert_eq!(after(pytest(10, 1, 5, 1)), [CountChange::Filtered { runner: runner(), before: 0, after: 5 }]);
    // A second summary may be one that the code printed.
    assert_eq!(
        after(pytest(110, 1, 0, 2)),
        [CountChange::Summaries { runner: runner(), before: 1, after: 2 }]
    );
    assert!(after(pytest(0, 0, 0, 1)).contains(&CountChange::NoneRun { runner: runner() }));
    assert_eq!(compare(&before, &[], true)[0], CountChange::Gone { runner: runner() });
}

#[test]
fn without_a_run_before_only_an_empty_or_doubled_one_is_named() {
    assert_eq!(compare(&[], &[pytest(3, 0, 0, 1)], true), []);
    assert_eq!(compare(&[], &[], false), [], "a linter has no tests");
    assert_eq!(compare(&[], &[], true).len(), 1);
    assert_eq!(compare(&[], &[pytest(3, 0, 0, 2)], true).len(), 1);
    let cargo = TestCounts { passed: 3, summaries: 4, ..TestCounts::new("cargo test") };
    assert_eq!(compare(&[], &[cargo], true), [], "it prints a summary for each binary");
}

#[test]
fn a_command_that_names_a_runner_is_known() {
    for command in [
        "pytest",
        "python3 -m pytest -q tests",
        "cargo test --locked",
        "cd x && go test ./...",
        "npx jest",
        "node --test",
        "/usr/bin/make -s test",
        "npm test",
        "python -m unittest",
    ] {
        assert!(names_runner(command), "{command}");
    }
    for command in ["cargo clippy", "make lint", "true", "echo testing", "go vet ./...", "./check.sh"] {
        assert!(!names_runner(command), "{command}");
    }
}

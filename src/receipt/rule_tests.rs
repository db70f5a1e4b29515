use super::*;
use crate::receipt::document::{RequiredFile, SetupRun};
use crate::receipt::testing;
use crate::receipt::tree::Tree;

fn checks() -> Checks {
    Checks { required: vec!["README.md".to_owned()], ..Checks::of(&["pytest -q", "./lint"]) }
}

fn tree() -> Tree {
    testing::tree(&[("README.md", "100644", "x"), ("lib.py", "100644", "y")])
}

fn receipt() -> Receipt {
    let mut receipt = testing::receipt(&checks(), &tree());
    receipt.runs[1] = testing::run("./lint", 0, "clean");
    receipt.base_runs[1] = testing::run("./lint", 0, "clean");
    receipt
}

fn decide(receipt: &Receipt) -> Acceptance {
    acceptance(&checks(), receipt, &receipt.delivered.tree).unwrap()
}

#[test]
fn checks_that_succeeded_on_exactly_the_tree_are_accepted() {
    assert_eq!(decide(&receipt()), Acceptance::Accepted);
    // A receipt without a base, as for the first branch of a project.
    assert_eq!(decide(&Receipt { base_runs: Vec::new(), ..receipt() }), Acceptance::Accepted);
    // More tests than before are welcome.
    let mut more = receipt();
    more.runs[0] = testing::run("pytest -q", 0, "===== 9 passed in 0.1s =====");
    assert_eq!(decide(&more), Acceptance::Accepted);
}

#[test]
fn a_receipt_for_another_tree_or_other_checks_is_stale() {
    let receipt = receipt();
    assert_eq!(acceptance(&checks(), &receipt, &"0".repeat(40)).unwrap(), Acceptance::Stale);
    let other = Checks { each_seconds: 5, ..checks() };
    assert_eq!(acceptance(&other, &receipt, &receipt.delivered.tree).unwrap(), Acceptance::Stale);
    let more = Checks { commands: vec!["true".to_owned()], ..checks() };
    assert_eq!(acceptance(&more, &receipt, &receipt.delivered.tree).unwrap(), Acceptance::Stale);
}

#[test]
fn anything_that_did_not_succeed_is_refused() {
    let changed = |change: &dyn Fn(&mut Receipt)| {
        let mut receipt = receipt();
        change(&mut receipt);
        decide(&receipt)
    };
    let wrong: [&dyn Fn(&mut Receipt); 9] = [
        &|receipt| receipt.runs[0].exit = Some(1),
        &|receipt| receipt.runs[1].exit = Some(-1),
        &|receipt| receipt.runs[0].end = "timed-out".to_owned(),
        &|receipt| receipt.runs[0].exit = None,
        &|receipt| drop(receipt.runs.pop()),
        &|receipt| receipt.runs.swap(0, 1),
        &|receipt| receipt.required[0].present = false,
        &|receipt| receipt.required = vec![RequiredFile { path: "other".to_owned(), present: true }],
        &|receipt| receipt.probe.findings.push("a socket is open".to_owned()),
    ];
    for (at, change) in wrong.iter().enumerate() {
        assert!(matches!(changed(change), Acceptance::Refused(_)), "{at}");
    }
    let failed = SetupRun {
        cached: false,
        key: String::new(),
        result_sha256: String::new(),
        run: testing::run("npm ci", 1, ""),
    };
    assert_eq!(
        changed(&|receipt| receipt.setup = Some(failed.clone())),
        Acceptance::Refused(vec!["the setup step failed with exit code 1".to_owned()])
    );
}

#[test]
fn less_tests_or_changed_ones_are_for_a_person() {
    let with_output = |output: &str| {
        let mut receipt = receipt();
        receipt.runs[0] = testing::run("pytest -q", 0, output);
        decide(&receipt)
    };
    for output in [
        "===== 2 passed in 0.1s =====",
        "===== 3 passed, 1 skipped in 0.1s =====",
        "===== 3 passed, 4 deselected in 0.1s =====",
        "===== 99 passed in 0.1s =====\n===== 1 passed in 0.1s =====",
        "===== no tests ran in 0.1s =====",
        "all 3 tests passed, believe me",
        "",
    ] {
        assert!(matches!(with_output(output), Acceptance::NeedsPerson(_)), "{output}");
    }
    let mut touched = receipt();
    let file = CheckFile {
        change: "modified".to_owned(),
        needs_person: true,
        path: "tests/test_a.py".to_owned(),
        reason: "belongs to the tests, and the branch changed it".to_owned(),
    };
    touched.check_files.push(file.clone());
    let expected = "tests/test_a.py belongs to the tests, and the branch changed it".to_owned();
    assert_eq!(decide(&touched), Acceptance::NeedsPerson(vec![expected]));
    touched.check_files = vec![CheckFile { needs_person: false, ..file }];
    assert_eq!(decide(&touched), Acceptance::Accepted, "a new test is only shown");
}

#[test]
fn a_check_that_succeeds_with_a_failing_test_is_for_a_person() {
    let canary = |fails, failed| crate::receipt::canary::CanaryRun {
        command: "pytest -q".to_owned(),
        failed,
        failed_on_base: 3,
        fails,
        paths: vec!["tests/test_a.py".to_owned()],
    };
    let with = |fails, failed| decide(&Receipt { canaries: vec![canary(fails, failed)], ..receipt() });
    assert_eq!(with(true, 3), Acceptance::Accepted);
    assert_eq!(with(true, 4), Acceptance::Accepted, "a new test may fail with them");
    assert!(matches!(with(false, 3), Acceptance::NeedsPerson(reasons) if reasons.len() == 1));
    // It keeps one of the tests from failing.
    assert!(matches!(with(true, 2), Acceptance::NeedsPerson(reasons) if reasons[0].contains("2 of 3")));
}

#[test]
fn tests_that_pass_only_beside_new_ones_are_for_a_person() {
    let with = |run| decide(&Receipt { old_tests: vec![run], ..receipt() });
    let passed = |text| testing::run("pytest -q", 0, text);
    assert_eq!(with(passed("===== 3 passed in 0.1s =====")), Acceptance::Accepted);
    let failed = testing::run("pytest -q", 1, "===== 2 passed, 1 failed in 0.1s =====");
    for run in [failed, passed("===== 2 passed in 0.1s =====")] {
        assert!(
            matches!(with(run), Acceptance::NeedsPerson(reasons) if reasons[0].contains("that the branch added"))
        );
    }
}

#[test]
fn a_check_that_changes_its_own_tests_is_for_a_person() {
    let mut receipt = receipt();
    receipt.runs[0].changed = vec!["tests/test_a.py".to_owned()];
    assert!(matches!(decide(&receipt), Acceptance::NeedsPerson(reasons) if reasons.len() == 1));
    receipt.base_runs[0].changed = vec!["tests/test_a.py".to_owned()];
    assert_eq!(decide(&receipt), Acceptance::Accepted, "it does so on the base, too");
}

#[test]
fn a_failure_comes_before_a_doubt() {
    let mut receipt = receipt();
    receipt.runs[0] = testing::run("pytest -q", 1, "===== 1 passed, 1 failed in 0.1s =====");
    assert!(matches!(decide(&receipt), Acceptance::Refused(reasons) if reasons.len() == 1));
}

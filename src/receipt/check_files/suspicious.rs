//! Text in a change that could pass for the result of a test runner, or that ends a run before the runner can say what
//! happened. It says nothing bad about a change by itself: a person looks at it.

use std::collections::HashSet;

/// Parts of the summaries of test runners.
const SUMMARIES: [&str; 20] = [
    " passed in ",
    "no tests ran",
    "test session starts",
    "test result:",
    "tests run:",
    "--- pass:",
    "--- pass ",
    "<testsuite",
    "\"action\":\"pass\"",
    "# pass ",
    "ℹ tests",
    "ℹ pass",
    " passing (",
    "tests: ",
    "test suites:",
    "tap version",
    "ran {",
    "ran %d test",
    " tests in ",
    " test in ",
];

/// Calls that end a process at once or replace it, and the places where a runner is told what to do.
const ENDINGS: [&str; 33] = [
    "os._exit",
    "_exit(",
    "os.abort",
    "os.kill(",
    "os.exec",
    "os.exit(0",
    "atexit",
    "process.exit",
    "process.reallyexit",
    "::exit(",
    "syscall.exit",
    "runtime.goexit",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_collection_modifyitems",
    "pytest_runtest",
    "pytest_configure",
    "pytest_cmdline",
    "pytest_plugins",
    "pytest.exit",
    "pytest.skip",
    "skiptest",
    "sessionstatus",
    "exitstatus",
    "terminalreporter",
    "collect_ignore",
    "__unittest",
    "pytest.ini",
    "sys.modules[",
    "sys.settrace",
    "sys.stdout =",
    "sys.stdout=",
    "load_tests",
];

/// Returns the reason if a line that the change added is suspicious.
pub(super) fn added(old: &str, new: &str) -> Option<String> {
    let before: HashSet<&str> = old.lines().map(str::trim).collect();
    for line in new.lines().map(str::trim).filter(|line| !before.contains(line)) {
        let lower = line.to_lowercase();
        if SUMMARIES.iter().any(|part| lower.contains(part)) {
            return Some("has new text that looks like the result of a test runner".to_owned());
        }
        if let Some(part) = ENDINGS.iter().find(|part| lower.contains(**part)) {
            return Some(format!("has a new line with {part:?}, which can end or steer a test run"));
        }
    }
    None
}

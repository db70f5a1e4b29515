//! Text in a change that could pass for the result of a test runner, or that ends a run before the runner can say what
//! happened. It says nothing bad about a change by itself: a person looks at it.

use std::collections::HashSet;
use std::path::Path;

/// Parts of the summaries of test runners.
const SUMMARIES: [&str; 22] = [
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
    "\"1..",
    "'1..",
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

/// Words of test runners. Code that is no test has no business with them.
const RUNNERS: [&str; 12] = [
    "unittest",
    "pytest",
    "testcase",
    "testresult",
    "testmethod",
    "doctest",
    "node:test",
    "jest",
    "vitest",
    "mocha",
    "junit",
    "tests/",
];

/// Ways in Python to look at or change the program that runs the code: the frames that called it, all objects, the loading of
/// modules, other processes.
const INTROSPECTION: [&str; 32] = [
    "start_new_session",
    "preexec_fn",
    "_getframe",
    "currentframe",
    "inspect.stack",
    "inspect.getouterframes",
    "gc.get_",
    "ctypes",
    "setprofile",
    "addaudithook",
    "meta_path",
    "path_hooks",
    "path_importer_cache",
    "__builtins__",
    "builtins",
    "excepthook",
    "unraisablehook",
    "displayhook",
    "orig_argv",
    "import __main__",
    "'__main__']",
    "\"__main__\"]",
    "dup2",
    "/proc/",
    "os.fork",
    "getppid",
    "__import__(",
    "sys.modules",
    "tb_next",
    "f_back",
    "f_globals",
    "sys.stderr =",
];

/// Ways in a shell or Perl to look at or change the process that runs the code.
const PROCESSES: [&str; 8] = ["/proc/", "ppid", "kill ", "ptrace", "bash_env", "set -n", "setsid", "nohup"];

/// Further ones in Perl. In a shell, `END {` is a part of a program for awk.
const PERL: [&str; 2] = ["end {", "core::"];

/// Calls in Python that run a text. Methods of the same name, as of a database, are something else.
const RUN_TEXT: [&str; 2] = ["exec(", "eval("];

/// Returns `true` if the first line says that this program runs the file.
fn first_line_names(text: &str, program: &str) -> bool {
    text.starts_with("#!") && text.lines().next().is_some_and(|line| line.contains(program))
}

/// The facts about a changed file.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// `true` if it is a test or belongs to tests.
    pub is_test: bool,
}

/// Returns the reason if a line that the change added is suspicious.
pub(super) fn added(path: &Path, kind: Kind, old: &str, new: &str) -> Option<String> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    // Nothing runs a text for people.
    if matches!(ending.as_str(), "md" | "rst" | "adoc") {
        return None;
    }
    let is_python = ending == "py" || ending == "pyw";
    let is_code = is_python
        || matches!(
            ending.as_str(),
            "js" | "mjs" | "cjs" | "ts" | "jsx" | "tsx" | "sh" | "bash" | "pl" | "rb"
        );
    if is_code && new.contains('\0') && !old.contains('\0') {
        return Some("has a zero byte, so that tools take its text for binary and do not show it".to_owned());
    }
    let before: HashSet<&str> = old.lines().map(str::trim).collect();
    for (at, line) in new.lines().map(str::trim).enumerate().filter(|(_, line)| !before.contains(line)) {
        let lower = line.to_lowercase();
        if is_python && at < 2 && is_other_encoding(&lower) {
            return Some(
                "is written in another encoding than UTF-8, so that it can't be read as it is run".to_owned(),
            );
        }
        if is_comment(&ending, line) {
            continue;
        }
        if is_python && line.chars().any(is_other_letter) {
            return Some(
                "has letters that Python reads as others, so that a name in it is another one".to_owned(),
            );
        }
        if SUMMARIES.iter().any(|part| lower.contains(part)) {
            return Some("has new text that looks like the result of a test runner".to_owned());
        }
        let named =
            |part: &str| Some(format!("has a new line with {part:?}, which can end or steer a test run"));
        if let Some(part) = ENDINGS.iter().find(|part| lower.contains(**part)) {
            return named(part);
        }
        if lower.contains(".flock-home") {
            return named(".flock-home");
        }
        if is_python && !kind.is_test && replaces_part_of_python(line) {
            return Some("replaces a part of Python for the whole program".to_owned());
        }
        let is_shell = matches!(ending.as_str(), "sh" | "bash" | "pl" | "pm") || new.starts_with("#!");
        if is_shell
            && !is_python
            && let Some(part) = PROCESSES.iter().find(|part| lower.contains(**part))
        {
            return named(part);
        }
        let is_perl = matches!(ending.as_str(), "pl" | "pm" | "t") || first_line_names(new, "perl");
        if is_perl && let Some(part) = PERL.iter().find(|part| lower.contains(**part)) {
            return named(part);
        }
        if is_python && let Some(part) = INTROSPECTION.iter().find(|part| lower.contains(**part)) {
            return named(part);
        }
        if is_python && let Some(part) = RUN_TEXT.iter().find(|part| calls(&lower, part)) {
            return named(part);
        }
        if is_code
            && !kind.is_test
            && let Some(part) = RUNNERS.iter().find(|part| lower.contains(**part))
        {
            return Some(format!("is no test and has a new line with {part:?}"));
        }
    }
    None
}

/// Returns `true` for a line such as `time.monotonic = f`.
fn replaces_part_of_python(line: &str) -> bool {
    let Some((left, right)) = line.split_once('=') else { return false };
    let Some((module, name)) = left.trim().split_once('.') else { return false };
    let is_name = !name.is_empty() && name.chars().all(|c| c == '.' || c == '_' || c.is_alphanumeric());
    is_name && !right.starts_with('=') && super::names::is_python_module(Path::new(&format!("{module}.py")))
}

/// Returns `true` if a line calls a function, and not a method of the same name.
fn calls(line: &str, function: &str) -> bool {
    line.match_indices(function).any(|(at, _)| {
        let before = line[..at].trim_end().chars().next_back();
        !before.is_some_and(|c| c == '.' || c == '_' || c.is_alphanumeric())
            || line[..at].ends_with("builtins.")
    })
}

/// Returns `true` if a line among the first two of a Python file names another encoding than UTF-8.
fn is_other_encoding(line: &str) -> bool {
    let Some((_, rest)) = line.split_once("coding").filter(|_| line.starts_with('#')) else { return false };
    let Some(name) = rest.strip_prefix([':', '=']) else { return false };
    let name: String =
        name.trim_start().chars().take_while(|c| c.is_alphanumeric() || "-_.".contains(*c)).collect();
    !matches!(name.replace('_', "-").as_str(), "utf-8" | "utf8" | "ascii" | "us-ascii")
}

/// Returns `true` for a letter that Python reads as a plain Latin one: wide, mathematical and circled letters.
fn is_other_letter(c: char) -> bool {
    matches!(c, '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' | '\u{ff3f}' | '\u{1d400}'..='\u{1d7ff}' | '\u{2102}'..='\u{2149}'
        | '\u{1d2c}'..='\u{1d6a}' | '\u{2071}'..='\u{209c}' | '\u{fb00}'..='\u{fb06}')
}

/// Returns `true` if a line is only a comment.
fn is_comment(ending: &str, line: &str) -> bool {
    match ending {
        "py" | "pyw" | "sh" | "bash" | "rb" | "pl" | "toml" | "yaml" | "yml" => line.starts_with('#'),
        "js" | "mjs" | "cjs" | "ts" | "jsx" | "tsx" | "go" | "rs" | "c" | "h" | "cc" | "cpp" | "java"
        | "kt" => line.starts_with("//"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(path: &str, new: &str) -> Option<String> {
        added(Path::new(path), Kind { is_test: false }, "", new)
    }

    #[test]
    fn code_that_reaches_for_its_runner_is_suspicious_and_words_about_it_are_not() {
        for (path, line) in [
            ("a.py", "import unittest"),
            ("a.py", "f = sys._getframe(1)"),
            ("a.py", "exec(text)"),
            ("a.py", "builtins.exec(text)"),
            ("a.py", "x = __import__('o' + 's')"),
            ("a.py", "#!/usr/bin/python\n# -*- coding: utf-7 -*-"),
            ("a.sh", "cp other tests/run.sh"),
            ("a.sh", "printf '1..2'"),
            ("a.py", "time.monotonic = lambda: 0"),
            ("a.sh", "count() { cat; } #\0"),
            ("a.py", "os._\u{ff45}xit(0)"),
            ("a.txt", "===== 3 passed in 0.1s ====="),
        ] {
            assert!(reason(path, line).is_some(), "{path}: {line}");
        }
        for (path, line) in [
            ("a.py", "# Ran 2 tests in 0.1s: that took long, says pytest"),
            ("a.py", "# -*- coding: utf-8 -*-"),
            ("a.py", "cursor.exec(text)"),
            ("a.py", "result = retrieval(x)"),
            ("a.py", "print('OK')"),
            ("a.py", "self.time = time.time()"),
            ("a.js", "const found = /x/.exec(text)"),
            ("README.md", "Ran 2 tests in 0.1s with pytest, os._exit"),
            ("a.rs", "// test result: ok. 5 passed"),
        ] {
            assert_eq!(reason(path, line), None, "{path}: {line}");
        }
        let is_test = Kind { is_test: true };
        assert_eq!(added(Path::new("test_a.py"), is_test, "", "import unittest\n"), None);
    }
}

//! Turns the expectations of a test: where it expects 3 it expects another number, where it expects true it expects false.
//! Right code fails such a test. Code that is right only because it has changed what "equal" or "failed" means does not.
//!
//! A line that is not understood stays as it is. The text only has to be right often enough that most tests fail.

use std::path::Path;

/// Pairs of assertions of Python's unittest that are each other's opposite.
const OPPOSITES: [(&str, &str); 9] = [
    ("assertEqual(", "assertNotEqual("),
    ("assertTrue(", "assertFalse("),
    ("assertIsNone(", "assertIsNotNone("),
    ("assertIn(", "assertNotIn("),
    ("assertIs(", "assertIsNot("),
    ("assertIsInstance(", "assertNotIsInstance("),
    ("assertGreater(", "assertLessEqual("),
    ("assertLess(", "assertGreaterEqual("),
    ("assertRegex(", "assertNotRegex("),
];

/// Returns the text of a test with other expectations, or `None` if nothing in it could be turned. `mark` is random.
pub(super) fn turned(path: &Path, text: &str, mark: &str) -> Option<String> {
    let is_python = path.extension().is_some_and(|ending| ending == "py");
    let mut changed = false;
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let new = turned_line(line, is_python, mark);
        changed |= new.is_some();
        lines.push(new.unwrap_or_else(|| line.to_owned()));
    }
    changed.then(|| lines.join("\n"))
}

/// Returns a script in a shell or Perl that ends with a failure where it would end. A program that it runs in its own process, and that
/// ends it before, is found out.
pub(super) fn turned_script(_: &Path, text: &str, _: &str) -> Option<String> {
    let mut lines: Vec<&str> = text.trim_end().lines().collect();
    if lines.is_empty() {
        return None;
    }
    let at =
        if lines.last().is_some_and(|line| line.starts_with("exit")) { lines.len() - 1 } else { lines.len() };
    lines.insert(at, "exit 93;");
    Some(lines.join("\n") + "\n")
}

fn turned_line(line: &str, is_python: bool, mark: &str) -> Option<String> {
    let trimmed = line.trim_start();
    if is_python && let Some(condition) = trimmed.strip_prefix("assert ") {
        let indent = &line[..line.len() - trimmed.len()];
        let right = [" == ", " in ", " is ", " != ", " <= ", " >= ", " < ", " > "];
        let at = right.iter().filter_map(|sign| condition.rfind(sign).map(|at| at + sign.len())).max();
        let literals = at.and_then(|at| {
            with_other_literals(&condition[at..], mark).map(|new| format!("{}{new}", &condition[..at]))
        });
        return Some(match literals {
            Some(new) => format!("{indent}assert {new}"),
            None => format!("{indent}assert not {condition}"),
        });
    }
    let start = call(line)?;
    let (name, arguments) = line.split_at(start);
    if is_python && ["assertRaises", "assertWarns"].iter().any(|word| name.contains(word)) {
        // Nothing raises this one.
        let end = arguments.find(|c: char| c != '.' && c != '_' && !c.is_alphanumeric())?;
        return (end > 0).then(|| format!("{name}BufferError{}", &arguments[end..]));
    }
    let at = match name.trim_start().starts_with("expect(") {
        true => arguments.rfind('(').map(|at| at + 1),
        false => first_comma(arguments),
    };
    if let Some(new) = at.and_then(|at| {
        with_other_literals(&arguments[at..], mark).map(|new| format!("{}{new}", &arguments[..at]))
    }) {
        return Some(format!("{name}{new}"));
    }
    let pair = |(one, other): &(&str, &str)| -> Option<String> {
        let new =
            |from: &str, to: &str| name.strip_suffix(from).map(|before| format!("{before}{to}{arguments}"));
        new(one, other).or_else(|| new(other, one))
    };
    if is_python { OPPOSITES.iter().find_map(pair) } else { None }
}

/// Returns the place after the opening parenthesis of an assertion.
fn call(line: &str) -> Option<usize> {
    let trimmed = line.trim_start();
    let begin = if trimmed.starts_with("expect(") { line.find("expect(") } else { line.find("assert") }?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.!".contains(c);
    let before = line[..begin].trim_start();
    if !before.chars().all(|c| is_name(c) || c == ' ') || before.starts_with("def ") {
        return None;
    }
    let rest = &line[begin..];
    let end = rest.find(|c: char| !is_name(c))?;
    rest[end..].starts_with('(').then_some(begin + end + 1)
}

/// Returns the place after the first comma that separates arguments.
fn first_comma(arguments: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in arguments.char_indices() {
        match (quote, c) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Returns a text in which each number and each string is another one, or `None` if it has none.
fn with_other_literals(text: &str, mark: &str) -> Option<String> {
    let mut new = String::new();
    let mut rest = text;
    let mut before = ' ';
    let digit = mark.chars().find_map(|c| c.to_digit(10).filter(|digit| *digit > 0)).unwrap_or(7);
    while let Some(c) = rest.chars().next() {
        let is_part = before == '_' || before == '.' || before.is_alphanumeric();
        let length = match c {
            '#' => break,
            '"' | '\'' => {
                let Some(length) = string(rest, c) else { break };
                let inner = &rest[..length - 1];
                new.push_str(inner);
                new.push_str(mark);
                new.push(c);
                length
            }
            '0'..='9' if !is_part => {
                let length =
                    rest.find(|c: char| c != '.' && c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                let is_plain = rest[..length].chars().all(|c| c == '.' || c == '_' || c.is_ascii_digit());
                if is_plain {
                    new.push_str(&digit.to_string());
                }
                new.push_str(&rest[..length]);
                length
            }
            _ => {
                new.push(c);
                c.len_utf8()
            }
        };
        before = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    new.push_str(rest);
    (new != text).then_some(new)
}

/// Returns the length of the string at the start of a text, with its quotes. `None` if it has no end in this line or is one
/// of several lines.
fn string(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    if text.starts_with(&quote.to_string().repeat(3)) {
        return None;
    }
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_asserts_something_asserts_something_else() {
        for (line, expected) in [
            ("    self.assertEqual(add(1, 2), 3)", "    self.assertEqual(add(1, 2), 53)"),
            (
                "self.assertEqual(f('a, b'), \"x\")  # not '3'",
                "self.assertEqual(f('a, b'), \"xa5f\")  # not '3'",
            ),
            ("self.assertEqual(3, add(1, 2))", "self.assertEqual(3, add(51, 52))"),
            ("self.assertEqual(a, b)", "self.assertNotEqual(a, b)"),
            ("self.assertEqual(", "self.assertNotEqual("),
            ("self.assertTrue(f(2))", "self.assertFalse(f(2))"),
            ("self.assertFalse(x)", "self.assertTrue(x)"),
            ("with self.assertRaises(ValueError):", "with self.assertRaises(BufferError):"),
            ("self.assertRaises(os.error, f, 3)", "self.assertRaises(BufferError, f, 3)"),
            ("assert f(1) == 0.5", "assert f(1) == 50.5"),
            ("assert f(1) == [1, x1, 0x1f]", "assert f(1) == [51, x1, 0x1f]"),
            ("assert f(1)", "assert not f(1)"),
            ("assert a in b, 'text'", "assert a in b, 'texta5f'"),
        ] {
            assert_eq!(turned_line(line, true, "a5f").as_deref(), Some(expected));
        }
        for (line, expected) in [
            ("    assert_eq!(add(1, 2), 3);", "    assert_eq!(add(1, 2), 53);"),
            ("  expect(add(1, 2)).toBe(3);", "  expect(add(1, 2)).toBe(53);"),
            ("  assert.strictEqual(add(1, 2), '3');", "  assert.strictEqual(add(1, 2), '3a5f');"),
        ] {
            assert_eq!(turned_line(line, false, "a5f").as_deref(), Some(expected));
        }
        for line in [
            "x = 3",
            "def assert_it(a, b=3):",
            "print('assert(3, 4)')",
            "",
            "assertion = 3",
            "# assertEqual(a, 3)",
        ] {
            assert_eq!(turned_line(line, true, "a5f"), None, "{line}");
        }
        assert_eq!(turned(Path::new("test_a.py"), "x = 1\ny = 2\n", "a5f"), None);
        let script = |text| turned_script(Path::new("a.sh"), text, "").unwrap();
        assert_eq!(script("run\nexit $failed\n"), "run\nexit 93;\nexit $failed\n");
        assert_eq!(script("run\n"), "run\nexit 93;\n");
    }
}

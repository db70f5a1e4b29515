//! The SQL texts of the subjects in PostgreSQL's spelling. Pure.

/// Returns a text with its parameters written as PostgreSQL writes them: `?2` becomes `$2`.
///
/// What looks like a parameter within a string, a quoted name or a comment stays as it is.
pub(super) fn with_dollars(sql: &str) -> String {
    let bytes = sql.as_bytes();
    let mut text = String::with_capacity(sql.len());
    let (mut at, mut kept) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'\'' | b'"') => at = end_of_quoted(bytes, at, quote),
            b'-' if bytes.get(at + 1) == Some(&b'-') => at = end_of_line(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = end_of_comment(bytes, at),
            b'?' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                text.push_str(&sql[kept..at]);
                text.push('$');
                at += 1;
                kept = at;
            }
            _ => at += 1,
        }
    }
    text.push_str(&sql[kept..]);
    text
}

/// Returns the place after a string or a quoted name that begins at `at`. A doubled quote is a part of it: it reads as
/// the end and a new beginning.
fn end_of_quoted(bytes: &[u8], at: usize, quote: u8) -> usize {
    let inner = &bytes[at + 1..];
    inner.iter().position(|byte| *byte == quote).map_or(bytes.len(), |found| at + 1 + found + 1)
}

fn end_of_line(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |found| at + found)
}

/// Returns the place after a comment that begins at `at`. In PostgreSQL a comment can hold others.
fn end_of_comment(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    break;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// Returns a name in quotes, so that it is taken as it is written.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a text as a constant of a statement.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_rewritten() {
        for (sql, wanted) in [
            ("", ""),
            ("SELECT 1", "SELECT 1"),
            ("SELECT ?1, ?2 WHERE a = ?12", "SELECT $1, $2 WHERE a = $12"),
            ("(?1,?1)", "($1,$1)"),
            ("SELECT 'é', ?1", "SELECT 'é', $1"),
            ("?1", "$1"),
        ] {
            assert_eq!(with_dollars(sql), wanted);
        }
    }

    #[test]
    fn what_is_no_parameter_stays() {
        for sql in [
            "SELECT 'why?1'",
            "SELECT 'it''s ?1'",
            "SELECT \"?1\", \"a\"\"?2\"",
            "SELECT 1 -- ?1\n",
            "SELECT 1 -- it's ?1",
            "SELECT /* ?1 /* ?2 */ ?3 */ 1",
            "SELECT '?1",
            "SELECT /* ?1",
            "a ? b",
        ] {
            assert_eq!(with_dollars(sql), sql);
        }
    }

    #[test]
    fn parameters_after_what_is_none_are_rewritten() {
        for (sql, wanted) in [
            ("SELECT 'it''s ?1', ?1", "SELECT 'it''s ?1', $1"),
            ("SELECT \"a?1\" FROM t WHERE x = ?1", "SELECT \"a?1\" FROM t WHERE x = $1"),
            ("SELECT 1 -- it's ?1\n, ?1", "SELECT 1 -- it's ?1\n, $1"),
            ("SELECT /* '?1 /* */ */ ?1", "SELECT /* '?1 /* */ */ $1"),
            ("SELECT 2 - ?1 / ?2", "SELECT 2 - $1 / $2"),
        ] {
            assert_eq!(with_dollars(sql), wanted);
        }
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("flock"), "\"flock\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(literal("it's \\ \"x\""), "'it''s \\ \"x\"'");
    }
}

//! Compares names of people and agents as a reader sees them. All of these names are ASCII.

/// Returns `true` if two names look alike: they differ only in case, in separators, or in letters and digits that many
/// typefaces draw alike.
#[must_use]
pub(crate) fn looks_like(one: &str, other: &str) -> bool {
    skeleton(one) == skeleton(other)
}

/// Returns a name with one letter for all characters that look alike, and without separators.
fn skeleton(name: &str) -> String {
    let letter = |c: char| match c.to_ascii_lowercase() {
        '0' => 'o',
        '1' | 'i' => 'l',
        '5' => 's',
        c => c,
    };
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).map(letter).collect();
    letters.replace("rn", "m").replace("vv", "w")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_found() {
        for (one, other) in [
            ("ann", "ANN"),
            ("ann", "a.n-n"),
            ("bill", "b1ll"),
            ("bill", "bi11"),
            ("bob", "b0b"),
            ("tom", "torn"),
            ("will", "vvill"),
            ("owner", "0wner"),
            ("sam", "5am"),
        ] {
            assert!(looks_like(one, other), "{one} {other}");
        }
        for (one, other) in [("ann", "anna"), ("ann", "ben"), ("tom", "tim"), ("coder", "code")] {
            assert!(!looks_like(one, other), "{one} {other}");
        }
    }
}

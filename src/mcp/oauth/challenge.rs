//! The reason with which a server refuses a request: the header `WWW-Authenticate`. Pure.

use super::scopes;

/// The parameters of a refusal that flock reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// The address at which the server describes its sign-in (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub scopes: Vec<String>,
    /// The kind of refusal (RFC 6750).
    pub error: Option<String>,
}

impl Challenge {
    /// Reads the parameters of the scheme `Bearer`. Other schemes in the header are skipped.
    pub fn read(header: &str) -> Self {
        let mut challenge = Self::default();
        let mut is_bearer = false;
        let mut rest = header;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let Some(value) = after.trim_start_matches([' ', '\t']).strip_prefix('=') else {
                if word.is_empty() {
                    return challenge;
                }
                is_bearer = word.eq_ignore_ascii_case("bearer");
                rest = after;
                continue;
            };
            let (value, after) = read_value(value.trim_start_matches([' ', '\t']));
            rest = after;
            if is_bearer {
                challenge.set(word, value);
            }
        }
    }

    fn set(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" if self.resource_metadata.is_none() => self.resource_metadata = Some(value),
            "error" if self.error.is_none() => self.error = Some(value),
            "scope" if self.scopes.is_empty() => self.scopes = scopes::read(&value),
            _ => {}
        }
    }

    /// Returns `true` if the token is good, but does not cover the request.
    pub fn needs_scopes(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Reads a value, which may be quoted. Returns it and what follows.
fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut is_escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            '"' if !is_escaped => return (value, &quoted[at + 1..]),
            c => value.push(c),
        }
        is_escaped = false;
    }
    // Without its closing quote the value is not what the server meant.
    (String::new(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_bearer_are_read_among_others() {
        let read = Challenge::read(
            r#"Basic realm="a, scope=\"x\"", Bearer realm=r, error="insufficient_scope", scope="a  b a", Resource_Metadata = "https://a.example/m?x=1,2""#,
        );
        assert_eq!(read.scopes, ["a", "b"]);
        assert_eq!(read.resource_metadata.as_deref(), Some("https://a.example/m?x=1,2"));
        assert!(read.needs_scopes());
        assert_eq!(Challenge::read("bearer scope=one").scopes, ["one"]);
    }

    #[test]
    fn odd_headers_end_and_say_nothing() {
        for header in [
            "",
            "Bearer",
            "=",
            "Bearer =",
            "Bearer ==,",
            "Bearer scope=\"open",
            "Basic scope=a",
            "\u{e9}=\u{e9}",
        ] {
            assert_eq!(Challenge::read(header), Challenge::default(), "{header}");
        }
    }
}

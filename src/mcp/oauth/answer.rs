//! The answer of an authorization endpoint, which a browser brings back in an address.

/// The most bytes of an answer.
const MAX_ANSWER: usize = 16 << 10;

/// The parameters of an answer.
#[derive(Debug)]
pub(crate) struct AuthorizationAnswer(Vec<(String, String)>);

impl AuthorizationAnswer {
    /// Reads the query of an address. Returns `None` if it is longer than an answer can be.
    #[must_use]
    pub(crate) fn parse(query: &str) -> Option<Self> {
        if query.len() > MAX_ANSWER {
            return None;
        }
        let query = query.split('#').next().unwrap_or_default();
        Some(Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }

    /// Returns a parameter. One that stands there twice has no meaning (RFC 6749, section 3.1).
    #[must_use]
    pub(crate) fn part(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        found.next().filter(|_| found.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_stands_there_twice_is_none() {
        let answer = AuthorizationAnswer::parse("state=a%20b&code=1&code=2#x=y").unwrap();
        assert_eq!((answer.part("state"), answer.part("code"), answer.part("x")), (Some("a b"), None, None));
        assert!(AuthorizationAnswer::parse(&"x".repeat(MAX_ANSWER + 1)).is_none());
    }
}

//! How a command failed, ready to be shown: what failed, why, and the command that mends it.

use std::error::Error;

use serde_json::{Value, json};

use crate::error::{Explain, Kind};

/// The end of a command that did not do what it was asked. Made from any error that can explain itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its kind, which fixes the exit code.
    pub kind: Kind,
    /// What failed, on which thing.
    pub message: String,
    /// Why, the nearest cause first.
    pub causes: Vec<String>,
    /// The command that mends it, or a short sentence where no command can.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure that is said here for the first time.
    #[must_use]
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// A failure of the ordinary kind with an error that has no kind of its own as its cause.
    #[must_use]
    pub fn caused(message: impl Into<String>, cause: &dyn Error) -> Self {
        let mut failure = Self::new(Kind::Failed, message);
        failure.push_causes(Some(cause));
        failure
    }

    /// With the command that mends it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Message and causes on one line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.message.clone();
        for cause in &self.causes {
            text.push_str(": ");
            text.push_str(cause);
        }
        text
    }

    /// All of it on one line, with the command that mends it.
    #[must_use]
    pub fn with_mend(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; run `{hint}`", self.text()),
            None => self.text(),
        }
    }

    /// What programs get: `{"error":{"code","message","hint"}}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"error": {"code": self.kind.code(), "message": self.text(), "hint": self.hint}})
    }

    fn push_causes(&mut self, mut next: Option<&dyn Error>) {
        while let Some(cause) = next {
            let text = cause.to_string();
            let said = self.causes.last().unwrap_or(&self.message);
            if !said.ends_with(&text) {
                self.causes.push(text);
            }
            next = cause.source();
        }
    }
}

impl<E: Explain> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut failure = Self::new(error.kind(), error.to_string());
        failure.push_causes(error.source());
        failure.hint = error.hint();
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to read /x")]
    struct Unreadable(#[source] std::io::Error);

    impl Explain for Unreadable {
        fn kind(&self) -> Kind {
            Kind::Conflict
        }

        fn hint(&self) -> Option<String> {
            Some("flock doctor".into())
        }
    }

    #[test]
    fn an_error_keeps_kind_causes_and_hint() {
        let failure = Failure::from(Unreadable(std::io::Error::other("no luck")));
        assert_eq!(failure.kind, Kind::Conflict);
        assert_eq!(failure.causes, ["no luck"]);
        let json = failure.to_json();
        assert_eq!(json["error"]["code"], "conflict");
        assert_eq!(json["error"]["message"], "failed to read /x: no luck");
        assert_eq!(json["error"]["hint"], "flock doctor");
    }
}

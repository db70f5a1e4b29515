//! The failure of a command, ready to be shown: what failed, why, and the command that repairs it.

use std::error::Error;

use serde_json::{Value, json};

use crate::error::{Explain, Kind};

/// The reason why a command did not do what it was asked to do. Any error that implements [`Explain`] converts to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The kind of failure, which decides the exit code.
    pub kind: Kind,
    /// The action that failed and the thing that it failed on.
    pub message: String,
    /// The causes, the nearest one first.
    pub causes: Vec<String>,
    /// The command that repairs it, or a short sentence if no command can.
    pub hint: Option<String>,
}

impl Failure {
    /// Creates a failure that has no underlying error.
    #[must_use]
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// Creates a failure of kind [`Kind::Failed`] whose cause is an error without a kind.
    #[must_use]
    pub(crate) fn with_cause(message: impl Into<String>, cause: &dyn Error) -> Self {
        let mut failure = Self::new(Kind::Failed, message);
        failure.push_causes(Some(cause));
        failure
    }

    /// Sets the command that repairs the failure.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the hint if there is none yet.
    #[must_use]
    pub(crate) fn or_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Puts another message in front. The present one becomes its first cause.
    #[must_use]
    pub(crate) fn within(mut self, message: impl Into<String>) -> Self {
        self.causes.insert(0, std::mem::replace(&mut self.message, message.into()));
        self
    }

    /// Returns the message and the causes on one line.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        std::iter::once(&self.message).chain(&self.causes).map(String::as_str).collect::<Vec<_>>().join(": ")
    }

    /// Returns the message, the causes and the command that repairs the failure on one line.
    #[must_use]
    pub(crate) fn to_line_with_hint(&self) -> String {
        match &self.hint {
            Some(hint) if is_command(hint) => format!("{}; run `{hint}`", self.text()),
            Some(hint) => format!("{}; {hint}", self.text()),
            None => self.text(),
        }
    }

    /// Returns the JSON object for programs: `{"error":{"code","message","hint"}}`.
    #[must_use]
    pub(crate) fn to_json(&self) -> Value {
        json!({"error": {"code": self.kind.code(), "message": self.text(), "hint": self.hint}})
    }

    fn push_causes(&mut self, mut next: Option<&dyn Error>) {
        while let Some(cause) = next {
            let text = cause.to_string();
            // Many errors already print their source at the end of their own text. It is not shown a second time.
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

/// Returns `true` if a hint is a command to run, and `false` if it is a sentence.
pub(super) fn is_command(hint: &str) -> bool {
    const PROGRAMS: [&str; 9] = ["flock", "ls", "df", "cp", "echo", "sudo", "apt-get", "docker", "systemctl"];
    // A sentence may begin with a command, as in `flock restart; coder is finished by itself then`.
    let is_sentence = hint.contains('`') || hint.contains("; ") || hint.contains(", ");
    !is_sentence && hint.split(' ').next().is_some_and(|word| PROGRAMS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_is_shown_as_one_to_run() {
        for hint in ["flock doctor", "sudo -v && flock init", "cp /a,b /c"] {
            assert!(is_command(hint), "{hint}");
        }
        for hint in [
            "flock restart; coder is finished by itself then",
            "flock thaw coder, or wait for that: flock chat coder --wait",
            "`flock update --retry` tries this commit again",
            "install crun",
        ] {
            assert!(!is_command(hint), "{hint}");
            let failure = Failure::new(Kind::Failed, "it broke").hint(hint);
            assert_eq!(failure.to_line_with_hint(), format!("it broke; {hint}"));
        }
        let failure = Failure::new(Kind::Failed, "it broke").hint("flock doctor");
        assert_eq!(failure.to_line_with_hint(), "it broke; run `flock doctor`");
    }

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

//! Why a model did not answer, and how an HTTP status becomes one of these reasons.

use std::time::Duration;

use crate::error::Explain;

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The model's provider is not configured, or has no key.
    #[error("the provider {provider} of the model {model} is not configured: {reason}")]
    NotConfigured {
        /// Its id.
        provider: String,
        /// The model asked for.
        model: String,
        /// What is missing.
        reason: String,
        /// What mends it.
        hint: String,
    },
    /// It refused the key (401, 403).
    #[error("{provider} refused the key ({status}): {message}")]
    Unauthorised {
        /// Its id.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// It says that the request is wrong (other 4xx), or that no money is left.
    #[error("{provider} rejected the request ({status}): {message}")]
    Rejected {
        /// Its id.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// It is overloaded or limits the rate (429, 529).
    #[error("{provider} is limiting requests ({status}): {message}")]
    Limited {
        /// Its id.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// It failed (5xx), could not be reached, or broke off.
    #[error("{provider} failed: {message}")]
    Failed {
        /// Its id.
        provider: String,
        /// What happened.
        message: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
        /// Whether nothing of the request has left this machine: there was no connection to send it over.
        unsent: bool,
    },
    /// It sent nothing for too long.
    #[error("{provider} sent nothing for {} seconds", after.as_secs_f32().ceil())]
    TimedOut {
        /// Its id.
        provider: String,
        /// How long.
        after: Duration,
    },
    /// What it sent is not its own format, or more than anyone could want.
    #[error("{provider} sent an answer that can't be read: {message}")]
    Garbled {
        /// Its id.
        provider: String,
        /// What is wrong with it.
        message: String,
    },
}

impl ProviderError {
    /// The error for an HTTP status that is not a success, or for an error event that carries one.
    #[must_use]
    pub fn from_status(
        provider: &str,
        status: u16,
        message: impl Into<String>,
        retry_after: Option<Duration>,
    ) -> Self {
        let (provider, message) = (provider.to_owned(), message.into());
        match status {
            401 | 403 => Self::Unauthorised { provider, status, message },
            429 | 529 => Self::Limited { provider, status, message, retry_after },
            // 424 is Bedrock's: the model failed, not the request.
            408 | 409 | 424 | 425 | 500.. => {
                let message = format!("status {status}: {message}");
                Self::Failed { provider, message, retry_after, unsent: false }
            }
            _ => Self::Rejected { provider, status, message },
        }
    }

    /// Whether it is the provider's trouble and may pass.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Limited { .. } | Self::Failed { .. } | Self::TimedOut { .. })
    }

    /// Whether the thinking of earlier answers was refused, or what hangs on it: without it the conversation can go on.
    /// Such a refusal comes before any of an answer, and there is no code for it.
    #[must_use]
    pub fn refuses_thinking(&self) -> bool {
        const SIGNS: [&str; 6] = ["cannot be modified", "signature", "invalid", "missing", "empty", "blank"];
        // Responses name the item that can't be read, or that lacks the one it came with.
        const ITEMS: [&str; 6] =
            ["encrypted content", "encrypted_content", "'reasoning'", "'rs_", "'fc_", "'msg_"];
        let Self::Rejected { message, status, .. } = self else { return false };
        let message = message.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
        // Servers with a closed format name the field that they do not know.
        let has_field = message.contains("reasoning_content") || message.contains("reasoning_details");
        let is_unknown = has(&["unsupported", "not supported", "unknown", "unrecognized", "not permitted"]);
        let is_named = message.contains("thinking") || message.contains("thought") || has_field;
        (is_named && has(&SIGNS)) || (has_field && is_unknown) || (matches!(status, 400 | 404) && has(&ITEMS))
    }

    /// Whether a picture of the conversation was refused: with the pictures named instead it can go on. There is no code for
    /// it either.
    #[must_use]
    pub fn refuses_pictures(&self) -> bool {
        const SIGNS: [&str; 12] = [
            "process",
            "invalid",
            "not valid",
            "decode",
            "damaged",
            "corrupt",
            "truncated",
            "not support",
            "unsupported",
            "exceed",
            "too large",
            "does not match",
        ];
        let Self::Rejected { message, .. } = self else { return false };
        let message = message.to_lowercase();
        message.contains("image") && SIGNS.iter().any(|sign| message.contains(sign))
    }

    /// Whether the form that the answer was to have was refused: without it the model can be asked again. There is no code
    /// for it either.
    #[must_use]
    pub fn refuses_format(&self) -> bool {
        const NAMES: [&str; 12] = [
            "response_format",
            "schema",
            "text.format",
            "output_config",
            "outputconfig",
            "output config",
            "output_format",
            "output format",
            "structured output",
            "mime type",
            "mime_type",
            "mimetype",
        ];
        let Self::Rejected { status: 400 | 422, message, .. } = self else { return false };
        let message = message.to_lowercase();
        NAMES.iter().any(|name| message.contains(name))
    }

    /// Whose failure it is.
    #[must_use]
    pub fn provider(&self) -> &str {
        match self {
            Self::NotConfigured { provider, .. }
            | Self::Unauthorised { provider, .. }
            | Self::Rejected { provider, .. }
            | Self::Limited { provider, .. }
            | Self::Failed { provider, .. }
            | Self::TimedOut { provider, .. }
            | Self::Garbled { provider, .. } => provider,
        }
    }
}

impl Explain for ProviderError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotConfigured { hint, .. } => Some(hint.clone()),
            Self::Unauthorised { provider, .. } => {
                Some(format!("flock config set models.providers.{provider}.apiKey -"))
            }
            Self::Garbled { provider, .. } => {
                Some(format!("flock config get models.providers.{provider}.baseUrl"))
            }
            Self::Limited { retry_after: Some(after), .. }
            | Self::Failed { retry_after: Some(after), .. } => {
                Some(format!("ask again in {} seconds", after.as_secs_f32().ceil()))
            }
            Self::Rejected { .. } | Self::Limited { .. } | Self::Failed { .. } | Self::TimedOut { .. } => {
                Some("flock doctor".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_one_meaning() {
        let of = |status| ProviderError::from_status("x", status, "m", None);
        for status in [401, 403] {
            assert!(matches!(of(status), ProviderError::Unauthorised { .. }), "{status}");
        }
        for status in [429, 529] {
            assert!(matches!(of(status), ProviderError::Limited { .. }), "{status}");
        }
        for status in [408, 500, 502, 503, 504, 599] {
            assert!(matches!(of(status), ProviderError::Failed { .. }), "{status}");
        }
        for status in [301, 400, 402, 404, 413, 422] {
            assert!(matches!(of(status), ProviderError::Rejected { .. }), "{status}");
        }
    }

    #[test]
    fn refused_thinking_is_told_by_its_words() {
        let refused =
            |status, message: &str| ProviderError::from_status("x", status, message, None).refuses_thinking();
        for said in [
            "The encrypted content gAAA could not be verified.",
            "Item 'rs_1' of type 'reasoning' was provided without its required following item",
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
            "Provider returned error: Invalid signature in thinking block",
            "Invalid thought signature.",
            "messages.2: property 'reasoning_content' is unsupported",
        ] {
            assert!(refused(400, said), "{said}");
            assert!(!refused(500, said), "{said}");
        }
        assert!(refused(404, "Item with id 'rs_1' not found."));
        assert!(!refused(400, "Your input exceeds the context window of this model."));
        assert!(!refused(400, "tools.0.name: invalid"));
    }

    #[test]
    fn a_refused_picture_is_told_by_its_words() {
        let refused =
            |status, message: &str| ProviderError::from_status("x", status, message, None).refuses_pictures();
        for said in
            ["Could not process image", "Unable to process input image.", "You uploaded an unsupported image"]
        {
            assert!(refused(400, said) && !refused(500, said), "{said}");
        }
        assert!(!refused(400, "tools.0.name: invalid"));
    }

    #[test]
    fn every_error_names_what_mends_it() {
        for status in [400, 401, 429, 500] {
            assert!(ProviderError::from_status("x", status, "m", None).hint().is_some(), "{status}");
        }
        let waiting = ProviderError::from_status("x", 429, "m", Some(Duration::from_millis(1500)));
        assert_eq!(waiting.hint().unwrap(), "ask again in 2 seconds");
    }
}

//! Errors of model calls, and the mapping from HTTP statuses to them.

use std::time::Duration;

use crate::error::Explain;

/// The reason why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The model's provider is not configured, or has no key.
    #[error("the provider {provider} of the model {model} is not configured: {reason}")]
    NotConfigured {
        /// The provider's id.
        provider: String,
        model: String,
        /// The missing part.
        reason: String,
        /// The command or setting that solves it.
        hint: String,
    },
    /// The provider refused the key (401, 403).
    #[error("{provider} refused the key ({status}): {message}")]
    Unauthorised {
        /// The provider's id.
        provider: String,
        status: u16,
        /// The provider's error text.
        message: String,
    },
    /// The provider says that the request is wrong (other 4xx), or that no credit is left.
    #[error("{provider} rejected the request ({status}): {message}")]
    Rejected {
        /// The provider's id.
        provider: String,
        status: u16,
        /// The provider's error text.
        message: String,
    },
    /// The provider is overloaded or limits the rate (429, 529).
    #[error("{provider} is limiting requests ({status}): {message}")]
    Limited {
        /// The provider's id.
        provider: String,
        status: u16,
        /// The provider's error text.
        message: String,
        /// Time after which the provider accepts the next request, if it named one.
        retry_after: Option<Duration>,
    },
    /// The provider failed (5xx), could not be reached, or broke off.
    #[error("{provider} failed: {message}")]
    Failed {
        /// The provider's id.
        provider: String,
        message: String,
        /// Time after which the provider accepts the next request, if it named one.
        retry_after: Option<Duration>,
        /// `true` if no byte of the request was sent, because there was no connection.
        unsent: bool,
    },
    /// The provider sent nothing for longer than the timeout.
    #[error("{provider} sent nothing for {} seconds", after.as_secs_f32().ceil())]
    TimedOut {
        /// The provider's id.
        provider: String,
        /// The timeout that passed.
        after: Duration,
    },
    /// The answer does not follow the wire format, or is larger than the limit.
    #[error("{provider} sent an answer that can't be read: {message}")]
    Garbled {
        /// The provider's id.
        provider: String,
        message: String,
    },
}

impl ProviderError {
    /// Returns the error for an HTTP status that is no success, or for an error event that carries a status.
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
            // 424 comes from Bedrock and means that the model failed, not the request.
            408 | 409 | 424 | 425 | 500.. => {
                let message = format!("status {status}: {message}");
                Self::Failed { provider, message, retry_after, unsent: false }
            }
            _ => Self::Rejected { provider, status, message },
        }
    }

    /// Returns `true` if the cause is on the provider's side and may pass by itself.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Limited { .. } | Self::Failed { .. } | Self::TimedOut { .. })
    }

    /// Returns `true` if the provider refused the reasoning of earlier answers, or something that depends on it. The
    /// conversation can continue without that reasoning.
    ///
    /// Providers have no error code for this, so the text is matched. Such a refusal comes before any part of an
    /// answer.
    #[must_use]
    pub fn refuses_thinking(&self) -> bool {
        const SIGNS: [&str; 6] = ["cannot be modified", "signature", "invalid", "missing", "empty", "blank"];
        // The Responses API names the item that it cannot read, or whose companion item is missing.
        const ITEMS: [&str; 6] =
            ["encrypted content", "encrypted_content", "'reasoning'", "'rs_", "'fc_", "'msg_"];
        let Self::Rejected { message, status, .. } = self else { return false };
        let message = message.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
        // A server with a strict format names the field that it does not know.
        let has_field = message.contains("reasoning_content") || message.contains("reasoning_details");
        let is_unknown = has(&["unsupported", "not supported", "unknown", "unrecognized", "not permitted"]);
        let is_named = message.contains("thinking") || message.contains("thought") || has_field;
        (is_named && has(&SIGNS)) || (has_field && is_unknown) || (matches!(status, 400 | 404) && has(&ITEMS))
    }

    /// Returns `true` if the provider refused a picture of the conversation. The conversation can continue with a text
    /// in the place of each picture.
    ///
    /// Providers have no error code for this, so the text is matched.
    #[must_use]
    pub(crate) fn refuses_pictures(&self) -> bool {
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

    /// Returns `true` if the provider refused the required form of the answer. The model can then be asked again
    /// without it.
    ///
    /// Providers have no error code for this, so the text is matched.
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
}

impl Explain for ProviderError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotConfigured { hint, .. } => Some(hint.clone()),
            Self::Unauthorised { provider, .. } => {
                Some(format!("flock config set models.providers.{provider}.apiKey -"))
            }
            // A wrong base URL is a likely cause: something else than the API answers there.
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
    fn each_http_status_maps_to_one_error() {
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
    fn refused_thinking_is_recognised_by_the_error_text() {
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
    fn a_refused_picture_is_recognised_by_the_error_text() {
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
    fn every_error_has_a_hint() {
        for status in [400, 401, 429, 500] {
            assert!(ProviderError::from_status("x", status, "m", None).hint().is_some(), "{status}");
        }
        let waiting = ProviderError::from_status("x", 429, "m", Some(Duration::from_millis(1500)));
        assert_eq!(waiting.hint().unwrap(), "ask again in 2 seconds");
    }
}

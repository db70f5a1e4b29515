//! Reads the errors of a homeserver.

use std::time::{Duration, SystemTime};

use ruma::api::error::{Error, ErrorKind, RetryAfter};

use crate::bridge::platform::PlatformError;
use crate::error::chain;

/// The wait where a homeserver asks for one and does not say how long.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
/// The longest wait that is obeyed. A homeserver that asks for more is tried again earlier.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);
/// Largest number of characters of a homeserver's own text that are shown.
const MAX_TEXT: usize = 500;

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: Reason,
    pub(super) error: PlatformError,
}

/// The reasons that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// There is no such thing.
    Missing,
    /// The account may not do it.
    Forbidden,
    /// The homeserver does not know this request.
    Unsupported,
    /// It was done before.
    Duplicate,
    /// More than the limit.
    TooLarge,
    Other,
}

impl Failure {
    pub(super) fn unavailable(error: reqwest::Error) -> Self {
        // The address has the filter and the position in it, which nobody wants to read.
        PlatformError::Unavailable(chain(&error.without_url())).into()
    }

    pub(super) fn unreadable(error: &dyn std::error::Error) -> Self {
        PlatformError::Unavailable(format!("the homeserver's answer can't be read: {error}")).into()
    }

    pub(super) fn too_large(most: usize) -> Self {
        let text = format!("it has more than {most} bytes");
        Self { reason: Reason::TooLarge, error: PlatformError::Refused(text) }
    }

    pub(super) fn refused(error: &Error) -> Self {
        let status = error.status_code.as_u16();
        let text: String = error.to_string().chars().take(MAX_TEXT).collect();
        let (reason, error) = match error.error_kind() {
            Some(ErrorKind::LimitExceeded(limit)) => {
                (Reason::Other, PlatformError::RateLimited(wait(limit.retry_after.as_ref())))
            }
            _ if status == 429 => (Reason::Other, PlatformError::RateLimited(DEFAULT_WAIT)),
            Some(ErrorKind::UserDeactivated) => (Reason::Other, PlatformError::Unauthorized(text)),
            _ if status == 401 => (Reason::Other, PlatformError::Unauthorized(text)),
            _ if status >= 500 || status == 408 => (Reason::Other, PlatformError::Unavailable(text)),
            Some(ErrorKind::NotFound) => (Reason::Missing, PlatformError::Refused(text)),
            Some(ErrorKind::Forbidden) => (Reason::Forbidden, PlatformError::Refused(text)),
            Some(ErrorKind::DuplicateAnnotation) => (Reason::Duplicate, PlatformError::Refused(text)),
            Some(ErrorKind::TooLarge) => (Reason::TooLarge, PlatformError::Refused(text)),
            Some(ErrorKind::Unrecognized) => (Reason::Unsupported, PlatformError::Refused(text)),
            // A proxy before the homeserver that knows no such path says so in words of its own.
            None if matches!(status, 404 | 405) => (Reason::Unsupported, PlatformError::Refused(text)),
            _ => (Reason::Other, PlatformError::Refused(text)),
        };
        Self { reason, error }
    }

    /// Says what the account lacks if that is the reason.
    pub(super) fn if_forbidden(self, lack: &str) -> PlatformError {
        match (self.reason, self.error) {
            (Reason::Forbidden, PlatformError::Refused(text)) => {
                PlatformError::Refused(format!("{lack} ({text})"))
            }
            (_, error) => error,
        }
    }
}

impl From<PlatformError> for Failure {
    fn from(error: PlatformError) -> Self {
        Self { reason: Reason::Other, error }
    }
}

impl From<Failure> for PlatformError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// Returns the result, or `None` for something that does not exist.
pub(super) fn if_found<T>(found: Result<T, Failure>) -> Result<Option<T>, PlatformError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Failure { reason: Reason::Missing, .. }) => Ok(None),
        Err(failure) => Err(failure.error),
    }
}

/// Returns the result, or `None` where the homeserver refuses. What follows events must go on with the next one: the same
/// refusal would meet it again after each new connection.
pub(super) fn unless_refused<T>(result: Result<T, PlatformError>) -> Result<Option<T>, PlatformError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(PlatformError::Refused(why)) => {
            tracing::warn!(why, "a Matrix homeserver refuses a request");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn wait(asked: Option<&RetryAfter>) -> Duration {
    let wait = match asked {
        Some(RetryAfter::Delay(wait)) => *wait,
        Some(RetryAfter::DateTime(time)) => time.duration_since(SystemTime::now()).unwrap_or_default(),
        None => DEFAULT_WAIT,
    };
    wait.min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use ruma::api::EndpointError as _;

    use super::*;

    fn read(status: u16, body: &str) -> Failure {
        let response = axum::http::Response::builder().status(status).body(body.as_bytes()).unwrap();
        Failure::refused(&Error::from_http_response(response))
    }

    #[test]
    fn a_limit_says_how_long_to_wait() {
        let limited = |body| read(429, body).error;
        let asked = r#"{"errcode": "M_LIMIT_EXCEEDED", "error": "slow", "retry_after_ms": 1500}"#;
        assert_eq!(limited(asked), PlatformError::RateLimited(Duration::from_millis(1500)));
        let endless = r#"{"errcode": "M_LIMIT_EXCEEDED", "error": "slow", "retry_after_ms": 999999999999}"#;
        assert_eq!(limited(endless), PlatformError::RateLimited(LONGEST_WAIT));
        assert_eq!(limited("<html>slow</html>"), PlatformError::RateLimited(DEFAULT_WAIT));
    }

    #[test]
    fn errors_are_told_apart() {
        let reason = |status, code| read(status, &format!(r#"{{"errcode": "{code}", "error": "x"}}"#)).reason;
        assert_eq!(reason(404, "M_NOT_FOUND"), Reason::Missing);
        assert_eq!(reason(403, "M_FORBIDDEN"), Reason::Forbidden);
        assert_eq!(reason(404, "M_UNRECOGNIZED"), Reason::Unsupported);
        assert_eq!(reason(400, "M_DUPLICATE_ANNOTATION"), Reason::Duplicate);
        assert_eq!(reason(413, "M_TOO_LARGE"), Reason::TooLarge);
        assert_eq!(reason(400, "ORG.UNKNOWN"), Reason::Other);
        assert_eq!(read(404, "not here").reason, Reason::Unsupported);
    }

    #[test]
    fn a_token_that_ended_is_told_from_a_homeserver_that_is_down() {
        let error = |status, code| read(status, &format!(r#"{{"errcode": "{code}", "error": "x"}}"#)).error;
        assert!(matches!(error(401, "M_UNKNOWN_TOKEN"), PlatformError::Unauthorized(_)));
        assert!(matches!(error(401, "ORG.PROXY"), PlatformError::Unauthorized(_)));
        assert!(matches!(error(403, "M_USER_DEACTIVATED"), PlatformError::Unauthorized(_)));
        assert!(matches!(error(502, "M_UNKNOWN"), PlatformError::Unavailable(_)));
        assert!(matches!(read(503, "<html>").error, PlatformError::Unavailable(_)));
        assert!(matches!(error(403, "M_FORBIDDEN"), PlatformError::Refused(_)));
    }

    #[test]
    fn a_right_that_is_missing_is_named_before_the_homeservers_words() {
        let forbidden = read(403, r#"{"errcode": "M_FORBIDDEN", "error": "no"}"#);
        let PlatformError::Refused(text) = forbidden.if_forbidden("it needs a right") else {
            panic!("it is refused");
        };
        assert_eq!(text, "it needs a right ([403 / M_FORBIDDEN] no)");
    }
}

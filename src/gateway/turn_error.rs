//! The HTTP errors for turns that were not accepted or failed.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::StatusCode;

use super::driver::{TurnFailure, TurnRefused};
use super::error::ApiError;
use crate::agent::TurnError;
use crate::agent::transcript::TranscriptError;
use crate::clock::unix_ms;
use crate::error::{Explain as _, Kind};
use crate::id::{SessionKey, TurnId};
use crate::provider::ProviderError;
use crate::runtime::{PauseReason, RuntimeError};

/// The word for an agent that this gateway does not have. Nothing was begun then.
pub(crate) const ELSEWHERE: &str = "on_another_gateway";
/// The word for a gateway that stops. Nothing was begun then, either.
const STOPPING: &str = "stopping";

/// Returns `true` for the word of a refusal after which another gateway may take the request.
#[must_use]
pub(crate) fn is_for_others(code: &str) -> bool {
    matches!(code, ELSEWHERE | STOPPING)
}

/// Returns the error for a client whose turn was not accepted.
#[must_use]
pub(crate) fn refusal(refused: TurnRefused) -> ApiError {
    let (status, code) = match refused {
        TurnRefused::Full(_) => (StatusCode::TOO_MANY_REQUESTS, "too_many_turns"),
        TurnRefused::Stopping => (StatusCode::SERVICE_UNAVAILABLE, STOPPING),
        TurnRefused::Elsewhere => (StatusCode::SERVICE_UNAVAILABLE, ELSEWHERE),
    };
    let mut error = ApiError::new(status, code, refused.to_string());
    error.retry_after = Some(Duration::from_secs(1));
    error
}

/// Returns the error for a client whose turn failed. `did_something` is `true` if the turn did some work first.
#[must_use]
pub(crate) fn failed(
    failure: TurnFailure,
    did_something: bool,
    session: &SessionKey,
    turn: TurnId,
) -> ApiError {
    let did_something = did_something && !never_ran(&failure);
    let error = self::failure(failure).of_turn(session, turn);
    if did_something { error.after_work() } else { error }
}

/// Returns `true` if the program that should run the turn did no work, although the turn's input was stored.
pub(crate) const fn never_ran(failure: &TurnFailure) -> bool {
    matches!(
        failure,
        TurnFailure::Turn(TurnError::Runtime(
            RuntimeError::NotInstalled { .. }
                | RuntimeError::NoModel { .. }
                | RuntimeError::NotRunning { .. }
                | RuntimeError::NotBegun { .. }
        ))
    )
}

/// Returns the error for a client whose turn failed.
#[must_use]
pub(crate) fn failure(failure: TurnFailure) -> ApiError {
    let error = describe_failure(&failure).finally();
    match failure {
        TurnFailure::Lost | TurnFailure::Form(_) => error,
        TurnFailure::Turn(TurnError::Provider(cause)) => error.with_cause(cause),
        TurnFailure::Turn(cause) => error.with_cause(cause),
    }
}

/// Returns the same error without its cause.
pub(crate) fn describe_failure(failure: &TurnFailure) -> ApiError {
    match failure {
        TurnFailure::Lost => ApiError::internal("the turn's task ended without a result"),
        TurnFailure::Form(_) => {
            // The agent has answered twice, so a retry by the client would repeat its work.
            let status = StatusCode::FAILED_DEPENDENCY;
            ApiError::new(status, "response_format_not_met", failure.to_string()).after_work()
        }
        TurnFailure::Turn(TurnError::Provider(error)) => provider_failure(error),
        TurnFailure::Turn(error) => turn_failure(error),
    }
}

/// Returns the word for the error that ended a turn.
#[must_use]
pub(crate) fn turn_code(error: &TurnError) -> Cow<'static, str> {
    match error {
        TurnError::Provider(error) => provider_failure(error).code,
        error => turn_failure(error).code,
    }
}

fn turn_failure(error: &TurnError) -> ApiError {
    let (status, code) = match error {
        TurnError::UnknownAgent(_) => (StatusCode::NOT_FOUND, "model_not_found"),
        TurnError::WrongAgent { .. } => (StatusCode::BAD_REQUEST, "session_of_another_agent"),
        TurnError::NoInput => (StatusCode::BAD_REQUEST, "no_user_message"),
        TurnError::NotPending(_) => (StatusCode::BAD_REQUEST, "tool_call_not_pending"),
        TurnError::NoCall => {
            // The model was asked already, so a retry by the client would ask it again.
            let status = StatusCode::FAILED_DEPENDENCY;
            return ApiError::new(status, "tool_choice_not_met", error.to_string()).after_work();
        }
        TurnError::TooLong { .. } | TurnError::Overflow { .. } => {
            (StatusCode::BAD_REQUEST, "context_length_exceeded")
        }
        TurnError::WrongRuntime { .. } => (StatusCode::NOT_IMPLEMENTED, "runtime_not_supported"),
        TurnError::Runtime(error) => match error {
            RuntimeError::NotInstalled { .. } => (StatusCode::FAILED_DEPENDENCY, "runtime_not_installed"),
            RuntimeError::NoModel { .. } => (StatusCode::FAILED_DEPENDENCY, "runtime_no_model"),
            RuntimeError::NotRunning { .. } => (StatusCode::SERVICE_UNAVAILABLE, "runtime_not_running"),
            RuntimeError::NotBegun { .. } => (StatusCode::SERVICE_UNAVAILABLE, "runtime_not_begun"),
            RuntimeError::NoAnswer { .. } | RuntimeError::Unanswered { .. } => {
                (StatusCode::BAD_GATEWAY, "provider_failed")
            }
            // A budget that can't be read is a fault of the database and not a pause.
            RuntimeError::Paused { why: PauseReason::UnknownBudget, .. } => {
                return database_unavailable(error);
            }
            RuntimeError::Paused { .. } => (StatusCode::PAYMENT_REQUIRED, "agent_paused"),
            RuntimeError::Refused { .. } => (StatusCode::BAD_GATEWAY, "runtime_refused"),
            RuntimeError::Failed { .. } => (StatusCode::BAD_GATEWAY, "runtime_failed"),
            RuntimeError::Interrupted { .. } => (StatusCode::BAD_GATEWAY, "runtime_interrupted"),
        },
        TurnError::NoModel(_) => (StatusCode::FAILED_DEPENDENCY, "no_model"),
        TurnError::NoSession(_) => (StatusCode::NOT_FOUND, "session_not_found"),
        TurnError::Closed(_) => (StatusCode::CONFLICT, "session_closed"),
        TurnError::Busy(_) => (StatusCode::CONFLICT, "session_busy"),
        TurnError::Steps(_) => (StatusCode::INTERNAL_SERVER_ERROR, "too_many_steps"),
        TurnError::Looping { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "looping"),
        TurnError::Paused(PauseReason::UnknownBudget) => return database_unavailable(error),
        TurnError::Paused(_) => (StatusCode::PAYMENT_REQUIRED, "agent_paused"),
        TurnError::Parked(parked) => {
            let mut answer = ApiError::described(StatusCode::TOO_MANY_REQUESTS, "quota_used_up", error);
            answer.retry_after = Some(parked.wait(unix_ms()));
            return answer;
        }
        TurnError::TimedOut(_) => (StatusCode::GATEWAY_TIMEOUT, "turn_timed_out"),
        TurnError::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "cancelled"),
        TurnError::Store(_) if error.may_pass() => (StatusCode::SERVICE_UNAVAILABLE, error.kind().code()),
        TurnError::Store(_) => (StatusCode::INTERNAL_SERVER_ERROR, error.kind().code()),
        // This is a problem of the machine that its owner can solve. The path stays in the log.
        TurnError::Transcript(TranscriptError { source, .. }) if error.is_out_of_space() => {
            let text = format!("the conversation can't be written: {source}");
            return temporary_error(Kind::Failed.code(), text)
                .with_hint("make room on its disk, then try again");
        }
        TurnError::Transcript(TranscriptError { source, .. }) if error.may_pass() => {
            let text = format!("the conversation can't be read or written: {source}");
            let mut answer = temporary_error(Kind::Unreadable.code(), text);
            answer.hint = error.hint();
            return answer;
        }
        TurnError::Tool { .. } | TurnError::Prompt(_) | TurnError::Hygiene(_) | TurnError::Transcript(_) => {
            return ApiError::internal("the turn failed");
        }
        TurnError::Provider(_) => (StatusCode::BAD_GATEWAY, "provider_failed"),
    };
    ApiError::described(status, code, error)
}

/// Returns the error for a database that can't be read or written at the moment.
fn database_unavailable(error: &impl std::error::Error) -> ApiError {
    temporary_error("database_unavailable", error.to_string()).with_hint("flock status")
}

/// Returns the error for a fault of this machine that may pass.
fn temporary_error(code: &'static str, text: impl Into<String>) -> ApiError {
    let mut answer = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, text);
    answer.retry_after = Some(Duration::from_secs(5));
    answer
}

/// Returns the error for a provider's failure. It is never 401 or 400, because the client's own credential and request
/// were fine.
fn provider_failure(error: &ProviderError) -> ApiError {
    let (status, code) = match error {
        ProviderError::NotConfigured { .. } => (StatusCode::FAILED_DEPENDENCY, "provider_not_configured"),
        ProviderError::Unauthorised { .. } => (StatusCode::BAD_GATEWAY, "provider_unauthorised"),
        ProviderError::Rejected { .. } => (StatusCode::BAD_GATEWAY, "provider_rejected"),
        ProviderError::Limited { .. } => (StatusCode::TOO_MANY_REQUESTS, "provider_limited"),
        ProviderError::Failed { .. } => (StatusCode::BAD_GATEWAY, "provider_failed"),
        ProviderError::TimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, "provider_timed_out"),
        ProviderError::Garbled { .. } => (StatusCode::BAD_GATEWAY, "provider_garbled"),
    };
    let retry_after = match error {
        ProviderError::Limited { retry_after, .. } | ProviderError::Failed { retry_after, .. } => {
            *retry_after
        }
        _ => None,
    };
    let mut answer = ApiError::described(status, code, error);
    answer.retry_after = retry_after;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_can_not_be_read_is_no_pause() {
        let unknown = failure(TurnFailure::Turn(TurnError::Paused(PauseReason::UnknownBudget)));
        assert_eq!((unknown.status, unknown.retry_after.is_some()), (StatusCode::SERVICE_UNAVAILABLE, true));
        let paused = failure(TurnFailure::Turn(TurnError::Paused(PauseReason::Budget("used up".to_owned()))));
        assert_eq!(paused.status, StatusCode::PAYMENT_REQUIRED);
    }

    #[test]
    fn a_failing_disk_gives_503_with_a_hint() {
        let unread = TranscriptError {
            what: "read",
            path: "/x".into(),
            source: std::io::Error::from_raw_os_error(nix::libc::EIO),
        };
        let answer = failure(TurnFailure::Turn(unread.into()));
        assert_eq!((answer.status, answer.retry_after.is_some()), (StatusCode::SERVICE_UNAVAILABLE, true));
        assert!(!answer.message.contains("/x"), "{}", answer.message);
        assert!(answer.hint.is_some_and(|hint| hint.contains("kernel's log")));
    }

    #[test]
    fn a_full_disk_is_named_with_a_hint() {
        let full = TranscriptError {
            what: "append to",
            path: "/x".into(),
            source: std::io::Error::from(std::io::ErrorKind::StorageFull),
        };
        let answer = failure(TurnFailure::Turn(full.into()));
        assert_eq!(answer.code, Kind::Failed.code());
        assert!(answer.message.contains("no storage space"), "{}", answer.message);
        assert_eq!(answer.hint.as_deref(), Some("make room on its disk, then try again"));
    }
}

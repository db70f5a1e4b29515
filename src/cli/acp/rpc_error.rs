//! Failures as errors of JSON-RPC.

use agent_client_protocol::Error;
use serde_json::json;

use crate::cli::Failure;
use crate::error::Kind;

/// JSON-RPC's code of a request that is wrong.
const INVALID_PARAMS: i32 = -32_602;
/// JSON-RPC's code of a request that can't be carried out.
const FAILED: i32 = -32_603;

/// Returns the error for an editor. Many editors show only the message, so it names the mending command, too.
pub(super) fn of(failure: &Failure) -> Error {
    let code = if failure.kind == Kind::Usage { INVALID_PARAMS } else { FAILED };
    let data = json!({"code": failure.kind.code(), "hint": failure.hint});
    Error::new(code, failure.to_line_with_hint()).data(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_what_failed_and_the_command_that_mends_it() {
        let error = of(&crate::cli::team::not_running());
        assert_eq!(error.message, "the gateway is not running; run `flock start`");
        assert_eq!(error.data, Some(json!({"code": "not_running", "hint": "flock start"})));
        assert_eq!(i32::from(error.code), FAILED);
        assert_eq!(i32::from(of(&Failure::new(Kind::Usage, "x")).code), INVALID_PARAMS);
    }
}

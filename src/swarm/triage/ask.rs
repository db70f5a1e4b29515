//! Turns a tool call that needs a person's approval into a request.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Request, Triage};
use crate::provider::BoxFuture;
use crate::swarm::Actor;
use crate::swarm::oversight::AskPerson;
use crate::tool::CallContext;
use crate::tool::arguments::Arguments;

/// Asks a person by a triage request.
pub struct TriageApproval(pub Arc<Triage>);

impl AskPerson for TriageApproval {
    fn ask<'a>(
        &'a self,
        context: &'a CallContext,
        tool: &'a str,
        arguments: &'a Value,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            // Other tools act inside the turn, so approving them later would have no effect.
            if tool != "exec" {
                return Err(format!("not run: {tool} can't be approved; {reason}"));
            }
            let request = command(arguments)?;
            // An approved command is carried out later, even if this turn ends before.
            let never = CancellationToken::new();
            let by = Actor::call(context);
            self.0.request(&by, request, reason, &never).await.map_err(|error| error.to_string())
        })
    }
}

/// Builds the request from the arguments of an `exec`. Arguments that a person would not see, or with which the command
/// would not run on the host, are refused.
fn command(arguments: &Value) -> Result<Request, String> {
    let wrong = |error: crate::tool::ToolError| error.to_string();
    let arguments = Arguments::new(arguments).map_err(wrong)?;
    let background: Option<bool> = arguments.optional("background").map_err(wrong)?;
    let workdir: Option<String> = arguments.optional("workdir").map_err(wrong)?;
    let env: Option<std::collections::BTreeMap<String, String>> = arguments.optional("env").map_err(wrong)?;
    if background == Some(true) || workdir.is_some() || env.is_some_and(|env| !env.is_empty()) {
        return Err(
            "not run: on the host only `command` and `timeout` can be approved; it starts in an empty \
                    folder, so write `cd` and variables into the command itself"
                .to_owned(),
        );
    }
    let timeout: Option<u64> = arguments.optional("timeout").map_err(wrong)?;
    let timeout = timeout.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
    let command = arguments.required_with_alias("command", "cmd").map_err(wrong)?;
    Ok(Request::Command { command, timeout, execution: None })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_command_and_timeout_can_be_approved() {
        assert!(command(&json!({"command": "df -h", "timeout": 5})).is_ok());
        for bad in [
            json!({"command": "df", "background": true}),
            json!({"command": "df", "workdir": "/etc"}),
            json!({"command": "df", "env": {"LD_PRELOAD": "x"}}),
            json!({}),
        ] {
            assert!(command(&bad).is_err(), "{bad}");
        }
    }
}

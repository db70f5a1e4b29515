//! The span and the metrics of a tool call.

use super::call_result::CallResult;
use super::oversight::ToolCallRecord;
use crate::provider::message::{ToolCall, joined_text};
use crate::telemetry::{self, Instrument, OpenSpan, SpanKind, bounded, gen_ai};
use crate::tool::CallContext;
use crate::tool::policy::Decision;

/// Begins the span of a call, if telemetry is on.
pub(super) fn begin(context: &CallContext, asked: &ToolCall<'_>) -> Option<OpenSpan> {
    let mut span = telemetry::begin(SpanKind::Internal, || gen_ai::tool_name(asked.name))?;
    gen_ai::describe_tool(&mut span, &context.agent, asked.name, asked.id);
    span.content(gen_ai::TOOL_ARGUMENTS, || bounded(&asked.arguments.to_string()));
    Some(span)
}

/// Ends the span of a call that was decided, and run if the decision was so. `answer` is its result.
pub(super) fn end(
    span: Option<OpenSpan>,
    context: &CallContext,
    asked: &ToolCall<'_>,
    (decision, answer): (&Decision, Option<&CallResult>),
) {
    let Some(mut span) = span else { return };
    span.set("flock.tool.decision", decision_word(decision));
    match answer {
        Some(CallResult { content, is_error, .. }) => {
            span.content(gen_ai::TOOL_RESULT, || bounded(&joined_text(content)));
            if *is_error {
                let code = if matches!(decision, Decision::Deny(_)) { "denied" } else { "tool_error" };
                span.fail(code, || joined_text(content));
            }
        }
        None => span.fail("unknown_outcome", || "the call has no result".to_owned()),
    }
    observe(&span, context, asked.name);
    span.end();
}

/// Records a call that another program made by itself, and reported.
pub(super) fn reported(context: &CallContext, called: &ToolCallRecord) {
    let Some(mut span) = telemetry::begin(SpanKind::Internal, || gen_ai::tool_name(&called.name)) else {
        return;
    };
    gen_ai::describe_tool(&mut span, &context.agent, &called.name, &called.call_id);
    span.began_before(called.took);
    if let Some(reported) = &called.reported {
        span.set("flock.tool.reported_by", reported.by.clone());
        if !reported.ended {
            span.fail("unknown_outcome", || "the program did not report the call's end".to_owned());
        }
    }
    span.content(gen_ai::TOOL_ARGUMENTS, || bounded(&called.preview));
    if called.is_error {
        span.fail("tool_error", String::new);
    }
    observe(&span, context, &called.name);
    span.end();
}

fn observe(span: &OpenSpan, context: &CallContext, tool: &str) {
    let Some(current) = telemetry::current() else { return };
    let labels = gen_ai::with_error(gen_ai::tool_labels(&context.agent, tool), span.failure());
    current.telemetry().observe(Instrument::ExecuteToolDuration, labels, span.elapsed().as_secs_f64());
}

const fn decision_word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask(_) => "ask",
        Decision::Deny(_) => "deny",
    }
}

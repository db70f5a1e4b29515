//! The names of the GenAI semantic conventions, and what flock's spans have of them. Pure.

use std::borrow::Cow;

use super::metrics::Labels;
use super::open_span::OpenSpan;
use super::span::{Value, foreign_name};
use crate::id::{AgentId, ModelRef, SessionKey, TurnId};

pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_CREATION_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const ERROR: &str = "error.type";

/// A turn of an agent.
pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
/// A call of a model.
pub(crate) const CHAT: &str = "chat";
/// A call of a tool.
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";

/// Returns the conventions' word for a provider. One that has none there keeps its name in the configuration.
#[must_use]
pub(crate) fn provider_name(provider: &str) -> Cow<'static, str> {
    Cow::Borrowed(match provider {
        "openai" | "openai-codex" => "openai",
        "anthropic" => "anthropic",
        "google" | "google-gemini-cli" | "google-generative-ai" => "gcp.gemini",
        "google-vertex" => "gcp.vertex_ai",
        "amazon-bedrock" | "bedrock" => "aws.bedrock",
        "azure-openai" | "azure" => "azure.ai.openai",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        "xai" => "x_ai",
        other => return Cow::Owned(foreign_name(other)),
    })
}

/// The name of a turn's span.
#[must_use]
pub(crate) fn turn_name(agent: &AgentId) -> String {
    format!("{INVOKE_AGENT} {agent}")
}

/// The name of a model call's span.
#[must_use]
pub(crate) fn chat_name(model: &ModelRef) -> String {
    format!("{CHAT} {}", foreign_name(model.model()))
}

/// The name of a tool call's span.
#[must_use]
pub(crate) fn tool_name(tool: &str) -> String {
    format!("{EXECUTE_TOOL} {}", foreign_name(tool))
}

/// Describes a turn.
pub(crate) fn describe_turn(span: &mut OpenSpan, session: &SessionKey, turn: TurnId, origin: &'static str) {
    span.set(OPERATION, INVOKE_AGENT);
    span.set(AGENT_NAME, session.agent().to_string());
    span.set(CONVERSATION, session.to_string());
    span.set("flock.turn.id", turn.to_string());
    span.set("flock.turn.origin", origin);
}

/// Describes the model that is asked.
pub(crate) fn describe_model(span: &mut OpenSpan, model: &ModelRef) {
    span.set(PROVIDER, Value::Text(provider_name(model.provider())));
    span.set(REQUEST_MODEL, foreign_model(model));
}

/// Describes a model call of a session.
pub(crate) fn describe_chat(span: &mut OpenSpan, session: &SessionKey, model: &ModelRef) {
    span.set(OPERATION, CHAT);
    describe_model(span, model);
    span.set(AGENT_NAME, session.agent().to_string());
    span.set(CONVERSATION, session.to_string());
}

/// Describes a tool call.
pub(crate) fn describe_tool(span: &mut OpenSpan, agent: &AgentId, tool: &str, call: &str) {
    span.set(OPERATION, EXECUTE_TOOL);
    span.set(TOOL_NAME, foreign_name(tool));
    span.set(TOOL_TYPE, "function");
    span.set(TOOL_CALL, foreign_name(call));
    span.set(AGENT_NAME, agent.to_string());
}

/// Adds token counts. `input` holds all tokens of the request, also those of a cache.
pub(crate) fn set_usage(span: &mut OpenSpan, input: u64, output: u64, (cache_read, cache_write): (u64, u64)) {
    span.set(INPUT_TOKENS, input);
    span.set(OUTPUT_TOKENS, output);
    span.set(CACHE_READ_TOKENS, cache_read);
    span.set(CACHE_CREATION_TOKENS, cache_write);
}

/// Returns the labels of a model's metrics.
#[must_use]
pub(crate) fn model_labels(operation: &'static str, model: &ModelRef) -> Labels {
    vec![
        (OPERATION, Cow::Borrowed(operation)),
        (PROVIDER, provider_name(model.provider())),
        (REQUEST_MODEL, Cow::Owned(foreign_model(model))),
    ]
}

/// Returns the labels of a tool's metrics.
#[must_use]
pub(crate) fn tool_labels(agent: &AgentId, tool: &str) -> Labels {
    vec![
        (TOOL_NAME, Cow::Owned(foreign_name(tool))),
        (TOOL_TYPE, Cow::Borrowed("function")),
        (AGENT_NAME, Cow::Owned(agent.to_string())),
    ]
}

/// Adds the error that the work ended with to the labels of its metrics.
#[must_use]
pub(crate) fn with_error(mut labels: Labels, error: Option<Cow<'static, str>>) -> Labels {
    labels.extend(error.map(|error| (ERROR, error)));
    labels
}

fn foreign_model(model: &ModelRef) -> String {
    // A model's name comes from the configuration and may be longer than a tool's.
    crate::clean::label(model.model(), 128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_have_the_conventions_names() {
        for (provider, name) in [
            ("anthropic", "anthropic"),
            ("google", "gcp.gemini"),
            ("amazon-bedrock", "aws.bedrock"),
            ("mistral", "mistral_ai"),
            ("lab", "lab"),
        ] {
            assert_eq!(provider_name(provider), name);
        }
    }
}

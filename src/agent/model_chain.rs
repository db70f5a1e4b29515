//! The models of a turn: the one that is asked, and the fallbacks behind it.

use std::sync::Arc;

use super::client_tools::ClientTools;
use super::context::ConversationContext;
use super::engine::Engine;
use super::estimate::{self, ImageEstimate};
use super::failover::ModelQueue;
use super::prompt::{ToolCallStyle, locale};
use super::text_calls::TextCalling;
use super::transcript::hygiene::Target;
use super::turn::TurnError;
use crate::config::{Agent, Api, Config};
use crate::home::Home;
use crate::id::ModelRef;
use crate::provider::catalog::{self, known_models};
use crate::provider::{Effort, Request, ResolvedModel, ToolChoice, ToolSpec, effort};
use crate::store::StoredPrompt;
use crate::tool::policy;

/// The models that a turn can ask.
pub(super) struct ModelChain {
    /// The model that is asked now.
    pub(super) resolved: ResolvedModel,
    /// The inputs of its prompt.
    pub(super) prompt_spec: PromptSpec,
    /// The fallbacks, in order.
    pub(super) others: ModelQueue,
    /// Set once the provider rejected a picture in this turn. It gets none any more.
    pub(super) refused_pictures: bool,
    /// A notice for the client why an earlier model was skipped.
    pub(super) passed: Option<String>,
    pub(super) config: Arc<Config>,
    pub(super) agent: Agent,
    /// The tools that the client brings.
    pub(super) client: ClientTools,
    /// Start of the session or of its last compaction, in Unix milliseconds. The prompt names it.
    pub(super) began: i64,
}

/// The inputs of a prompt besides the agent and its files, kept so that a turn can rebuild it.
pub(super) struct PromptSpec {
    pub(super) label: String,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) calls: ToolCallStyle,
    /// Number of the tools, at the end of the list, that are the client's.
    pub(super) of_client: usize,
}

impl ModelChain {
    /// Returns `true` if a fallback with a smaller context window is asked. The conversation is then shortened only for
    /// its requests, and the agent's own model sees all of it again.
    pub(super) fn is_smaller_fallback(&self) -> bool {
        // Compared with the agent's own model, not with the last one that was asked.
        self.resolved.context_window < self.widest()
    }

    /// Returns the tokens of the conversation to read: the agent's own model's window, if that is larger than this
    /// model's.
    pub(super) fn reach(&self, room: u64) -> u64 {
        if self.is_smaller_fallback() { self.widest() } else { room }
    }

    /// Returns the tools that the system prompt names. The client's are not among them if the API has tool calls: their
    /// texts are untrusted, and the prompt stays the same whatever a client brings.
    pub(super) fn prompted_tools(&self) -> &[ToolSpec] {
        let PromptSpec { tools, calls, of_client, .. } = &self.prompt_spec;
        if *calls == ToolCallStyle::Native { &tools[..tools.len() - of_client] } else { tools }
    }

    /// Returns the context window of the agent's own model.
    fn widest(&self) -> u64 {
        self.agent.model.as_ref().map_or(0, |own| catalog::window(own, &self.config))
    }

    /// Switches to the next model that can be asked. Returns `false` if none is left. The conversation may still be too
    /// long for it.
    pub(super) fn step(
        &mut self,
        engine: &Engine,
        model_request: &mut Request,
        context: &mut ConversationContext,
    ) -> bool {
        // The current configuration is used: a model that a person removed since the turn began is sent nothing.
        let config = engine.parts.config.current();
        let Some(agent) = config.agent(&self.agent.id) else { return false };
        while let Some(model) = self.others.pop() {
            if !agent.models().any(|known| *known == model) {
                continue;
            }
            let key = model_request.cache_key.clone();
            // A model that can't be resolved, for instance without a key, is skipped like one that failed.
            let next = ready(engine, &config, agent, &model, self.began, key)
                .and_then(|next| next.with_client_tools(engine, agent, &self.client, self.began));
            let Ok(next) = next else { continue };
            if !self.others.admit(next.resolved.context_window) {
                continue;
            }
            context.switch_model(next.room, ImageEstimate::of(&next.resolved));
            *model_request = Request { format: model_request.format.take(), ..next.model_request };
            self.resolved = next.resolved;
            self.refused_pictures = false;
            self.prompt_spec = next.prompt_spec;
            self.agent = agent.clone();
            self.config = config;
            return true;
        }
        false
    }
}

/// A model that can be asked, with its request.
pub(super) struct PreparedModel {
    pub(super) resolved: ResolvedModel,
    pub(super) prompt: StoredPrompt,
    /// The inputs of the prompt.
    pub(super) prompt_spec: PromptSpec,
    /// The request without its messages.
    pub(super) model_request: Request,
    /// Tokens available for the conversation after prompt, tools and answer.
    pub(super) room: u64,
}

impl PreparedModel {
    /// Adds the tools that a client brings.
    ///
    /// # Errors
    ///
    /// Returns an error if the prompt can't be built.
    pub(super) fn with_client_tools(
        mut self,
        engine: &Engine,
        agent: &Agent,
        client: &ClientTools,
        began: i64,
    ) -> Result<Self, TurnError> {
        if client.tools.is_empty() {
            return Ok(self);
        }
        // The gateway has refused such names. flock's own tools may have changed since.
        let own = &self.prompt_spec.tools;
        let is_free = |spec: &&ToolSpec| !own.iter().any(|own| own.name.eq_ignore_ascii_case(&spec.name));
        let offered: Vec<ToolSpec> = client.specs().filter(is_free).cloned().collect();
        self.prompt_spec.of_client = offered.len();
        self.prompt_spec.tools.extend(offered.iter().cloned());
        if self.prompt_spec.calls == ToolCallStyle::Native {
            self.model_request.tools.extend(offered);
            self.model_request.choice = client.choice.clone();
            // These APIs refuse a request that both demands a call and lets the model think.
            let api = self.resolved.route.api;
            if !client.choice.is_auto() && matches!(api, Api::AnthropicMessages | Api::BedrockConverseStream)
            {
                self.model_request.effort = Some(Effort::Off);
            }
        } else {
            // Without tool calls in the API, the prompt is the only place for them.
            let PromptSpec { label, tools, calls, .. } = &self.prompt_spec;
            self.prompt = engine.prompt(agent, label, tools, *calls, began)?;
            self.model_request.system = self.prompt.text.to_string();
        }
        self.room = room(&self.resolved, &self.model_request);
        Ok(self)
    }
}

/// Prepares a model for a session that began at `began` (Unix milliseconds).
pub(super) fn ready(
    engine: &Engine,
    config: &Config,
    agent: &Agent,
    model: &ModelRef,
    began: i64,
    cache_key: Option<String>,
) -> Result<PreparedModel, TurnError> {
    let mut resolved = engine.parts.catalog.resolve(model, config)?;
    let specs = engine.parts.registry.offered(agent);
    let prompt_spec = prompt_spec(engine.home(), config, agent, &resolved, &specs);
    let prompt = engine.prompt(agent, &prompt_spec.label, &prompt_spec.tools, prompt_spec.calls, began)?;
    let model_request = model_request(&mut resolved, agent, &prompt_spec, prompt.text.to_string(), cache_key);
    let room = room(&resolved, &model_request);
    Ok(PreparedModel { resolved, prompt, prompt_spec, model_request, room })
}

/// Returns the inputs of this model's prompt.
pub(super) fn prompt_spec<'a>(
    home: &Home,
    config: &Config,
    agent: &Agent,
    resolved: &ResolvedModel,
    specs: impl IntoIterator<Item = &'a ToolSpec>,
) -> PromptSpec {
    let mut tools = policy::offered(agent, specs);
    // Tool descriptions are translated here, where the agent's language is known.
    locale::describe(home, agent.language.as_deref(), &mut tools);
    let is_native = known_models::supports_tools(config, &resolved.route.model);
    let calls = if is_native { ToolCallStyle::Native } else { ToolCallStyle::Text };
    PromptSpec { label: resolved.label.clone(), tools, calls, of_client: 0 }
}

/// Returns the request without its messages. For a model whose API has no tool calls, its provider is wrapped in
/// [`TextCalling`].
pub(super) fn model_request(
    resolved: &mut ResolvedModel,
    agent: &Agent,
    prompt_spec: &PromptSpec,
    system: String,
    cache_key: Option<String>,
) -> Request {
    let tools = if prompt_spec.calls == ToolCallStyle::Text {
        let id = resolved.route.model.provider().to_owned();
        resolved.provider = Arc::new(TextCalling { provider: Arc::clone(&resolved.provider), id });
        // The prompt lists the tools instead.
        Vec::new()
    } else {
        prompt_spec.tools.clone()
    };
    Request {
        model: resolved.route.model().to_owned(),
        system,
        messages: Vec::new(),
        tools,
        choice: ToolChoice::Auto,
        max_tokens: answer_limit(resolved),
        effort: effort::effective(resolved.reasons, agent.effort),
        cache_key,
        format: None,
        prefix: None,
    }
}

/// Returns the most tokens of an answer, which is never more than a quarter of the context window.
fn answer_limit(resolved: &ResolvedModel) -> u32 {
    // The rest is for the conversation: some models could otherwise fill their whole context with one answer.
    let quarter = u32::try_from(resolved.context_window / 4).unwrap_or(u32::MAX);
    resolved.max_tokens.min(quarter).max(1)
}

/// Returns the tokens that remain of the model's context. Token estimates are rough, so a twentieth stays free.
pub(super) fn room(resolved: &ResolvedModel, request: &Request) -> u64 {
    let taken = estimate::fixed_cost(request) + u64::from(request.max_tokens);
    (resolved.context_window - resolved.context_window / 20).saturating_sub(taken)
}

/// Returns the notice that another model answers.
pub(super) fn fallback_notice(answers: &str, primary: &ModelRef, why: &str) -> String {
    format!("{answers} answers in the place of {primary}: {why}")
}

/// Returns the hygiene target for a conversation sent with this request. `side` is the longest side of a picture in
/// pixels.
pub(super) fn target(
    resolved: &ResolvedModel,
    model_request: &Request,
    prompt_spec: &PromptSpec,
    side: u32,
) -> Target {
    Target {
        reasoning: resolved.reasoning,
        thinking: asks_to_think(model_request),
        images: resolved.images,
        longest_side: side,
        tools: Some(prompt_spec.tools.iter().map(|tool| tool.name.clone()).collect()),
        ..Target::new(resolved.route.clone())
    }
}

/// Returns `true` if the request asks the model to think.
pub(super) fn asks_to_think(request: &Request) -> bool {
    request.effort.is_some_and(|effort| effort != Effort::Off)
}

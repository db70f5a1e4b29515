//! The models that a turn can ask: the one it asks, and those that wait behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::context::Context;
use super::engine::Engine;
use super::estimate::{self, Images};
use super::failover::Trouble;
use super::prompt::{Calls, locale};
use super::text_calls::TextCalling;
use super::turn::TurnError;
use crate::config::{Agent, Config};
use crate::home::Home;
use crate::id::ModelRef;
use crate::provider::catalog::{self, listing};
use crate::provider::{Request, Resolved, ToolSpec, effort};
use crate::sandbox::policy;
use crate::store::StoredPrompt;

/// The models of a turn.
pub(super) struct Line {
    /// The one that is asked.
    pub(super) resolved: Resolved,
    /// What its prompt tells.
    pub(super) told: Told,
    /// Those behind it.
    pub(super) others: VecDeque<ModelRef>,
    /// Whether its provider refused a picture in this turn, and is shown none any more.
    pub(super) refused_pictures: bool,
    /// Why one before it is not asked, for the client.
    pub(super) passed: Option<String>,
    config: Arc<Config>,
    agent: Agent,
    /// When the session began, or was last compacted (Unix milliseconds), which its prompt says.
    pub(super) began: i64,
}

/// What a prompt is made from besides the agent and its files, so that a turn can make it anew.
pub(super) struct Told {
    pub(super) label: String,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) calls: Calls,
}

impl Line {
    /// A line of one model.
    pub(super) fn new(resolved: Resolved, told: Told, config: Arc<Config>, agent: Agent, began: i64) -> Self {
        Self {
            resolved,
            told,
            others: VecDeque::new(),
            refused_pictures: false,
            passed: None,
            config,
            agent,
            began,
        }
    }

    /// Whether the model is asked in the place of the agent's own one and takes less than that: what has to go for it
    /// goes for its requests alone, and the agent's own model is shown it again.
    pub(super) fn stands_in(&self) -> bool {
        self.resolved.context_window < self.widest()
    }

    /// How much of the conversation is read: as much as the agent's own model takes, where that is more.
    pub(super) fn reach(&self, room: u64) -> u64 {
        if self.stands_in() { self.widest() } else { room }
    }

    /// What the agent's own model takes.
    fn widest(&self) -> u64 {
        self.agent.model.as_ref().map_or(0, |own| catalog::window(own, &self.config))
    }

    /// Steps on to the next model that can be asked; `false` where none is left. There may be too little room yet for the
    /// conversation.
    pub(super) fn step(
        &mut self,
        engine: &Engine,
        asked: &mut Request,
        context: &mut Context,
        trouble: Trouble,
    ) -> bool {
        // As it is now: a person may have taken a model away since the turn began, and it is sent nothing then.
        let config = engine.parts.config.current();
        let Some(agent) = config.agent(&self.agent.id) else { return false };
        while let Some(model) = self.others.pop_front() {
            if !agent.models().any(|known| *known == model) {
                continue;
            }
            let key = asked.cache_key.clone();
            let Ok(next) = ready(engine, &config, agent, &model, self.began, key) else {
                continue;
            };
            let is_longer = next.resolved.context_window > self.resolved.context_window;
            if trouble == Trouble::TooLong && !is_longer {
                continue;
            }
            context.go_to(next.room, Images::of(&next.resolved));
            *asked = Request { format: asked.format.take(), ..next.asked };
            self.resolved = next.resolved;
            self.refused_pictures = false;
            self.told = next.told;
            self.agent = agent.clone();
            self.config = config;
            return true;
        }
        false
    }
}

/// A model that can be asked.
pub(super) struct Ready {
    pub(super) resolved: Resolved,
    pub(super) prompt: StoredPrompt,
    /// What the prompt tells.
    pub(super) told: Told,
    /// What it is asked, but for the messages.
    pub(super) asked: Request,
    /// Tokens for the conversation, besides prompt, tools and answer.
    pub(super) room: u64,
}

/// Makes a model ready for a session that began at `began` (Unix milliseconds).
pub(super) fn ready(
    engine: &Engine,
    config: &Config,
    agent: &Agent,
    model: &ModelRef,
    began: i64,
    cache_key: Option<String>,
) -> Result<Ready, TurnError> {
    let mut resolved = engine.parts.catalog.resolve(model, config)?;
    let specs = engine.parts.registry.iter().map(|tool| tool.spec());
    let told = told(engine.home(), config, agent, &resolved, specs);
    let prompt = engine.prompt(agent, &told.label, &told.tools, told.calls, began)?;
    let asked = asked(&mut resolved, agent, &told, prompt.text.to_string(), cache_key);
    let room = room(&resolved, &asked);
    Ok(Ready { resolved, prompt, told, asked, room })
}

/// What the prompt of this model tells.
pub(super) fn told<'a>(
    home: &Home,
    config: &Config,
    agent: &Agent,
    resolved: &Resolved,
    specs: impl IntoIterator<Item = &'a ToolSpec>,
) -> Told {
    let mut tools = policy::offered(agent, specs);
    locale::describe(home, agent.language.as_deref(), &mut tools);
    let is_native = listing::calls_tools(config, &resolved.route.model);
    let calls = if is_native { Calls::Native } else { Calls::Text };
    Told { label: resolved.label.clone(), tools, calls }
}

/// What the model is asked, but for the messages. One that calls no tools by its API is asked in text from now on.
pub(super) fn asked(
    resolved: &mut Resolved,
    agent: &Agent,
    told: &Told,
    system: String,
    cache_key: Option<String>,
) -> Request {
    let tools = if told.calls == Calls::Text {
        let id = resolved.route.model.provider().to_owned();
        resolved.provider = Arc::new(TextCalling { provider: Arc::clone(&resolved.provider), id });
        // The prompt has them.
        Vec::new()
    } else {
        told.tools.clone()
    };
    Request {
        model: resolved.route.model().to_owned(),
        system,
        messages: Vec::new(),
        tools,
        max_tokens: answer_limit(resolved),
        effort: effort::told(resolved.reasons, agent.effort),
        cache_key,
        format: None,
        prefix: None,
    }
}

/// The most tokens of an answer: never more than a quarter of all that the model takes.
fn answer_limit(resolved: &Resolved) -> u32 {
    let quarter = u32::try_from(resolved.context_window / 4).unwrap_or(u32::MAX);
    resolved.max_tokens.min(quarter).max(1)
}

/// What is left of the model's context. Estimates of tokens are rough, so a twentieth stays free.
pub(super) fn room(resolved: &Resolved, request: &Request) -> u64 {
    let taken = estimate::fixed_cost(request) + u64::from(request.max_tokens);
    (resolved.context_window - resolved.context_window / 20).saturating_sub(taken)
}

/// What the client is told of a model that answers in another's place.
pub(super) fn instead(answers: &str, asked: &ModelRef, why: &str) -> String {
    format!("{answers} answers in the place of {asked}: {why}")
}

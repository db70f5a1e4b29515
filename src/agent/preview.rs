//! Previews the request that a model would be sent for a session, without sending it. It uses the same parts as a turn,
//! writes nothing and calls nobody.
//!
//! The preview shows the conversation as it is in the transcript. It has neither the input of a later turn nor a
//! summary by a model, which a real turn would add if the configuration asks for one.

use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use serde_json::Value;

use super::cache_key;
use super::compaction::findings;
use super::context::{CompactionInput, ConversationContext};
use super::delegated;
use super::estimate::{self, ImageEstimate};
use super::history_load;
use super::model_chain::{PromptSpec, model_request, prompt_spec, room, target};
use super::prompt::{Knowledge, PromptContext, SectionText, SystemPromptBuilder, ToolCallStyle};
use super::recent_exchanges;
use super::replay::PromptSection;
use super::session::{CompactionReport, ContextReport};
use super::transcript::hygiene::{AppliedRule, sanitise};
use super::transcript::{self, RecentConversation, TranscriptError};
use super::turn::TurnError;
use crate::clock;
use crate::config::{Agent, Config};
use crate::home::Home;
use crate::id::{ModelRef, SessionKey, SessionKind, TurnId};
use crate::provider::{Catalog, Request, ResolvedModel, Route, ToolSpec};
use crate::runtime::program::{self, Program};
use crate::runtime::{NATIVE, RuntimeError, RuntimeRequest, openclaw};
use crate::store::{ProgramConversation, Session};
use crate::tool::policy;

/// The parts of a request besides the session.
#[derive(Clone, Debug)]
pub struct RequestPreviewer<'a> {
    /// The home, for the agent's files and transcripts. No secret in it is read.
    pub home: &'a Home,
    pub config: &'a Config,
    /// All tools. The agent's policy decides which of them are offered.
    pub tools: &'a [ToolSpec],
    /// Time zone in which times are shown.
    pub zone: TimeZone,
}

/// A request that was built but not sent.
#[derive(Clone, Debug)]
pub struct PreviewedRequest {
    /// The API and model it would go to.
    pub route: Route,
    /// The request body, byte for byte.
    pub body: Vec<u8>,
    /// Number of messages in the request.
    pub messages: usize,
    /// Estimated tokens of prompt, tools and conversation.
    pub tokens: u64,
    /// The hygiene rules that changed the conversation for this route, in order.
    pub applied: Vec<AppliedRule>,
    /// The compaction that would precede the request.
    pub compaction: Option<CompactionReport>,
    /// `true` if a model would be asked for a summary in that compaction.
    pub wants_summary: bool,
}

/// The request for a recorded answer.
pub(super) struct ReplayedRequest {
    /// The request with its messages.
    pub(super) request: Request,
    /// The sections of its prompt.
    pub(super) sections: Vec<SectionText>,
    /// The hygiene rules that changed the conversation.
    pub(super) applied: Vec<AppliedRule>,
    /// The compaction that would precede the request.
    pub(super) compaction: Option<CompactionReport>,
    /// The encoded body.
    pub(super) body: Vec<u8>,
}

impl RequestPreviewer<'_> {
    /// Returns the request that the model would be sent for the session now, or for a new session if there is none.
    ///
    /// # Errors
    ///
    /// - [`TurnError::WrongAgent`] if the session belongs to another agent.
    /// - [`TurnError::WrongRuntime`] if the agent does not run on flock's own loop.
    /// - [`TurnError::Provider`] if the model's provider is not known. A missing API key is no error.
    /// - An error of the parts that are read: the transcript, the prompt's files, the conversation.
    pub fn of(
        &self,
        agent: &Agent,
        model: &ModelRef,
        session: Option<&Session>,
    ) -> Result<PreviewedRequest, TurnError> {
        check_native(agent)?;
        check_owner(agent, session)?;
        // Resolved without a key: nothing is sent, so a missing key must not prevent the preview.
        let mut resolved = Catalog::new(self.home.clone()).resolve_without_key(model, self.config)?;
        let prompt_spec = prompt_spec(self.home, self.config, agent, &resolved, self.tools);
        let began = session.map_or_else(clock::unix_ms, |session| session.began_at);
        let key = session.and_then(|session| cache_key::of(self.home, &session.key));
        let prompt = self.prompt(agent, &prompt_spec, began)?;
        let mut model_request = model_request(&mut resolved, agent, &prompt_spec, prompt, key);
        let (mut context, _) = self.context(&resolved, &model_request, session)?;
        let compaction = match session {
            Some(session) => self.compact(agent, &prompt_spec, session, &mut context, &mut model_request)?,
            None => None,
        };
        context.fit();
        let tokens = estimate::fixed_cost(&model_request) + context.cost();
        let target = target(&resolved, &model_request, &prompt_spec, self.config.image_side);
        let ready = sanitise(&context.entries(), &target)?;
        model_request.messages = ready.messages;
        Ok(PreviewedRequest {
            // The provider itself encodes the body, so the preview shows the same bytes as a turn would send.
            body: resolved.provider.body(&model_request)?,
            route: resolved.route,
            messages: model_request.messages.len(),
            tokens,
            applied: ready.applied,
            wants_summary: compaction.is_some() && self.config.compaction.summary,
            compaction,
        })
    }

    /// Returns the request that the model would be sent for the conversation before a place of a transcript, which must be
    /// the end of a line. `began` is the time at which that conversation began.
    ///
    /// Nothing outside the transcript decides about the conversation: a compaction names no findings, since only those of
    /// today are known.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::Provider`] if the model's provider is not known, and an error of the parts that are read.
    pub(super) fn before(
        &self,
        agent: &Agent,
        model: &ModelRef,
        (file, place): (&File, u64),
        began: i64,
    ) -> Result<ReplayedRequest, TurnError> {
        let mut resolved = Catalog::new(self.home.clone()).resolve_without_key(model, self.config)?;
        let prompt_spec = prompt_spec(self.home, self.config, agent, &resolved, self.tools);
        let PromptSpec { label, tools, calls, .. } = &prompt_spec;
        let (knowledge, calls, zone) = (&Knowledge::read(self.home, agent), *calls, &self.zone);
        let prompt = PromptContext { agent, model: label, tools, calls, knowledge, began, zone };
        let sections = SystemPromptBuilder::for_team().parts(&prompt)?;
        let text = sections.iter().map(|section| section.text.as_str()).collect::<Vec<_>>().join("\n\n");
        let mut request = model_request(&mut resolved, agent, &prompt_spec, text, None);
        let (room, images) = (room(&resolved, &request), ImageEstimate::of(&resolved));
        let found = history_load::look_before(file, place, room, images);
        let found = found.map_err(TranscriptError::reading(Path::new("the transcript")))?;
        let mut context = ConversationContext::new(room, images, &self.zone, found);
        let mut compaction = None;
        if context.is_near_full() {
            let (findings, most_staged) = (findings::Findings::default(), self.config.compaction.most_staged);
            let wanted = CompactionInput { findings: &findings, most_staged, turn: None, at: began };
            if let Some(draft) = context.draft(&wanted, false) {
                compaction = Some(CompactionReport::from(&draft.record));
                context.apply(draft);
            }
        }
        context.fit();
        let target = target(&resolved, &request, &prompt_spec, self.config.image_side);
        let ready = sanitise(&context.entries(), &target)?;
        request.messages = ready.messages;
        let body = resolved.provider.body(&request)?;
        Ok(ReplayedRequest { request, sections, applied: ready.applied, compaction, body })
    }

    /// Reports the size of the session's next request, as [`Engine::report`](super::Engine::report) does for a gateway.
    ///
    /// # Errors
    ///
    /// - [`TurnError::WrongRuntime`] if the agent does not run on flock's own loop.
    /// - [`TurnError::NoModel`] if the agent has no model, and [`TurnError::Provider`] if its provider is not known. A
    ///   missing API key is no error.
    /// - An error of the parts that are read: the transcript, the prompt's files.
    pub fn report(&self, agent: &Agent, session: &Session) -> Result<ContextReport, TurnError> {
        check_native(agent)?;
        let model = agent.model.as_ref().ok_or_else(|| TurnError::NoModel(agent.id.clone()))?;
        let mut resolved = Catalog::new(self.home.clone()).resolve_without_key(model, self.config)?;
        let prompt_spec = prompt_spec(self.home, self.config, agent, &resolved, self.tools);
        let prompt = self.prompt(agent, &prompt_spec, session.began_at)?;
        let model_request = model_request(&mut resolved, agent, &prompt_spec, prompt, None);
        let (context, transcript_bytes) = self.context(&resolved, &model_request, Some(session))?;
        Ok(ContextReport::new(session, &resolved, &model_request, &context, transcript_bytes))
    }

    /// Returns the start of the program that runs this agent's turns, for the session now or for a new session if there
    /// is none. `known` is the program's conversation of the session.
    ///
    /// # Errors
    ///
    /// - [`TurnError::WrongAgent`] if the session belongs to another agent.
    /// - [`TurnError::Runtime`] if the program could not be started.
    /// - [`TurnError::Transcript`] if the transcript can't be read, and [`TurnError::Prompt`] if the prompt can't be
    ///   built.
    pub fn of_program(
        &self,
        program: &dyn Program,
        agent: &Agent,
        model: &ModelRef,
        session: Option<&Session>,
        known: Option<&ProgramConversation>,
    ) -> Result<Value, TurnError> {
        let mut order = self.order(agent, model, session)?;
        if let Some(session) = session {
            // A program's conversation from before the last reset is not resumed.
            let turn = known.filter(|known| known.begun.conversation == order.conversation);
            let turn = turn.map(|known| known.turn);
            let path = self.transcript_path(session);
            if let Some(file) = transcript::look(&path)? {
                let before = recent_exchanges::before(&file, &agent.id, turn);
                let before = before.map_err(TranscriptError::reading(&path))?;
                (order.recent, order.missed) = (before.recent, before.missed);
            }
        }
        let (home, config) = (self.home, self.config);
        let previewed = program::preview::PreviewedTurn { home, config, agent, order: &order, known };
        Ok(program::preview::of(program, &previewed)
            .map_err(|message| RuntimeError::unsupported(program.title(), message))?)
    }

    /// Returns the request that OpenClaw would get for the session now, without the new input, or for a new session if
    /// there is none.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::WrongAgent`] if the session belongs to another agent, and [`TurnError::Prompt`] if the
    /// prompt can't be built.
    pub fn openclaw_request(
        &self,
        agent: &Agent,
        model: &ModelRef,
        session: Option<&Session>,
    ) -> Result<Value, TurnError> {
        Ok(openclaw::preview(&self.order(agent, model, session)?))
    }

    /// Returns the order that a runtime would get for the session now, or for a new session if there is none, without
    /// new messages.
    fn order(
        &self,
        agent: &Agent,
        model: &ModelRef,
        session: Option<&Session>,
    ) -> Result<RuntimeRequest, TurnError> {
        check_owner(agent, session)?;
        // A session that does not exist yet needs a key to build its files. Nothing is stored under this one.
        let none = SessionKey::new(&agent.id, SessionKind::Main, "new");
        let began = session.map_or_else(clock::unix_ms, |session| session.began_at);
        Ok(RuntimeRequest {
            agent: agent.id.clone(),
            session: session.map_or(none, |session| session.key.clone()),
            turn: TurnId::new(),
            model: model.clone(),
            effort: agent.effort,
            conversation: session.map(delegated::conversation).unwrap_or_default(),
            system: self.brief(agent, model, began)?,
            messages: Vec::new(),
            recent: String::new(),
            missed: None,
        })
    }

    fn transcript_path(&self, session: &Session) -> PathBuf {
        self.home.sessions(session.key.agent()).join(format!("{}.jsonl", session.file))
    }

    /// Returns the prompt that a program gets about the agent.
    fn brief(&self, agent: &Agent, model: &ModelRef, began: i64) -> Result<String, TurnError> {
        let mut tools = policy::offered(agent, self.tools);
        // The program has its own tools, so it is offered only flock's.
        tools.retain(|tool| policy::is_flocks_own(&tool.name));
        let spec = PromptSpec { label: model.to_string(), tools, calls: ToolCallStyle::Native, of_client: 0 };
        self.build(&SystemPromptBuilder::for_runtime(), agent, &spec, began)
    }

    /// Returns the sections of the prompt that a session of the agent's own model would be given, if it began at `began`.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::NoModel`] if the agent has no model, and an error if its provider is not known or a section
    /// can't be written.
    pub(crate) fn sections(&self, agent: &Agent, began: i64) -> Result<Vec<PromptSection>, TurnError> {
        let model = agent.model.as_ref().ok_or_else(|| TurnError::NoModel(agent.id.clone()))?;
        let resolved = Catalog::new(self.home.clone()).resolve_without_key(model, self.config)?;
        let prompt_spec = prompt_spec(self.home, self.config, agent, &resolved, self.tools);
        let PromptSpec { label, tools, calls, .. } = &prompt_spec;
        let (knowledge, calls, zone) = (&Knowledge::read(self.home, agent), *calls, &self.zone);
        let context = PromptContext { agent, model: label, tools, calls, knowledge, began, zone };
        let parts = SystemPromptBuilder::for_team().parts(&context)?.into_iter();
        Ok(parts.map(|part| PromptSection { name: part.name, text: part.text }).collect())
    }

    fn prompt(&self, agent: &Agent, prompt_spec: &PromptSpec, began: i64) -> Result<String, TurnError> {
        self.build(&SystemPromptBuilder::for_team(), agent, prompt_spec, began)
    }

    fn build(
        &self,
        builder: &SystemPromptBuilder,
        agent: &Agent,
        spec: &PromptSpec,
        began: i64,
    ) -> Result<String, TurnError> {
        let PromptSpec { label: model, tools, calls, .. } = spec;
        let (knowledge, calls, zone) = (&Knowledge::read(self.home, agent), *calls, &self.zone);
        Ok(builder.build(&PromptContext { agent, model, tools, calls, knowledge, began, zone })?)
    }

    /// Returns the conversation of a session, and the size of its transcript in bytes.
    fn context(
        &self,
        resolved: &ResolvedModel,
        model_request: &Request,
        session: Option<&Session>,
    ) -> Result<(ConversationContext, u64), TurnError> {
        let (room, images) = (room(resolved, model_request), ImageEstimate::of(resolved));
        let (found, bytes) = match session {
            // The transcript is only read here. Damage in it is repaired by the next turn.
            Some(session) => history_load::look(&self.transcript_path(session), room, images)?,
            None => (RecentConversation::default(), 0),
        };
        Ok((ConversationContext::new(room, images, &self.zone, found), bytes))
    }

    /// Makes room as a turn does before it asks, but only in memory.
    fn compact(
        &self,
        agent: &Agent,
        prompt_spec: &PromptSpec,
        session: &Session,
        context: &mut ConversationContext,
        model_request: &mut Request,
    ) -> Result<Option<CompactionReport>, TurnError> {
        if !context.is_near_full() {
            return Ok(None);
        }
        let found = findings::read(&agent.workspace, &findings::mission(&session.key));
        let (most_staged, at) = (self.config.compaction.most_staged, clock::unix_ms());
        let wanted = CompactionInput { findings: &found, most_staged, turn: None, at };
        let Some(draft) = context.draft(&wanted, false) else { return Ok(None) };
        let compacted = CompactionReport::from(&draft.record);
        context.apply(draft);
        // A turn rebuilds its prompt after a compaction.
        model_request.system = self.prompt(agent, prompt_spec, at)?;
        Ok(Some(compacted))
    }
}

fn check_native(agent: &Agent) -> Result<(), TurnError> {
    if agent.runtime == NATIVE {
        return Ok(());
    }
    Err(TurnError::WrongRuntime { agent: agent.id.clone(), runtime: agent.runtime.clone() })
}

fn check_owner(agent: &Agent, session: Option<&Session>) -> Result<(), TurnError> {
    match session.filter(|session| session.key.agent() != &agent.id) {
        Some(other) => Err(TurnError::WrongAgent { agent: agent.id.clone(), session: other.key.clone() }),
        None => Ok(()),
    }
}

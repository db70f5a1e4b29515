//! Operations on a session besides its turns: report, compact and reset.

use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::cache_key;
use super::context::{CompactionInput, ConversationContext};
use super::deadline::Deadline;
use super::engine::{Engine, EngineParts};
use super::estimate::{self, ImageEstimate};
use super::history_load;
use super::model_chain::{self, PreparedModel};
use super::summary_request::SummaryRequest;
use super::transcript::model::VERSION;
use super::transcript::{
    CompactionRecord, Header, RecentConversation, Record, ResetRecord, RewindRecord, Transcript,
    TranscriptError, rewind,
};
use super::turn::TurnError;
use crate::clock;
use crate::config::{Agent, Config};
use crate::fault_point::{self, FaultPoint};
use crate::home::Home;
use crate::id::SessionKey;
use crate::provider::{Request, ResolvedModel};
use crate::runtime::NATIVE;
use crate::store::{Session, Store};

/// The size of a session's next request, in estimated tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextReport {
    pub key: SessionKey,
    /// The model as `provider/model`.
    pub model: String,
    /// The model's context window.
    pub window: u64,
    /// Tokens reserved for the answer.
    pub answer: u64,
    /// Tokens of the system prompt.
    pub prompt: u64,
    /// Tokens of the tool definitions.
    pub tools: u64,
    /// Tokens of the conversation.
    pub conversation: u64,
    /// Tokens available for the conversation.
    pub room: u64,
    /// Tokens of the context window that stay free, because the other numbers are estimates.
    pub held_back: u64,
    /// Number of messages in the conversation.
    pub messages: usize,
    /// Start of the conversation or of its last compaction, in Unix milliseconds.
    pub began_at: i64,
    /// The last compaction since the conversation began.
    pub compaction: Option<CompactionReport>,
    /// Size of the transcript in bytes. None of it is held in memory between two turns.
    pub transcript_bytes: u64,
}

impl ContextReport {
    /// Creates the report of a session from its next request and its conversation.
    pub(super) fn new(
        session: &Session,
        resolved: &ResolvedModel,
        model_request: &Request,
        context: &ConversationContext,
        transcript_bytes: u64,
    ) -> Self {
        let answer = u64::from(model_request.max_tokens);
        let prompt = estimate::text_cost(&model_request.system);
        let tools = estimate::tools_cost(&model_request.tools);
        let taken = [answer, prompt, tools, context.room()].into_iter().fold(0, u64::saturating_add);
        Self {
            key: session.key.clone(),
            model: resolved.route.model.to_string(),
            window: resolved.context_window,
            answer,
            prompt,
            tools,
            conversation: context.cost(),
            room: context.room(),
            held_back: resolved.context_window.saturating_sub(taken),
            messages: context.len(),
            began_at: session.began_at,
            compaction: context.last().map(CompactionReport::from),
            transcript_bytes,
        }
    }
}

/// A finished compaction, for people and clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionReport {
    /// Number of the compaction within the conversation, from 1.
    pub number: u32,
    /// Unix milliseconds.
    pub at: i64,
    /// Estimated tokens before the compaction.
    pub before: u64,
    /// Estimated tokens after the compaction.
    pub after: u64,
    /// The text that replaces what was taken out.
    pub marker: String,
    /// A model's summary of what was taken out.
    pub summary: Option<String>,
}

impl From<&CompactionRecord> for CompactionReport {
    fn from(record: &CompactionRecord) -> Self {
        Self {
            number: record.number,
            at: record.at,
            before: record.tokens_before,
            after: record.tokens_after,
            marker: record.marker.clone(),
            summary: record.summary.clone(),
        }
    }
}

/// A session with the parts of its next request.
struct PreparedSession<'e> {
    engine: &'e Engine,
    config: Arc<Config>,
    agent: Agent,
    session: Session,
    model: PreparedModel,
}

impl PreparedSession<'_> {
    fn images(&self) -> ImageEstimate {
        ImageEstimate::of(&self.model.resolved)
    }

    fn context(&self, found: RecentConversation) -> ConversationContext {
        ConversationContext::new(self.model.room, self.images(), &self.engine.zone, found)
    }
}

/// Sets a session's conversation back: a model is no longer shown what was said between the given record and now. The
/// transcript keeps it. Does nothing if the session does not exist, or if it has this record already.
///
/// The caller makes sure that nothing else writes to the session.
///
/// # Errors
///
/// Returns an error of the database or the transcript.
pub(crate) async fn set_back(
    store: &Arc<Store>,
    home: &Home,
    key: &SessionKey,
    record: RewindRecord,
) -> Result<(), TurnError> {
    let Some(session) = store.sessions().find(key).await? else { return Ok(()) };
    let path = home.sessions(key.agent()).join(format!("{}.jsonl", session.file));
    let header = Header {
        version: VERSION,
        agent: key.agent().clone(),
        key: key.clone(),
        created: session.created_at,
    };
    let mut transcript = Transcript::open(&path, &header, &store.syncer().handle())?;
    let at = record.at;
    if !rewind::has(transcript.file(), &record.id).map_err(TranscriptError::reading(&path))? {
        transcript.append(&[Record::Rewind(record)])?;
    }
    store.sessions().forget_calls(key.clone()).await?;
    // A program that runs the agent's turns begins a new conversation, and is told the last exchanges of what is left.
    Ok(store.sessions().renew(key.clone(), None, at).await?)
}

impl Engine {
    /// Reports the size of the session's next request, or returns `None` if the session does not exist.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::WrongRuntime`] if the agent does not run on flock's own loop, or an error of the parts that
    /// are read.
    pub async fn report(&self, key: &SessionKey) -> Result<Option<ContextReport>, TurnError> {
        // This takes no claim and waits for no turn: while one runs, the report shows the state before its last step.
        let Some(prepared) = self.prepared(key).await? else { return Ok(None) };
        let PreparedSession { session, model, .. } = &prepared;
        let (path, room, images) = (self.transcript_path(session), model.room, prepared.images());
        let own = path.clone();
        // A transcript can be long.
        let look = tokio::task::spawn_blocking(move || history_load::look(&own, room, images)).await;
        let (found, transcript_bytes) =
            look.map_err(|stopped| TranscriptError::reading(&path)(stopped.into()))??;
        let context = prepared.context(found);
        Ok(Some(ContextReport::new(
            session,
            &model.resolved,
            &model.model_request,
            &context,
            transcript_bytes,
        )))
    }

    /// Compacts the session now, or returns `None` if nothing can be taken out. `may_ask` allows a model call for the
    /// summary, if the configuration asks for one. The call may take as long as a turn.
    ///
    /// # Errors
    ///
    /// - [`TurnError::NoSession`] if the session does not exist.
    /// - [`TurnError::Busy`] while a turn of the session runs.
    /// - [`TurnError::WrongRuntime`] if the agent does not run on flock's own loop.
    /// - An error of the database, the transcript or the stopped model call.
    pub async fn compact(
        &self,
        key: &SessionKey,
        may_ask: bool,
    ) -> Result<Option<CompactionReport>, TurnError> {
        let EngineParts { limits, oversight, config, .. } = &self.parts;
        let wall = limits.wall_time_for(&config.current());
        let deadline =
            Deadline::new(CancellationToken::new(), wall, Arc::clone(oversight), key.agent().clone());
        self.compact_until(key, may_ask.then_some(&deadline)).await
    }

    /// Does the same as [`Engine::compact`]. `deadline` stops the model call for the summary, and then nothing is
    /// compacted.
    pub(super) async fn compact_until(
        &self,
        key: &SessionKey,
        deadline: Option<&Deadline>,
    ) -> Result<Option<CompactionReport>, TurnError> {
        let _claim = self.claim(key)?;
        let Some(prepared) = self.prepared(key).await? else { return Err(TurnError::NoSession(key.clone())) };
        let mut transcript = self.open_transcript(&prepared.session)?;
        let context =
            prepared.context(history_load::load(&mut transcript, prepared.model.room, prepared.images())?);
        let found = self.findings(&prepared.agent, key);
        // One time for the record and the session, so that both name the same start of the new part.
        let at = clock::unix_ms();
        let most_staged = prepared.config.compaction.most_staged;
        let wanted = CompactionInput { findings: &found, most_staged, turn: None, at };
        let Some(mut draft) = context.draft(&wanted, true) else { return Ok(None) };
        if let Some(deadline) = deadline.filter(|_| prepared.config.compaction.summary) {
            // A frozen agent makes no model call.
            deadline.thawed().await?;
            let request = SummaryRequest {
                engine: self,
                deadline,
                resolved: &prepared.model.resolved,
                session: key,
                turn: crate::id::TurnId::new(),
                step: 1,
            };
            request.add_to(&context, &mut draft).await?;
        }
        transcript.append(&[Record::Compaction(Box::new(draft.record.clone()))])?;
        fault_point::reach(FaultPoint::Compacted);
        // The next turn builds the prompt as it has to be then.
        self.parts.store.sessions().renew(key.clone(), None, at).await?;
        Ok(Some(CompactionReport::from(&draft.record)))
    }

    /// Starts a new conversation in the session: the model does not see the old messages again. The transcript keeps
    /// them. With `keeps_recent`, a program that runs the agent's turns is still told the last exchanges, as in any new
    /// conversation of its own.
    ///
    /// # Errors
    ///
    /// - [`TurnError::NoSession`] if the session does not exist.
    /// - [`TurnError::Busy`] while a turn of the session runs.
    /// - An error of the database or the transcript.
    pub async fn reset(&self, key: &SessionKey, keeps_recent: bool) -> Result<(), TurnError> {
        let _claim = self.claim(key)?;
        let Some(session) = self.parts.store.sessions().find(key).await? else {
            return Err(TurnError::NoSession(key.clone()));
        };
        let at = clock::unix_ms();
        let record = ResetRecord { id: uuid::Uuid::now_v7().to_string(), at, keeps_recent };
        self.open_transcript(&session)?.append(&[Record::Reset(record)])?;
        // The cached prefix belongs to the old conversation.
        self.prefixes.forget(key);
        self.parts.store.sessions().forget_calls(key.clone()).await?;
        self.parts.store.sessions().renew(key.clone(), None, at).await?;
        Ok(())
    }

    /// Sets a session's conversation back, as [`set_back`] does.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::Busy`] while something else writes to the session, or an error of the database or the
    /// transcript.
    pub(crate) async fn set_back(&self, key: &SessionKey, record: RewindRecord) -> Result<(), TurnError> {
        let _claim = self.claim(key)?;
        self.prefixes.forget(key);
        set_back(&self.parts.store, self.home(), key, record).await
    }

    /// Appends a record to the session's transcript, or does nothing if the session does not exist.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::Busy`] while a turn of the session runs, or an error of the database or the transcript.
    pub(super) async fn note(&self, key: &SessionKey, record: Record) -> Result<(), TurnError> {
        // The claim keeps the record from landing between those of a running turn.
        let _claim = self.claim(key)?;
        match self.parts.store.sessions().find(key).await? {
            Some(session) => Ok(self.open_transcript(&session)?.append(&[record])?),
            None => Ok(()),
        }
    }

    /// Returns the path of a session's transcript with the file name `file`, without its suffix.
    #[must_use]
    pub fn transcript(&self, key: &SessionKey, file: &str) -> std::path::PathBuf {
        self.home().sessions(key.agent()).join(format!("{file}.jsonl"))
    }

    async fn prepared(&self, key: &SessionKey) -> Result<Option<PreparedSession<'_>>, TurnError> {
        let Some(session) = self.parts.store.sessions().find(key).await? else { return Ok(None) };
        // Without the agent in the configuration there is no model to size the request for.
        let config = self.parts.config.current();
        let agent =
            config.agent(key.agent()).ok_or_else(|| TurnError::UnknownAgent(key.agent().clone()))?.clone();
        if agent.runtime != NATIVE {
            // The other program decides what its model is shown and how it is shortened.
            return Err(TurnError::WrongRuntime { agent: agent.id, runtime: agent.runtime });
        }
        let model = agent.model.clone().ok_or_else(|| TurnError::NoModel(agent.id.clone()))?;
        let cache_key = cache_key::of(self.home(), key);
        let model = model_chain::ready(self, &config, &agent, &model, session.began_at, cache_key)?;
        Ok(Some(PreparedSession { engine: self, config, agent, session, model }))
    }
}

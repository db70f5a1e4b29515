//! Cleanup at start after the last process: marks the turns it left running and deletes the files it left behind.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::engine::Engine;
use super::transcript::import_note;
use super::transcript::stale_files::{self, StaleFiles};
use super::transcript::{
    MessageRecord, Record, Transcript, TranscriptError, TurnPhase, TurnRecord, set_apart, unknown_result,
};
use super::turn::TurnError;
use super::turn_recorder::{result_record, tokens};
use crate::clock;
use crate::error::chain;
use crate::home::reverse_lines::ReverseLines;
use crate::id::{AgentId, SessionKey, SessionKind, TurnId};
use crate::provider::{Block, Usage};
use crate::runtime::program::state;
use crate::store::{Session, Turn, TurnCompletion, TurnState};

/// The most sessions that one database change deletes.
const MAX_SWEPT_SESSIONS: u32 = 500;

/// A turn that was running when the last process died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptedTurn {
    pub session: SessionKey,
    pub turn: TurnId,
    /// The state it is marked with: interrupted, or its real end if the transcript has one.
    pub state: TurnState,
    /// `true` if its input is committed to the transcript. Otherwise nobody has seen the input.
    pub had_input: bool,
}

impl Engine {
    /// Cleans up after the last process. Turns that were running when it died are marked in the database and in their
    /// transcripts, and sessions of agents that no longer exist are deleted.
    ///
    /// To be called once, before the first turn. Returns the marked turns in the order in which they began.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. A transcript that can't be read is logged and skipped.
    pub async fn recover(&self) -> Result<Vec<InterruptedTurn>, TurnError> {
        let marked = interrupted(self).await?;
        sweep(self).await?;
        delete_purged_sessions(self, i64::MAX).await?;
        Ok(marked)
    }

    /// Ends those of the given turns that are still running in the database, and returns how many it ended.
    ///
    /// To be called for turns that nothing runs any more and whose end could not be written. A turn whose session is
    /// busy is left for later.
    ///
    /// # Errors
    ///
    /// Returns the first error there was. The other turns are ended all the same.
    pub(crate) async fn end_lost(&self, turns: &[TurnId]) -> Result<usize, TurnError> {
        let (mut marked, mut failed) = (0, None);
        for id in turns {
            match end_lost_turn(self, *id).await {
                Ok(is_marked) => marked += usize::from(is_marked),
                Err(error) => {
                    tracing::error!(turn = %id, error = %chain(&error), "failed to end a turn that was lost");
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(marked), Err)
    }

    /// Deletes the sessions of single requests, with their transcripts, that were last used before `before` (Unix
    /// milliseconds).
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn forget_requests(&self, before: i64) -> Result<(), TurnError> {
        loop {
            let old = self.parts.store.sessions().old_requests(before, MAX_SWEPT_SESSIONS).await?;
            if old.is_empty() {
                break;
            }
            self.forget(old).await?;
        }
        // Programs keep folders for each session, which are of no use once the session is gone.
        sweep_programs(self, false).await;
        Ok(())
    }

    /// Deletes the session of a single request, with its transcript, after its turn. One of another kind stays.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub(crate) async fn forget_request(&self, key: &SessionKey) -> Result<(), TurnError> {
        let found = self.parts.store.sessions().find(key).await?;
        let found = found.filter(|session| session.key.kind() == SessionKind::Request);
        self.forget(found.into_iter().collect()).await
    }

    /// Deletes what is left of agents that were removed together with their data: their sessions that were last used before
    /// `before` (Unix milliseconds), and needless files beside transcripts. For a group of gateways, none of which calls
    /// [`Self::recover`]: others are at work on what is under way.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn forget_purged(&self, before: i64) -> Result<(), TurnError> {
        for agent in self.parts.store.sessions().agents().await? {
            // Another gateway may be repairing a transcript.
            drop(swept(self, &agent, false));
        }
        delete_purged_sessions(self, before).await
    }

    async fn forget(&self, old: Vec<Session>) -> Result<(), TurnError> {
        for session in &old {
            let path = self.transcript_path(session);
            // The file goes before its row: a row without a file is found again, a file without a row never.
            if let Err(error) = fs_err::remove_file(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "failed to delete the transcript of a request");
            }
        }
        // The backups of mended transcripts are deleted too.
        let agents: HashSet<_> = old.iter().map(|session| session.key.agent().clone()).collect();
        agents.iter().for_each(|agent| drop(swept(self, agent, false)));
        Ok(self.parts.store.sessions().delete(old.into_iter().map(|session| session.key).collect()).await?)
    }
}

/// Marks every turn that was running when the last process died. One that can't be marked stays as it is, for [`Engine::end_lost`].
async fn interrupted(engine: &Engine) -> Result<Vec<InterruptedTurn>, TurnError> {
    let store = &engine.parts.store;
    let turns = store.turns().running().await?;
    let mut marked = Vec::with_capacity(turns.len());
    for turn in turns {
        let id = turn.id;
        match one(engine, turn, Search::Tail).await {
            Ok(interrupted) => marked.push(interrupted),
            Err(error) => {
                tracing::error!(turn = %id, error = %chain(&error), "failed to mark an interrupted turn");
            }
        }
    }
    Ok(marked)
}

async fn end_lost_turn(engine: &Engine, id: TurnId) -> Result<bool, TurnError> {
    let Some(turn) =
        engine.parts.store.turns().find(id).await?.filter(|turn| turn.state == TurnState::Running)
    else {
        return Ok(false);
    };
    // The claim keeps everything else from writing into the transcript meanwhile.
    let Ok(_claim) = engine.claim(&turn.session) else { return Ok(false) };
    one(engine, turn, Search::Whole).await?;
    Ok(true)
}

/// Ends a turn as its transcript shows.
async fn one(engine: &Engine, turn: Turn, search: Search) -> Result<InterruptedTurn, TurnError> {
    let store = &engine.parts.store;
    let left = match store.sessions().find(&turn.session).await? {
        Some(session) => complete_transcript(engine, &session, &turn, search).or_else(|error| match error {
            // Whoever has taken over ends the turn, as the transcript shows then.
            TurnError::Transcript(error) if error.is_cut_off() => Err(error),
            error => {
                // One damaged transcript must not keep the gateway from starting.
                tracing::error!(turn = %turn.id, error = %chain(&error), "failed to mark an interrupted turn");
                Ok(TurnRecords::default())
            }
        })?,
        None => TurnRecords::default(),
    };
    let had_input = left.is_there;
    let ended = left.into_turn_end();
    let state = ended.state;
    store.turns().end(turn.id, ended).await?;
    Ok(InterruptedTurn { session: turn.session, turn: turn.id, state, had_input })
}

/// The part of a transcript that is searched for a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    /// Only the end: nothing was written after the process died.
    Tail,
    /// All of it: the session has gone on.
    Whole,
}

/// The records of a turn in a transcript.
#[derive(Default)]
struct TurnRecords {
    end: Option<TurnRecord>,
    steps: u32,
    usage: Usage,
    /// Calls as id and name, the last one first.
    calls: Vec<(String, String)>,
    answered: HashSet<String>,
    is_there: bool,
    /// Set if the session has gone on after the turn.
    is_followed: bool,
}

impl TurnRecords {
    fn into_turn_end(self) -> TurnCompletion {
        let state = match self.end.as_ref().map(|end| end.state) {
            Some(TurnPhase::Done) => TurnState::Done,
            Some(TurnPhase::Failed) => TurnState::Failed,
            Some(TurnPhase::Cancelled) => TurnState::Cancelled,
            Some(TurnPhase::Started | TurnPhase::Interrupted) | None => TurnState::Interrupted,
        };
        // If the transcript has an end, the process died between its writes to the transcript and to the database. The
        // transcript is written first, so it is right.
        let has_answered = self.is_there && !self.is_followed;
        let (steps, usage, error, at, pending) = match self.end {
            Some(end) => (end.steps, end.usage, end.error, end.at, end.pending),
            None => (None, None, None, clock::unix_ms(), Vec::new()),
        };
        // A later turn of the session may have answered the calls, or may wait itself.
        let pending = has_answered.then_some(pending);
        let (tokens, steps) = (tokens(usage.unwrap_or(self.usage)), steps.unwrap_or(self.steps));
        // The reservation of its last call is settled with all others that were left.
        TurnCompletion { state, steps, tokens, error, at, pending, settlement: None }
    }

    fn note(&mut self, message: &MessageRecord) {
        if let Some(usage) = message.usage {
            self.steps += 1;
            self.usage += usage;
        }
        // The file is read backwards. Inserting at the same place reverses the calls of one answer as well.
        let before = self.calls.len();
        for block in &message.message.content {
            match block {
                Block::ToolCall { id, name, .. } => self.calls.insert(before, (id.clone(), name.clone())),
                Block::ToolResult { call_id, .. } => drop(self.answered.insert(call_id.clone())),
                _ => {}
            }
        }
    }
}

fn complete_transcript(
    engine: &Engine,
    session: &Session,
    turn: &Turn,
    search: Search,
) -> Result<TurnRecords, TurnError> {
    let path = engine.transcript_path(session);
    if !path.exists() {
        return Ok(TurnRecords::default());
    }
    if engine.parts.store.is_in_group() {
        // The gateway on which the turn ran may still have the file open.
        set_apart(&path, &engine.parts.store.syncer().handle())?;
    }
    let mut transcript = engine.open_transcript(session)?;
    let left = left(&transcript, turn, search).map_err(TranscriptError::reading(&path))?;
    if left.end.is_none() && left.is_there && !left.is_followed {
        let now = clock::unix_ms();
        let open = left.calls.iter().rev().filter(|(id, _)| !left.answered.contains(id));
        let mut records: Vec<Record> =
            open.map(|(id, name)| result_record(turn.id, now, unknown_result(id, name))).collect();
        records.push(Record::Turn(TurnRecord {
            steps: Some(left.steps),
            usage: Some(left.usage),
            ..TurnRecord::new(turn.id, TurnPhase::Interrupted, now)
        }));
        transcript.append(&records)?;
    }
    Ok(left)
}

/// Reads the records of the turn, from the end of the file.
fn left(transcript: &Transcript, turn: &Turn, search: Search) -> std::io::Result<TurnRecords> {
    let mut left = TurnRecords::default();
    let mut tail = ReverseLines::new(transcript.file())?;
    let id = turn.id.to_string();
    let names_it = memchr::memmem::Finder::new(id.as_bytes());
    while let Some(line) = tail.next_line()? {
        if search == Search::Whole && names_it.find(line).is_none() {
            // Lines of other turns are not parsed, for speed. The records of one turn are contiguous, so the search
            // ends at the next foreign line.
            if left.is_there {
                break;
            }
            left.is_followed = true;
            continue;
        }
        match Record::parse(line) {
            Ok(Record::Message(message)) if message.turn == turn.id => {
                left.is_there = true;
                left.note(&message);
            }
            Ok(Record::Turn(record)) if record.turn == turn.id => {
                left.is_there = true;
                if record.state == TurnPhase::Started {
                    break;
                }
                left.end.get_or_insert(record);
            }
            Ok(
                Record::Message(_)
                | Record::Turn(_)
                | Record::Session(_)
                | Record::Reset(_)
                | Record::Imported(_),
            ) => break,
            // These records may come in a turn as well as before its beginning, so the search goes on.
            Ok(Record::Compaction(_) | Record::Rewind(_) | Record::Command(_) | Record::Unknown) | Err(_) => {
            }
        }
    }
    Ok(left)
}

/// Deletes the sessions of agents that were removed together with their data, if they were last used before `before`.
async fn delete_purged_sessions(engine: &Engine, before: i64) -> Result<(), TurnError> {
    let config = engine.parts.config.current();
    let gone = engine
        .parts
        .store
        .sessions()
        .agents()
        .await?
        .into_iter()
        .filter(|agent| config.agent(agent).is_none());
    for agent in gone {
        // Removing an agent keeps its transcripts unless a person asked to delete them. Then the sessions stay too.
        if has_no_transcripts(engine, &agent) {
            let mut sessions = engine.parts.store.sessions().list(Some(&agent), u32::MAX).await?;
            sessions.retain(|session| session.updated_at < before);
            let keys = sessions.into_iter().map(|session| session.key).collect();
            engine.parts.store.sessions().delete(keys).await?;
        }
    }
    Ok(())
}

/// Returns `true` if an agent has no folder of transcripts. A folder of all agents that is not there, for example because its
/// file system is not mounted, says nothing about one of them.
fn has_no_transcripts(engine: &Engine, agent: &AgentId) -> bool {
    let home = engine.home();
    home.agents().is_dir() && matches!(home.sessions(agent).try_exists(), Ok(false))
}

/// Deletes files that a killed process left beside transcripts. No session is deleted for its age here: the owner
/// decides that.
async fn sweep(engine: &Engine) -> Result<(), TurnError> {
    for agent in engine.parts.store.sessions().agents().await? {
        let leftovers = swept(engine, &agent, true);
        if leftovers.deleted > 0 {
            tracing::info!(%agent, deleted = leftovers.deleted, "deleted what a killed process had left beside transcripts");
        }
        for old in leftovers.kept {
            tracing::warn!(%agent, path = %old.display(), "an old file of a mended transcript is kept: what was cut out is in it");
        }
    }
    sweep_imports(engine).await?;
    sweep_programs(engine, true).await;
    Ok(())
}

/// Removes transcripts of imports that were interrupted before they had a session.
async fn sweep_imports(engine: &Engine) -> Result<(), TurnError> {
    for agent in &engine.parts.config.current().agents {
        let known: HashSet<String> = {
            let sessions = engine.parts.store.sessions().list(Some(&agent.id), u32::MAX).await?;
            sessions.into_iter().map(|session| session.file).collect()
        };
        let folder = engine.home().sessions(&agent.id);
        match import_note::sweep(&folder, |name| known.contains(name)) {
            Ok(0) => {}
            Ok(removed) => {
                tracing::info!(agent = %agent.id, removed, "removed transcripts whose import was interrupted");
            }
            Err(error) => {
                tracing::warn!(agent = %agent.id, %error, "failed to remove what an interrupted import left");
            }
        }
    }
    Ok(())
}

/// Removes the programs' data for sessions that no longer exist. A failure is only logged.
async fn sweep_programs(engine: &Engine, first: bool) {
    let (home, store) = (engine.home().clone(), Arc::clone(&engine.parts.store));
    let runtime = Handle::current();
    // Called in the middle of the work with the files, which blocks its thread.
    let known = move |agent: &AgentId| {
        let sessions = runtime.block_on(store.sessions().list(Some(agent), u32::MAX)).ok()?;
        Some(sessions.into_iter().map(|session| session.key).collect())
    };
    let swept = tokio::task::spawn_blocking(move || state::sweep(&home, first, known));
    if let Err(error) = swept.await {
        tracing::warn!(%error, "failed to remove what programs keep of old sessions");
    }
}

/// Deletes leftovers beside an agent's transcripts. A failure is only logged, because it must not prevent a start.
fn swept(engine: &Engine, agent: &AgentId, is_start: bool) -> StaleFiles {
    stale_files::sweep(&engine.home().sessions(agent), is_start).unwrap_or_else(|error| {
        tracing::warn!(%error, %agent, "failed to delete what was left beside transcripts");
        StaleFiles::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::testing;
    use crate::provider::{Message, Role};
    use crate::store::{NewSession, NewTurn, StoredPrompt};

    #[tokio::test]
    async fn a_gateway_that_may_have_been_replaced_ends_no_turn_and_leaves_its_transcript() {
        let folder = tempfile::tempdir().unwrap();
        let engine = testing::engine(folder.path());
        let (store, turn) = (Arc::clone(engine.store()), TurnId::new());
        let key: SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
        let begin = NewTurn {
            session: NewSession { key, file: uuid::Uuid::now_v7().to_string() },
            turn,
            model: "script/demo".to_owned(),
            prompt: StoredPrompt { inputs: "hash".to_owned(), text: "be good".into() },
            now: 1,
        };
        let session = store.turns().begin(begin).await.unwrap();
        let said = MessageRecord::new(turn, 1, Message::text(Role::User, "hello"));
        let said = Record::Message(Box::new(said));
        engine.open_transcript(&session).unwrap().append(&[said]).unwrap();
        // The gateway that runs the turn is in the middle of a line, which looks torn.
        let path = engine.transcript_path(&session);
        let before = [&std::fs::read(&path).unwrap()[..], b"{\"type\""].concat();
        std::fs::write(&path, &before).unwrap();
        store.syncer().fence().write_until(clock::boot_ms());
        let refused = engine.end_lost(&[turn]).await.unwrap_err();
        assert!(chain(&refused).contains("may have taken over"), "{refused:?}");
        assert_eq!(store.turns().find(turn).await.unwrap().unwrap().state, TurnState::Running);
        assert_eq!(std::fs::read(&path).unwrap(), before);
        // It was cut off for a moment only.
        store.syncer().fence().write_until(i64::MAX);
        assert_eq!(engine.end_lost(&[turn]).await.unwrap(), 1);
        assert_eq!(store.turns().find(turn).await.unwrap().unwrap().state, TurnState::Interrupted);
        assert!(std::fs::read_to_string(&path).unwrap().contains("interrupted"));
    }
}

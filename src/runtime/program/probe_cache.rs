//! Answers of programs to questions that need to be asked only once. They are stored where no agent can write, because
//! they become part of the prompt of later turns.

use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::interface::{Program, ProgramFiles, ProgramProbe};
use super::run::ProgramTurn;
use super::run_paths::RunPaths;
use crate::home::{Home, atomic};
use crate::id::{AgentId, hex};
use crate::runtime::RuntimeError;
use crate::sandbox::OutputChunk;
use crate::sandbox::program_mounts::ProgramMount;

/// Most bytes of an answer.
pub const MOST: usize = 8 << 20;

/// Placeholder for the program's folder in a stored answer. NUL is in no path.
const STATE_PLACEHOLDER: &str = "\0state\0";

/// A question and its place.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRequest<'a> {
    pub wanted: &'a ProgramProbe,
    /// The program's folder, as the program sees it.
    pub state: Option<&'a str>,
    /// The program's working folder, as the program sees it.
    pub workspace: &'a str,
}

/// A place for one answer, which may or may not be stored yet.
#[derive(Debug)]
pub struct CachedAnswer {
    folder: PathBuf,
    name: String,
    /// The program's folder, as the program sees it. An answer may contain it, and it differs between sessions.
    state: String,
}

impl CachedAnswer {
    /// Returns the place for the answer of this program, with these files, in the sandbox of this agent. Other agents
    /// do not share it: another process in the sandbox may have changed the answer.
    #[must_use]
    pub fn of(
        home: &Home,
        agent: &AgentId,
        program: &dyn Program,
        parts: &ProgramFiles,
        asked: ProbeRequest<'_>,
    ) -> Self {
        let ProbeRequest { wanted, state, workspace } = asked;
        let state = state.unwrap_or_default();
        let mut digest = Sha256::new();
        let mut add = |text: &str| {
            // With the length before each text, two lists of texts never give the same digest.
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        };
        add(agent.as_str());
        add(workspace);
        for (source, target) in &parts.mounts {
            add(target);
            // The state of the program's files: after an update the question is asked again.
            let seen = ProgramMount::part(source, target.clone()).and_then(|part| part.seen());
            add(&format!("{source:?} {seen:?}"));
        }
        let asked = &wanted.invocation;
        asked.arguments.iter().for_each(|argument| add(argument));
        for (name, value) in &asked.environment {
            add(name);
            add(&mask_state_path(value, state));
        }
        for file in &asked.files {
            add(&file.name);
            add(&mask_state_path(&file.content, state));
        }
        for file in &asked.state {
            add(&file.path);
            add(&mask_state_path(file.content.as_deref().unwrap_or_default(), state));
        }
        let name = hex(&digest.finalize()[..16]);
        Self { folder: home.run().join("programs").join(program.name()), name, state: state.to_owned() }
    }

    /// Returns the stored answer, if there is one.
    #[must_use]
    pub fn read(&self) -> Option<String> {
        let bytes = atomic::read(&self.folder.join(&self.name), MOST as u64).ok()??;
        Some(String::from_utf8(bytes).ok()?.replace(STATE_PLACEHOLDER, &self.state))
    }

    /// Stores the answer, and removes the oldest answers beyond the limit.
    ///
    /// # Errors
    ///
    /// Returns the path and the reason.
    pub fn write(&self, text: &str) -> Result<(), String> {
        fs_err::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
        let place = self.folder.join(&self.name);
        let kept = mask_state_path(text, &self.state);
        atomic::write(&place, kept.as_bytes(), 0o600).map_err(|error| crate::error::chain(&error))?;
        let mut others: Vec<_> = fs_err::read_dir(&self.folder)
            .map_err(|error| error.to_string())?
            .flatten()
            // The new answer always stays, even if the clock was set back and others look newer.
            .filter(|entry| entry.path() != place)
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        others.sort();
        for (_, path) in others.iter().rev().skip(MAX_CACHED - 1) {
            drop(fs_err::remove_file(path));
        }
        Ok(())
    }
}

impl ProgramTurn<'_> {
    /// Returns the program's answer to a question that is asked once. It is stored until the program or the question
    /// changes.
    pub(super) async fn learn(
        &self,
        wanted: &ProgramProbe,
        paths: &RunPaths,
    ) -> Result<String, RuntimeError> {
        let (runtime, program) = (self.runtime, &*self.runtime.program);
        let asked = ProbeRequest { wanted, state: paths.state.as_deref(), workspace: &paths.workspace };
        let kept = CachedAnswer::of(&runtime.parts.home, &self.order.agent, program, &self.found, asked);
        if let Some(text) = kept.read() {
            return Ok(text);
        }
        let unwritten = |why: String| runtime.unwritten(&why);
        self.write(&wanted.invocation, paths).map_err(unwritten)?;
        let mut printed = Vec::new();
        let mut heard = |piece: OutputChunk<'_>| {
            // A program that prints without end must not fill the memory.
            if let OutputChunk::Out(bytes) = piece
                && printed.len() < MOST
            {
                printed.extend_from_slice(bytes);
            }
        };
        let ran = tokio::time::timeout(PROBE_TIMEOUT, self.start(&wanted.invocation, None, &mut heard)).await;
        let ran = ran.map_err(|_| {
            runtime.not_begun("it did not answer in time what it was asked first".to_owned())
        })??;
        // The exit code is ignored. Gemini CLI, for example, fails on purpose after it has written its prompt.
        let text = match (&wanted.file, &paths.kept) {
            (None, _) => String::from_utf8_lossy(&printed).into_owned(),
            (Some(file), Some(kept)) => kept.read(file, MOST as u64).unwrap_or_default(),
            (Some(_), None) => String::new(),
        };
        let Some(text) = (wanted.take)(&text) else {
            let message = format!("it did not answer what it was asked first (exit code {})", ran.code);
            return Err(runtime.not_begun(message));
        };
        kept.write(&text).map_err(unwritten)?;
        Ok(text)
    }
}

/// Time limit of a question before a turn.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of stored answers of a program. It may have been asked for several models.
const MAX_CACHED: usize = 16;

/// Replaces a path in a text by the placeholder.
fn mask_state_path(text: &str, state: &str) -> String {
    if state.is_empty() { text.to_owned() } else { text.replace(state, STATE_PLACEHOLDER) }
}

#[cfg(test)]
mod tests {
    use super::super::interface::Invocation;
    use super::*;

    #[test]
    fn cached_answers_are_shared_between_sessions_of_one_setup() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let agent: AgentId = "coder".parse().unwrap();
        let parts = ProgramFiles { mounts: Vec::new(), host: Vec::new(), sandbox: Vec::new() };
        let of = |state: &str, workspace: &str, mode: &str| {
            let environment = [("HOME", state), ("OUT", &format!("{state}/out")), ("MODE", mode)];
            let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            let invocation = Invocation { environment, ..Invocation::default() };
            let wanted = ProgramProbe { invocation, file: None, take: |text| Some(text.to_owned()) };
            let asked = ProbeRequest { wanted: &wanted, state: Some(state), workspace };
            CachedAnswer::of(&home, &agent, &super::super::gemini::Gemini, &parts, asked)
        };
        of("/state/a", "/workspace", "x").write("put it into /state/a/tmp").unwrap();
        let read = |state, workspace, mode| of(state, workspace, mode).read();
        assert_eq!(read("/state/b", "/workspace", "x").as_deref(), Some("put it into /state/b/tmp"));
        assert_eq!(read("/state/a", "/workspace", "x").as_deref(), Some("put it into /state/a/tmp"));
        assert_eq!(read("/state/a", "/elsewhere", "x"), None);
        assert_eq!(read("/state/a", "/workspace", "y"), None);
    }

    #[test]
    fn an_answer_that_is_written_again_takes_the_place_of_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let of = |n: usize| CachedAnswer {
            folder: folder.path().to_owned(),
            name: n.to_string(),
            state: String::new(),
        };
        let kept = || (0..=MAX_CACHED).filter(|n| of(*n).read().is_some()).count();
        (0..MAX_CACHED).for_each(|n| of(n).write("first").unwrap());
        assert_eq!(kept(), MAX_CACHED);
        of(3).write("again").unwrap();
        assert_eq!(kept(), MAX_CACHED);
        assert_eq!(of(3).read().as_deref(), Some("again"));
        of(MAX_CACHED).write("one more").unwrap();
        assert_eq!(kept(), MAX_CACHED);
        assert_eq!(of(MAX_CACHED).read().as_deref(), Some("one more"));
    }
}

//! What programs have answered once and need not be asked again. It lies where no agent can write: it becomes part of
//! what later turns are told.

use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::program::{Learned, Parts, Program};
use super::run::{Course, Site};
use crate::home::{Home, atomic};
use crate::id::{AgentId, hex};
use crate::runtime::RuntimeError;
use crate::sandbox::Piece;
use crate::sandbox::fitting::Fitting;

/// The most bytes of an answer.
pub const MOST: usize = 8 << 20;

/// What stands for the program's folder in what is kept. No path has that in it.
const PLACE: &str = "\0state\0";

/// What is asked, and where.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What.
    pub wanted: &'a Learned,
    /// The program's folder, as it sees it.
    pub state: Option<&'a str>,
    /// The folder that it works in, as it sees it.
    pub workspace: &'a str,
}

/// An answer, there or not.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
    name: String,
    /// The program's folder, as it sees it: it may stand in an answer, and is another one in each session.
    state: String,
}

impl Kept {
    /// What this program, made of these files, answers to this in the sandbox of this agent. Others are told nothing of it:
    /// what else runs there could have put words into the answer.
    #[must_use]
    pub fn of(home: &Home, agent: &AgentId, program: &dyn Program, parts: &Parts, asked: Asked<'_>) -> Self {
        let Asked { wanted, state, workspace } = asked;
        let state = state.unwrap_or_default();
        let mut digest = Sha256::new();
        let mut add = |text: &str| {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        };
        add(agent.as_str());
        add(workspace);
        for (source, target) in &parts.mounts {
            add(target);
            let seen = Fitting::part(source, target.clone()).and_then(|part| part.seen());
            add(&format!("{source:?} {seen:?}"));
        }
        let asked = &wanted.invocation;
        asked.arguments.iter().for_each(|argument| add(argument));
        for (name, value) in &asked.environment {
            add(name);
            add(&without(value, state));
        }
        for file in &asked.files {
            add(&file.name);
            add(&without(&file.content, state));
        }
        for file in &asked.state {
            add(&file.path);
            add(&without(file.content.as_deref().unwrap_or_default(), state));
        }
        let name = hex(&digest.finalize()[..16]);
        Self { folder: home.run().join("programs").join(program.name()), name, state: state.to_owned() }
    }

    /// The answer, if it was given before.
    #[must_use]
    pub fn read(&self) -> Option<String> {
        let bytes = atomic::read(&self.folder.join(&self.name), MOST as u64).ok()??;
        Some(String::from_utf8(bytes).ok()?.replace(PLACE, &self.state))
    }

    /// Keeps it, in the place of what was kept of other versions.
    ///
    /// # Errors
    ///
    /// The path, and why.
    pub fn write(&self, text: &str) -> Result<(), String> {
        fs_err::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
        let mut old: Vec<_> = fs_err::read_dir(&self.folder)
            .map_err(|error| error.to_string())?
            .flatten()
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        old.sort();
        for (_, path) in old.iter().rev().skip(MOST_KEPT) {
            drop(fs_err::remove_file(path));
        }
        let kept = without(text, &self.state);
        atomic::write(&self.folder.join(&self.name), kept.as_bytes(), 0o600)
            .map_err(|error| crate::error::chain(&error))
    }
}

impl Course<'_> {
    /// What the program answers to what it is asked once; kept until it is another program or is asked something else.
    pub(super) async fn learn(&self, wanted: &Learned, site: &Site) -> Result<String, RuntimeError> {
        let (cli, program) = (self.cli, self.cli.program);
        let asked = Asked { wanted, state: site.state.as_deref(), workspace: &site.workspace };
        let kept = Kept::of(&cli.parts.home, &self.order.agent, program, &self.found.parts, asked);
        if let Some(text) = kept.read() {
            return Ok(text);
        }
        let unwritten = |why: String| cli.unwritten(&why);
        self.write(&wanted.invocation, site).map_err(unwritten)?;
        let mut printed = Vec::new();
        let mut heard = |piece: Piece<'_>| {
            if let Piece::Out(bytes) = piece
                && printed.len() < MOST
            {
                printed.extend_from_slice(bytes);
            }
        };
        let ran = tokio::time::timeout(LEARNING, self.start(&wanted.invocation, &mut heard)).await;
        let ran =
            ran.map_err(|_| cli.unbegun("it did not answer in time what it was asked first".to_owned()))??;
        let text = match (&wanted.file, &site.kept) {
            (None, _) => String::from_utf8_lossy(&printed).into_owned(),
            (Some(file), Some(kept)) => kept.read(file, MOST as u64).unwrap_or_default(),
            (Some(_), None) => String::new(),
        };
        let Some(text) = (wanted.take)(&text) else {
            let message = format!("it did not answer what it was asked first (exit code {})", ran.code);
            return Err(cli.unbegun(message));
        };
        kept.write(&text).map_err(unwritten)?;
        Ok(text)
    }
}

/// How long a program may take to answer what it is asked once before its turns.
const LEARNING: Duration = Duration::from_secs(60);

/// Answers that are kept of a program: it may have been asked for several models.
const MOST_KEPT: usize = 16;

/// A text with a mark in the place of this path.
fn without(text: &str, state: &str) -> String {
    if state.is_empty() { text.to_owned() } else { text.replace(state, PLACE) }
}

#[cfg(test)]
mod tests {
    use super::super::program::Invocation;
    use super::*;

    #[test]
    fn what_was_learned_in_one_session_is_right_in_another_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let agent: AgentId = "coder".parse().unwrap();
        let parts = Parts { mounts: Vec::new(), host: Vec::new(), sandbox: Vec::new() };
        let of = |state: &str, workspace: &str, mode: &str| {
            let environment = [("HOME", state), ("OUT", &format!("{state}/out")), ("MODE", mode)];
            let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            let invocation = Invocation { environment, ..Invocation::default() };
            let wanted = Learned { invocation, file: None, take: |text| Some(text.to_owned()) };
            let asked = Asked { wanted: &wanted, state: Some(state), workspace };
            Kept::of(&home, &agent, &super::super::gemini::Gemini, &parts, asked)
        };
        of("/state/a", "/workspace", "x").write("put it into /state/a/tmp").unwrap();
        let read = |state, workspace, mode| of(state, workspace, mode).read();
        assert_eq!(read("/state/b", "/workspace", "x").as_deref(), Some("put it into /state/b/tmp"));
        assert_eq!(read("/state/a", "/workspace", "x").as_deref(), Some("put it into /state/a/tmp"));
        assert_eq!(read("/state/a", "/elsewhere", "x"), None);
        assert_eq!(read("/state/a", "/workspace", "y"), None);
    }
}

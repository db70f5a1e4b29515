//! What programs have answered once and need not be asked again. It lies where no agent can write: it becomes part of
//! what later turns are told.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::program::{Learned, Parts, Program};
use crate::home::{Home, atomic};
use crate::id::{AgentId, hex};
use crate::sandbox::fitting::Fitting;

/// The most bytes of an answer.
const MOST: u64 = 8 << 20;

/// An answer, there or not.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
    name: String,
}

impl Kept {
    /// What this program, made of these files, answers to this in the sandbox of this agent. Others are told nothing of it:
    /// what else runs there could have put words into the answer.
    #[must_use]
    pub fn of(home: &Home, agent: &AgentId, program: &dyn Program, parts: &Parts, wanted: &Learned) -> Self {
        let mut digest = Sha256::new();
        let mut add = |text: &str| {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        };
        add(agent.as_str());
        for (source, target) in &parts.mounts {
            add(target);
            let seen = Fitting::part(source, target.clone()).and_then(|part| part.seen());
            add(&format!("{source:?} {seen:?}"));
        }
        let asked = &wanted.invocation;
        asked.arguments.iter().for_each(|argument| add(argument));
        // What is in the environment differs from turn to turn: it has what opens the gate.
        asked.environment.iter().for_each(|(name, _)| add(name));
        for file in &asked.files {
            add(&file.name);
            add(&file.content);
        }
        for file in &asked.state {
            add(&file.path);
            add(file.content.as_deref().unwrap_or_default());
        }
        let name = hex(&digest.finalize()[..16]);
        Self { folder: home.run().join("programs").join(program.name()), name }
    }

    /// The answer, if it was given before.
    #[must_use]
    pub fn read(&self) -> Option<String> {
        let bytes = atomic::read(&self.folder.join(&self.name), MOST).ok()??;
        String::from_utf8(bytes).ok()
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
        atomic::write(&self.folder.join(&self.name), text.as_bytes(), 0o600)
            .map_err(|error| crate::error::chain(&error))
    }
}

/// Answers that are kept of a program: it may have been asked for several models.
const MOST_KEPT: usize = 16;

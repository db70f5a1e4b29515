//! The parts of its earlier states that a home has kept: they decide which generations the home can go back to.

use std::path::PathBuf;

use super::self_update::ProgramRecord;
use super::{InstallError, versions};
use crate::generation::HomeState;
use crate::home::Home;
use crate::store::{self, Backup, StoreError};

/// The programs that this home has kept.
pub(crate) struct Kept {
    /// The folder names of the installed versions of OpenClaw.
    pub builds: Vec<String>,
    /// The version of flock's previous program, if it is kept.
    pub previous: Option<String>,
    /// The version of the program in use.
    pub program: String,
    /// The version of the database's schema.
    pub schema: Option<u32>,
    backups: Vec<Backup>,
}

impl Kept {
    /// Looks at the home.
    ///
    /// # Errors
    ///
    /// Returns an error if the installed versions can't be listed.
    pub(crate) fn of(home: &Home) -> Result<Self, InstallError> {
        let newest = crate::generation::log::newest(home)?;
        let program = newest.map_or_else(|| env!("FLOCK_VERSION").to_owned(), |newest| newest.state.program);
        Ok(Self {
            builds: versions::list(home)?.into_iter().map(|version| version.name()).collect(),
            previous: ProgramRecord::previous(home).map(|program| program.version),
            program,
            schema: schema(home),
            // Those of a database that was a file before have nothing to do with the one on a server.
            backups: if matches!(store::server_address(home), Ok(None)) {
                store::backups(home)
            } else {
                Vec::new()
            },
        })
    }

    /// Returns what is not kept any more of a state, in words. Packages are only known to the engine.
    pub(crate) fn lost(&self, state: &HomeState) -> Vec<String> {
        let mut lost = Vec::new();
        if let Some(build) = state.openclaw.as_ref().filter(|build| !self.builds.contains(build)) {
            lost.push(format!("OpenClaw {build}: build removed"));
        }
        if state.program != self.program && self.previous.as_ref() != Some(&state.program) {
            lost.push(format!("flock {}: program removed", state.program));
        } else if self.is_older(state) && self.backup(state).is_none() {
            lost.push(format!("flock {}: its database's backup is removed", state.program));
        }
        lost
    }

    /// Returns `true` if the program of a state can't read the present database.
    pub(crate) fn is_older(&self, state: &HomeState) -> bool {
        state.program != self.program
            && matches!((state.schema, self.schema), (Some(then), Some(now)) if then < now)
    }

    /// Returns the newest backup with the schema of a state, if the present database has another.
    pub(crate) fn backup(&self, state: &HomeState) -> Option<PathBuf> {
        let wanted = state.schema.filter(|schema| Some(*schema) != self.schema)?;
        self.backups.iter().find(|backup| backup.schema == Some(wanted)).map(|backup| backup.path.clone())
    }
}

/// Returns the version of the database's schema, also if a newer flock made it.
pub(crate) fn schema(home: &Home) -> Option<u32> {
    match store::schema_version(home) {
        Ok(version) => version,
        Err(StoreError::Newer { found, .. }) => Some(found),
        Err(_) => None,
    }
}

#[cfg(test)]
impl Kept {
    pub(crate) fn for_test(program: &str, builds: &[&str]) -> Self {
        Self {
            builds: builds.iter().map(|build| (*build).to_owned()).collect(),
            previous: None,
            program: program.to_owned(),
            schema: None,
            backups: Vec::new(),
        }
    }

    pub(crate) fn add_backup_for_test(&mut self, schema: u32) {
        let path = format!("/b/flock-v{schema}-1.db").into();
        let kind = crate::store::BackupKind::Migration;
        self.backups.push(Backup { path, kind, at: 1, schema: Some(schema) });
    }
}

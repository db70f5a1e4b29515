//! Stands in for what is around checkpoints: the process with its sandboxes and packages, and a home with an agent.

use std::path::Path;

use super::rewind::RewindRequest;
use super::{AgentServices, CheckpointError};
use crate::agent::transcript::RewindRecord;
use crate::config::agents::{self, NewAgent};
use crate::config::{Agent, Role, parse, starter};
use crate::home::{Home, instance};
use crate::id::{AgentId, SessionKey};
use crate::nix_store::ProfileDifference;
use crate::provider::BoxFuture;

/// A process without packages, in which everything succeeds at once.
pub(crate) trait PlainServices: Send + Sync {
    /// Takes note that an agent's sandbox is stopped.
    fn stopped<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Takes note that an agent's packages are copied.
    fn copied<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl<T: PlainServices> AgentServices for T {
    fn stop_sandbox<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async {
            self.stopped(agent).await;
            Ok(())
        })
    }

    fn packages_difference<'a>(
        &'a self,
        _: &'a AgentId,
        _: u32,
    ) -> BoxFuture<'a, Result<Option<ProfileDifference>, String>> {
        Box::pin(async { Ok(None) })
    }

    fn set_packages_back<'a>(&'a self, _: &'a AgentId, _: u32) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async { Ok(false) })
    }

    fn copy_packages<'a>(
        &'a self,
        from: &'a AgentId,
        _: &'a AgentId,
        _: Option<u32>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async {
            self.copied(from).await;
            Ok(())
        })
    }

    fn forget_packages<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn set_back<'a>(
        &'a self,
        _: &'a SessionKey,
        _: RewindRecord,
    ) -> BoxFuture<'a, Result<(), CheckpointError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Returns a person's wish for a rewind of everything to a checkpoint, or to the beginning of the last turn.
pub(crate) fn rewind_to(checkpoint: Option<u64>) -> RewindRequest {
    RewindRequest {
        checkpoint,
        undo: false,
        parts: None,
        keep_others: false,
        without_packages: false,
        plan: None,
        by: "human:ann".to_owned(),
    }
}

/// Makes a home in a folder, with the worker `coder` and its empty workspace.
pub(super) fn home_with_coder(folder: &Path) -> (Home, Agent) {
    let home = Home::new(folder.to_owned(), None);
    home.make_folders().unwrap();
    instance::settle(&home).unwrap();
    let id: AgentId = "coder".parse().unwrap();
    let mut document = starter::document(&home, None, "token", 3779);
    agents::add(&mut document, &home, &NewAgent::new(id.clone(), Role::Worker)).unwrap();
    fs_err::write(home.config(), document.to_string()).unwrap();
    let agent = parse::config(&document, &home).unwrap().agent(&id).unwrap().clone();
    fs_err::create_dir_all(&agent.workspace).unwrap();
    (home, agent)
}

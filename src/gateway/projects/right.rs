//! The right to change a project's tip and its queue. One has it at a time, of all gateways that share the repository.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::{Projects, ProjectsError};
use crate::home::HomeError;
use crate::home::lock::Lock;
use crate::id::ProjectName;
use crate::sync::lock;

/// The longest wait for another gateway.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// The right to change a project, until it is dropped.
#[derive(Debug)]
pub(super) struct ProjectRight {
    // Dropped first, so that whoever waits here finds it free.
    _file: Lock,
    _here: OwnedMutexGuard<()>,
}

impl Projects {
    /// Keeps others from changing the project's tip and its queue. Waits for its turn.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectsError::Busy`] if another gateway changes the project for a minute, and an error if the file of the
    /// lock can't be used.
    pub(super) async fn hold(&self, name: &ProjectName) -> Result<ProjectRight, ProjectsError> {
        let own = Arc::clone(lock(&self.held).entry(name.clone()).or_default());
        let here = own.lock_owned().await;
        let end = Instant::now() + PATIENCE;
        loop {
            let path = self.home().project_lock(name);
            // A thread that waited for the lock would go on waiting after this is given up.
            let attempt = move || Lock::acquire_with_folder(&path, Duration::ZERO);
            match tokio::task::spawn_blocking(attempt).await? {
                Ok(file) => return Ok(ProjectRight { _file: file, _here: here }),
                Err(HomeError::Held { .. }) if Instant::now() < end => tokio::time::sleep(PAUSE).await,
                Err(HomeError::Held { .. }) => return Err(ProjectsError::Busy(name.clone())),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::testing::Team;

    #[tokio::test]
    async fn two_gateways_with_the_same_files_do_not_change_a_project_at_the_same_time() {
        let team = Team::new();
        let one = Projects::new(Arc::clone(&team.swarm));
        // It shares the home, but no memory.
        let other = Projects::new(Arc::clone(&team.swarm));
        let name: ProjectName = "lib".parse().unwrap();
        let held = one.hold(&name).await.unwrap();
        let path = team.swarm.home().project_lock(&name);
        assert!(matches!(Lock::try_acquire(&path), Err(HomeError::Held { .. })));
        let mut waiting = std::pin::pin!(other.hold(&name));
        // It asks, and does not get it.
        let early = tokio::time::timeout(PAUSE, &mut waiting).await;
        assert!(early.is_err());
        drop(held);
        let taken = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        drop(taken.unwrap().unwrap());
        drop(one.hold(&name).await.unwrap());
    }
}

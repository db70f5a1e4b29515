//! Who makes a change, and why.

use std::future::Future;
use std::sync::OnceLock;

use uuid::Uuid;

use crate::id::AgentId;

/// The cause of a change.
///
/// It is a property of the running task or of the whole process, not a parameter: the configuration is changed in many
/// places, and most of them do not know on whose behalf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The party that makes it, as in `human:ann`.
    pub by: String,
    /// The command or the request that asks for it.
    pub why: String,
    /// Changes with the same id are one generation. `None` if each is its own.
    pub operation: Option<Uuid>,
    /// Set if the home is being made. Its first state is then not one that was found.
    pub makes_home: bool,
    /// The ids of an agent that is renamed: the old and the new one.
    pub renames: Option<(AgentId, AgentId)>,
    /// The generation that the home goes back to.
    pub back_to: Option<u64>,
}

tokio::task_local! {
    static TASK: Origin;
}

static PROCESS: OnceLock<Origin> = OnceLock::new();

impl Origin {
    /// Creates the origin of a change that is one generation, however many files it touches.
    #[must_use]
    pub fn new(by: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            by: by.into(),
            why: why.into(),
            operation: Some(Uuid::new_v4()),
            makes_home: false,
            renames: None,
            back_to: None,
        }
    }

    /// Sets the origin of all changes of this process that have none of their own. Only the first call has an effect.
    pub(crate) fn set_for_process(origin: Self) {
        // A process is one command, so there is nothing to replace.
        let _ = PROCESS.set(origin);
    }

    /// Returns the origin of a change that is made now.
    #[must_use]
    pub(crate) fn current() -> Self {
        let of_process = || PROCESS.get().cloned();
        let unknown = || Self { operation: None, ..Self::new("system", "flock itself") };
        TASK.try_with(Clone::clone).ok().or_else(of_process).unwrap_or_else(unknown)
    }

    /// Runs a future whose changes have this origin.
    pub(crate) fn scope<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        TASK.scope(self, work)
    }

    /// Runs blocking work whose changes have this origin.
    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        TASK.sync_scope(self, work)
    }
}

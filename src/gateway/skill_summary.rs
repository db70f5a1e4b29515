//! A summary of the skills, for the status. Their files are read and hashed for it, so one summary serves for a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::Mutex;

use crate::home::Home;
use crate::id::FolderName;
use crate::skill::{SkillState, installed};

/// The longest time for which a summary is given again.
const MAX_AGE: Duration = Duration::from_secs(30);

/// A summary of the skills.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SkillSummary {
    /// Number of all skills.
    count: usize,
    /// The imported ones that are not what a person agreed to.
    changed: Vec<FolderName>,
}

impl SkillSummary {
    fn of(home: &Home) -> Self {
        let skills = installed::all(home);
        let count = skills.len();
        let is_changed = |state: &SkillState| state.reason().is_some();
        let changed = skills.into_iter().filter(|skill| is_changed(&skill.state)).map(|skill| skill.name);
        Self { count, changed: changed.collect() }
    }
}

/// The last summary.
#[derive(Debug, Default)]
pub(crate) struct SkillSummaryCell(Mutex<Option<(Instant, Arc<SkillSummary>)>>);

impl SkillSummaryCell {
    /// Returns a summary that is at most [`MAX_AGE`] old.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread that reads the files breaks off.
    pub(crate) async fn get(&self, home: &Home) -> Result<Arc<SkillSummary>, tokio::task::JoinError> {
        let mut last = self.0.lock().await;
        if let Some((at, summary)) = &*last
            && at.elapsed() < MAX_AGE
        {
            return Ok(Arc::clone(summary));
        }
        let home = home.clone();
        let summary = Arc::new(tokio::task::spawn_blocking(move || SkillSummary::of(&home)).await?);
        *last = Some((Instant::now(), Arc::clone(&summary)));
        Ok(summary)
    }
}

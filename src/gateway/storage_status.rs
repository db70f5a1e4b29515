//! The progress of the copies in the second place as this process knows it, so that `GET /api/status` waits neither for the
//! place nor for a disk.

use std::sync::{Arc, Mutex};

use crate::checkpoint::remote::progress::{CopyKind, CopyProgress, StorageStatus};
use crate::config::Config;
use crate::error::chain;
use crate::home::Home;
use crate::sync::lock;

/// The progress of the copies of one kind. Unset before the first look, and while another gateway makes the copies.
#[derive(Debug, Default)]
pub(crate) struct CopyReport(Mutex<Option<CopyProgress>>);

impl CopyReport {
    /// Begins with what an earlier run has written. Returns the place and the time of its last copy.
    pub(super) fn begin(&self, home: &Home, kind: CopyKind) -> Option<(String, i64)> {
        let earlier = CopyProgress::read(home, kind).unwrap_or_else(|error| {
            tracing::warn!(error = chain(&error), "failed to read how far the copies were");
            None
        });
        let last = earlier.as_ref().and_then(|progress| Some((progress.place.clone(), progress.copied_at?)));
        self.set(earlier);
        last
    }

    pub(super) fn set(&self, progress: Option<CopyProgress>) {
        *lock(&self.0) = progress;
    }

    /// Changes the progress if it is set.
    pub(super) fn change(&self, change: impl FnOnce(&mut CopyProgress)) {
        if let Some(progress) = lock(&self.0).as_mut() {
            change(progress);
        }
    }

    fn get(&self) -> Option<CopyProgress> {
        lock(&self.0).clone()
    }
}

/// The progress of all copies.
#[derive(Debug, Default)]
pub(crate) struct CopyReports {
    pub(super) checkpoints: Arc<CopyReport>,
    pub(super) conversations: Arc<CopyReport>,
}

impl CopyReports {
    /// Returns the state of the second place, or `None` if the home has none.
    pub(crate) fn status(&self, config: &Config) -> Option<StorageStatus> {
        let settings = config.blobs.as_deref()?;
        Some(StorageStatus::new(settings, self.checkpoints.get(), self.conversations.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_goes_on_from_what_the_earlier_run_has_written() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        let (kind, report) = (CopyKind::Checkpoint, CopyReport::default());
        assert_eq!(report.begin(&home, kind), None);
        report.change(|progress| progress.copied_at = Some(1));
        assert_eq!(report.get(), None, "nothing is known yet");
        let place = "/mnt/nas".to_owned();
        let progress = CopyProgress { place: place.clone(), copied_at: Some(5), ..CopyProgress::default() };
        progress.write(&home, kind).unwrap();
        assert_eq!(report.begin(&home, kind), Some((place, 5)));
        report.change(|progress| progress.copied_at = Some(6));
        assert_eq!(report.get(), Some(CopyProgress { copied_at: Some(6), ..progress }));
        report.set(None);
        assert_eq!(report.get(), None);
    }
}

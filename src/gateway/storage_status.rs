//! The progress of the copies in the second place as this process knows it, so that `GET /api/status` waits neither for the
//! place nor for a disk.

use std::sync::{Arc, Mutex};

use crate::blob::{self, BlobStore};
use crate::checkpoint::remote::progress::{CopyKind, CopyProgress, FailedCopy, StorageStatus};
use crate::clock::unix_ms;
use crate::config::{BlobSettings, Config};
use crate::error::{Explain, chain};
use crate::home::Home;
use crate::sync::lock;

/// The progress of the copies of one kind. Unset before the first look, and while another gateway makes the copies.
#[derive(Debug, Default)]
pub(crate) struct CopyReport(Mutex<Option<CopyProgress>>);

impl CopyReport {
    fn set(&self, progress: Option<CopyProgress>) {
        *lock(&self.0) = progress;
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
    pub(super) vaults: Arc<CopyReport>,
}

impl CopyReports {
    /// Returns the state of the second place, or `None` if the home has none.
    pub(crate) fn status(&self, config: &Config) -> Option<StorageStatus> {
        let settings = config.blobs.as_deref()?;
        let all = [self.checkpoints.get(), self.conversations.get(), self.vaults.get()];
        Some(StorageStatus::new(settings, all))
    }
}

/// The store of those that copy one kind, and their reporter. It shows what they note in a [`CopyReport`] at once, and writes
/// it for other processes at the end of a look.
pub(super) struct CopyReporter {
    home: Home,
    kind: CopyKind,
    report: Arc<CopyReport>,
    /// The store, and the settings that it was opened with.
    store: Option<(Arc<BlobSettings>, Arc<dyn BlobStore>)>,
    /// The time since which this store is the home's, as its mark says. Unset before it was claimed.
    since: Option<i64>,
    /// The copies in this store.
    progress: CopyProgress,
    /// The place and the time of the last copy.
    last: Option<(String, i64)>,
    /// The progress that was written for other processes last.
    told: Option<CopyProgress>,
}

impl CopyReporter {
    /// Begins with what an earlier run has written.
    pub(super) fn begin(home: &Home, kind: CopyKind, report: Arc<CopyReport>) -> Self {
        let earlier = CopyProgress::read(home, kind).unwrap_or_else(|error| {
            tracing::warn!(error = chain(&error), "failed to read how far the copies were");
            None
        });
        let last = earlier.as_ref().and_then(|progress| Some((progress.place.clone(), progress.copied_at?)));
        report.set(earlier);
        let progress = CopyProgress::default();
        Self { home: home.clone(), kind, report, store: None, since: None, progress, last, told: None }
    }

    /// Returns the store of these settings. Forgets what is `known` of the one before, unless it is the same.
    pub(super) fn store(
        &mut self,
        settings: Option<&Arc<BlobSettings>>,
        known: &mut impl Default,
    ) -> Option<Arc<dyn BlobStore>> {
        if let (Some(settings), Some((opened, store))) = (settings, &self.store)
            && opened == settings
        {
            return Some(Arc::clone(store));
        }
        (self.since, *known) = (None, Default::default());
        let Some(settings) = settings else {
            if self.store.take().is_some() {
                self.progress = CopyProgress::default();
                self.tell();
            }
            return None;
        };
        let store = blob::open(&self.home, settings);
        let place = store.place().to_owned();
        let copied_at = self.last.as_ref().filter(|(of, _)| *of == place).map(|(_, at)| *at);
        self.store = Some((Arc::clone(settings), Arc::clone(&store)));
        self.progress = CopyProgress { place, copied_at, ..CopyProgress::default() };
        self.show();
        Some(store)
    }

    /// Notes the time since which the store is this home's. Returns `true` if it was another one before: somebody has taken the
    /// store again, perhaps because it was emptied, so that nothing is known of it.
    pub(super) fn is_taken_again(&mut self, since: i64) -> bool {
        self.since.replace(since).is_some_and(|before| before != since)
    }

    /// Forgets the failures of agents that are not there any more.
    pub(super) fn retain_agents(&mut self, config: &Config) {
        self.retain(|id| config.agents.iter().any(|agent| agent.id.as_str() == id));
    }

    /// Forgets the failures of the subjects, which are agents or vaults, that are not there any more.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.progress.failed.retain(|failed| is_there(&failed.subject));
    }

    /// Notes that something of a subject is to be copied.
    pub(super) fn note_waiting(&mut self, subject: &str) {
        self.progress.note_waiting(subject);
        self.show();
    }

    /// Returns `true` if something waits that has not been tried yet.
    pub(super) fn is_waiting(&self) -> bool {
        !self.progress.waiting.is_empty()
    }

    /// Notes that nothing of a subject waits to be tried.
    pub(super) fn note_tried(&mut self, subject: &str) {
        if self.progress.waiting.remove(subject) {
            self.show();
        }
    }

    /// Notes that something was copied now.
    pub(super) fn note_copy(&mut self) {
        let now = unix_ms();
        self.last = Some((self.progress.place.clone(), now));
        self.progress.copied_at = Some(now);
        self.show();
    }

    /// Notes that everything of a subject is in the store.
    pub(super) fn note_done(&mut self, subject: &str) {
        self.progress.note_done(subject);
        self.show();
    }

    /// Notes that the copy of a subject failed.
    pub(super) fn note_failure(&mut self, subject: &str, error: &impl Explain) {
        let (problem, hint) = (chain(error), error.hint());
        let before = self.progress.failed.iter().find(|failed| failed.subject == subject);
        let since = before.map(|failed| failed.since);
        // The same failure is logged once, and shown by doctor as long as it lasts.
        if since.is_none() {
            let hint = hint.as_deref().unwrap_or_default();
            tracing::warn!(subject, error = problem, hint, "failed to copy a {}", self.kind.name());
        }
        let (subject, since) = (subject.to_owned(), since.unwrap_or_else(unix_ms));
        self.progress.note_failure(FailedCopy { subject, since, problem, hint });
        self.show();
    }

    /// Shows the progress, and writes it for other processes if it has changed.
    pub(super) fn tell(&mut self) {
        self.show();
        if self.told.as_ref() == Some(&self.progress) {
            return;
        }
        match self.progress.write(&self.home, self.kind) {
            Ok(()) => self.told = Some(self.progress.clone()),
            Err(error) => tracing::warn!(error = chain(&error), "failed to write how far the copies are"),
        }
    }

    fn show(&self) {
        self.report.set(Some(self.progress.clone()));
    }
}

impl Drop for CopyReporter {
    /// Shows nothing any more: another gateway may go on.
    fn drop(&mut self) {
        self.report.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::BlobError;

    const KIND: CopyKind = CopyKind::Checkpoint;

    fn folder(path: &str) -> Arc<BlobSettings> {
        Arc::new(BlobSettings::Folder(path.into()))
    }

    #[test]
    fn a_gateway_goes_on_from_what_the_earlier_run_has_written() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::new(root.path().to_owned(), None);
        home.make_folders().unwrap();
        let report = Arc::new(CopyReport::default());
        drop(CopyReporter::begin(&home, KIND, Arc::clone(&report)));
        assert_eq!(report.get(), None, "nothing is known yet");
        let place = "/mnt/nas".to_owned();
        let written = CopyProgress { place: place.clone(), copied_at: Some(5), ..CopyProgress::default() };
        written.write(&home, KIND).unwrap();
        let mut reporter = CopyReporter::begin(&home, KIND, Arc::clone(&report));
        assert_eq!(report.get().as_ref(), Some(&written));
        // What is known of one place says nothing of another.
        let mut known = "of another";
        reporter.store(Some(&folder("/mnt/other")), &mut known).unwrap();
        assert_eq!((report.get().unwrap().copied_at, known), (None, ""));
        let store = reporter.store(Some(&folder(&place)), &mut known).unwrap();
        assert_eq!((store.place(), report.get().as_ref()), (place.as_str(), Some(&written)));
        known = "of this one";
        reporter.store(Some(&folder(&place)), &mut known).unwrap();
        assert_eq!(known, "of this one");
        reporter.note_copy();
        reporter.tell();
        let told = CopyProgress::read(&home, KIND).unwrap();
        assert!(told.as_ref().unwrap().copied_at > Some(5), "{told:?}");
        assert_eq!(report.get(), told);
        drop(reporter);
        assert_eq!(report.get(), None);
        assert_eq!(CopyProgress::read(&home, KIND).unwrap(), told);
    }

    #[test]
    fn a_place_that_was_taken_again_is_noticed_once_and_another_one_is_none() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::new(root.path().to_owned(), None);
        home.make_folders().unwrap();
        let mut reporter = CopyReporter::begin(&home, KIND, Arc::new(CopyReport::default()));
        reporter.store(Some(&folder("/mnt/nas")), &mut ()).unwrap();
        let noticed = [5, 5, 7, 7].map(|since| reporter.is_taken_again(since));
        assert_eq!(noticed, [false, false, true, false]);
        reporter.store(Some(&folder("/mnt/other")), &mut ()).unwrap();
        assert!(!reporter.is_taken_again(9));
        assert!(reporter.store(None, &mut ()).is_none());
        assert!(!reporter.is_taken_again(11));
    }

    #[test]
    fn a_failure_is_since_its_first_time_until_it_is_mended() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::new(root.path().to_owned(), None);
        home.make_folders().unwrap();
        let report = Arc::new(CopyReport::default());
        let mut reporter = CopyReporter::begin(&home, KIND, Arc::clone(&report));
        reporter.store(Some(&folder("/mnt/nas")), &mut ()).unwrap();
        reporter.note_waiting("ada");
        assert!(reporter.is_waiting());
        reporter.note_failure("ada", &BlobError::Lost { place: "one".to_owned() });
        let first = report.get().unwrap().failed.remove(0);
        reporter.note_failure("ada", &BlobError::Foreign { place: "two".to_owned() });
        reporter.note_waiting("ada");
        assert!(!reporter.is_waiting(), "it is known to fail");
        let second = report.get().unwrap().failed.remove(0);
        assert_eq!((first.since, second.hint.as_deref()), (second.since, Some("flock storage take")));
        assert!(first.problem.starts_with("one") && second.problem.starts_with("two"));
        reporter.note_done("ada");
        assert_eq!(report.get().unwrap().failed, []);
        // Without a place, nothing is shown of it, here and elsewhere.
        assert!(reporter.store(None, &mut ()).is_none());
        assert_eq!(CopyProgress::read(&home, KIND).unwrap(), Some(CopyProgress::default()));
    }
}

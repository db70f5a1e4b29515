//! How far the copies in the store are, for people: when the gateway made the last one, of which agents some wait or fail, and
//! why.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::MAX_FILE;
use crate::clock;
use crate::config::BlobSettings;
use crate::home::{Home, HomeError, atomic};
use crate::id::AgentId;

/// The command that says what is wrong with the place.
pub(crate) const CHECK: &str = "flock storage check";

/// The content of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyKind {
    Checkpoint,
    Conversation,
}

impl CopyKind {
    pub(crate) const ALL: [Self; 2] = [Self::Checkpoint, Self::Conversation];

    /// Returns the word for one copy.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Conversation => "conversation",
        }
    }

    /// Returns the file in which the gateway says how far these copies are.
    fn path(self, home: &Home) -> PathBuf {
        match self {
            Self::Checkpoint => home.blob_progress(),
            Self::Conversation => home.transcript_progress(),
        }
    }
}

/// The progress of the copies of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CopyProgress {
    /// The place of the store.
    pub(crate) place: String,
    /// The time of the gateway's last copy, in Unix milliseconds. An earlier version did not write it.
    #[serde(default)]
    pub(crate) copied_at: Option<i64>,
    /// The agents of which a copy is due or being made. Those with a failure are not among them.
    #[serde(default)]
    pub(crate) waiting: BTreeSet<AgentId>,
    /// The copies that failed, in the order of their agents.
    pub(crate) failed: Vec<FailedCopy>,
}

/// A copy that failed and is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedCopy {
    pub(crate) agent: AgentId,
    /// Unix milliseconds of the first failure in a row.
    pub(crate) since: i64,
    pub(crate) problem: String,
    /// The command that mends it.
    pub(crate) hint: Option<String>,
}

impl CopyProgress {
    /// Reads what the gateway has written. Returns `None` if it has not written anything.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(crate) fn read(home: &Home, kind: CopyKind) -> Result<Option<Self>, HomeError> {
        let bytes = atomic::read(&kind.path(home), MAX_FILE * 64)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Writes it for other processes.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be written.
    pub(crate) fn write(&self, home: &Home, kind: CopyKind) -> Result<(), HomeError> {
        let path = kind.path(home);
        let bytes = serde_json::to_vec(self).map_err(|error| HomeError::io("write", &path)(error.into()))?;
        atomic::write_unsynced(&path, &bytes, 0o600)
    }

    /// Notes that something of an agent is to be copied.
    pub(crate) fn note_waiting(&mut self, agent: &AgentId) {
        if self.place_of(agent).is_err() {
            self.waiting.insert(agent.clone());
        }
    }

    /// Notes that everything of an agent is in the store.
    pub(crate) fn note_done(&mut self, agent: &AgentId) {
        self.waiting.remove(agent);
        if let Ok(at) = self.place_of(agent) {
            self.failed.remove(at);
        }
    }

    /// Notes that an agent's copy failed.
    pub(crate) fn note_failure(&mut self, failed: FailedCopy) {
        self.waiting.remove(&failed.agent);
        match self.place_of(&failed.agent) {
            Ok(at) => self.failed[at] = failed,
            Err(at) => self.failed.insert(at, failed),
        }
    }

    /// Returns the place of an agent's failure in the list, or else the place where it belongs.
    fn place_of(&self, agent: &AgentId) -> Result<usize, usize> {
        self.failed.binary_search_by(|failed| failed.agent.cmp(agent))
    }

    /// Returns the failures for people.
    pub(crate) fn problems(&self, kind: CopyKind) -> Vec<CopyProblem> {
        let problem = |failed: &FailedCopy| CopyProblem {
            agent: failed.agent.clone(),
            since: failed.since,
            message: format!(
                "no {} of {} was copied to {} since {}: {}",
                kind.name(),
                failed.agent,
                self.place,
                clock::local(failed.since),
                failed.problem
            ),
            hint: failed.hint.clone().unwrap_or_else(|| CHECK.to_owned()),
        };
        self.failed.iter().map(problem).collect()
    }
}

/// A failed copy, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CopyProblem {
    pub(crate) agent: AgentId,
    /// Unix milliseconds of the first failure in a row.
    pub(crate) since: i64,
    /// A sentence with the reason.
    pub(crate) message: String,
    /// The command that mends it.
    pub(crate) hint: String,
}

/// The state of the second place, as `flock status` and `GET /api/status` show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StorageStatus {
    /// The place, without a key.
    place: String,
    /// `None` if nothing is known of copies there.
    checkpoints: Option<CopyStatus>,
    /// `None` if nothing is known of copies there.
    conversations: Option<CopyStatus>,
}

/// The state of the copies of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct CopyStatus {
    /// Unix milliseconds of the last copy.
    copied_at: Option<i64>,
    waiting: BTreeSet<AgentId>,
    failed: Vec<CopyProblem>,
}

impl StorageStatus {
    /// Returns the state of the place of these settings. What is known of another place does not count.
    pub(crate) fn new(
        settings: &BlobSettings,
        checkpoints: Option<CopyProgress>,
        conversations: Option<CopyProgress>,
    ) -> Self {
        let place = settings.place();
        let of = |kind: CopyKind, progress: Option<CopyProgress>| {
            let progress = progress.filter(|progress| progress.place == place)?;
            let failed = progress.problems(kind);
            Some(CopyStatus { copied_at: progress.copied_at, waiting: progress.waiting, failed })
        };
        let checkpoints = of(CopyKind::Checkpoint, checkpoints);
        let conversations = of(CopyKind::Conversation, conversations);
        Self { place, checkpoints, conversations }
    }

    /// Reads the state that the gateway has written last.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read.
    pub(crate) fn read(home: &Home, settings: &BlobSettings) -> Result<Self, HomeError> {
        let checkpoints = CopyProgress::read(home, CopyKind::Checkpoint)?;
        Ok(Self::new(settings, checkpoints, CopyProgress::read(home, CopyKind::Conversation)?))
    }
}

/// A mark of the state of an agent's checkpoints, which differs after each new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointMark {
    length: u64,
    modified: Option<SystemTime>,
}

impl CheckpointMark {
    /// Returns the mark of an agent's checkpoints, or `None` if there are none.
    pub(crate) fn of(home: &Home, agent: &AgentId) -> Option<Self> {
        let found = home.checkpoints(agent).join("records.jsonl").symlink_metadata().ok()?;
        Some(Self { length: found.len(), modified: found.modified().ok() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(id: &str) -> AgentId {
        id.parse().unwrap()
    }

    fn failed(id: &str, problem: &str, hint: Option<&str>) -> FailedCopy {
        FailedCopy { agent: agent(id), since: 7, problem: problem.to_owned(), hint: hint.map(str::to_owned) }
    }

    #[test]
    fn an_agent_waits_or_fails_or_is_done() {
        let mut progress = CopyProgress::default();
        for id in ["cara", "ada", "bob"] {
            progress.note_waiting(&agent(id));
            progress.note_failure(failed(id, "it is full", None));
        }
        progress.note_failure(failed("bob", "it is gone", None));
        let order: Vec<_> = progress.failed.iter().map(|failed| failed.agent.as_str()).collect();
        assert_eq!(order, ["ada", "bob", "cara"]);
        assert_eq!(progress.failed[1].problem, "it is gone");
        // One that failed is tried again, and waits for nothing else.
        progress.note_waiting(&agent("bob"));
        progress.note_waiting(&agent("dan"));
        assert_eq!(progress.waiting, BTreeSet::from([agent("dan")]));
        for id in ["bob", "dan", "eve"] {
            progress.note_done(&agent(id));
        }
        assert_eq!((progress.waiting.len(), progress.failed.len()), (0, 2));
    }

    #[test]
    fn the_state_has_the_sentences_of_doctor_and_nothing_of_another_place() {
        let settings = BlobSettings::Folder("/mnt/nas".into());
        let progress = CopyProgress {
            place: "/mnt/nas".to_owned(),
            copied_at: Some(5),
            waiting: BTreeSet::from([agent("dan")]),
            failed: vec![failed("ada", "it is full", None), failed("bob", "it is gone", Some("mount it"))],
        };
        let other = CopyProgress { place: "/mnt/other".to_owned(), ..progress.clone() };
        let problems = progress.problems(CopyKind::Checkpoint);
        let since = clock::local(7);
        let text = format!("no checkpoint of ada was copied to /mnt/nas since {since}: it is full");
        assert_eq!((&problems[0].message, problems[0].hint.as_str()), (&text, CHECK));
        let shown = json!(StorageStatus::new(&settings, Some(progress), Some(other)));
        let expected = json!({"place": "/mnt/nas", "conversations": null,
            "checkpoints": {"copiedAt": 5, "waiting": ["dan"], "failed": problems}});
        assert_eq!(shown, expected);
        assert_eq!(shown["checkpoints"]["failed"][1]["hint"], "mount it");
    }

    #[test]
    fn what_an_earlier_version_has_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        let (kind, settings) = (CopyKind::Conversation, BlobSettings::Folder("/mnt/nas".into()));
        let none = json!({"place": "/mnt/nas", "checkpoints": null, "conversations": null});
        assert_eq!(json!(StorageStatus::read(&home, &settings).unwrap()), none);
        let old = json!({"place": "/mnt/nas", "failed": [failed("ada", "it is full", None)]});
        fs_err::write(home.transcript_progress(), old.to_string()).unwrap();
        let mut progress = CopyProgress::read(&home, kind).unwrap().unwrap();
        assert_eq!((progress.copied_at, progress.failed.len()), (None, 1));
        progress.copied_at = Some(9);
        progress.write(&home, kind).unwrap();
        let shown = json!(StorageStatus::read(&home, &settings).unwrap());
        assert_eq!(shown["conversations"]["copiedAt"], 9, "{shown}");
        assert_eq!(shown["checkpoints"], json!(null), "{shown}");
    }
}

//! Progress of the copies in the store, for people: when the gateway made the last one, of which agents and vaults some wait or
//! fail, and why.

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
    Vault,
}

impl CopyKind {
    pub(crate) const ALL: [Self; 3] = [Self::Checkpoint, Self::Conversation, Self::Vault];

    /// Returns the word for one copy.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Conversation => "conversation",
            Self::Vault => "vault",
        }
    }

    /// Returns the subject of a copy of this kind.
    fn subject(self, name: &str) -> CopySubject {
        match self {
            Self::Checkpoint | Self::Conversation => CopySubject::Agent(name.to_owned()),
            Self::Vault => CopySubject::Vault(name.to_owned()),
        }
    }

    /// Returns the sentence that nothing was copied, without its time and reason.
    fn complaint(self, name: &str, place: &str) -> String {
        match self {
            Self::Checkpoint | Self::Conversation => {
                format!("no {} of {name} was copied to {place}", self.name())
            }
            Self::Vault => format!("not all of the vault {name} was copied to {place}"),
        }
    }

    /// Returns the file in which the gateway says how far these copies are.
    fn path(self, home: &Home) -> PathBuf {
        match self {
            Self::Checkpoint => home.blob_progress(),
            Self::Conversation => home.transcript_progress(),
            Self::Vault => home.vault_progress(),
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
    /// The ids of the agents, or the names of the vaults, of which a copy is due or being made. Those with a failure are not
    /// among them.
    #[serde(default)]
    pub(crate) waiting: BTreeSet<String>,
    /// The copies that failed, in the order of their subjects.
    pub(crate) failed: Vec<FailedCopy>,
}

/// A copy that failed and is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedCopy {
    /// The id of the agent, or the name of the vault. Earlier versions knew only agents.
    #[serde(alias = "agent")]
    pub(crate) subject: String,
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

    /// Notes that something of a subject is to be copied.
    pub(crate) fn note_waiting(&mut self, subject: &str) {
        if self.place_of(subject).is_err() {
            self.waiting.insert(subject.to_owned());
        }
    }

    /// Notes that everything of a subject is in the store.
    pub(crate) fn note_done(&mut self, subject: &str) {
        self.waiting.remove(subject);
        if let Ok(at) = self.place_of(subject) {
            self.failed.remove(at);
        }
    }

    /// Notes that the copy of a subject failed.
    pub(crate) fn note_failure(&mut self, failed: FailedCopy) {
        self.waiting.remove(&failed.subject);
        match self.place_of(&failed.subject) {
            Ok(at) => self.failed[at] = failed,
            Err(at) => self.failed.insert(at, failed),
        }
    }

    /// Returns the place of a subject's failure in the list, or else the place where it belongs.
    fn place_of(&self, subject: &str) -> Result<usize, usize> {
        self.failed.binary_search_by(|failed| failed.subject.as_str().cmp(subject))
    }

    /// Returns the failures for people.
    pub(crate) fn problems(&self, kind: CopyKind) -> Vec<CopyProblem> {
        let problem = |failed: &FailedCopy| CopyProblem {
            subject: kind.subject(&failed.subject),
            since: failed.since,
            message: format!(
                "{} since {}: {}",
                kind.complaint(&failed.subject, &self.place),
                clock::local(failed.since),
                failed.problem
            ),
            hint: failed.hint.clone().unwrap_or_else(|| CHECK.to_owned()),
        };
        self.failed.iter().map(problem).collect()
    }
}

/// The thing that is copied. Its kind is the name of its field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CopySubject {
    Agent(String),
    Vault(String),
}

/// A failed copy, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CopyProblem {
    #[serde(flatten)]
    pub(crate) subject: CopySubject,
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
    /// `None` if nothing is known of copies there.
    vaults: Option<CopyStatus>,
}

/// The state of the copies of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct CopyStatus {
    /// Unix milliseconds of the last copy.
    copied_at: Option<i64>,
    waiting: BTreeSet<String>,
    failed: Vec<CopyProblem>,
}

/// The progress of each kind, as far as it is known.
type AllProgress = [Option<CopyProgress>; CopyKind::ALL.len()];

impl StorageStatus {
    /// Returns the state of the place of these settings. The progress is in the order of [`CopyKind::ALL`]; that of another
    /// place does not count.
    pub(crate) fn new(settings: &BlobSettings, [checkpoints, conversations, vaults]: AllProgress) -> Self {
        let place = settings.place();
        let of = |kind: CopyKind, progress: Option<CopyProgress>| {
            let progress = progress.filter(|progress| progress.place == place)?;
            let failed = progress.problems(kind);
            Some(CopyStatus { copied_at: progress.copied_at, waiting: progress.waiting, failed })
        };
        let checkpoints = of(CopyKind::Checkpoint, checkpoints);
        let conversations = of(CopyKind::Conversation, conversations);
        let vaults = of(CopyKind::Vault, vaults);
        Self { place, checkpoints, conversations, vaults }
    }

    /// Reads the state that the gateway has written last.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read.
    pub(crate) fn read(home: &Home, settings: &BlobSettings) -> Result<Self, HomeError> {
        let [checkpoints, conversations, vaults] = CopyKind::ALL.map(|kind| CopyProgress::read(home, kind));
        Ok(Self::new(settings, [checkpoints?, conversations?, vaults?]))
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

    fn failed(subject: &str, problem: &str, hint: Option<&str>) -> FailedCopy {
        let (subject, problem) = (subject.to_owned(), problem.to_owned());
        FailedCopy { subject, since: 7, problem, hint: hint.map(str::to_owned) }
    }

    #[test]
    fn an_agent_waits_or_fails_or_is_done() {
        let mut progress = CopyProgress::default();
        for id in ["cara", "ada", "bob"] {
            progress.note_waiting(id);
            progress.note_failure(failed(id, "it is full", None));
        }
        progress.note_failure(failed("bob", "it is gone", None));
        let order: Vec<_> = progress.failed.iter().map(|failed| failed.subject.as_str()).collect();
        assert_eq!(order, ["ada", "bob", "cara"]);
        assert_eq!(progress.failed[1].problem, "it is gone");
        // One that failed is tried again, and waits for nothing else.
        progress.note_waiting("bob");
        progress.note_waiting("dan");
        assert_eq!(progress.waiting, BTreeSet::from(["dan".to_owned()]));
        for id in ["bob", "dan", "eve"] {
            progress.note_done(id);
        }
        assert_eq!((progress.waiting.len(), progress.failed.len()), (0, 2));
    }

    #[test]
    fn the_state_has_the_sentences_of_doctor_and_nothing_of_another_place() {
        let settings = BlobSettings::Folder("/mnt/nas".into());
        let progress = CopyProgress {
            place: "/mnt/nas".to_owned(),
            copied_at: Some(5),
            waiting: BTreeSet::from(["dan".to_owned()]),
            failed: vec![failed("ada", "it is full", None), failed("bob", "it is gone", Some("mount it"))],
        };
        let other = CopyProgress { place: "/mnt/other".to_owned(), ..progress.clone() };
        let problems = progress.problems(CopyKind::Checkpoint);
        let since = clock::local(7);
        let text = format!("no checkpoint of ada was copied to /mnt/nas since {since}: it is full");
        assert_eq!((&problems[0].message, problems[0].hint.as_str()), (&text, CHECK));
        let all = [Some(progress.clone()), Some(other), Some(progress)];
        let shown = json!(StorageStatus::new(&settings, all));
        assert_eq!((&shown["place"], &shown["conversations"]), (&json!("/mnt/nas"), &json!(null)));
        let expected = json!({"copiedAt": 5, "waiting": ["dan"], "failed": problems});
        assert_eq!(shown["checkpoints"], expected);
        let second = json!({"agent": "bob", "since": 7, "message": problems[1].message, "hint": "mount it"});
        assert_eq!(shown["checkpoints"]["failed"][1], second);
        let text = format!("not all of the vault ada was copied to /mnt/nas since {since}: it is full");
        let first = json!({"vault": "ada", "since": 7, "message": text, "hint": CHECK});
        assert_eq!(shown["vaults"]["failed"][0], first);
    }

    #[test]
    fn what_an_earlier_version_has_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        let (kind, settings) = (CopyKind::Conversation, BlobSettings::Folder("/mnt/nas".into()));
        let none = json!({"place": "/mnt/nas", "checkpoints": null, "conversations": null, "vaults": null});
        assert_eq!(json!(StorageStatus::read(&home, &settings).unwrap()), none);
        let old = json!({"agent": "ada", "since": 7, "problem": "it is full", "hint": null});
        let old = json!({"place": "/mnt/nas", "failed": [old]});
        fs_err::write(home.transcript_progress(), old.to_string()).unwrap();
        let mut progress = CopyProgress::read(&home, kind).unwrap().unwrap();
        assert_eq!((progress.copied_at, &progress.failed), (None, &vec![failed("ada", "it is full", None)]));
        progress.copied_at = Some(9);
        progress.write(&home, kind).unwrap();
        let shown = json!(StorageStatus::read(&home, &settings).unwrap());
        assert_eq!(shown["conversations"]["copiedAt"], 9, "{shown}");
        assert_eq!(shown["checkpoints"], json!(null), "{shown}");
    }
}

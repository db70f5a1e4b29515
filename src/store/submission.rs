//! Submissions: branches of agents that are to be joined with their project. One row holds a submission from the queue to
//! its outcome.
//!
//! A submission changes its state only from the states that the caller expects. Each change is one transaction with its
//! audit row and its inbox items.

use serde::Serialize;

use super::request::Along;
use super::session::parsed;
use super::sql::{
    self, Connection, FromSql, FromSqlError, FromSqlResult, OptionalExtension as _, Row, ToSql, ToSqlResult,
    Transaction, ValueRef, params,
};
use super::subjects::Submissions;
use super::{Database, Store, StoreError};
use crate::id::{AgentId, ProjectName, SessionKey};

/// The state of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SubmissionState {
    /// Waits for its turn in the merge train.
    Queued,
    /// Was joined with the tip and is being checked.
    Checking,
    /// Passed its checks and waits for a reviewer or a person.
    Review,
    /// Passed its checks in a race, and waits for the decision.
    Proven,
    /// The project's tip contains it.
    Merged,
    /// A check failed or a reviewer sent it back.
    Refused,
    /// It can't be joined with the tip without a decision of its author.
    Conflict,
    /// Taken back, or replaced by a newer submission of the same branch.
    Withdrawn,
}

impl SubmissionState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Queued,
        Self::Checking,
        Self::Review,
        Self::Proven,
        Self::Merged,
        Self::Refused,
        Self::Conflict,
        Self::Withdrawn,
    ];
    /// The states from which a submission goes on.
    pub const OPEN: [Self; 4] = [Self::Queued, Self::Checking, Self::Review, Self::Proven];

    /// Returns the name that the database, agents and the API use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Checking => "checking",
            Self::Review => "review",
            Self::Proven => "proven",
            Self::Merged => "merged",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Returns `true` if the submission is still on its way.
    #[must_use]
    pub fn is_open(self) -> bool {
        Self::OPEN.contains(&self)
    }
}

impl FromSql for SubmissionState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for SubmissionState {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok(self.as_str().into())
    }
}

/// A submission as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Submission {
    pub id: i64,
    pub project: ProjectName,
    pub agent: AgentId,
    pub branch: String,
    /// The commit that is joined.
    pub commit: String,
    /// One line about the change.
    pub title: String,
    /// The session that submitted it.
    #[serde(skip)]
    pub session: Option<SessionKey>,
    /// The task that it is for.
    pub task: Option<String>,
    pub state: SubmissionState,
    /// The tip that it was joined with.
    pub base: Option<String>,
    /// The commit that joins both.
    pub candidate: Option<String>,
    /// The outcome, in words.
    pub detail: String,
    /// Why a person has to accept it.
    pub reasons: Vec<String>,
    /// The receipt of its checks.
    pub receipt: Option<String>,
    /// The candidate that passed its checks.
    #[serde(skip)]
    pub checked: Option<String>,
    /// The agent that was asked to review it.
    pub reviewer: Option<AgentId>,
    /// Unix milliseconds at which the reviewer approved.
    pub reviewed_at: Option<i64>,
    /// The person who accepted it.
    pub accepted_by: Option<String>,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds.
    pub updated_at: i64,
}

/// A submission to be added.
#[derive(Clone, Debug)]
pub struct NewSubmission {
    pub project: ProjectName,
    pub agent: AgentId,
    pub branch: String,
    pub commit: String,
    pub title: String,
    pub session: Option<SessionKey>,
    pub task: Option<String>,
    /// The current time in Unix milliseconds.
    pub now: i64,
}

/// A change of a submission. Fields that are `None` stay as they are.
#[derive(Clone, Debug)]
pub struct SubmissionChange {
    pub state: SubmissionState,
    pub base: Option<String>,
    pub candidate: Option<String>,
    pub detail: Option<String>,
    pub reasons: Option<Vec<String>>,
    pub receipt: Option<String>,
    /// The agent that is asked to review it.
    pub reviewer: Option<AgentId>,
    /// Unix milliseconds at which the reviewer approved.
    pub reviewed_at: Option<i64>,
    /// The person who accepted it.
    pub accepted_by: Option<String>,
    /// The candidate that passed its checks.
    pub checked: Option<String>,
    /// Set if what a person accepted is no longer what would be merged.
    pub ends_acceptance: bool,
}

impl SubmissionChange {
    /// Returns a change to this state alone.
    #[must_use]
    pub const fn to(state: SubmissionState) -> Self {
        Self {
            state,
            base: None,
            candidate: None,
            detail: None,
            reasons: None,
            receipt: None,
            reviewer: None,
            reviewed_at: None,
            accepted_by: None,
            checked: None,
            ends_acceptance: false,
        }
    }
}

/// The selection of submissions that a query returns. Fields that are `None` select all.
#[derive(Clone, Debug, Default)]
pub struct SubmissionFilter {
    pub project: Option<ProjectName>,
    pub agent: Option<AgentId>,
    pub task: Option<String>,
    /// Set to select those that are on their way.
    pub is_open: bool,
}

const SELECT: &str = "SELECT id, project, agent, branch, commit_id, title, session, task, state, base, candidate, detail,
        reasons, receipt, reviewer, reviewed_at, accepted_by, created_at, updated_at, checked FROM submission";

fn submission(row: &Row<'_>) -> sql::Result<Submission> {
    let session: Option<String> = row.get(6)?;
    let reasons: String = row.get(12)?;
    let reviewer: Option<String> = row.get(14)?;
    Ok(Submission {
        id: row.get(0)?,
        project: parsed(row, 1)?,
        agent: parsed(row, 2)?,
        branch: row.get(3)?,
        commit: row.get(4)?,
        title: row.get(5)?,
        session: session.map(|_| parsed(row, 6)).transpose()?,
        task: row.get(7)?,
        state: row.get(8)?,
        base: row.get(9)?,
        candidate: row.get(10)?,
        detail: row.get(11)?,
        reasons: serde_json::from_str(&reasons).unwrap_or_default(),
        receipt: row.get(13)?,
        reviewer: reviewer.map(|_| parsed(row, 14)).transpose()?,
        reviewed_at: row.get(15)?,
        accepted_by: row.get(16)?,
        created_at: row.get(17)?,
        updated_at: row.get(18)?,
        checked: row.get(19)?,
    })
}

fn find(connection: &Connection<'_>, id: i64) -> sql::Result<Option<Submission>> {
    connection.prepare_cached(&format!("{SELECT} WHERE id = ?1"))?.query_row([id], submission).optional()
}

fn change(transaction: &Transaction<'_>, id: i64, change: &SubmissionChange, now: i64) -> sql::Result<()> {
    let reasons = change.reasons.as_ref().map(|reasons| serde_json::json!(reasons).to_string());
    transaction
        .prepare_cached(
            "UPDATE submission SET state = ?2, base = coalesce(?3, base), candidate = coalesce(?4, candidate),
                detail = coalesce(?5, detail), reasons = coalesce(?6, reasons), receipt = coalesce(?7, receipt),
                reviewer = coalesce(?8, reviewer), reviewed_at = coalesce(?9, reviewed_at),
                accepted_by = CASE WHEN CAST(?13 AS BIGINT) <> 0 THEN NULL ELSE coalesce(?10, accepted_by) END,
                checked = coalesce(?12, checked), updated_at = ?11 WHERE id = ?1",
        )?
        .execute(params![
            id,
            change.state,
            change.base,
            change.candidate,
            change.detail,
            reasons,
            change.receipt,
            change.reviewer.as_ref().map(AgentId::as_str),
            change.reviewed_at,
            change.accepted_by,
            now,
            change.checked,
            change.ends_acceptance
        ])
        .map(drop)
}

impl<A> Submissions<&Database<A>> {
    /// Returns the submission with this number.
    pub async fn find(self, id: i64) -> Result<Option<Submission>, StoreError> {
        self.read("look for a submission", |connection| find(connection, id)).await
    }

    /// Returns the newest submissions of a selection, at most `limit`.
    pub async fn list(self, filter: &SubmissionFilter, limit: u32) -> Result<Vec<Submission>, StoreError> {
        self.read("list the submissions", |connection| {
            connection
                .prepare_cached(&format!(
                    "{SELECT} WHERE (CAST(?1 AS TEXT) IS NULL OR project = ?1) AND (CAST(?2 AS TEXT) IS NULL OR agent = ?2)
                     AND (CAST(?3 AS TEXT) IS NULL OR task = ?3)
                     AND (CAST(?4 AS BIGINT) = 0 OR state IN ('queued', 'checking', 'review', 'proven'))
                     ORDER BY id DESC LIMIT ?5"
                ))?
                .query_map(
                    params![
                        filter.project.as_ref().map(ProjectName::as_str),
                        filter.agent.as_ref().map(AgentId::as_str),
                        filter.task,
                        filter.is_open,
                        limit
                    ],
                    submission,
                )?
                .collect()
        })
        .await
    }

    /// Returns the submission of a project that the merge train takes next: the one that it was checking when it was
    /// interrupted, or the oldest one in the queue.
    pub(crate) async fn next(self, project: &ProjectName) -> Result<Option<Submission>, StoreError> {
        self.read("look for the next submission", |connection| {
            connection
                .prepare_cached(&format!(
                    "{SELECT} WHERE project = ?1 AND state IN ('checking', 'queued')
                     ORDER BY state = 'queued', id LIMIT 1"
                ))?
                .query_row([project.as_str()], submission)
                .optional()
        })
        .await
    }
}

impl Submissions<&Store> {
    /// Puts a branch into the queue. An earlier submission of the same branch that is on its way is withdrawn. `along`
    /// makes the rows that are written with it from its number.
    pub async fn add(
        self,
        new: NewSubmission,
        along: impl FnOnce(i64) -> Along + Send + 'static,
    ) -> Result<Submission, StoreError> {
        self.write("keep a submission", move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE submission SET state = 'withdrawn', detail = 'replaced by a newer submission',
                        updated_at = ?3
                     WHERE project = ?1 AND branch = ?2 AND state IN ('queued', 'checking', 'review', 'proven')",
                )?
                .execute((new.project.as_str(), &new.branch, new.now))?;
            let id = transaction
                .prepare_cached(
                    "INSERT INTO submission (project, agent, branch, commit_id, title, session, task, state,
                        created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'queued', ?8, ?8)
                     RETURNING id",
                )?
                .query_row(params![
                    new.project.as_str(),
                    new.agent.as_str(),
                    new.branch,
                    new.commit,
                    new.title,
                    new.session.as_ref().map(SessionKey::as_str),
                    new.task,
                    new.now
                ], |row| row.get(0))?;
            along(id).write(transaction, new.now)?;
            find(transaction, id)?.ok_or(sql::Error::NoRow)
        })
        .await
    }

    /// Changes a submission if it is in one of these states. Returns the row after the change, or `None` if it is in
    /// another state or does not exist.
    pub async fn step(
        self,
        id: i64,
        from: &'static [SubmissionState],
        to: SubmissionChange,
        along: Option<Along>,
        now: i64,
    ) -> Result<Option<Submission>, StoreError> {
        self.write("change a submission", move |transaction| {
            let Some(found) = find(transaction, id)? else { return Ok(None) };
            if !from.contains(&found.state) {
                return Ok(None);
            }
            change(transaction, id, &to, now)?;
            if let Some(along) = along {
                along.write(transaction, now)?;
            }
            find(transaction, id)
        })
        .await
    }

    /// Deletes all submissions, findings and claims of a project. Returns the number of submissions.
    pub async fn remove_project(self, project: ProjectName) -> Result<usize, StoreError> {
        self.write("delete the submissions of a project", move |transaction| {
            transaction.execute("DELETE FROM claim WHERE project = ?1", [project.as_str()])?;
            transaction.execute("DELETE FROM submission WHERE project = ?1", [project.as_str()])
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::{AuditEntry, Level};

    struct Scene {
        _folder: tempfile::TempDir,
        store: Store,
    }

    fn scene() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        Scene { _folder: folder, store: Store::open(&home).unwrap() }
    }

    fn along() -> Along {
        Along::audit(AuditEntry::new("ann", "project.submit", "lib", Level::Green, String::new()))
    }

    impl Scene {
        async fn submit(&self, agent: &str, branch: &str) -> Submission {
            let new = NewSubmission {
                project: "lib".parse().unwrap(),
                agent: agent.parse().unwrap(),
                branch: branch.to_owned(),
                commit: "c".to_owned(),
                title: "x".to_owned(),
                session: Some(format!("agent:{agent}:flock:main:kim").parse().unwrap()),
                task: Some("7".to_owned()),
                now: 5,
            };
            self.store.submissions().add(new, |_| along()).await.unwrap()
        }

        async fn next(&self) -> Option<i64> {
            self.store.submissions().next(&"lib".parse().unwrap()).await.unwrap().map(|found| found.id)
        }
    }

    #[tokio::test]
    async fn the_train_takes_what_it_was_checking_and_then_the_oldest() {
        let scene = scene();
        let [first, second] = [scene.submit("ann", "a").await, scene.submit("bob", "b").await];
        assert_eq!(scene.next().await, Some(first.id));
        let to = SubmissionChange::to(SubmissionState::Checking);
        scene.store.submissions().step(second.id, &[SubmissionState::Queued], to, None, 6).await.unwrap();
        assert_eq!(scene.next().await, Some(second.id));
    }

    #[tokio::test]
    async fn a_branch_has_one_submission_on_its_way() {
        let scene = scene();
        let [first, second] = [scene.submit("ann", "a").await, scene.submit("ann", "a").await];
        let before = scene.store.submissions().find(first.id).await.unwrap().unwrap();
        assert_eq!(before.state, SubmissionState::Withdrawn);
        assert_eq!(scene.next().await, Some(second.id));
        let filter = SubmissionFilter { task: Some("7".into()), is_open: true, ..Default::default() };
        assert_eq!(scene.store.submissions().list(&filter, 9).await.unwrap(), [second]);
    }

    #[tokio::test]
    async fn a_change_needs_the_expected_state() {
        let scene = scene();
        let found = scene.submit("ann", "a").await;
        let to = SubmissionChange {
            base: Some("b".into()),
            reasons: Some(vec!["tests/x.py was changed".into()]),
            accepted_by: Some("kim".into()),
            ..SubmissionChange::to(SubmissionState::Review)
        };
        let step = |from: &'static [SubmissionState]| {
            scene.store.submissions().step(found.id, from, to.clone(), Some(along()), 9)
        };
        assert_eq!(step(&[SubmissionState::Checking]).await.unwrap(), None);
        let after = step(&SubmissionState::OPEN).await.unwrap().unwrap();
        assert_eq!(after.state, SubmissionState::Review);
        assert_eq!((after.base.as_deref(), after.accepted_by.as_deref()), (Some("b"), Some("kim")));
        assert_eq!((after.reasons.len(), after.updated_at, after.candidate), (1, 9, None));
    }

    #[tokio::test]
    async fn a_removed_project_leaves_nothing() {
        let scene = scene();
        scene.submit("ann", "a").await;
        assert_eq!(scene.store.submissions().remove_project("lib".parse().unwrap()).await.unwrap(), 1);
        assert!(scene.store.submissions().list(&SubmissionFilter::default(), 9).await.unwrap().is_empty());
    }
}

//! What reviewers found in a submission, and what its author answered.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::sql::{self, Connection, Row, params};
use super::subjects::Submissions;
use super::{Database, Store, StoreError};
use crate::id::AgentId;

/// A remark of a reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub id: i64,
    /// The number of the submission.
    pub submission: i64,
    /// The agent or the person.
    pub reviewer: String,
    #[serde(flatten)]
    pub content: NewFinding,
    /// The answer of the author.
    pub answer: Option<String>,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// The content of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewFinding {
    /// Set if the change must not be merged as it is; unset for advice.
    #[serde(rename = "blocking", default)]
    pub is_blocking: bool,
    /// The file that it is about.
    #[serde(default)]
    pub path: Option<String>,
    /// The line in the file, counted from 1.
    #[serde(default)]
    pub line: Option<u32>,
    pub text: String,
}

/// A submission with findings, as the search sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewedSubmission {
    pub id: i64,
    /// It changes when a finding is added or answered.
    pub stamp: String,
}

/// A finding together with what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundFinding {
    pub project: String,
    pub finding: Finding,
}

/// The condition that agent `?1` was told of a finding in a session that it still has: as the author of the submission,
/// or as the reviewer. A later agent of the same id has none of these sessions.
const TOLD: &str = "(CAST(?1 AS TEXT) IS NULL
    OR s.agent = ?1 AND EXISTS (SELECT 1 FROM session WHERE key = s.session AND agent = ?1)
    OR f.reviewer = ?1 AND EXISTS (
        SELECT 1 FROM session WHERE key = 'agent:' || ?1 || ':flock:request:review-' || s.id AND agent = ?1))";

fn finding(row: &Row<'_>) -> sql::Result<Finding> {
    Ok(Finding {
        id: row.get(0)?,
        submission: row.get(1)?,
        reviewer: row.get(2)?,
        content: NewFinding {
            is_blocking: row.get(3)?,
            path: row.get(4)?,
            line: row.get(5)?,
            text: row.get(6)?,
        },
        answer: row.get(7)?,
        created_at: row.get(8)?,
    })
}

const SELECT: &str = "SELECT f.id, f.submission, f.reviewer, f.is_blocking, f.path, f.line, f.content, f.answer, f.created_at FROM finding f";

fn of(connection: &Connection<'_>, submission: i64) -> sql::Result<Vec<Finding>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE f.submission = ?1 ORDER BY f.id"))?
        .query_map([submission], finding)?
        .collect()
}

impl<A> Submissions<&Database<A>> {
    /// Returns the findings of a submission, oldest first.
    pub async fn findings(self, submission: i64) -> Result<Vec<Finding>, StoreError> {
        self.read("list the findings", |connection| of(connection, submission)).await
    }

    /// Returns the submissions with findings, the newest first. With an agent, only those with findings that it was told.
    pub(crate) async fn reviewed(
        self,
        agent: Option<&AgentId>,
        limit: u32,
    ) -> Result<Vec<ReviewedSubmission>, StoreError> {
        self.read("list the reviewed submissions", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT s.id, count(*) || ' ' || max(f.id) || ' ' || count(f.answer)
                     FROM submission s JOIN finding f ON f.submission = s.id
                     WHERE s.id IN (SELECT s.id FROM submission s JOIN finding f ON f.submission = s.id WHERE {TOLD})
                     GROUP BY s.id ORDER BY s.id DESC LIMIT ?2"
                ))?
                .query_map(params![agent.map(AgentId::as_str), limit], |row| {
                    Ok(ReviewedSubmission { id: row.get(0)?, stamp: row.get(1)? })
                })?
                .collect()
        })
        .await
    }

    /// Returns findings by their numbers. With an agent, only those that it was told.
    pub(crate) async fn findings_by_number(
        self,
        agent: Option<&AgentId>,
        numbers: &[i64],
    ) -> Result<HashMap<i64, FoundFinding>, StoreError> {
        self.read("read found findings", |connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT f.id, f.submission, f.reviewer, f.is_blocking, f.path, f.line, f.content, f.answer, f.created_at, s.project
                 FROM finding f JOIN submission s ON s.id = f.submission WHERE f.id = ?2 AND {TOLD}"
            ))?;
            let mut found = HashMap::new();
            for number in numbers {
                for row in select.query_map(params![agent.map(AgentId::as_str), number], |row| {
                    Ok(FoundFinding { project: row.get(9)?, finding: finding(row)? })
                })? {
                    found.insert(*number, row?);
                }
            }
            Ok(found)
        })
        .await
    }

    /// Returns the findings of all submissions of a branch that its author has not answered yet.
    pub(crate) async fn unanswered(self, project: &str, branch: &str) -> Result<Vec<Finding>, StoreError> {
        self.read("list the findings of a branch", |connection| {
            connection
                .prepare_cached(&format!(
                    "{SELECT} JOIN submission s ON s.id = f.submission
                     WHERE s.project = ?1 AND s.branch = ?2 AND f.answer IS NULL ORDER BY f.id"
                ))?
                .query_map((project, branch), finding)?
                .collect()
        })
        .await
    }
}

impl Submissions<&Store> {
    /// Adds findings of a reviewer to a submission.
    pub(crate) async fn add_findings(
        self,
        submission: i64,
        reviewer: String,
        findings: Vec<NewFinding>,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("keep findings", move |transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO finding (submission, reviewer, is_blocking, path, line, content, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            for new in &findings {
                insert.execute(params![
                    submission,
                    reviewer,
                    new.is_blocking,
                    new.path,
                    new.line,
                    new.text,
                    now
                ])?;
            }
            Ok(())
        })
        .await
    }

    /// Writes the author's answers to findings, by the findings' numbers. The first answer of each is kept.
    pub(crate) async fn answer(self, answers: Vec<(i64, String)>) -> Result<(), StoreError> {
        self.write("keep answers to findings", move |transaction| {
            let mut update = transaction
                .prepare_cached("UPDATE finding SET answer = ?2 WHERE id = ?1 AND answer IS NULL")?;
            for (id, answer) in &answers {
                update.execute((id, answer))?;
            }
            Ok(())
        })
        .await
    }
}

//! An agent reviews the work of another: it is asked, and its findings are kept until the author has answered them.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Projects, ProjectsError, along, news, notice, rule};
use crate::clean;
use crate::clock::unix_ms;
use crate::config::{Project, Review};
use crate::id::{AgentId, SessionKey, SessionKind};
use crate::store::{Finding, NewFinding, NewInboxItem, Submission, SubmissionChange, SubmissionState};
use crate::swarm::Actor;

/// The most findings of one review.
const MAX_FINDINGS: usize = 50;
/// Longest text of a finding, in bytes.
const MAX_TEXT: usize = 4 * 1024;

/// The verdict of a reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReviewVerdict {
    /// Set if it may be merged. A blocking finding contradicts it.
    pub(crate) approve: bool,
    #[serde(default)]
    pub(crate) findings: Vec<NewFinding>,
}

impl Projects {
    /// Returns the agent that is asked to review a submission, and what it is told.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(super) async fn ask_reviewer(
        &self,
        project: &Project,
        submission: &Submission,
        stat: &str,
    ) -> Result<Option<(AgentId, NewInboxItem)>, ProjectsError> {
        if project.review != Review::Agent {
            return Ok(None);
        }
        // Copies that race have their own work to do, and those that lost do nothing any more.
        let racing = self.swarm.store().races().agents_without_a_win().await?;
        let config = self.swarm.config();
        let mut agents = config.agents.to_vec();
        agents.retain(|agent| agent.id == submission.agent || !racing.contains(&agent.id));
        let Some(reviewer) = rule::reviewer(project, &agents, &submission.agent).cloned() else {
            return Ok(None);
        };
        let session = review_session(&reviewer, submission.id);
        let text = question(project, submission, stat);
        Ok(Some((reviewer, notice(&session, text, unix_ms()))))
    }

    /// Stores an agent's review of a submission.
    ///
    /// # Errors
    ///
    /// Returns an error if this agent was not asked, the submission does not wait for a review, or a finding is not valid.
    pub(crate) async fn review(
        &self,
        by: &Actor,
        agent: &AgentId,
        number: i64,
        verdict: ReviewVerdict,
    ) -> Result<Submission, ProjectsError> {
        let found = self.swarm.store().submissions().find(number).await?;
        let found = found.filter(|found| found.reviewer.as_ref() == Some(agent));
        let Some(found) = found else {
            let text = format!("you were not asked to review submission {number}");
            return Err(ProjectsError::Forbidden(text));
        };
        self.of_agent(&found.project, agent)?;
        if found.state != SubmissionState::Review || found.reviewed_at.is_some() {
            return Err(ProjectsError::State { project: found.project, number, state: found.state });
        }
        check(&verdict)?;
        let submissions = self.swarm.store().submissions();
        submissions.add_findings(number, agent.to_string(), verdict.findings.clone(), unix_ms()).await?;
        let count = verdict.findings.len();
        let detail = format!("{count} finding{}", if count == 1 { "" } else { "s" });
        if verdict.approve {
            let to = SubmissionChange {
                reviewed_at: Some(unix_ms()),
                ..SubmissionChange::to(SubmissionState::Queued)
            };
            let rows = along(by, "project.approve", &found, detail, Vec::new());
            return self.step(&found, &[SubmissionState::Review], to, Some(rows)).await;
        }
        let findings = submissions.findings(number).await?;
        let text = sent_back(agent, &findings);
        let items = news(&found, &text, unix_ms()).into_iter().collect();
        let to = SubmissionChange { detail: Some(text), ..SubmissionChange::to(SubmissionState::Refused) };
        let rows = along(by, "project.refuse", &found, detail, items);
        self.step(&found, &[SubmissionState::Review], to, Some(rows)).await
    }

    /// Returns the findings of a submission.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(crate) async fn findings(&self, number: i64) -> Result<Vec<Finding>, ProjectsError> {
        Ok(self.swarm.store().submissions().findings(number).await?)
    }
}

/// Start of the name of a session in which a submission is reviewed; its number follows.
const REVIEW: &str = "review-";

fn review_session(reviewer: &AgentId, number: i64) -> SessionKey {
    SessionKey::new(reviewer, SessionKind::Request, &format!("{REVIEW}{number}"))
}

/// Returns the number of the submission that is reviewed in a session.
pub(super) fn asked_to_review(session: &SessionKey) -> Option<i64> {
    let number = session.peer().strip_prefix(REVIEW)?.parse().ok()?;
    (*session == review_session(session.agent(), number)).then_some(number)
}

fn check(verdict: &ReviewVerdict) -> Result<(), ProjectsError> {
    let wrong = |text: &str| Err(ProjectsError::Invalid(text.to_owned()));
    let findings = &verdict.findings;
    if findings.len() > MAX_FINDINGS {
        return wrong("at most 50 findings");
    }
    if findings.iter().any(|finding| finding.text.trim().is_empty() || finding.text.len() > MAX_TEXT) {
        return wrong("a finding has a text of at most 4096 bytes");
    }
    if findings.iter().any(|finding| finding.path.as_ref().is_some_and(|path| path.len() > 512)) {
        return wrong("a path has at most 512 bytes");
    }
    let is_blocked = findings.iter().any(|finding| finding.is_blocking);
    if verdict.approve && is_blocked {
        return wrong("a blocking finding and `approve` exclude each other");
    }
    if !verdict.approve && !is_blocked {
        return wrong("without `approve`, at least one finding is blocking: say what has to change");
    }
    Ok(())
}

fn question(project: &Project, submission: &Submission, stat: &str) -> String {
    let (number, name, branch) = (submission.id, &project.name, &submission.branch);
    let receipt = match &submission.receipt {
        Some(receipt) => format!("Its checks passed on flock's side (receipt {receipt})."),
        None => "The project has no checks.".to_owned(),
    };
    format!(
        "Review submission {number} to {name}, by {}: {}\n{receipt}\n{stat}\n\nSee the whole change in your clone: \
         git fetch origin && git diff origin/{}...origin/{branch}\nThen call flock_project_review once with submission \
         {number}: approve, or findings with what has to change (blocking) or could be better (advice).",
        submission.agent,
        clean::summary(&submission.title, 200),
        project.branch
    )
}

fn sent_back(reviewer: &AgentId, findings: &[Finding]) -> String {
    let mut text = format!(
        "{reviewer} sent it back. Change it, push, and submit again with an answer to each blocking finding:"
    );
    for finding in findings {
        let kind = if finding.content.is_blocking { "blocking" } else { "advice" };
        let place = match (&finding.content.path, finding.content.line) {
            (Some(path), Some(line)) => format!(" {path}:{line}"),
            (Some(path), None) => format!(" {path}"),
            (None, _) => String::new(),
        };
        // Writing to a `String` can't fail.
        let _ = write!(text, "\n{} ({kind}){place}: {}", finding.id, finding.content.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(is_blocking: bool, text: &str) -> NewFinding {
        NewFinding { is_blocking, path: Some("a.py".into()), line: Some(3), text: text.into() }
    }

    #[test]
    fn a_session_of_a_review_names_its_submission() {
        let session = |key: &str| key.parse().unwrap();
        assert_eq!(asked_to_review(&review_session(&"bob".parse().unwrap(), 12)), Some(12));
        for other in [
            "agent:bob:flock:dm:review-12",
            "agent:bob:flock:request:12",
            "agent:bob:flock:request:review-01",
        ] {
            assert_eq!(asked_to_review(&session(other)), None, "{other}");
        }
    }

    #[test]
    fn a_review_says_one_thing() {
        let verdict = |approve, findings: Vec<NewFinding>| check(&ReviewVerdict { approve, findings });
        assert!(verdict(true, vec![]).is_ok() && verdict(true, vec![finding(false, "x")]).is_ok());
        assert!(verdict(false, vec![finding(true, "x")]).is_ok());
        for (approve, findings) in [
            (true, vec![finding(true, "x")]),
            (false, vec![]),
            (false, vec![finding(false, "x")]),
            (true, vec![finding(false, " ")]),
            (true, vec![finding(false, "x"); 51]),
        ] {
            assert!(verdict(approve, findings.clone()).is_err(), "{approve} {findings:?}");
        }
    }

    #[test]
    fn the_author_reads_where_and_what() {
        let found = Finding {
            id: 4,
            submission: 1,
            reviewer: "bob".into(),
            content: finding(true, "off by one"),
            answer: None,
            created_at: 0,
        };
        let text = sent_back(&"bob".parse().unwrap(), &[found]);
        assert!(text.ends_with("\n4 (blocking) a.py:3: off by one"), "{text}");
    }
}

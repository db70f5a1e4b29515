//! Decides about submissions. Pure.

use serde::Serialize;

use crate::config::{Agent, Project, Review};
use crate::id::AgentId;
use crate::store::{Finding, Submission, SubmissionState};

/// The party that a submission waits for after its checks passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WaitsFor {
    /// The agent that reviews it.
    Reviewer,
    /// A person.
    Person,
}

/// Returns the party that has to decide before a submission is merged, or `None` if nothing is missing.
///
/// A change that needs a person's eyes is never left to an agent: a change of the checks themselves, or fewer tests.
#[must_use]
pub(crate) fn waits_for(review: Review, submission: &Submission) -> Option<WaitsFor> {
    let needs_person = review == Review::Person || !submission.reasons.is_empty();
    if review == Review::Agent && submission.reviewed_at.is_none() && submission.reviewer.is_some() {
        return Some(WaitsFor::Reviewer);
    }
    (needs_person && submission.accepted_by.is_none()).then_some(WaitsFor::Person)
}

/// Returns what the submission waits for now, for people.
#[must_use]
pub(crate) fn shown_wait(review: Review, submission: &Submission) -> Option<WaitsFor> {
    (submission.state == SubmissionState::Review).then(|| waits_for(review, submission)).flatten()
}

/// Returns the agent that shall review an author's change: one of the project with another model if there is one, else
/// one with another archetype, else any other one.
#[must_use]
pub(crate) fn reviewer<'a>(project: &Project, agents: &'a [Agent], author: &AgentId) -> Option<&'a AgentId> {
    let own = agents.iter().find(|agent| agent.id == *author);
    let likeness = |agent: &&Agent| {
        let Some(own) = own else { return 0 };
        // Another model finds what the author's own model overlooks.
        2 * u8::from(agent.model == own.model) + u8::from(agent.archetype == own.archetype)
    };
    agents
        .iter()
        .filter(|agent| agent.id != *author && project.has_agent(&agent.id))
        .min_by_key(likeness)
        .map(|agent| &agent.id)
}

/// Returns the findings that the author has to answer before the branch is submitted again.
#[must_use]
pub(crate) fn unanswered<'a>(findings: &'a [Finding], answered: &[i64]) -> Vec<&'a Finding> {
    findings
        .iter()
        .filter(|finding| finding.content.is_blocking && finding.answer.is_none())
        .filter(|finding| !answered.contains(&finding.id))
        .collect()
}

/// Returns `true` if two paths are the same or one is a folder that holds the other.
#[must_use]
pub(crate) fn overlaps(one: &str, other: &str) -> bool {
    let inside = |path: &str, folder: &str| {
        folder.is_empty()
            || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    inside(one, other) || inside(other, one)
}

/// Returns a path of a claim in its one form: without `./`, doubled and trailing slashes. `None` if it leads out of the
/// project.
#[must_use]
pub(crate) fn claim_path(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.trim().split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_inside = !text.trim().starts_with('/') && parts.iter().all(|part| *part != "..");
    let path = parts.join("/");
    (is_inside && path.len() <= 512 && !path.contains(|c: char| c.is_control())).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NewFinding;

    fn submission() -> Submission {
        Submission {
            id: 1,
            project: "lib".parse().unwrap(),
            agent: "ann".parse().unwrap(),
            branch: "flock/ann/work".into(),
            commit: "c".into(),
            title: String::new(),
            session: None,
            task: None,
            state: SubmissionState::Review,
            base: None,
            candidate: None,
            detail: String::new(),
            reasons: vec![],
            receipt: None,
            checked: None,
            reviewer: None,
            reviewed_at: None,
            accepted_by: None,
            created_at: 0,
            updated_at: 0,
        }
    }

    #[test]
    fn a_submission_waits_for_whoever_the_project_and_its_checks_ask() {
        let reason = vec!["tests/x.py was changed".to_owned()];
        let bob = Some("bob".parse().unwrap());
        let plain = submission();
        let rows = [
            (Review::None, plain.clone(), None),
            (Review::Person, plain.clone(), Some(WaitsFor::Person)),
            (Review::Person, Submission { accepted_by: Some("kim".into()), ..plain.clone() }, None),
            (Review::None, Submission { reasons: reason.clone(), ..plain.clone() }, Some(WaitsFor::Person)),
            (Review::Agent, Submission { reviewer: bob.clone(), ..plain.clone() }, Some(WaitsFor::Reviewer)),
            (
                Review::Agent,
                Submission { reviewer: bob.clone(), reviewed_at: Some(1), ..plain.clone() },
                None,
            ),
            // An agent's approval does not replace a person's.
            (
                Review::Agent,
                Submission { reviewer: bob, reviewed_at: Some(1), reasons: reason, ..plain },
                Some(WaitsFor::Person),
            ),
        ];
        for (review, submission, expected) in rows {
            assert_eq!(waits_for(review, &submission), expected, "{review:?} {submission:?}");
        }
    }

    #[test]
    fn blocking_findings_want_an_answer() {
        let finding = |id, is_blocking, answer: Option<&str>| Finding {
            id,
            submission: 1,
            reviewer: "bob".into(),
            content: NewFinding { is_blocking, path: None, line: None, text: "x".into() },
            answer: answer.map(str::to_owned),
            created_at: 0,
        };
        let all = [
            finding(1, true, None),
            finding(2, false, None),
            finding(3, true, Some("y")),
            finding(4, true, None),
        ];
        let left: Vec<i64> = unanswered(&all, &[4]).iter().map(|finding| finding.id).collect();
        assert_eq!(left, [1]);
    }

    #[test]
    fn claims_overlap_by_folder() {
        assert!(overlaps("src", "src/a.rs") && overlaps("src/a.rs", "src") && overlaps("a", "a"));
        assert!(!overlaps("src", "src2") && !overlaps("src/a", "src/b"));
        assert!(overlaps("", "anything"), "the whole project");
        assert_eq!(claim_path("./src//a/ ").as_deref(), Some("src/a"));
        assert_eq!(claim_path(".").as_deref(), Some(""));
        assert_eq!((claim_path("../x"), claim_path("/etc"), claim_path("a/../../b")), (None, None, None));
    }
}

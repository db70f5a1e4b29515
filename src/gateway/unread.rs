//! The parts of a status that could not be read, which a person must not take for empty ones.

use serde::{Deserialize, Serialize};

use crate::error::{Explain, chain, to_mend};

/// A part of a status that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unread {
    /// The name of the part, as in `freezes`.
    pub part: String,
    pub problem: String,
    /// The command that helps, or the shortest true advice.
    pub hint: Option<String>,
}

impl Unread {
    /// Returns a part that could not be read because of this error.
    #[must_use]
    pub(crate) fn because(part: &str, error: &impl Explain) -> Self {
        Self { part: part.to_owned(), problem: chain(error), hint: error.hint() }
    }
}

/// Returns a sentence for each problem, with the parts that it kept from being read.
#[must_use]
pub(crate) fn sentences(unread: &[Unread]) -> Vec<String> {
    let mut found: Vec<(Vec<&str>, &Unread)> = Vec::new();
    for one in unread {
        match found.iter_mut().find(|(_, known)| known.problem == one.problem) {
            Some((parts, _)) => parts.push(&one.part),
            None => found.push((vec![&one.part], one)),
        }
    }
    let sentence = |(parts, one): (Vec<&str>, &Unread)| {
        to_mend(&format!("not known: {}: {}", parts.join(", "), one.problem), one.hint.as_deref())
    };
    found.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_said_once_with_all_its_parts() {
        let unread = |part: &str, problem: &str| Unread {
            part: part.to_owned(),
            problem: problem.to_owned(),
            hint: Some("flock doctor".to_owned()),
        };
        let all = [unread("freezes", "it hangs"), unread("team", "it is late"), unread("sleep", "it hangs")];
        assert_eq!(
            sentences(&all),
            [
                "not known: freezes, sleep: it hangs; to mend it: flock doctor",
                "not known: team: it is late; to mend it: flock doctor"
            ]
        );
        assert!(sentences(&[]).is_empty());
    }
}

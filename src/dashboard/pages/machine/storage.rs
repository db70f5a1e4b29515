//! The second place for checkpoints, conversations and vaults.

use serde::Deserialize;

use crate::dashboard::format::{Moment, fill};
use crate::dashboard::texts::Texts;

/// The second place in the status.
#[derive(Deserialize)]
pub(super) struct SecondPlace {
    pub place: String,
    checkpoints: Option<Copies>,
    conversations: Option<Copies>,
    vaults: Option<Copies>,
}

/// The copies of one kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Copies {
    copied_at: Option<i64>,
    waiting: Vec<String>,
    failed: Vec<FailedCopy>,
}

/// A copy that failed and is tried again.
#[derive(Deserialize)]
pub(super) struct FailedCopy {
    /// The agent or the vault.
    #[serde(alias = "agent", alias = "vault")]
    pub subject: String,
    pub message: String,
    pub hint: String,
}

/// The copies of one kind on the page.
pub(super) struct CopiesView {
    /// The name of the kind in the status.
    pub kind: &'static str,
    pub title: &'static str,
    /// The last copy. `None` before the first one.
    pub copied: Option<Moment>,
    /// The words about agents or vaults of which copies are due. Empty without any.
    pub waiting: String,
    pub failed: Vec<FailedCopy>,
}

impl SecondPlace {
    /// Takes the copies of which something is known.
    pub(super) fn copies(&mut self, texts: &'static Texts) -> Vec<CopiesView> {
        let kinds = [
            ("checkpoints", texts.checkpoints, self.checkpoints.take()),
            ("conversations", texts.conversations, self.conversations.take()),
            ("vaults", texts.vaults, self.vaults.take()),
        ];
        let known = kinds.into_iter().filter_map(|(kind, title, copies)| Some((kind, title, copies?)));
        let view = |(kind, title, copies): (_, _, Copies)| CopiesView {
            kind,
            title,
            copied: copies.copied_at.map(Moment::new),
            waiting: match copies.waiting.as_slice() {
                [] => String::new(),
                waiting => fill(texts.copies_wait, &[&waiting.join(", ")]),
            },
            failed: copies.failed,
        };
        known.map(view).collect()
    }
}

//! Notices: what one process that uses a database on a server tells the gateway about its changes.
//!
//! A notice says that something was changed, and the database says what. Notices get lost, for example while a connection is
//! broken. Then there is one that stands for all that may have been lost. So whoever acts on notices looks at everything
//! then, and from time to time anyway. A database in a file has one gateway, which makes the changes itself, and no notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// The most notices that wait for a slow reader.
const CAPACITY: usize = 256;
/// The longest name in a notice, in bytes. The server takes eight thousand, and keeps notices in a queue for all databases.
const MAX_NAME: usize = 200;

/// The kinds of notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// A grant of an agent, by its name: added, revoked or restored.
    Grant,
    /// A freeze of an agent, or of the home.
    Freeze,
    /// A gateway that started or ended.
    Gateway,
    /// Leases that were taken or given up.
    Lease,
    /// Something that waits for an agent's session: a message in a channel, or an item of an inbox.
    Work,
    /// The configuration that gateways share.
    Config,
    /// The credentials whose quota is used up.
    Quota,
    /// The tools of MCP servers, and who may call them.
    Server,
    /// A decision about a request of an agent, or its end without one, by the id of the request.
    Request,
}

impl NoticeKind {
    const ALL: [Self; 9] = [
        Self::Grant,
        Self::Freeze,
        Self::Gateway,
        Self::Lease,
        Self::Work,
        Self::Config,
        Self::Quota,
        Self::Server,
        Self::Request,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Grant => "grant",
            Self::Freeze => "freeze",
            Self::Gateway => "gateway",
            Self::Lease => "lease",
            Self::Work => "work",
            Self::Config => "config",
            Self::Quota => "quota",
            Self::Server => "server",
            Self::Request => "request",
        }
    }
}

/// A notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Something of this kind was changed.
    Change {
        kind: NoticeKind,
        /// What was changed; empty if that is more than one thing, or has a long name.
        name: String,
    },
    /// Notices may have been lost, of any kind.
    Lost,
}

impl Notice {
    /// Returns `true` if the notice says that something of this kind may have changed.
    #[must_use]
    pub fn concerns(&self, wanted: NoticeKind) -> bool {
        match self {
            Self::Change { kind, .. } => *kind == wanted,
            Self::Lost => true,
        }
    }

    /// Reads the text of a notice. `None` if a newer version knows more kinds.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (word, name) = text.split_once(' ').unwrap_or((text, ""));
        let kind = NoticeKind::ALL.into_iter().find(|kind| kind.as_str() == word)?;
        Some(Self::Change { kind, name: name.to_owned() })
    }
}

/// Returns the text of a notice.
pub(super) fn text(kind: NoticeKind, name: &str) -> String {
    let name = if name.len() > MAX_NAME { "" } else { name };
    format!("{} {name}", kind.as_str()).trim_end().to_owned()
}

/// Passes notices to everybody who waits for them.
#[derive(Clone, Debug)]
pub(super) struct NoticeBoard {
    readers: broadcast::Sender<Notice>,
    /// Counts the notices of grants, for those who do not wait but ask.
    grants: Arc<AtomicU64>,
}

impl NoticeBoard {
    /// Creates a board that counts in `grants` how often grants may have changed.
    pub(super) fn counting(grants: Arc<AtomicU64>) -> Self {
        Self { readers: broadcast::Sender::new(CAPACITY), grants }
    }

    pub(super) fn put_up(&self, notice: Notice) {
        if notice.concerns(NoticeKind::Grant) {
            self.grants.fetch_add(1, Ordering::SeqCst);
        }
        // An error means that nobody waits.
        drop(self.readers.send(notice));
    }

    pub(super) fn subscribe(&self) -> Notices {
        Notices(Some(self.readers.subscribe()))
    }
}

/// The notices from now on.
#[derive(Debug)]
pub struct Notices(Option<broadcast::Receiver<Notice>>);

impl Notices {
    /// Returns those of a database that has none.
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// Waits for the next notice. Dropping the future loses none.
    pub async fn next(&mut self) -> Notice {
        if let Some(receiver) = &mut self.0 {
            match receiver.recv().await {
                Ok(notice) => return notice,
                Err(RecvError::Lagged(_)) => return Notice::Lost,
                // The database is closed.
                Err(RecvError::Closed) => {}
            }
        }
        std::future::pending().await
    }

    /// Waits for a notice that concerns one of these kinds.
    pub async fn next_of(&mut self, kinds: &[NoticeKind]) -> Notice {
        loop {
            let notice = self.next().await;
            if kinds.iter().any(|kind| notice.concerns(*kind)) {
                return notice;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: NoticeKind, name: &str) -> Notice {
        Notice::Change { kind, name: name.to_owned() }
    }

    #[test]
    fn a_notice_is_what_was_written() {
        for kind in NoticeKind::ALL {
            for name in ["", "coder", "a b  c", "Gr\u{fc}\u{df}e"] {
                assert_eq!(Notice::parse(&text(kind, name)), Some(change(kind, name)));
            }
        }
        assert_eq!(
            Notice::parse(&text(NoticeKind::Grant, &"x".repeat(9_000))),
            Some(change(NoticeKind::Grant, ""))
        );
        assert_eq!(Notice::parse("moon x"), None);
        assert_eq!(Notice::parse(""), None);
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_that_it_has_missed_some() {
        let board = NoticeBoard::counting(Arc::default());
        let mut slow = board.subscribe();
        for number in 0..=CAPACITY {
            board.put_up(change(NoticeKind::Lease, &number.to_string()));
        }
        assert_eq!(slow.next().await, Notice::Lost);
        assert_eq!(slow.next().await, change(NoticeKind::Lease, "1"));
    }

    #[tokio::test]
    async fn a_reader_gets_what_it_asks_for_and_every_loss() {
        let board = NoticeBoard::counting(Arc::default());
        let mut reader = board.subscribe();
        board.put_up(change(NoticeKind::Lease, "x"));
        board.put_up(change(NoticeKind::Freeze, "coder"));
        board.put_up(Notice::Lost);
        let kinds = [NoticeKind::Freeze, NoticeKind::Grant];
        assert_eq!(reader.next_of(&kinds).await, change(NoticeKind::Freeze, "coder"));
        assert_eq!(reader.next_of(&kinds).await, Notice::Lost);
        assert_eq!(board.grants.load(Ordering::SeqCst), 1, "any may have changed");
    }
}

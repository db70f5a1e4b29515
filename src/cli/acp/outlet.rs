//! Messages to the editor besides answers: updates of sessions, and questions to the person.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, RequestPermissionOutcome, RequestPermissionRequest, SessionId,
    SessionNotification, SessionUpdate,
};
use tokio::sync::Notify;

use super::host::Host;

/// Number of updates that may wait to be written. The gateway is not read meanwhile.
const MAX_UNWRITTEN: u64 = 512;

/// Counts the updates that wait to be written to stdout.
#[derive(Debug, Default)]
pub(super) struct OutletGauge {
    sent: AtomicU64,
    written: AtomicU64,
    changed: Notify,
    over: Notify,
}

impl OutletGauge {
    /// Counts an update that was written.
    pub(super) fn written(&self) {
        self.written.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Tells that the last line was written.
    pub(super) fn finished(&self) {
        self.over.notify_one();
    }

    /// Waits until the last line was written.
    pub(super) async fn drained(&self) {
        self.over.notified().await;
    }

    fn sent(&self) {
        self.sent.fetch_add(1, Ordering::SeqCst);
    }

    async fn room(&self) {
        loop {
            // Registered before the check, so that a line that is written in between is not missed.
            let changed = self.changed.notified();
            let sent = self.sent.load(Ordering::SeqCst);
            if sent.saturating_sub(self.written.load(Ordering::SeqCst)) < MAX_UNWRITTEN {
                return;
            }
            changed.await;
        }
    }
}

/// The way to the editor for one session.
#[derive(Clone)]
pub(super) struct Outlet {
    pub(super) editor: ConnectionTo<Client>,
    pub(super) host: Arc<Host>,
    pub(super) session: SessionId,
}

impl Outlet {
    /// Sends an update of the session. It waits while the editor does not read.
    pub(super) async fn update(&self, update: SessionUpdate) {
        self.host.gauge.room().await;
        self.host.gauge.sent();
        // An editor that is gone is noticed by the end of stdin.
        drop(self.editor.send_notification(SessionNotification::new(self.session.clone(), update)));
    }

    /// Sends a piece of the agent's answer.
    pub(super) async fn say(&self, text: impl AsRef<str>) {
        for piece in pieces(text.as_ref()) {
            self.update(SessionUpdate::AgentMessageChunk(chunk(piece))).await;
        }
    }

    /// Sends a piece of the agent's thinking, or a remark of flock about its work.
    pub(super) async fn think(&self, text: impl AsRef<str>) {
        for piece in pieces(text.as_ref()) {
            self.update(SessionUpdate::AgentThoughtChunk(chunk(piece))).await;
        }
    }

    /// Sends what the person said, in a conversation that is shown again.
    pub(super) async fn repeat(&self, text: impl AsRef<str>) {
        for piece in pieces(text.as_ref()) {
            self.update(SessionUpdate::UserMessageChunk(chunk(piece))).await;
        }
    }

    /// Asks the person and returns the id of the chosen option. It returns `None` if no choice was made, for whatever
    /// reason. Dropping the future takes the question back.
    pub(super) async fn ask(&self, question: RequestPermissionRequest) -> Option<String> {
        let answer = self.editor.send_request(question).block_task().await.ok()?;
        match answer.outcome {
            RequestPermissionOutcome::Selected(chosen) => Some(chosen.option_id.0.to_string()),
            _ => None,
        }
    }
}

/// Longest text of one update in bytes. Some clients read no longer lines than 64 KiB.
const MAX_PIECE: usize = 16 << 10;

/// Returns the pieces in which a text is sent.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(MAX_PIECE));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_sent_in_pieces() {
        let text = "é".repeat(MAX_PIECE);
        let sent = pieces(&text);
        assert!(sent.len() == 2 && sent.iter().all(|piece| piece.len() <= MAX_PIECE));
        assert_eq!(sent.concat(), text);
        assert!(pieces("").is_empty());
    }

    #[tokio::test]
    async fn updates_wait_while_the_editor_does_not_read() {
        let gauge = Arc::new(OutletGauge::default());
        for _ in 0..MAX_UNWRITTEN {
            gauge.room().await;
            gauge.sent();
        }
        let waits = tokio::spawn({
            let gauge = Arc::clone(&gauge);
            async move { gauge.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        gauge.written();
        waits.await.unwrap();
    }
}

//! How much a client may ask of the gateway before anybody knows who it is.

use std::time::Duration;

/// All limits of the server, in one place. They hold before authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a request's body.
    pub body: usize,
    /// The most bytes of a request's headers.
    pub header_bytes: usize,
    /// The most headers of a request.
    pub headers: usize,
    /// How long a request's headers may take, and how long a connection may stay open between two requests.
    pub header_timeout: Duration,
    /// How long a request's body may take.
    pub body_timeout: Duration,
    /// How long a client may take nothing of an answer.
    pub write_timeout: Duration,
    /// The most connections at once. For one more, the oldest that has shown no credential is closed; where
    /// each has shown one, it is answered 503 and closed.
    pub connections: usize,
    /// The most turns that run at once.
    pub turns: usize,
    /// The most turns that wait for one session.
    pub waiting_per_session: usize,
    /// The most turns that wait in all.
    pub waiting: usize,
    /// The most unread bytes of a streamed answer before its reader counts as gone.
    pub unread: usize,
    /// How many events are kept for readers that come back.
    pub events: usize,
    /// How long running turns get to end when the gateway stops.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 8 << 20,
            header_bytes: 32 << 10,
            headers: 100,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            connections: 1024,
            turns: 64,
            waiting_per_session: 32,
            waiting: 1024,
            unread: 4 << 20,
            events: 4096,
            grace: Duration::from_secs(5),
        }
    }
}

//! The limits for what a client may use before it is authenticated.

use std::time::Duration;

use super::push::PushSettings;

/// All limits of the server, in one place. They apply before authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Most bytes in a request body.
    pub body: usize,
    /// Most bytes in a request's headers.
    pub header_bytes: usize,
    /// Most headers in a request.
    pub headers: usize,
    /// Longest time for a request's headers to arrive, and for a connection to stay open between two requests.
    pub header_timeout: Duration,
    /// Longest time for a request body to arrive.
    pub body_timeout: Duration,
    /// Longest time for which a client may read nothing of a response.
    pub write_timeout: Duration,
    /// Most connections at once. For one more, the oldest connection that has shown no credential is closed. If all
    /// have shown one, the new connection gets 503 and is closed.
    pub connections: usize,
    /// Most turns that run at once.
    pub turns: usize,
    /// Most turns that wait for one session.
    pub waiting_per_session: usize,
    /// Most turns that wait in total.
    pub waiting: usize,
    /// Most unread bytes of a streamed response before its reader counts as gone.
    pub unread: usize,
    /// Number of events that are kept for readers that reconnect.
    pub events: usize,
    /// Longest time for running turns to end when the gateway stops.
    pub grace: Duration,
    /// The way in which notifications are sent to browsers.
    pub push: PushSettings,
}

impl ServerLimits {
    /// Returns the limits of a gateway whose team runs this many turns at once. As many turns are left for clients.
    pub(crate) fn for_team(turns: usize) -> Self {
        let limits = Self::default();
        Self { turns: limits.turns.max(turns.saturating_mul(2)), ..limits }
    }
}

impl Default for ServerLimits {
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
            push: PushSettings::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_team_leaves_room_for_clients() {
        assert_eq!(ServerLimits::for_team(8), ServerLimits::default());
        assert_eq!(ServerLimits::for_team(500).turns, 1000);
    }
}

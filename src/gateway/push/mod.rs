//! Notifications for browsers, also while no page is open, by Web Push: requests that wait for a person, and agents
//! that a budget pauses.
//!
//! Path of a notification: the [sender](run) is woken by the gateway's events and collects the [alerts](alert),
//! [`plan`] decides which browser gets which, [`encryption`] and [`vapid`] make the message, and [`client`] hands it to
//! the push service. A notification says which kind of thing it is about, which agent and which request. The content of
//! a request is on its page only, where it is decided.

pub(crate) mod alert;
mod base64url;
mod client;
pub(crate) mod encryption;
pub(crate) mod endpoint;
mod plan;
mod sender;
pub(crate) mod subscribe;
pub(crate) mod vapid;

use std::time::Duration;

pub use sender::run;
pub(crate) use vapid::VapidKeyCell;

/// Places to which notifications are sent, and the patience with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushSettings {
    /// Set in tests: push services may be on this machine, without TLS.
    pub allow_local: bool,
    /// Longest time for one attempt.
    pub timeout: Duration,
    /// The wait after a first attempt that failed, which becomes four times longer with each further one.
    pub first_wait: Duration,
}

impl Default for PushSettings {
    fn default() -> Self {
        Self { allow_local: false, timeout: Duration::from_secs(20), first_wait: Duration::from_secs(15) }
    }
}

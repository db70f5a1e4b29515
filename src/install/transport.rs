//! The transports of git's protocol, which libgit2 speaks. HTTP goes through flock's own client, which trusts the
//! system's certificates and knows its proxies. SSH goes through the machine's `ssh`, which knows its keys and hosts. A
//! repository on this machine is read by `git upload-pack`, because libgit2 alone can only copy it with its whole
//! history.

mod http;
mod subprocess;

use std::sync::Once;

use git2::transport::Transport;

/// Registers the transports with libgit2. Only the first call does anything.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // If a registration fails, libgit2 uses its own transport or none, and the fetch reports that.
        for scheme in ["https", "http"] {
            // SAFETY: `Once` keeps two registrations apart, and every use of libgit2's transports calls this first.
            let _ = unsafe {
                git2::transport::register(scheme, |remote| {
                    Transport::smart(remote, true, http::HttpTransport::default())
                })
            };
        }
        // SAFETY: as above.
        let _ = unsafe {
            git2::transport::register("ssh", |remote| {
                Transport::smart(remote, false, subprocess::SubprocessTransport::ssh())
            })
        };
        if which::which("git").is_ok() {
            // SAFETY: as above.
            let _ = unsafe {
                git2::transport::register("file", |remote| {
                    Transport::smart(remote, false, subprocess::SubprocessTransport::local())
                })
            };
        }
    });
}

//! How git's protocol travels. libgit2 speaks it; the bytes go over flock's own HTTP client, which trusts the
//! system's certificates and knows its proxies, over the machine's `ssh`, which knows its keys and hosts, or into
//! `git upload-pack` for a repository on this machine, which libgit2 alone can only copy with all of its history.

mod http;
mod program;

use std::sync::Once;

use git2::transport::Transport;

/// Makes libgit2 use them. Cheap after the first time.
pub(super) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A scheme that can't be registered keeps libgit2's own way, or none, and a fetch says so.
        for scheme in ["https", "http"] {
            // SAFETY: `Once` keeps two registrations apart, and every use of libgit2's transports calls this first.
            let _ = unsafe {
                git2::transport::register(scheme, |remote| {
                    Transport::smart(remote, true, http::Http::default())
                })
            };
        }
        // SAFETY: as above.
        let _ = unsafe {
            git2::transport::register("ssh", |remote| {
                Transport::smart(remote, false, program::Ssh::default())
            })
        };
        if which::which("git").is_ok() {
            // SAFETY: as above.
            let _ = unsafe {
                git2::transport::register("file", |remote| {
                    Transport::smart(remote, false, program::Local::default())
                })
            };
        }
    });
}

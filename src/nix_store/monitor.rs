//! Looks at a running build from outside, and says when it has to be ended: it has written too much, it has no memory
//! left, or its container is gone.

use std::time::{Duration, Instant};

use super::container::{self, BuildContainer};
use super::profile::SHORT;
use super::store::BUILDS;
use super::{NixError, PackageStore};

/// A build that is watched.
pub(super) struct BuildMonitor<'a> {
    pub store: &'a PackageStore,
    /// The id of the store's container.
    pub daemon: &'a str,
    pub container: &'a BuildContainer,
    /// The name of the build's folder.
    pub folder: &'a str,
    /// The action, which completes "nix failed to …".
    pub what: &'a str,
}

impl BuildMonitor<'_> {
    /// Completes with the reason when the build has to be ended.
    pub(super) async fn reason_to_end(&self) -> NixError {
        let mut starvation = Starvation::default();
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let (disk, memory) = tokio::join!(self.disk(), self.container.memory());
            let reason = match memory {
                Ok(None) => return NixError::Lost { reason: "its container has ended".to_owned() },
                Ok(Some(used)) => disk.or_else(|| starvation.note(used, Instant::now())),
                // A look that fails says nothing about the memory.
                Err(_) => disk,
            };
            if let Some(reason) = reason {
                return NixError::Nix { what: self.what.to_owned(), tail: format!("it was ended: {reason}") };
            }
        }
    }

    /// Returns the reason to end a build that has written more than its limit, or has left too little of the disk for
    /// others. A look that fails says nothing about the disk.
    async fn disk(&self) -> Option<String> {
        let script = format!("du -sk '{BUILDS}/{}' 2>/dev/null; df -Pk {BUILDS} | tail -n 1", self.folder);
        let said = self.store.script(self.daemon, "look at the disk", &script, SHORT).await.ok()?;
        let mut lines = said.lines();
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
        let used = number(lines.next().and_then(|line| line.split_whitespace().next()));
        let free = number(lines.next().and_then(|line| line.split_whitespace().nth(3)));
        let is_over = used.is_some_and(|used| used > container::DISK_KIB)
            || free.is_some_and(|free| free < MIN_FREE_KIB);
        is_over.then(|| {
            format!(
                "it had written {} MiB (limit {}), and {} MiB of the disk were free",
                used.unwrap_or_default() >> 10,
                container::DISK_KIB >> 10,
                free.unwrap_or_default() >> 10
            )
        })
    }
}

/// How long a build has had no memory left. The kernel ends such a process as a rule. But while it still finds a page to
/// take from another process, both may run so slowly that they never end.
#[derive(Default)]
struct Starvation {
    since: Option<Instant>,
}

impl Starvation {
    /// Notes the bytes that a build uses, and returns the reason to end it if it has had no memory left for too long.
    fn note(&mut self, used: u64, now: Instant) -> Option<String> {
        let limit = container::MEMORY.unsigned_abs();
        if used < limit - MEMORY_RESERVE {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let is_over = now.duration_since(since) >= STARVED;
        is_over.then(|| {
            format!("it has had no memory left for {} s (limit {} MiB)", STARVED.as_secs(), limit >> 20)
        })
    }
}

/// Free disk space in KiB below which a build is ended.
const MIN_FREE_KIB: u64 = 1 << 20;
/// Free memory in bytes below which a build counts as having none.
const MEMORY_RESERVE: u64 = 16 << 20;
/// The time without memory after which a build is ended.
const STARVED: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_ended_when_it_has_had_no_memory_for_a_minute() {
        let begin = Instant::now();
        let limit = container::MEMORY.unsigned_abs();
        let mut starvation = Starvation::default();
        let mut note = |used, seconds| starvation.note(used, begin + Duration::from_secs(seconds));
        assert_eq!(note(limit, 0), None);
        assert_eq!(note(limit - 1, 59), None);
        assert_eq!(note(limit - MEMORY_RESERVE - 1, 62), None, "it has some again");
        assert_eq!(note(limit, 65), None);
        let reason = note(limit, 125).unwrap();
        assert_eq!(reason, "it has had no memory left for 60 s (limit 4096 MiB)");
    }
}

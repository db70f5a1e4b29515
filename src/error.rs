//! What every error of flock can say of itself: its kind, which fixes the exit code, and the command that
//! mends it.
//!
//! Each module has its own `thiserror` enum; this module only holds the vocabulary that lets the command
//! line and the HTTP API report all of them in one way. It knows no terminal and no HTTP.

/// The kinds of failure a caller can tell apart, one exit code each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Something that was asked for failed.
    Failed,
    /// The command line, or a request, is not valid.
    Usage,
    /// There is no home here yet.
    NotInitialised,
    /// Nothing of this home is running.
    NotRunning,
    /// The id exists already, or another process holds the home.
    Conflict,
    /// No Docker engine answers, or it refuses this user.
    DockerUnavailable,
    /// The home was made by a newer flock.
    NewerHome,
    /// A person has to approve this first.
    NeedsApproval,
    /// The database is damaged or gone: starting again does not mend it.
    Damaged,
    /// The disk fails to read what flock keeps, which may pass.
    Unreadable,
    /// A defect of flock itself.
    Internal,
}

impl Kind {
    /// All kinds, for documentation and tests.
    pub const ALL: [Self; 11] = [
        Self::Failed,
        Self::Usage,
        Self::NotInitialised,
        Self::NotRunning,
        Self::Conflict,
        Self::DockerUnavailable,
        Self::NewerHome,
        Self::NeedsApproval,
        Self::Damaged,
        Self::Unreadable,
        Self::Internal,
    ];

    /// The exit code of a command that ends with this kind of failure.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotInitialised => 3,
            Self::NotRunning => 4,
            Self::Conflict => 5,
            Self::DockerUnavailable => 6,
            Self::NewerHome => 7,
            Self::NeedsApproval => 8,
            Self::Damaged => 9,
            Self::Unreadable => 10,
            Self::Internal => 70,
        }
    }

    /// The stable word for programs, in `{"error":{"code":…}}`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotInitialised => "not_initialised",
            Self::NotRunning => "not_running",
            Self::Conflict => "conflict",
            Self::DockerUnavailable => "docker_unavailable",
            Self::NewerHome => "newer_home",
            Self::NeedsApproval => "needs_approval",
            Self::Damaged => "damaged",
            Self::Unreadable => "unreadable",
            Self::Internal => "internal",
        }
    }
}

/// An error that knows its kind and the way out.
pub trait Explain: std::error::Error {
    /// What kind of failure this is.
    fn kind(&self) -> Kind {
        Kind::Failed
    }

    /// A command that mends it, or the shortest true advice where no command can.
    fn hint(&self) -> Option<String> {
        None
    }

    /// Whether it may pass, as a full disk does, so that the same can be asked for later.
    fn may_pass(&self) -> bool {
        self.kind() == Kind::Unreadable
    }
}

/// What helps where a disk fails.
pub const KERNEL_LOG: &str = "look for errors of the disk in the kernel's log: dmesg, or journalctl -k";

/// Whether it is the disk that failed, one behind a network too, and neither its room nor anybody's rights.
#[must_use]
pub fn is_of_disk(error: &std::io::Error) -> bool {
    use nix::libc::{EIO, ENODEV, ENXIO, ESTALE, ETIMEDOUT};
    matches!(error.raw_os_error(), Some(EIO | ENXIO | ENODEV | ESTALE | ETIMEDOUT))
}

/// The message of an error and of all its causes, joined as `a: b: c`, without saying a cause twice when a
/// message already ends with it.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct_and_never_zero() {
        let mut codes: Vec<u8> = Kind::ALL.iter().map(|kind| kind.exit_code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Kind::ALL.len());
        assert!(!codes.contains(&0));
    }
}

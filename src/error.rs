//! The information that every error of flock can give: its kind, which sets the exit code, and a command that fixes the
//! problem.
//!
//! Each module has its own `thiserror` enum. This module holds only the shared vocabulary, so that the command line and
//! the HTTP API can report all errors in one way. It depends on neither a terminal nor HTTP.

/// The kinds of failure that a caller can tell apart. Each has its own exit code, which is its number here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    // Scripts depend on these numbers, and on the words that `code` returns.
    /// The requested operation failed.
    Failed = 1,
    /// The command line or a request is not valid.
    Usage = 2,
    /// The folder is not a flock home yet.
    NotInitialised = 3,
    /// Neither the supervisor nor the gateway of this home is running.
    NotRunning = 4,
    /// The id is taken, or another process holds the home.
    Conflict = 5,
    /// No Docker engine answers, or it refuses this user.
    DockerUnavailable = 6,
    /// The home was made by a newer flock.
    NewerHome = 7,
    /// A person has to approve the operation first.
    NeedsApproval = 8,
    /// The database is damaged or missing, and a restart does not repair it.
    Damaged = 9,
    /// The disk fails to read flock's data. The problem may be temporary.
    Unreadable = 10,
    /// Another gateway of the group has taken over from this one, which changes nothing any more.
    Replaced = 11,
    /// A server that flock needs, such as that of the database, can't be reached, or holds up the start.
    Unreachable = 12,
    /// A defect of flock itself. 70 is `EX_SOFTWARE` of sysexits.h.
    Internal = 70,
}

impl Kind {
    /// All kinds, for documentation and tests.
    pub const ALL: [Self; 13] = [
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
        Self::Replaced,
        Self::Unreachable,
        Self::Internal,
    ];

    /// Returns the exit code of a command that ends with this kind of failure.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        self as u8
    }

    /// Returns the stable word for programs, in `{"error":{"code":…}}`.
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
            Self::Replaced => "replaced",
            Self::Unreachable => "unreachable",
            Self::Internal => "internal",
        }
    }

    /// Returns the kind with this code. Any other code stands for a plain failure.
    #[must_use]
    pub(crate) fn of_code(code: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.code() == code).unwrap_or(Self::Failed)
    }
}

/// An error that knows its kind and how to fix it.
pub trait Explain: std::error::Error {
    fn kind(&self) -> Kind {
        Kind::Failed
    }

    /// Returns a command that fixes the problem, or the shortest true advice if no command can.
    fn hint(&self) -> Option<String> {
        None
    }

    /// Returns `true` if the failure may be temporary, like a full disk, so that the same request can succeed later.
    fn may_pass(&self) -> bool {
        self.kind() == Kind::Unreadable
    }
}

/// Advice for an error of the disk.
pub(crate) const KERNEL_LOG_HINT: &str =
    "look for errors of the disk in the kernel's log: dmesg, or journalctl -k";

/// Returns `true` if the disk itself failed, or the network behind it. A full disk and missing permissions do not
/// count.
#[must_use]
pub(crate) fn is_of_disk(error: &std::io::Error) -> bool {
    use nix::libc::{EIO, ENODEV, ENXIO, ESTALE, ETIMEDOUT};
    // ESTALE and ETIMEDOUT are what a network file system returns.
    matches!(error.raw_os_error(), Some(EIO | ENXIO | ENODEV | ESTALE | ETIMEDOUT))
}

/// Returns the message of an error and of all its causes, joined as in `a: b: c`. A cause is left out if the message
/// before it already ends with it.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        // Many errors already end with the message of their cause.
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Returns a problem with the command or the step that mends it, if one is known, as a sentence for people.
pub(crate) fn to_mend(problem: &str, hint: Option<&str>) -> String {
    hint.map_or_else(|| problem.to_owned(), |hint| format!("{problem}; to mend it: {hint}"))
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

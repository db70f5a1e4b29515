//! Versions of Docker and runc with a publicly known escape from containers. The small table was compiled by hand. It
//! warns of old versions, but a version that is not in it is not therefore safe.

use std::fmt;

/// Date on which the table was last checked against the sources.
pub(crate) const LAST_CHECKED: &str = "2026-11-23";

/// The program that an advisory is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    /// Docker's daemon, dockerd.
    Engine,
    /// The OCI runtime that creates the containers.
    Runc,
}

/// A known escape from containers, fixed in later versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advisory {
    pub part: Component,
    /// The CVE number, or several.
    pub names: &'static str,
    /// A short description of the attack.
    pub allows: &'static str,
    /// Date of publication.
    pub published: &'static str,
    /// URL of the description.
    pub source: &'static str,
    /// The first fixed version of each release line that got the fix, oldest line first. A line is a major and a minor
    /// number.
    fixed: &'static [&'static str],
}

const TABLE: [Advisory; 5] = [
    Advisory {
        part: Component::Runc,
        names: "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881",
        allows: "a container writes to files of the kernel through masked paths and /dev/console",
        published: "2025-11-05",
        source: "https://github.com/opencontainers/runc/security/advisories/GHSA-9493-h29p-rfm2",
        fixed: &["1.2.8", "1.3.3", "1.4.0-rc.3"],
    },
    Advisory {
        part: Component::Runc,
        names: "CVE-2024-21626",
        allows: "a container reaches the host's files through a descriptor that was left open",
        published: "2024-01-31",
        source: "https://github.com/opencontainers/runc/security/advisories/GHSA-xr7r-f8xq-vfvv",
        fixed: &["1.1.12"],
    },
    Advisory {
        part: Component::Runc,
        names: "CVE-2019-5736",
        allows: "a container replaces runc on the host",
        published: "2019-02-11",
        source: "https://www.openwall.com/lists/oss-security/2019/02/11/2",
        fixed: &["1.0.0-rc.7"],
    },
    Advisory {
        part: Component::Engine,
        names: "CVE-2024-23652, CVE-2024-23653",
        allows: "the build of an image removes files of the host or runs with its rights",
        published: "2024-01-31",
        source: "https://github.com/moby/buildkit/security/advisories/GHSA-wr6v-9f75-vh2g",
        fixed: &["24.0.9", "25.0.2"],
    },
    Advisory {
        part: Component::Engine,
        names: "CVE-2019-14271",
        allows: "a container that files are copied from runs code on the host",
        published: "2019-07-29",
        source: "https://nvd.nist.gov/vuln/detail/CVE-2019-14271",
        fixed: &["18.9.8", "19.3.1"],
    },
];

/// Returns the advisories that affect a version, newest first. A version that cannot be parsed is affected by none.
pub fn open(part: Component, version: &str) -> impl Iterator<Item = &'static Advisory> {
    let version = Version::read(version);
    TABLE.iter().filter(move |known| known.part == part && version.is_some_and(|found| known.concerns(found)))
}

impl Advisory {
    fn concerns(&self, found: Version) -> bool {
        let fixed: Vec<Version> = self.fixed.iter().filter_map(|text| Version::read(text)).collect();
        // A line without a fix of its own is either older than all fixed lines, and so affected, or newer, and so not
        // affected. The comparison with the oldest fix decides both cases.
        let of_line = fixed.iter().find(|one| one.line() == found.line());
        of_line.or_else(|| fixed.first()).is_some_and(|fixed| found < *fixed)
    }

    /// Returns the fixed versions as text, for example `1.2.8, 1.3.3 or later`.
    #[must_use]
    pub fn fixed(&self) -> String {
        format!("{} or later", self.fixed.join(", "))
    }
}

/// Major, minor, patch and release candidate. A release sorts after all of its candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u32; 4]);

impl Version {
    /// Parses texts such as `1.1.5+ds1`, `v1.4.0-rc.2`, `1.0.0-rc93` or `20.10.24`.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let (release, rest) =
            text.split_at(text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len()));
        let mut numbers = release.split('.').map(str::parse);
        let major = numbers.next()?.ok()?;
        let minor = numbers.next()?.ok()?;
        let patch = numbers.next().and_then(Result::ok).unwrap_or(0);
        let candidate = rest.trim_start_matches(['-', '~']).strip_prefix("rc").map(|rest| {
            let digits = rest.trim_start_matches('.');
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            digits.get(..end).and_then(|digits| digits.parse().ok()).unwrap_or(0)
        });
        // A release has no candidate number. The maximum sorts it after every candidate.
        Some(Self([major, minor, patch, candidate.unwrap_or(u32::MAX)]))
    }

    const fn line(self) -> (u32, u32) {
        (self.0[0], self.0[1])
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Engine => "Docker",
            Self::Runc => "runc",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(part: Component, version: &str) -> Vec<&'static str> {
        open(part, version).map(|advisory| advisory.published).collect()
    }

    #[test]
    fn an_old_version_is_affected_and_a_fixed_one_is_not() {
        assert_eq!(names(Component::Runc, "1.1.5+ds1"), ["2025-11-05", "2024-01-31"]);
        assert_eq!(names(Component::Runc, "1.0.0-rc6"), ["2025-11-05", "2024-01-31", "2019-02-11"]);
        assert_eq!(names(Component::Runc, "1.0.0-rc93"), ["2025-11-05", "2024-01-31"]);
        for (version, is_open) in [
            ("1.1.12", true),
            ("1.2.7", true),
            ("1.2.8", false),
            ("1.3.2", true),
            ("1.3.3", false),
            ("1.4.0-rc.2", true),
            ("1.4.0-rc.3", false),
            ("v1.4.0", false),
            ("1.5.1", false),
            ("2.0.0", false),
        ] {
            assert_eq!(!names(Component::Runc, version).is_empty(), is_open, "{version}");
        }
        assert_eq!(names(Component::Engine, "20.10.24+dfsg1"), ["2024-01-31"]);
        assert_eq!(names(Component::Engine, "25.0.1"), ["2024-01-31"]);
        assert_eq!(names(Component::Engine, "18.06.0-ce"), ["2024-01-31", "2019-07-29"]);
        assert_eq!(names(Component::Engine, "29.4.3"), [""; 0]);
        for odd in ["", "unknown", "1", "x.y.z"] {
            assert_eq!(names(Component::Runc, odd), [""; 0], "{odd}");
        }
    }

    #[test]
    fn every_advisory_can_be_read_and_has_a_source() {
        for advisory in &TABLE {
            assert!(advisory.source.starts_with("https://"), "{advisory:?}");
            assert!(advisory.published < LAST_CHECKED, "{advisory:?}");
            let fixed: Vec<_> = advisory.fixed.iter().map(|text| Version::read(text)).collect();
            assert!(fixed.iter().all(Option::is_some) && fixed.is_sorted(), "{advisory:?}");
        }
    }
}

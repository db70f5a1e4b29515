//! Reads the host's package sources in apt's two formats. A bootstrapped system is made from them, so that the mirrors
//! and keys that work on the host are used.

use std::fmt::Write as _;

/// A package archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AptSource {
    /// The mirror's URL, for example `http://deb.debian.org/debian`.
    pub uri: String,
    /// The suite, for example `bookworm` or `bookworm-security`.
    pub suite: String,
    /// The components, for example `main`.
    pub components: Vec<String>,
    /// The host's key file that signs the archive, if the source names one.
    pub signed_by: Option<String>,
    /// `true` if the host accepts the archive without a signature.
    pub trusted: bool,
}

/// The archives that a system is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Distribution {
    /// The archive that debootstrap reads.
    pub main: AptSource,
    /// The updates and security updates, if the host has them.
    pub updates: Vec<AptSource>,
}

impl Distribution {
    /// Finds the host's distribution among all of its sources.
    ///
    /// Archives of third parties are not part of it, although some name their suites after the distribution. A source
    /// is taken if its URL ends like an archive of Debian or Ubuntu. Only if there is none, a mirror with another URL
    /// is taken if its suite is the host's `codename`.
    #[must_use]
    pub fn find(sources: &[AptSource], codename: Option<&str>) -> Option<Self> {
        // The distribution is the plain suite of an archive. Suites such as `-updates` add a suffix to its name.
        let plain = |source: &&AptSource| {
            source.components.iter().any(|component| component == "main")
                && source.suite.chars().all(|c| c.is_ascii_alphanumeric())
        };
        let known = |source: &&AptSource| ARCHIVES.contains(&archive_name(&source.uri));
        let named = |source: &&AptSource| codename == Some(source.suite.as_str());
        let plain = || sources.iter().filter(plain);
        let main = plain().find(known).or_else(|| plain().find(named))?.clone();
        let named = |suffix: &str| format!("{}{suffix}", main.suite);
        let wanted = [named("-updates"), named("-security"), format!("{}/updates", main.suite)];
        let updates = sources.iter().filter(|source| wanted.contains(&source.suite)).cloned().collect();
        Some(Self { main, updates })
    }

    /// Returns the lines for `sources.list` inside the new system. A source without a key of the host is verified with
    /// the new system's own keyring.
    #[must_use]
    pub fn list(&self, key_inside: impl Fn(&str) -> String) -> String {
        let mut text = String::new();
        for source in std::iter::once(&self.main).chain(&self.updates) {
            let mut options = Vec::new();
            if let Some(key) = &source.signed_by {
                options.push(format!("signed-by={}", key_inside(key)));
            }
            if source.trusted {
                options.push("trusted=yes".to_owned());
            }
            let options =
                if options.is_empty() { String::new() } else { format!("[{}] ", options.join(" ")) };
            let components = source.components.join(" ");
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "deb {options}{} {} {components}", source.uri, source.suite);
        }
        text
    }
}

/// Parses a `.list` file, which has one source per line.
#[must_use]
pub(crate) fn parse_list(text: &str) -> Vec<AptSource> {
    let mut sources = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(rest) = line.strip_prefix("deb ") else { continue };
        let rest = rest.trim_start();
        let (options, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((options, rest)) => (options, rest),
            None => ("", rest),
        };
        let mut words = rest.split_whitespace();
        let (Some(uri), Some(suite)) = (words.next(), words.next()) else { continue };
        let option = |name: &str| {
            options.split_whitespace().filter_map(|word| word.split_once('=')).find(|(key, _)| *key == name)
        };
        sources.push(AptSource {
            uri: uri.trim_end_matches('/').to_owned(),
            suite: suite.trim_end_matches('/').to_owned(),
            components: words.map(str::to_owned).collect(),
            signed_by: option("signed-by").map(|(_, key)| key.to_owned()).filter(|key| key.starts_with('/')),
            trusted: option("trusted").is_some_and(|(_, value)| value == "yes"),
        });
    }
    sources.retain(usable);
    sources
}

/// Parses a `.sources` file (deb822), which has paragraphs of fields. A key embedded in the file is ignored, because
/// the new system's keyring has the distribution's keys.
#[must_use]
pub(crate) fn parse_deb822(text: &str) -> Vec<AptSource> {
    let mut sources = Vec::new();
    for paragraph in text.split("\n\n") {
        let field = |wanted: &str| field(paragraph, wanted);
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let enabled = field("enabled").is_none_or(|value| !value.eq_ignore_ascii_case("no"));
        let types = field("types").map(words).unwrap_or_default();
        if !enabled || !types.iter().any(|kind| kind == "deb") {
            continue;
        }
        let components = field("components").map(words).unwrap_or_default();
        let signed_by = field("signed-by").filter(|key| key.starts_with('/'));
        let trusted = field("trusted").is_some_and(|value| value.eq_ignore_ascii_case("yes"));
        for uri in field("uris").map(words).unwrap_or_default() {
            for suite in field("suites").map(words).unwrap_or_default() {
                sources.push(AptSource {
                    uri: uri.trim_end_matches('/').to_owned(),
                    suite: suite.trim_end_matches('/').to_owned(),
                    components: components.clone(),
                    signed_by: signed_by.clone(),
                    trusted,
                });
            }
        }
    }
    sources.retain(usable);
    sources
}

/// Returns the value of a field, with its continuation lines.
fn field(paragraph: &str, wanted: &str) -> Option<String> {
    let mut value: Option<String> = None;
    for line in paragraph.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with([' ', '\t']) {
            if let Some(value) = &mut value {
                value.push('\n');
                value.push_str(line.trim());
            }
            continue;
        }
        if value.is_some() {
            break;
        }
        if let Some((name, rest)) = line.split_once(':')
            && name.trim().eq_ignore_ascii_case(wanted)
        {
            value = Some(rest.trim().to_owned());
        }
    }
    value.map(|value| value.trim().to_owned())
}

fn usable(source: &AptSource) -> bool {
    (source.uri.starts_with("http://") || source.uri.starts_with("https://"))
        && !source.components.is_empty()
        && source.uri.chars().chain(source.suite.chars()).all(|c| c.is_ascii_graphic())
}

/// Returns the archive's name, which is the last part of the mirror's URL.
fn archive_name(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or_default()
}

/// Archives from which a system can be made.
const ARCHIVES: [&str; 3] = ["debian", "ubuntu", "ubuntu-ports"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_give_the_same_distribution() {
        let list = "\
# deb http://old.example/debian buster main
deb [arch=amd64 signed-by=/k.gpg] https://download.docker.com/linux/debian bookworm stable
deb-src http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian/ bookworm main contrib # a comment
deb http://deb.debian.org/debian bookworm-updates main
deb http://deb.debian.org/debian-security bookworm-security main
deb cdrom:[Debian]/ bookworm main
deb http://broken
";
        let deb822 = "\
Types: deb deb-src
# a note
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://deb.debian.org/debian-security/
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

Enabled: no
Types: deb
URIs: http://third.example/debian
Suites: bookworm
Components: main
";
        for sources in [parse_list(list), parse_deb822(deb822)] {
            let found = Distribution::find(&sources, None).unwrap();
            assert_eq!(found.main.uri, "http://deb.debian.org/debian");
            assert_eq!(found.main.suite, "bookworm");
            assert_eq!(found.main.components, ["main", "contrib"]);
            let suites: Vec<&str> = found.updates.iter().map(|source| source.suite.as_str()).collect();
            assert_eq!(suites, ["bookworm-updates", "bookworm-security"]);
            assert!(found.updates.iter().all(|source| source.signed_by.as_deref() != Some("")));
        }
        let keyed = Distribution::find(&parse_deb822(deb822), None).unwrap();
        let inside = keyed.list(|key| format!("/keys{key}"));
        assert!(inside.starts_with(
            "deb [signed-by=/keys/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main contrib\n"
        ));
        assert!(inside.ends_with("deb http://deb.debian.org/debian-security bookworm-security main\n"));
    }

    #[test]
    fn a_host_without_debian_or_ubuntu_sources_has_no_distribution() {
        let foreign = parse_list("deb https://pkg.example/rpm stable main\n");
        assert!(Distribution::find(&foreign, Some("bookworm")).is_none());
        assert!(Distribution::find(&[], Some("bookworm")).is_none());
    }

    #[test]
    fn a_mirror_under_another_name_is_known_by_the_hosts_codename() {
        let sources = parse_list("deb https://mirror.example/os-main bookworm main\n");
        assert!(Distribution::find(&sources, None).is_none());
        let found = Distribution::find(&sources, Some("bookworm")).unwrap();
        assert_eq!(found.main.uri, "https://mirror.example/os-main");
    }
}

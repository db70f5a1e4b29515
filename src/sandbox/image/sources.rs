//! The host's own package sources, read from apt's two formats: what a system made by debootstrap is made
//! from, so that mirrors and keys that work on the host are the ones that are used.

use std::fmt::Write as _;

/// One archive of packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The mirror, as in `http://deb.debian.org/debian`.
    pub uri: String,
    /// As in `bookworm` or `bookworm-security`.
    pub suite: String,
    /// As in `main`.
    pub components: Vec<String>,
    /// A key file of the host that signs it, where one is named.
    pub signed_by: Option<String>,
    /// Whether the host trusts it unsigned.
    pub trusted: bool,
}

/// What a system is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// The archive that debootstrap reads.
    pub main: Source,
    /// Its updates and security updates, where the host has them.
    pub updates: Vec<Source>,
}

impl Distribution {
    /// The host's distribution, among all the sources it has. Third parties' archives are not part of it,
    /// though some name their suites after the distribution's: a mirror under a name of its own is taken by
    /// the host's `codename`, and only where no archive is called as it should be.
    #[must_use]
    pub fn find(sources: &[Source], codename: Option<&str>) -> Option<Self> {
        // The plain suite of an archive is the distribution; `-updates` and others are named after it.
        let plain = |source: &&Source| {
            source.components.iter().any(|component| component == "main")
                && source.suite.chars().all(|c| c.is_ascii_alphanumeric())
        };
        let known = |source: &&Source| ARCHIVES.contains(&archive_of(&source.uri));
        let named = |source: &&Source| codename == Some(source.suite.as_str());
        let plain = || sources.iter().filter(plain);
        let main = plain().find(known).or_else(|| plain().find(named))?.clone();
        let named = |suffix: &str| format!("{}{suffix}", main.suite);
        let wanted = [named("-updates"), named("-security"), format!("{}/updates", main.suite)];
        let updates = sources.iter().filter(|source| wanted.contains(&source.suite)).cloned().collect();
        Some(Self { main, updates })
    }

    /// Its lines for a `sources.list` inside the new system, whose own keyring signs all of them unless the
    /// host names a key.
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
            // Writing to a String can't fail.
            let _ = writeln!(text, "deb {options}{} {} {components}", source.uri, source.suite);
        }
        text
    }
}

/// Reads a `.list` file: one source a line.
#[must_use]
pub fn parse_list(text: &str) -> Vec<Source> {
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
        sources.push(Source {
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

/// Reads a `.sources` file (deb822): paragraphs of fields. A key given in the file itself is left out: the
/// new system's own keyring has the distribution's.
#[must_use]
pub fn parse_deb822(text: &str) -> Vec<Source> {
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
                sources.push(Source {
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

/// A field's value, with its continuation lines.
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

fn usable(source: &Source) -> bool {
    (source.uri.starts_with("http://") || source.uri.starts_with("https://"))
        && !source.components.is_empty()
        && source.uri.chars().chain(source.suite.chars()).all(|c| c.is_ascii_graphic())
}

/// The archive a mirror carries: the last part of its address.
fn archive_of(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or_default()
}

/// Archives a system can be made from.
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
    fn a_host_of_another_kind_has_none() {
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

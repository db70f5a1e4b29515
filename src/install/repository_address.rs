//! The address of a git repository as a person gives it, without anything secret in it.

use std::path::Path;

use super::InstallError;

/// The address of a repository, in a form that is safe to pass on and to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryAddress {
    pub(super) url: String,
    pub(super) given: String,
}

impl RepositoryAddress {
    /// Reads an address from a person: a URL, `user@host:path`, or a path, which is made absolute.
    ///
    /// # Errors
    ///
    /// Returns [`InstallError::Repository`] if the address is not usable, or holds a password, or a user name in a web
    /// address, which may be a token. It would be stored in the records of the installation.
    pub fn parse(given: &str) -> Result<Self, InstallError> {
        let refuse = |reason| Err(InstallError::Repository { repository: without_secret(given), reason });
        if given.is_empty() || given.starts_with('-') || given.chars().any(char::is_control) {
            // A leading dash could be read as an option by `ssh` or `git`.
            return refuse("it is neither a URL nor a path");
        }
        if without_secret(given) != given {
            let reason =
                "it has a password or a token in it; use ssh with an agent, or a repository that needs none";
            return refuse(reason);
        }
        if let Some((scheme, _)) = given.split_once("://") {
            return match scheme {
                "https" | "http" | "ssh" | "git" | "file" => {
                    Ok(Self { url: given.to_owned(), given: given.to_owned() })
                }
                _ => refuse("its scheme is none of https, http, ssh, git, file"),
            };
        }
        // A colon before any slash, as in `git@host:path`, which git accepts.
        if given.split('/').next().is_some_and(|first| first.contains(':')) && !Path::new(given).exists() {
            return Ok(Self { url: given.to_owned(), given: given.to_owned() });
        }
        let Ok(path) = std::fs::canonicalize(given) else {
            return refuse("there is no such folder");
        };
        let Some(text) = path.to_str() else { return refuse("its path is not plain text") };
        // git decodes %XX in such a URL.
        Ok(Self { url: format!("file://{}", text.replace('%', "%25")), given: text.to_owned() })
    }

    /// Reads an address as [`RepositoryAddress::parse`] does, but only accepts sources that nobody on the way can change: https,
    /// ssh, this machine.
    ///
    /// # Errors
    ///
    /// Returns [`InstallError::Repository`] if the address is not usable, holds a password or token, or is an `http` or
    /// `git` address of another machine.
    pub(crate) fn parse_encrypted(given: &str) -> Result<Self, InstallError> {
        let origin = Self::parse(given)?;
        if origin.is_unencrypted() {
            let reason = "its address is not encrypted, so anybody on the way could put another program in its place; \
                          take an https or ssh address, or a folder";
            return Err(InstallError::Repository { repository: origin.given, reason });
        }
        Ok(origin)
    }

    /// Returns `true` if the data comes from another machine over `http` or `git`, so that somebody on the way could
    /// change it.
    #[must_use]
    pub(crate) fn is_unencrypted(&self) -> bool {
        let Some((scheme, rest)) = self.given.split_once("://") else { return false };
        let is_open = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("git");
        is_open && !is_this_machine(rest.split(['/', '?', '#']).next().unwrap_or_default())
    }

    /// Returns the address as libgit2 takes it.
    #[must_use]
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address as it is recorded and shown. A path is absolute, anything else is as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.given
    }
}

/// Returns `true` if the host and port of a URL certainly belong to this machine. An unusual spelling does not count.
pub(super) fn is_this_machine(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some(""))),
        None => authority.split_once(':').map_or((authority, Some("")), |(host, port)| (host, Some(port))),
    };
    let is_port = port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_loopback = host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    is_port && (is_loopback || host.eq_ignore_ascii_case("localhost"))
}

/// Removes from a URL what may be a secret: a password, and in a web address the whole user name, which may be a token.
fn without_secret(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, _)) = authority.rsplit_once('@') else { return url.to_owned() };
    if scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http") {
        return format!("{scheme}://{}", &rest[user.len() + 1..]);
    }
    let Some((name, _)) = user.split_once(':') else { return url.to_owned() };
    format!("{scheme}://{name}{}", &rest[user.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_a_url_or_a_path_and_has_no_password() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap().join("50% off");
        std::fs::create_dir(&folder).unwrap();
        let path = RepositoryAddress::parse(folder.to_str().unwrap()).unwrap();
        assert!(path.url.starts_with("file:///") && path.url.ends_with("/50%25 off"), "{path:?}");
        for good in [
            "https://example.org/a.git",
            "ssh://git@example.org:22/a",
            "git@example.org:a/b.git",
            "https://a.org/@b",
        ] {
            assert_eq!(RepositoryAddress::parse(good).unwrap().url, good);
        }
        for bad in [
            "",
            "--upload-pack=x",
            "https://ann:secret@example.org/a",
            "https://secret@example.org/a",
            "http://secret:x-oauth-basic@example.org/a",
            "HTTPS://secret@example.org/a",
            "ssh://git:secret@example.org/a",
            "ftp://example.org",
            "/no/such",
            "a\nb",
        ] {
            let told = RepositoryAddress::parse(bad).unwrap_err().to_string();
            assert!(!told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn unencrypted_addresses_are_refused() {
        for good in [
            "https://example.org/a.git",
            "ssh://git@example.org/a",
            "git@example.org:a/b.git",
            "http://127.0.0.1/a",
            "http://127.0.0.1:8080/a",
            "http://localhost:80/a",
            "http://LOCALHOST/a",
            "http://[::1]:8080/a",
            "git://localhost/a",
        ] {
            assert!(RepositoryAddress::parse_encrypted(good).is_ok(), "{good}");
        }
        for bad in [
            "http://example.org/a.git",
            "git://example.org/a.git",
            "http://127.0.0.1.example.org/a",
            "http://localhost.example.org/a",
            "git://localhost@example.org/a",
            "git://example.org\\@localhost/a",
            "http://localhost:80x/a",
            "http://[::1].example.org/a",
            "http://2130706433.example.org/a",
            "http:///a",
        ] {
            let told = RepositoryAddress::parse_encrypted(bad).unwrap_err().to_string();
            assert!(told.contains("not encrypted") && told.contains("https or ssh"), "{bad}: {told}");
        }
    }
}

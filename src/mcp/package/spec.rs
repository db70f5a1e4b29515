//! The package that a person asks for: one of a registry, with a range of versions.

use serde::{Deserialize, Serialize};

use crate::config::PackageSource;
use crate::config::mcp_package::is_version;

/// The most bytes of a range of versions, and the most packages that are asked for besides the server's.
const MAX_RANGE: usize = 128;
const MAX_WITH: usize = 16;

/// A package that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Request {
    pub source: PackageSource,
    pub name: String,
    /// The range of versions as the registry's program writes it. For npm also a tag. Empty means any on `PyPI`.
    pub range: String,
    /// The extras of a package of `PyPI`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extras: Vec<String>,
    /// Packages that are installed beside it, each with a range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// The program of the package to run if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bin: Option<String>,
}

impl Request {
    /// Reads a package as a person writes it: `NAME@RANGE` for npm, `NAME[EXTRAS]==VERSION` for `PyPI`.
    ///
    /// # Errors
    ///
    /// Returns the reason if the text is anything else, such as an address, a path or an option.
    pub fn parse(source: PackageSource, text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, extras, range) = match source {
            PackageSource::Npm => npm(text)?,
            PackageSource::Pypi => pypi(text)?,
        };
        Ok(Self { source, name, range, extras, with: Vec::new(), bin: None })
    }

    /// Adds packages that are installed beside it.
    ///
    /// # Errors
    ///
    /// Returns the reason if one of them can't be read.
    pub fn with(mut self, more: &[String]) -> Result<Self, String> {
        if more.len() > MAX_WITH {
            return Err(format!("at most {MAX_WITH} packages can be added"));
        }
        for text in more {
            let found = Self::parse(self.source, text)?;
            self.with.push(found.text());
        }
        Ok(self)
    }

    /// Returns the request for another version: an exact one, a range, or `latest`.
    ///
    /// # Errors
    ///
    /// Returns the reason if it is none of them.
    pub fn to(&self, version: &str) -> Result<Self, String> {
        let range = match self.source {
            PackageSource::Npm => npm_range(version.trim())?,
            PackageSource::Pypi if version.trim() == "latest" => String::new(),
            PackageSource::Pypi if is_version(version.trim()) => format!("=={}", version.trim()),
            PackageSource::Pypi => specifiers(version.trim())?,
        };
        Ok(Self { range, ..self.clone() })
    }

    /// Writes the package as the registry's program reads it.
    #[must_use]
    pub fn text(&self) -> String {
        match self.source {
            PackageSource::Npm => format!("{}@{}", self.name, self.range),
            PackageSource::Pypi if self.extras.is_empty() => format!("{}{}", self.name, self.range),
            PackageSource::Pypi => format!("{}[{}]{}", self.name, self.extras.join(","), self.range),
        }
    }

    /// Returns `true` if every part of it could have come from [`Self::parse`]. A lock may have been written by others.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let same = |found: Result<Self, String>| {
            found.is_ok_and(|found| {
                (found.name, found.range, found.extras)
                    == (self.name.clone(), self.range.clone(), self.extras.clone())
            })
        };
        same(Self::parse(self.source, &self.text()))
            && self.with.len() <= MAX_WITH
            && self
                .with
                .iter()
                .all(|text| Self::parse(self.source, text).is_ok_and(|one| one.text() == *text))
    }
}

type Parts = (String, Vec<String>, String);

fn npm(text: &str) -> Result<Parts, String> {
    // The first character may be the `@` of a scope.
    let at = text.char_indices().skip(1).find(|(_, c)| *c == '@').map_or(text.len(), |(at, _)| at);
    let (name, range) = text.split_at(at);
    if !PackageSource::Npm.is_name(name) {
        return Err(format!("{text:?} is no package of npm: write NAME or NAME@VERSION"));
    }
    let range = range.strip_prefix('@').unwrap_or("latest");
    Ok((name.to_owned(), Vec::new(), npm_range(range)?))
}

/// Reads a range of versions or a tag. An address, a path and an alias have `:` or `/` in it.
fn npm_range(range: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || " .-+_^~<>=|*".contains(c);
    let range = if range.is_empty() { "latest" } else { range };
    if range.len() > MAX_RANGE || range.starts_with('-') || !range.chars().all(allowed) {
        return Err(format!("{range:?} is no version of npm, no range and no tag"));
    }
    Ok(range.to_owned())
}

fn pypi(text: &str) -> Result<Parts, String> {
    let wrong =
        || format!("{text:?} is no package of PyPI: write NAME, NAME==VERSION or NAME[EXTRA]>=VERSION");
    let end = text.find(['[', '=', '<', '>', '!', '~', ' ']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if !PackageSource::Pypi.is_name(name) {
        return Err(wrong());
    }
    let (extras, rest) = match rest.trim_start().strip_prefix('[') {
        None => (Vec::new(), rest),
        Some(inner) => {
            let (extras, rest) = inner.split_once(']').ok_or_else(wrong)?;
            let extras: Vec<String> = extras.split(',').map(|extra| extra.trim().to_owned()).collect();
            if !extras.iter().all(|extra| PackageSource::Pypi.is_name(extra)) {
                return Err(wrong());
            }
            (extras, rest)
        }
    };
    Ok((name.to_owned(), extras, specifiers(rest.trim())?))
}

/// Reads `>=1,<2`. A marker, an address and an option have other characters.
fn specifiers(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let one = |part: &str| {
        let part = part.trim();
        let version = part.trim_start_matches(['=', '<', '>', '!', '~']);
        let operator = &part[..part.len() - version.len()];
        let version = version.trim();
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".*+!_-".contains(c);
        let is_good = ["==", "===", "!=", "<=", ">=", "<", ">", "~="].contains(&operator)
            && version.starts_with(|c: char| c.is_ascii_digit())
            && version.chars().all(allowed);
        is_good.then(|| format!("{operator}{version}"))
    };
    let parts: Option<Vec<String>> = text.split(',').map(one).collect();
    match parts {
        Some(parts) if text.len() <= MAX_RANGE => Ok(parts.join(",")),
        _ => Err(format!("{text:?} is no range of versions of PyPI: write ==1.2.3 or >=1,<2")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_npm_are_read_with_scopes_ranges_and_tags() {
        for (text, name, range) in [
            ("left-pad", "left-pad", "latest"),
            ("left-pad@1.3.0", "left-pad", "1.3.0"),
            ("@a/b", "@a/b", "latest"),
            ("@a/b@next", "@a/b", "next"),
            ("@a/b@^1.2 || >=3", "@a/b", "^1.2 || >=3"),
            ("a@~1.0.0-beta.2", "a", "~1.0.0-beta.2"),
        ] {
            let found = Request::parse(PackageSource::Npm, text).unwrap();
            assert_eq!((found.name.as_str(), found.range.as_str()), (name, range), "{text}");
            assert!(found.is_valid(), "{text}");
        }
    }

    #[test]
    fn packages_of_pypi_are_read_with_extras_and_ranges() {
        for (text, name, extras, range) in [
            ("mcp-server-time", "mcp-server-time", vec![], ""),
            ("mcp-server-time==2026.10.19", "mcp-server-time", vec![], "==2026.10.19"),
            ("mcp[cli, ws] >= 1 , < 2", "mcp", vec!["cli", "ws"], ">=1,<2"),
            ("a~=1.4.*", "a", vec![], "~=1.4.*"),
            ("a === 1!2.0+local", "a", vec![], "===1!2.0+local"),
        ] {
            let found = Request::parse(PackageSource::Pypi, text).unwrap();
            assert_eq!((found.name.as_str(), found.range.as_str()), (name, range), "{text}");
            assert_eq!(found.extras, extras, "{text}");
            assert!(found.is_valid(), "{text}");
        }
    }

    #[test]
    fn addresses_paths_options_and_shell_text_are_no_packages() {
        for text in [
            "",
            "@",
            "@a",
            "-y",
            "--registry=http://x",
            "./x",
            "../x",
            "/etc",
            "git+https://x/y",
            "github:a/b",
            "a/b",
            "a@npm:b@1",
            "a@file:../x",
            "a@https://x/y.tgz",
            "a@git://x",
            "a;id",
            "a@$(id)",
            "a@1`id`",
            "a@-1",
            "a\n",
            "a@1\n2",
            "a@1\"",
            "http://x",
        ] {
            let found = Request::parse(PackageSource::Npm, text);
            assert!(found.is_err() || text.trim() != text, "{text:?} was read as {found:?}");
        }
        for text in [
            "",
            "-r x",
            "--index-url=http://x",
            "./x",
            "a @ https://x/y.whl",
            "a==1; python_version > '3'",
            "a==",
            "a==1 --hash=x",
            "a=1",
            "a[x",
            "a[../x]",
            "a[]",
            "a==latest",
            "a,b",
            "git+https://x",
            "a==1\n--index-url=x",
            "a>$(id)",
            "x.whl/..",
        ] {
            let found = Request::parse(PackageSource::Pypi, text);
            assert!(found.is_err(), "{text:?} was read as {found:?}");
        }
    }

    #[test]
    fn another_version_keeps_the_rest_of_the_request() {
        let first =
            Request::parse(PackageSource::Pypi, "a[x]==1").unwrap().with(&["mcp<2".to_owned()]).unwrap();
        assert_eq!(first.to("2.0").unwrap().text(), "a[x]==2.0");
        assert_eq!(first.to("latest").unwrap().text(), "a[x]");
        assert_eq!(first.to(">=2,<3").unwrap().with, ["mcp<2"]);
        assert!(first.to("; id").is_err());
        let first = Request::parse(PackageSource::Npm, "@a/b@1.0.0").unwrap();
        assert_eq!(first.to("latest").unwrap().text(), "@a/b@latest");
        assert!(first.to("npm:other").is_err() && first.with(&["../x".to_owned()]).is_err());
    }
}

//! The name of a package, which is an attribute of the flake that packages come from. Nothing else can be installed, so
//! an agent's request cannot name a source of its own.

use std::fmt;
use std::str::FromStr;

use super::NixError;

/// An attribute name of 1 to 128 characters from `A-Z a-z 0-9 . _ + -`, for example `hello` or `python3Packages.numpy`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attribute(String);

impl Attribute {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Attribute {
    type Err = NixError;

    fn from_str(text: &str) -> Result<Self, NixError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-');
        // Every part between dots is non-empty, and none starts like a command line option.
        let whole = text.split('.').all(|part| !part.is_empty() && !part.starts_with('-'));
        if text.len() > 128 || !whole || !text.chars().all(fits) {
            return Err(NixError::NotAnAttribute(text.chars().take(80).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_attributes_are_packages() {
        for text in ["hello", "python3Packages.numpy", "gtk+", "go_1_22", "libstdc++", "nodePackages.@x"] {
            assert_eq!(text.parse::<Attribute>().is_ok(), !text.contains('@'), "{text}");
        }
        let long = "a".repeat(129);
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a.",
            "-rf",
            "a.-b",
            "a b",
            "a;b",
            "a#b",
            "github:x/y#z",
            "path:/etc",
            "a^out",
            "../x",
            "a/b",
            "a\nb",
            "ä",
            "$(id)",
            "`id`",
            long.as_str(),
        ] {
            assert!(text.parse::<Attribute>().is_err(), "{text}");
        }
    }
}

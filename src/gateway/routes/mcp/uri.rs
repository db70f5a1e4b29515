//! The addresses of resources. Pure.
//!
//! ```text
//! flock://channel/ID?after=7          flock://findings/MISSION/FILE?offset=400
//! flock://vault/NAME/FOLDER/FILE      flock://skill/NAME/FOLDER/FILE
//! ```
//!
//! Each address is read by one call of a tool that agents have. So an address can name nothing that a call could not.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

use crate::agent::compaction::findings;
use crate::id::{ChannelId, FolderName};
use crate::tool::files::image::IMAGE;
use crate::tool::files::read::READ;
use crate::tool::team::{CHANNEL_READ, READ_SKILL, WORKSPACE_READ};

/// Most bytes of an address. A path of a vault has at most 1,024, each of which may be written as three characters.
const MAX: usize = 4 << 10;
/// Most messages of a channel that are read at once.
const MESSAGES: u32 = 100;

/// The characters that stand in an address as they are.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The patterns of addresses, as MCP lists them.
pub(super) const CHANNEL: &str = "flock://channel/{channel}{?after,before}";
pub(super) const FINDING: &str = "flock://findings/{+path}{?offset}";
pub(super) const VAULT_FILE: &str = "flock://vault/{vault}/{+path}{?offset}";
pub(super) const SKILL_FILE: &str = "flock://skill/{skill}/{+path}{?offset}";

/// The thing that an address names. The order is that of lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Channel(ChannelId),
    /// A file below the agent's own findings.
    Finding(String),
    VaultFile(FolderName, String),
    /// A file of a skill. Lists do not have it, because the skill's text says what its files are for.
    SkillFile(FolderName, String),
}

/// The address of a resource, or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceUri {
    pub(super) place: Place,
    /// The argument that chooses the part, with its value.
    part: Option<(&'static str, u64)>,
}

/// The reason why a text is no address of flock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UriError {
    /// It belongs to somebody else.
    #[error("flock's resources have addresses that begin with flock://")]
    Foreign,
    #[error("this is no address of a resource: {0}")]
    Invalid(&'static str),
}

impl Place {
    /// Returns the type of its content.
    pub(super) fn mime_type(&self) -> &'static str {
        match self {
            Self::Finding(path) if picture(path).is_some() => picture(path).unwrap_or_default(),
            Self::Finding(path) | Self::VaultFile(_, path) | Self::SkillFile(_, path)
                if path.ends_with(".md") =>
            {
                "text/markdown"
            }
            // Also for JSON: a long text ends with a line about the rest.
            _ => "text/plain",
        }
    }

    /// Returns the call that reads it.
    pub(super) fn call(&self) -> (&'static str, Value) {
        match self {
            Self::Channel(id) => (CHANNEL_READ.name, json!({"channelId": id, "limit": MESSAGES})),
            Self::Finding(path) => {
                let tool = if picture(path).is_some() { IMAGE.name } else { READ.name };
                (tool, json!({"path": format!("{}/{path}", findings::FOLDER)}))
            }
            Self::VaultFile(vault, path) => (WORKSPACE_READ.name, json!({"workspace": vault, "path": path})),
            Self::SkillFile(skill, path) => (READ_SKILL.name, json!({"name": format!("{skill}/{path}")})),
        }
    }
}

/// Returns the type of a picture by the name of its file. `None` for any other file.
fn picture(path: &str) -> Option<&'static str> {
    let (_, ending) = path.rsplit_once('.')?;
    let known = [
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
    ];
    known.iter().find(|(name, _)| ending.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |f: &mut fmt::Formatter<'_>, path: &str| {
            path.split('/').try_for_each(|name| write!(f, "/{}", utf8_percent_encode(name, PLAIN)))
        };
        match self {
            Self::Channel(id) => write!(f, "flock://channel/{id}"),
            Self::Finding(file) => f.write_str("flock://findings").and_then(|()| path(f, file)),
            Self::VaultFile(vault, file) => write!(f, "flock://vault/{vault}").and_then(|()| path(f, file)),
            Self::SkillFile(skill, file) => write!(f, "flock://skill/{skill}").and_then(|()| path(f, file)),
        }
    }
}

impl ResourceUri {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// Returns [`UriError::Foreign`] if another scheme is named, and [`UriError::Invalid`] if it is not of a known form,
    /// or if its path could lead elsewhere.
    pub(super) fn parse(text: &str) -> Result<Self, UriError> {
        let rest = text.strip_prefix("flock://").ok_or(UriError::Foreign)?;
        if text.len() > MAX {
            return Err(UriError::Invalid("it is too long"));
        }
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        let (kind, path) = path.split_once('/').unwrap_or((path, ""));
        let names = path.split('/').map(name).collect::<Result<Vec<String>, _>>()?;
        let place = match (kind, names.as_slice()) {
            ("channel", [id]) => {
                Place::Channel(id.parse().map_err(|_| UriError::Invalid("this is no channel"))?)
            }
            ("findings", [_, ..]) => Place::Finding(names.join("/")),
            ("vault", [vault, file @ ..]) if !file.is_empty() => {
                let vault = vault.parse().map_err(|_| UriError::Invalid("this is no name of a vault"))?;
                Place::VaultFile(vault, file.join("/"))
            }
            ("skill", [skill, file @ ..]) if !file.is_empty() => {
                let skill = skill.parse().map_err(|_| UriError::Invalid("this is no name of a skill"))?;
                Place::SkillFile(skill, file.join("/"))
            }
            _ => {
                return Err(UriError::Invalid(
                    "resources are channel/ID, findings/PATH, vault/NAME/PATH and skill/NAME/PATH",
                ));
            }
        };
        let part = query.map(|query| part(&place, query)).transpose()?;
        Ok(Self { place, part })
    }

    /// Returns `true` if only a part of the resource is named.
    pub(super) fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// Returns the call that reads it.
    pub(super) fn call(&self) -> (&'static str, Value) {
        let (tool, mut arguments) = self.place.call();
        if let Some((name, value)) = self.part {
            arguments[name] = json!(value);
        }
        (tool, arguments)
    }
}

/// Reads one name of a path. The result is a plain name of a file or a folder.
fn name(text: &str) -> Result<String, UriError> {
    let bytes = text.as_bytes();
    let is_plain = |at: usize| match bytes[at] {
        b'%' => bytes.get(at + 1..at + 3).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit)),
        byte => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte),
    };
    if !(0..bytes.len()).all(is_plain) {
        return Err(UriError::Invalid("some characters have to be written as %XX"));
    }
    let name = percent_decode_str(text).decode_utf8().map_err(|_| UriError::Invalid("it is not UTF-8"))?;
    if name.is_empty() || name.starts_with('.') {
        return Err(UriError::Invalid("names are not empty and do not begin with a dot"));
    }
    if name.contains(['/', '\\']) || name.contains(char::is_control) {
        return Err(UriError::Invalid("names have no slashes and no control characters"));
    }
    Ok(name.into_owned())
}

/// Reads the part of a resource that is asked for.
fn part(place: &Place, query: &str) -> Result<(&'static str, u64), UriError> {
    let known: &[&'static str] = match place {
        Place::Channel(_) => &["after", "before"],
        Place::Finding(_) | Place::VaultFile(..) | Place::SkillFile(..) => &["offset"],
    };
    let wrong = UriError::Invalid("after ? is after=N or before=N of a channel, or offset=N of a file");
    let (name, value) = query.split_once('=').ok_or(wrong)?;
    let name = known.iter().find(|known| **known == name).ok_or(wrong)?;
    // A sign would be accepted as a part of the number.
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong);
    }
    Ok((*name, value.parse().map_err(|_| wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> (&'static str, Value) {
        ResourceUri::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).call()
    }

    #[test]
    fn an_address_is_read_by_one_call_of_a_tool() {
        assert_eq!(
            call("flock://channel/dev"),
            ("flock_channel_read", json!({"channelId": "dev", "limit": 100}))
        );
        assert_eq!(
            call("flock://channel/dev?after=7"),
            ("flock_channel_read", json!({"channelId": "dev", "limit": 100, "after": 7}))
        );
        assert_eq!(
            call("flock://vault/wiki/a/b%20c.md?offset=3"),
            ("flock_workspace_read", json!({"workspace": "wiki", "path": "a/b c.md", "offset": 3}))
        );
        assert_eq!(
            call("flock://skill/pdf/forms/a%20b.md?offset=2"),
            ("flock_read_skill", json!({"name": "pdf/forms/a b.md", "offset": 2}))
        );
        assert_eq!(
            call("flock://findings/main/finding_1.md"),
            ("read", json!({"path": "deliverables/findings/main/finding_1.md"}))
        );
        assert_eq!(
            call("flock://findings/main/shot.PNG"),
            ("image", json!({"path": "deliverables/findings/main/shot.PNG"}))
        );
    }

    #[test]
    fn what_is_listed_can_be_read_back() {
        let vault = "wiki".parse::<FolderName>().unwrap();
        for path in ["a.md", "a/b/c", "b c", "100%", "x?y#z", "안녕/그래.md", "a,b;c=d&e", "%2e%2e", "~"]
        {
            for place in [
                Place::Finding(path.to_owned()),
                Place::VaultFile(vault.clone(), path.to_owned()),
                Place::SkillFile(vault.clone(), path.to_owned()),
            ] {
                let text = place.to_string();
                assert_eq!(ResourceUri::parse(&text).unwrap(), ResourceUri { place, part: None }, "{text}");
            }
        }
    }

    #[test]
    fn hostile_addresses_are_refused() {
        for text in [
            "flock://",
            "flock:///channel/dev",
            "flock://channel",
            "flock://channel/",
            "flock://channel/dev/",
            "flock://channel/dev/x",
            "flock://channel/de%00v",
            "flock://channel/../dev",
            "flock://ch%61nnel/dev",
            "flock://user@channel/dev",
            "flock://channel:80/dev",
            "flock://channel/dev#x",
            "flock://channel/dev?after=-1",
            "flock://channel/dev?after=+1",
            "flock://channel/dev?after=",
            "flock://channel/dev?after=99999999999999999999999",
            "flock://channel/dev?after=1&before=2",
            "flock://channel/dev?offset=1",
            "flock://channel/dev?query=secret",
            "flock://vault/wiki",
            "flock://vault/wiki/",
            "flock://vault/wiki//etc/passwd",
            "flock://vault/../secrets/x",
            "flock://vault/%2e%2e/secrets/x",
            "flock://vault/.hidden/x",
            "flock://vault/wiki/..",
            "flock://vault/wiki/../other/x",
            "flock://vault/wiki/%2e%2e/other/x",
            "flock://vault/wiki/%2E%2E%2Fother/x",
            "flock://vault/wiki/a%2Fb",
            "flock://vault/wiki/a%5Cb",
            "flock://vault/wiki/a\\b",
            "flock://vault/wiki/.git/config",
            "flock://vault/wiki/a%0Ab",
            "flock://vault/wiki/a%00b",
            "flock://vault/wiki/a%",
            "flock://vault/wiki/a%2",
            "flock://vault/wiki/%zz",
            "flock://vault/wiki/%ff",
            "flock://vault/wiki/é",
            "flock://vault/wiki/a b",
            "flock://vault/wiki/a?b",
            "flock://skill/pdf",
            "flock://skill/pdf/",
            "flock://skill/pdf/.flock-skill.json",
            "flock://skill/pdf/../other/SKILL.md",
            "flock://skill/pdf/%2e%2e/other/SKILL.md",
            "flock://skill/.staging/SKILL.md",
            "flock://skill/pdf/a%2Fb",
            "flock://skill/pdf/a.md?after=1",
            "flock://findings/",
            "flock://findings/../../MEMORY.md",
            "flock://findings/%2e%2e/%2e%2e/MEMORY.md",
            "flock://findings/./x",
            "flock://memory/MEMORY.md",
            "flock://session/agent:coder:main",
        ] {
            let error = ResourceUri::parse(text).unwrap_err();
            assert!(matches!(error, UriError::Invalid(_)), "{text}: {error}");
        }
        let long = format!("flock://vault/wiki/{}", "x/".repeat(MAX));
        assert!(matches!(ResourceUri::parse(&long), Err(UriError::Invalid(_))));
        for text in [
            "",
            "file:///etc/passwd",
            "FLOCK://channel/dev",
            "flock:channel/dev",
            "http://127.0.0.1/",
            " flock://channel/dev",
        ] {
            assert_eq!(ResourceUri::parse(text), Err(UriError::Foreign), "{text}");
        }
    }
}

//! Archetypes: descriptions of an agent's strengths and way of working. Nine are built in, and a person can add more in
//! the home's `archetypes/<name>.md`. When an agent is added, its archetype becomes its `SOUL.md`; from then on the
//! owner edits that file.

use std::path::{Path, PathBuf};

use crate::error::{Explain, Kind};
use crate::home::beneath::{BeneathError, FileKind};
use crate::home::user_dirs;

/// The built-in archetypes, as name and text.
pub const BUILT_IN: [(&str, &str); 9] = [
    ("code-first-developer", include_str!("archetypes/code-first-developer.md")),
    ("code-reviewer", include_str!("archetypes/code-reviewer.md")),
    ("deep-researcher", include_str!("archetypes/deep-researcher.md")),
    ("ideation", include_str!("archetypes/ideation.md")),
    ("product-developer", include_str!("archetypes/product-developer.md")),
    ("production-first-developer", include_str!("archetypes/production-first-developer.md")),
    ("project-manager", include_str!("archetypes/project-manager.md")),
    ("qa", include_str!("archetypes/qa.md")),
    ("security-adviser", include_str!("archetypes/security-adviser.md")),
];

/// An error while looking up an archetype.
#[derive(Debug, thiserror::Error)]
pub enum ArchetypeError {
    /// The name is not valid.
    #[error("{0:?} is not the name of an archetype: use 1 to 63 of a-z, 0-9, '-' and '_'")]
    Name(String),
    /// No archetype has this name.
    #[error("there is no archetype {name}; there are {}", .known.join(", "))]
    Unknown {
        /// The name as given.
        name: String,
        /// The names of all archetypes.
        known: Vec<String>,
        /// Folder of the person's own archetypes.
        folder: PathBuf,
    },
    /// A person's own archetype can't be read.
    #[error("failed to read the archetype {}", file.display())]
    File {
        file: PathBuf,
        #[source]
        source: BeneathError,
    },
}

impl Explain for ArchetypeError {
    fn kind(&self) -> Kind {
        match self {
            Self::Name(_) | Self::Unknown { .. } => Kind::Usage,
            Self::File { .. } => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Name(_) => "flock add --help".to_owned(),
            Self::Unknown { name, folder, .. } => {
                format!("take one of these, or write your own into {}/{name}.md", folder.display())
            }
            Self::File { file, .. } => format!("ls -l {}", file.display()),
        })
    }
}

/// Returns the names of all archetypes, including a person's own in `folder`, sorted.
#[must_use]
pub fn names(folder: &Path) -> Vec<String> {
    let listed = user_dirs::open(folder).and_then(|root| root.list(Path::new(""), MAX_LISTED));
    // A folder that is missing or unreadable only means that there are no archetypes of the person's own.
    let (entries, _) = listed.unwrap_or_default();
    let own = entries.iter().filter(|entry| entry.kind == FileKind::File).filter_map(|entry| {
        let name = entry.path.to_str()?.strip_suffix(".md")?;
        is_name(name).then(|| name.to_owned())
    });
    let mut names: Vec<String> = BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).chain(own).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the text of an archetype: a person's own in `folder`, otherwise the built-in one.
///
/// # Errors
///
/// - [`ArchetypeError::Name`] if the name is not valid.
/// - [`ArchetypeError::Unknown`] if there is no such archetype.
/// - [`ArchetypeError::File`] if a person's own file can't be read.
pub fn find(folder: &Path, name: &str) -> Result<String, ArchetypeError> {
    // Checked before the path is built: a name must not be able to leave the folder.
    if !is_name(name) {
        return Err(ArchetypeError::Name(crate::tool::safe_text::start(name, 80).to_owned()));
    }
    let file = format!("{name}.md");
    match user_dirs::open(folder).and_then(|root| root.read(Path::new(&file), MAX_BYTES)) {
        Ok(text) if !text.trim_ascii().is_empty() => Ok(String::from_utf8_lossy(&text).into_owned()),
        // An empty file counts as missing, so the built-in archetype of that name is used.
        Ok(_) | Err(BeneathError::NotFound { .. }) => {
            BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned()).ok_or_else(
                || ArchetypeError::Unknown {
                    name: name.to_owned(),
                    known: names(folder),
                    folder: folder.to_owned(),
                },
            )
        }
        Err(source) => Err(ArchetypeError::File { file: folder.join(file), source }),
    }
}

/// Returns an archetype's strengths: the points of its `## Focus` section, at most five, each on one line.
#[must_use]
pub(crate) fn focus(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).skip_while(|line| !line.eq_ignore_ascii_case("## focus")).skip(1);
    let points = lines.take_while(|line| !line.starts_with('#')).filter_map(|line| line.strip_prefix("- "));
    let point = |text: &str| -> String {
        let seen = text.trim().chars().filter(|c| !crate::tool::safe_text::is_unseen(*c));
        seen.take(MAX_POINT_CHARS).collect()
    };
    points.map(point).filter(|point| !point.is_empty()).take(MAX_POINTS).collect()
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= 63 && name.chars().all(allowed)
}

const MAX_BYTES: u64 = 64 * 1024;
const MAX_LISTED: usize = 1000;
const MAX_POINTS: usize = 5;
const MAX_POINT_CHARS: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_archetype_is_short_and_lists_its_strengths() {
        for (name, text) in BUILT_IN {
            assert!(is_name(name) && text.len() <= 1200, "{name}: {} bytes", text.len());
            let points = focus(text);
            assert!((3..=5).contains(&points.len()), "{name}: {points:?}");
            assert!(points.iter().all(|point| point.len() < MAX_POINT_CHARS), "{name}: {points:?}");
            for part in ["# ", "## Dispositions", "## Working with others"] {
                assert!(text.contains(part), "{name}: {part}");
            }
        }
    }

    #[test]
    fn a_persons_archetype_wins_and_an_unknown_name_lists_the_known() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        assert!(find(dir.path(), "qa").unwrap().contains("# QA"));
        put("qa.md", "mine");
        put("painter.md", "# Painter\n\n## Focus\n- colour\n-\n- line\n\n## Other\n- no\n");
        put("Bad Name.md", "x");
        put("empty.md", " \n");
        assert_eq!(find(dir.path(), "qa").unwrap(), "mine");
        assert_eq!(focus(&find(dir.path(), "painter").unwrap()), ["colour", "line"]);
        let error = find(dir.path(), "empty").unwrap_err();
        assert!(error.to_string().contains("ideation, painter, product-developer"), "{error}");
        assert_eq!(error.kind(), Kind::Usage);
        assert_eq!(names(dir.path()).iter().filter(|name| *name == "qa").count(), 1);
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("linked.md")).unwrap();
        assert!(matches!(find(dir.path(), "linked"), Err(ArchetypeError::File { .. })));
        for name in ["", "../x", "A", "a.b", "/etc/passwd", &"a".repeat(64)] {
            assert!(matches!(find(dir.path(), name), Err(ArchetypeError::Name(_))), "{name:?}");
        }
    }
}

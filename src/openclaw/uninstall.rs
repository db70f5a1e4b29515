//! Lists OpenClaw's files in a home, which are removed when OpenClaw is uninstalled: its versions and what their builds
//! left, the link to the version in use, flock's plugin and hook, and its tokens. OpenClaw's own state is listed
//! separately, because it holds agents' conversations.

use std::path::{Path, PathBuf};

use super::derive::IDENTITY_HOOK;
use super::{identity, place, plugin, state};
use crate::home::Home;
use crate::install;
use crate::supervise::unit::OPENCLAW;

/// Returns the existing files and folders, as paths below the home, in the order in which they are removed. The link
/// comes first, so that nobody starts a version that is partly removed. If a symbolic link is in the place of a folder,
/// the link itself is listed and its target is not.
#[must_use]
pub(crate) fn found(home: &Home) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for link in [home.openclaw(), home.root().join(DRAFT_LINK)] {
        if link.is_symlink() {
            found.push(link);
        }
    }
    let rest = [
        plugin::folder(home),
        identity::hooks(home).join(IDENTITY_HOOK),
        home.secrets().join(place::TOKEN),
        home.secrets().join(plugin::SECRET),
        home.breaker(OPENCLAW),
    ];
    for path in rest {
        // Nothing behind a symbolic link is listed: it may lead out of the home.
        let leads_away = path.parent().is_some_and(|above| first_link(home, above).is_some());
        if path.symlink_metadata().is_ok() && !leads_away {
            found.push(path);
        }
    }
    let versions = home.openclaw_versions();
    if let Some(link) = first_link(home, &versions) {
        found.push(link);
    } else {
        let entries = std::fs::read_dir(&versions).into_iter().flatten().flatten();
        let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        let kept = kept(home);
        entries.retain(|path| *path != home.openclaw_state() && !kept.contains(path));
        // Versions come last: if nothing else is left of a home, they prove that it is one.
        entries.sort_by_key(|path| (install::versions::read(path).is_some(), path.clone()));
        found.extend(entries);
    }
    relative_paths(home, found)
}

/// Returns OpenClaw's state, the copies that other versions left, and the note about their owner, as paths below the
/// home. Empty if the state is missing or an empty folder.
#[must_use]
pub(crate) fn state(home: &Home) -> Vec<PathBuf> {
    relative_paths(home, kept(home))
}

fn kept(home: &Home) -> Vec<PathBuf> {
    if first_link(home, &home.openclaw_versions()).is_some() {
        return Vec::new();
    }
    let is_full = |path: &PathBuf| std::fs::read_dir(path).is_ok_and(|mut inner| inner.next().is_some());
    let mut found: Vec<PathBuf> = state::all(home).into_iter().filter(is_full).collect();
    let note = state::note(home);
    // The note has no meaning without a state.
    if !found.is_empty() && note.is_file() {
        found.push(note);
    }
    found.sort();
    found
}

/// Returns the first component of a path below the home that is a symbolic link.
fn first_link(home: &Home, path: &Path) -> Option<PathBuf> {
    let mut at = home.root().to_owned();
    path.strip_prefix(home.root()).ok()?.components().find_map(|part| {
        at.push(part);
        at.is_symlink().then(|| at.clone())
    })
}

fn relative_paths(home: &Home, paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().filter_map(|path| path.strip_prefix(home.root()).ok().map(Path::to_owned)).collect()
}

/// Temporary name of the version link before it is moved into place.
const DRAFT_LINK: &str = ".new-openclaw";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn partial_and_complete_installations_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        assert!(found(&home).is_empty() && state(&home).is_empty());
        let versions = home.openclaw_versions();
        for folder in ["2026.2.9-0123456789ab", ".staging/checkout", "state", ".removed-2026.2.8-aa"] {
            std::fs::create_dir_all(versions.join(folder)).unwrap();
        }
        assert!(state(&home).is_empty(), "an empty one is none");
        std::fs::write(versions.join("state/x"), "").unwrap();
        std::fs::write(versions.join("failed.json"), "{}").unwrap();
        symlink("gateways/openclaw/2026.2.9-0123456789ab", home.openclaw()).unwrap();
        std::fs::create_dir_all(plugin::folder(&home)).unwrap();
        std::fs::create_dir_all(home.secrets()).unwrap();
        std::fs::write(home.secrets().join(place::TOKEN), "x").unwrap();
        std::fs::write(home.secrets().join("anthropic"), "x").unwrap();
        assert_eq!(
            text(&found(&home)),
            [
                "openclaw",
                "extensions/flock",
                "secrets/openclaw-token",
                "gateways/openclaw/.removed-2026.2.8-aa",
                "gateways/openclaw/.staging",
                "gateways/openclaw/2026.2.9-0123456789ab",
                "gateways/openclaw/failed.json",
            ]
        );
        assert_eq!(text(&state(&home)), ["gateways/openclaw/state"]);
        std::fs::write(versions.join("state-owner.json"), "{}").unwrap();
        assert_eq!(text(&state(&home)), ["gateways/openclaw/state", "gateways/openclaw/state-owner.json"]);
        // What was said with the previous version exists only in this copy.
        std::fs::create_dir_all(versions.join("state-of-2026.9.6-aa/agents")).unwrap();
        let kept = ["state", "state-of-2026.9.6-aa", "state-owner.json"];
        assert_eq!(text(&state(&home)), kept.map(|name| format!("gateways/openclaw/{name}")));
        assert!(!text(&found(&home)).iter().any(|path| path.contains("/state")));
    }

    #[test]
    fn linked_folders_are_listed_but_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"), None);
        let elsewhere = dir.path().join("large");
        std::fs::create_dir_all(elsewhere.join("openclaw/2026.2.9-0123456789ab")).unwrap();
        std::fs::create_dir(home.root()).unwrap();
        symlink(&elsewhere, home.root().join("gateways")).unwrap();
        // A folder with this name is not flock's link.
        std::fs::create_dir(home.openclaw()).unwrap();
        assert_eq!(text(&found(&home)), ["gateways"]);
        assert!(state(&home).is_empty());
    }
}

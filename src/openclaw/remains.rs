//! All that OpenClaw has of a home's files, to be removed with it: its versions and what their making left, the link to
//! the one in use, flock's plugin and hook, its tokens. Its own state is apart from that: agents' conversations are in it.

use std::path::{Path, PathBuf};

use super::derive::IDENTITY_HOOK;
use super::{identity, place, plugin, state};
use crate::home::Home;
use crate::install;
use crate::supervise::unit::OPENCLAW;

/// What there is, as paths below the home, in the order in which it goes: the link first, so that nobody starts a version
/// that is half gone. A link in the place of a folder counts itself, and what it leads to does not.
#[must_use]
pub fn found(home: &Home) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for link in [home.openclaw(), home.root().join(DRAFT)] {
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
        // Versions last: where nothing else is left of a home they prove that it is one.
        entries.sort_by_key(|path| (install::versions::read(path).is_some(), path.clone()));
        found.extend(entries);
    }
    below(home, found)
}

/// OpenClaw's own state, what other versions left of it, and whose it is, as paths below the home; none where there is no
/// more of it than an empty folder.
#[must_use]
pub fn state(home: &Home) -> Vec<PathBuf> {
    below(home, kept(home))
}

fn kept(home: &Home) -> Vec<PathBuf> {
    if first_link(home, &home.openclaw_versions()).is_some() {
        return Vec::new();
    }
    let is_full = |path: &PathBuf| std::fs::read_dir(path).is_ok_and(|mut inner| inner.next().is_some());
    let mut found: Vec<PathBuf> = state::all(home).into_iter().filter(is_full).collect();
    let note = state::note(home);
    // Alone it says nothing.
    if !found.is_empty() && note.is_file() {
        found.push(note);
    }
    found.sort();
    found
}

/// The first part of a path below the home that is a link.
fn first_link(home: &Home, path: &Path) -> Option<PathBuf> {
    let mut at = home.root().to_owned();
    path.strip_prefix(home.root()).ok()?.components().find_map(|part| {
        at.push(part);
        at.is_symlink().then(|| at.clone())
    })
}

fn below(home: &Home, paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().filter_map(|path| path.strip_prefix(home.root()).ok().map(Path::to_owned)).collect()
}

/// What the link is called before it is in its place.
const DRAFT: &str = ".new-openclaw";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn half_a_bundle_is_found_as_well_as_a_whole_one() {
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
        // What was said on a version before is nowhere else.
        std::fs::create_dir_all(versions.join("state-of-2026.9.6-aa/agents")).unwrap();
        let kept = ["state", "state-of-2026.9.6-aa", "state-owner.json"];
        assert_eq!(text(&state(&home)), kept.map(|name| format!("gateways/openclaw/{name}")));
        assert!(!text(&found(&home)).iter().any(|path| path.contains("/state")));
    }

    #[test]
    fn what_a_person_linked_elsewhere_is_not_looked_into() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"), None);
        let elsewhere = dir.path().join("large");
        std::fs::create_dir_all(elsewhere.join("openclaw/2026.2.9-0123456789ab")).unwrap();
        std::fs::create_dir(home.root()).unwrap();
        symlink(&elsewhere, home.root().join("gateways")).unwrap();
        // A folder of that name is not flock's link.
        std::fs::create_dir(home.openclaw()).unwrap();
        assert_eq!(text(&found(&home)), ["gateways"]);
        assert!(state(&home).is_empty());
    }
}

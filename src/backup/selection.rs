//! What of a home a backup has. Pure.
//!
//! Everything that is not named here is in it, so that a folder that flock gets later is not forgotten. Only `store.json` and
//! `data/blobs.json` are not: they are left out of new archives, and a restore removes those of earlier ones.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::manifest::{Node, Part};
use crate::home::atomic;
use crate::openclaw::copy::KEY_FILES;

/// Folders and files at the top of a home that flock makes again, or that belong to running processes.
const TOP: [&str; 5] = ["extensions", "logs", "openclaw", "package-tools", "run"];

/// Returns `true` if a backup has this path, which is relative to the home. What is in a folder that it does not have is
/// not asked for.
///
/// A restore refuses every path for which this is `false`. A path may be taken out of here only if archives of earlier
/// versions do not have it.
#[must_use]
pub(super) fn is_wanted(path: &Path, without: &[Part]) -> bool {
    let names: Vec<&OsStr> = path.iter().collect();
    let texts: Vec<&str> = names.iter().map(|name| name.to_str().unwrap_or("\u{fffd}")).collect();
    let Some(last) = texts.last() else { return true };
    let is_without = |part| without.contains(&part);
    match texts.as_slice() {
        // A file that is being written. Only flock's own folders have these.
        [] => true,
        [_] | ["data" | "secrets" | "backups" | "generations", _] if atomic::is_draft(last) => false,
        [top] if TOP.contains(top) => false,
        // Copied by SQLite, or made again from other files.
        ["data", name] if is_of_database(name) => false,
        ["data", "check-setups" | "backup.json"] => false,
        ["data", name] if name.starts_with("damaged-") => false,
        // The database's own backups: the copy of the database takes their place.
        ["backups", name] if !name.starts_with("config-") => false,
        ["backups", _] | ["secrets", ..] => !is_without(Part::Secrets),
        ["workspaces", ..] => !is_without(Part::Workspaces),
        // A user of this machine, chosen again where flock runs as root.
        ["agents" | "mcp", _, "uid"] => false,
        ["mcp", _, "workspace", ..] => !is_without(Part::Workspaces),
        // Made for each turn.
        ["agents", _, "turns" | "empty"] => false,
        ["agents", _, "checkpoints"] => !is_without(Part::Workspaces),
        ["agents", _, "checkpoints", name] => matches!(*name, "objects" | "records.jsonl" | "rewind.json"),
        ["agents", _, "checkpoints", "objects", name] => name.len() == 2,
        ["skills", ".flock-staging"] => false,
        ["projects", name] => !name.ends_with(".creating"),
        ["projects", _, "incoming"] => false,
        ["projects", _, .., name] => Path::new(name).extension().is_none_or(|ending| ending != "lock"),
        // OpenClaw writes keys beside its other data, under names of its own.
        ["gateways", "openclaw", "state", .., name] if KEY_FILES.contains(name) => !is_without(Part::Secrets),
        // Versions of OpenClaw and of flock are installed again. OpenClaw's own state is people's and agents' data, and
        // the commits that tags first pointed to protect a later update.
        ["gateways", rest @ ..] => matches!(
            rest,
            [] | ["flock" | "openclaw"]
                | ["flock", "tags.json" | "failed.json"]
                | ["openclaw", "tags.json" | "failed.json" | "state-owner.json"]
                | ["openclaw", "state", ..]
        ),
        _ => true,
    }
}

/// The copy of the database, and the files that name the ends of its audit.
pub(super) const DATABASE: [&str; 3] = ["flock.db", "audit.head", "audit.base"];

fn is_of_database(name: &str) -> bool {
    DATABASE.contains(&name)
        || ["flock.db-", "flock.db.", "search.db"].iter().any(|start| name.starts_with(start))
}

/// Returns `true` if an archive may have this entry.
#[must_use]
pub(super) fn may_hold(path: &Path, node: &Node) -> bool {
    let mut above = path.ancestors().filter(|path| !path.as_os_str().is_empty());
    let is_database = path.parent() == Some(Path::new("data"))
        && path.file_name().and_then(OsStr::to_str).is_some_and(|name| DATABASE.contains(&name));
    let is_known = is_database || above.all(|path| is_wanted(path, &[]));
    is_known && (may_be_link(path) || !matches!(node, Node::Link { .. }))
}

/// Returns `true` if there may be a link in this place. flock opens its own folders and files by their paths, so a link
/// there would lead it elsewhere.
#[must_use]
pub(super) fn may_be_link(path: &Path) -> bool {
    let mut names = path.iter();
    let top = names.next().unwrap_or_default();
    let is_closed = ["data", "secrets", "backups", "generations", "projects"].iter().any(|name| top == *name);
    // A workspace itself, and the folder of an agent, are flock's.
    let is_flocks = ["agents", "workspaces", "mcp"].iter().any(|name| top == *name);
    let below = names.count();
    !is_closed && below > usize::from(is_flocks)
}

/// Returns `true` if two paths may be names of one file: both are in the same workspace, vault or skill.
#[must_use]
pub(super) fn may_share(one: &Path, other: &Path) -> bool {
    let tree =
        |path: &Path| -> Vec<Vec<u8>> { path.iter().take(2).map(|name| name.as_bytes().to_vec()).collect() };
    one.iter().count() > 2 && other.iter().count() > 2 && tree(one) == tree(other)
}

/// Returns `true` for a transcript, which is only ever appended to.
#[must_use]
pub(super) fn is_transcript(path: &Path) -> bool {
    let names: Vec<&OsStr> = path.iter().collect();
    matches!(names.as_slice(), [top, _, folder, _] if *top == "agents" && *folder == "sessions")
        && path.extension().is_some_and(|ending| ending == "jsonl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_and_agents_made_is_wanted_and_what_flock_makes_again_is_not() {
        for path in [
            "config.json",
            "version",
            "nix-pin.json",
            "data",
            "data/instance",
            "data/chat-history.jsonl",
            "data/pending/coder.json",
            "agents/coder/sessions/x.jsonl",
            "agents/coder/identity/SOUL.md",
            "agents/coder/programs/claude/x",
            "agents/coder/checkpoints/objects/ab/cd",
            "agents/coder/checkpoints/records.jsonl",
            "agents/coder/checkpoints/rewind.json",
            "workspaces/coder/run/logs",
            "workspaces/coder/.new-1-abcdef",
            "mcp/x/packages/y",
            "mcp/x/workspace/uid",
            "projects/p.git/HEAD",
            "projects/p.git/objects/ab/cd",
            "vaults/v/x",
            "skills/s/SKILL.md",
            "skills/s/.flock-skill.json",
            "archetypes/a.md",
            "locales/de/tools.json",
            "scripts/x",
            "secrets/receipt-key",
            "backups/config-1.json",
            "generations/7.json",
            "gateways/openclaw/state/run/x",
            "gateways/openclaw/tags.json",
            "a-folder-of-a-later-flock/x",
        ] {
            let path = Path::new(path);
            assert!(path.ancestors().all(|path| is_wanted(path, &[])), "{}", path.display());
        }
        for path in [
            "run",
            "logs",
            "openclaw",
            "extensions",
            "package-tools",
            "data/flock.db",
            "data/flock.db-wal",
            "data/flock.db.moved-17",
            "data/flock.db.moving",
            "data/search.db",
            "data/search.db-shm",
            "data/audit.head",
            "data/check-setups",
            "data/damaged-17",
            "data/backup.json",
            "data/.new-1-abcdef",
            "secrets/.new-1-abcdef",
            "backups/flock-daily-1.db",
            "agents/coder/uid",
            "agents/coder/turns",
            "agents/coder/empty",
            "agents/coder/checkpoints/index",
            "agents/coder/checkpoints/lock",
            "agents/coder/checkpoints/objects/new",
            "agents/coder/checkpoints/objects/unsynced",
            "mcp/x/uid",
            "projects/p.git/incoming",
            "projects/p.git/flock.lock",
            "projects/p.git/refs/heads/main.lock",
            "projects/p.creating",
            "skills/.flock-staging",
            "gateways/flock/flock-previous",
            "gateways/openclaw/1.2-abc",
            "gateways/openclaw/state-of-1.2-abc",
        ] {
            assert!(!is_wanted(Path::new(path), &[]), "{path}");
        }
    }

    #[test]
    fn parts_are_left_out_on_request() {
        for (path, part) in [
            ("workspaces/coder", Part::Workspaces),
            ("agents/coder/checkpoints", Part::Workspaces),
            ("mcp/x/workspace", Part::Workspaces),
            ("secrets/openai", Part::Secrets),
            ("backups/config-1.json", Part::Secrets),
        ] {
            assert!(is_wanted(Path::new(path), &[]) && !is_wanted(Path::new(path), &[part]), "{path}");
        }
        for path in ["agents/coder/sessions/x.jsonl", "config.json", "mcp/x/packages"] {
            assert!(is_wanted(Path::new(path), &[Part::Workspaces, Part::Secrets]), "{path}");
        }
    }

    #[test]
    fn key_files_of_openclaw_are_left_out_with_the_secrets() {
        for name in KEY_FILES {
            for folder in ["", "agents/coder/agent/", "a/b/c/d/"] {
                let path = format!("gateways/openclaw/state/{folder}{name}");
                let is_in = |without| is_wanted(Path::new(&path), without);
                assert!(is_in(&[]) && is_in(&[Part::Workspaces]) && !is_in(&[Part::Secrets]), "{path}");
            }
        }
        for path in [
            "gateways/openclaw/state",
            "gateways/openclaw/state/agents/coder/sessions/sessions.json",
            "gateways/openclaw/state/agents/coder/agent/openclaw-agent.sqlite",
            "workspaces/coder/models.json",
        ] {
            assert!(is_wanted(Path::new(path), &[Part::Secrets]), "{path}");
        }
    }

    #[test]
    fn links_and_shared_files_stay_in_their_trees() {
        for path in ["workspaces/a/x", "skills/mine", "vaults/v/x", "mcp/x/packages/bin"] {
            assert!(may_be_link(Path::new(path)), "{path}");
        }
        for path in
            ["workspaces", "workspaces/a", "agents/a", "data/x", "secrets/x", "config.json", "projects/p.git"]
        {
            assert!(!may_be_link(Path::new(path)), "{path}");
        }
        let shares = |one: &str, other: &str| may_share(Path::new(one), Path::new(other));
        assert!(shares("workspaces/a/x", "workspaces/a/b/y"));
        assert!(!shares("workspaces/a/x", "workspaces/b/x"));
        assert!(!shares("secrets/x", "secrets/y"));
        assert!(is_transcript(Path::new("agents/a/sessions/u.jsonl")));
        assert!(!is_transcript(Path::new("agents/a/sessions/u.jsonl.bak")));
        assert!(!is_transcript(Path::new("workspaces/a/sessions/u.jsonl")));
    }
}

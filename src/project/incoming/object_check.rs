//! Checks each new object of a pack as `git fsck --strict` does, and that everything it refers to is there. Every object
//! of the repository has passed this or came from the owner, so the repository is complete at any time.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use git2::{Delta, DiffOptions, FileMode, ObjectType, Odb, Oid, Repository, Tree};

use super::{PushLimits, Rejected, names};

/// Checks the objects `new`. `git` sees them and all objects of the repository.
///
/// # Errors
///
/// Returns the first reason for which the objects are not accepted.
pub(super) fn check(git: &Repository, new: &[Oid], limits: &PushLimits) -> Result<(), Rejected> {
    let odb = git.odb().map_err(|error| unreadable(&error))?;
    let mut check = Check { odb: &odb, kinds: HashMap::new() };
    let mut commits = Vec::new();
    for id in new {
        limits.check_time()?;
        let kind = check.kind(*id)?;
        match kind {
            ObjectType::Blob => {}
            ObjectType::Tree => check.tree(*id)?,
            ObjectType::Commit => {
                check.commit(*id)?;
                commits.push(*id);
            }
            _ => return Err(Rejected::new(format!("{id} is a tag, and only branches can be pushed"))),
        }
    }
    // After all objects: these look at whole trees.
    let mut sizes = TreeSizes { odb: &odb, known: HashMap::new(), limits };
    for id in commits {
        let commit = git.find_commit(id).map_err(|error| unreadable(&error))?;
        sizes.check(commit.tree_id())?;
        changed_files(git, &commit)?;
    }
    Ok(())
}

struct Check<'a, 'r> {
    odb: &'a Odb<'r>,
    kinds: HashMap<Oid, ObjectType>,
}

impl Check<'_, '_> {
    fn kind(&mut self, id: Oid) -> Result<ObjectType, Rejected> {
        if let Some(kind) = self.kinds.get(&id) {
            return Ok(*kind);
        }
        let found = self.odb.read_header(id);
        let (_, kind) = found.map_err(|_| Rejected::new(format!("{id} is missing")))?;
        self.kinds.insert(id, kind);
        Ok(kind)
    }

    fn tree(&mut self, id: Oid) -> Result<(), Rejected> {
        let object = self.odb.read(id).map_err(|error| unreadable(&error))?;
        let bad = |why: String| Rejected::new(format!("tree {id}: {why}"));
        let mut rest = object.data();
        let mut seen: HashSet<&[u8]> = HashSet::new();
        let mut before: Option<Vec<u8>> = None;
        while !rest.is_empty() {
            let parsed = parse_entry(rest).ok_or_else(|| bad("it can't be read".to_owned()))?;
            let (Entry { mode, name, target }, after) = parsed;
            rest = after;
            let shown = || crate::clean::summary(&String::from_utf8_lossy(name), 80);
            if let Some(why) = names::refused(name) {
                return Err(bad(format!("{} {why}", shown())));
            }
            let wanted = match mode {
                b"100644" | b"100755" => Some(ObjectType::Blob),
                b"120000" => {
                    if names::is_dot_gitmodules(name) {
                        return Err(bad(format!("{} is a link", shown())));
                    }
                    Some(ObjectType::Blob)
                }
                b"40000" => Some(ObjectType::Tree),
                // A submodule's commit is in another repository.
                b"160000" => None,
                _ => return Err(bad(format!("{} has an unknown mode", shown()))),
            };
            if let Some(wanted) = wanted {
                let kind = self.kind(target).map_err(|error| bad(format!("{}: {error}", shown())))?;
                if kind != wanted {
                    return Err(bad(format!("{} is of another kind than its mode says", shown())));
                }
            }
            if !seen.insert(name) {
                return Err(bad(format!("it has {} twice", shown())));
            }
            // A folder is sorted as if its name ended with a slash.
            let mut key = name.to_vec();
            if mode == b"40000" {
                key.push(b'/');
            }
            if before.as_ref().is_some_and(|before| *before >= key) {
                return Err(bad("it is not sorted".to_owned()));
            }
            before = Some(key);
        }
        Ok(())
    }

    fn commit(&mut self, id: Oid) -> Result<(), Rejected> {
        let object = self.odb.read(id).map_err(|error| unreadable(&error))?;
        let bad = |why: &str| Rejected::new(format!("commit {id}: {why}"));
        let data = object.data();
        let end = data.windows(2).position(|pair| pair == b"\n\n").unwrap_or(data.len());
        let head = &data[..end];
        if head.contains(&0) || head.len() > MAX_HEAD {
            return Err(bad("its head can't be read"));
        }
        let mut lines = head.split(|byte| *byte == b'\n').peekable();
        let tree =
            lines.next().and_then(|line| reference(line, b"tree ")).ok_or_else(|| bad("it has no tree"))?;
        let mut parents = 0;
        if self.kind(tree)? != ObjectType::Tree {
            return Err(bad("its tree is none"));
        }
        while let Some(line) = lines.next_if(|line| line.starts_with(b"parent ")) {
            parents += 1;
            let parent = reference(line, b"parent ").ok_or_else(|| bad("a parent can't be read"))?;
            if parents > MAX_PARENTS {
                return Err(bad("it has too many parents"));
            }
            if self.kind(parent)? != ObjectType::Commit {
                return Err(bad("a parent is no commit"));
            }
        }
        for (key, missing) in [(&b"author "[..], "its author"), (b"committer ", "its committer")] {
            let person = lines.next().and_then(|line| line.strip_prefix(key));
            if !person.is_some_and(is_person) {
                return Err(bad(&format!("{missing} can't be read")));
            }
        }
        // A second line of these would be seen by some programs and not by others.
        let again = [&b"tree "[..], b"parent ", b"author ", b"committer "];
        if lines.any(|line| again.iter().any(|key| line.starts_with(key))) {
            return Err(bad("a line of its head is there twice"));
        }
        Ok(())
    }
}

/// The sizes of whole trees. A few small trees, each of which holds the next one many times, can stand for more files
/// than anybody can list, so every later work on the tree depends on this check.
struct TreeSizes<'a, 'r> {
    odb: &'a Odb<'r>,
    known: HashMap<Oid, TreeSize>,
    limits: &'a PushLimits,
}

/// The size of a tree with everything below it.
#[derive(Clone, Copy, Default)]
struct TreeSize {
    entries: u64,
    /// Number of folders in each other.
    depth: u32,
}

impl TreeSizes<'_, '_> {
    fn check(&mut self, root: Oid) -> Result<(), Rejected> {
        let size = self.measure(root, 0)?;
        if size.entries > self.limits.files {
            return Err(Rejected::new(format!("a commit has more than {} files", self.limits.files)));
        }
        Ok(())
    }

    fn measure(&mut self, id: Oid, above: u32) -> Result<TreeSize, Rejected> {
        self.limits.check_time()?;
        let known = self.known.get(&id).copied();
        // The recursion ends here, before the stack does.
        if above + known.map_or(0, |size| size.depth) > MAX_DEPTH {
            return Err(Rejected::new(format!("a commit has more than {MAX_DEPTH} folders in each other")));
        }
        if let Some(size) = known {
            return Ok(size);
        }
        let object = self.odb.read(id).map_err(|error| unreadable(&error))?;
        let mut size = TreeSize::default();
        let mut rest = object.data();
        while let Some((Entry { mode, target, .. }, after)) = parse_entry(rest) {
            rest = after;
            size.entries = size.entries.saturating_add(1);
            if matches!(mode, b"40000" | b"040000") {
                let inner = self.measure(target, above + 1)?;
                size.entries = size.entries.saturating_add(inner.entries);
                size.depth = size.depth.max(inner.depth + 1);
            }
        }
        self.known.insert(id, size);
        Ok(size)
    }
}

/// An entry of a tree.
struct Entry<'a> {
    /// The mode as it is written, in octal digits.
    mode: &'a [u8],
    name: &'a [u8],
    target: Oid,
}

/// Reads an entry of a tree, and returns it with what follows.
fn parse_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let space = bytes.iter().take(8).position(|byte| *byte == b' ')?;
    let (mode, rest) = (&bytes[..space], &bytes[space + 1..]);
    let end = rest.iter().position(|byte| *byte == 0)?;
    let target = rest.get(end + 1..end + 21)?;
    let entry = Entry { mode, name: &rest[..end], target: Oid::from_bytes(target).ok()? };
    Some((entry, &rest[end + 21..]))
}

fn reference(line: &[u8], key: &[u8]) -> Option<Oid> {
    let id = line.strip_prefix(key)?;
    let is_id = id.len() == 40 && id.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte));
    is_id.then(|| Oid::from_str(std::str::from_utf8(id).ok()?).ok())?
}

/// Returns `true` for `name <address> seconds zone`.
fn is_person(line: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(line).or_else(|_| std::str::from_utf8(ascii_tail(line))) else {
        return false;
    };
    let Some((name, rest)) = line.split_once('<') else { return false };
    let Some((address, when)) = rest.split_once("> ") else { return false };
    let Some((seconds, zone)) = when.split_once(' ') else { return false };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_zone = zone.len() == 5 && zone.starts_with(['+', '-']) && digits(&zone[1..]);
    let is_time = (1..=12).contains(&seconds.len()) && digits(seconds);
    !name.contains('>') && !address.contains(['<', '>']) && is_time && is_zone
}

/// Returns the part of a line from its `<` on: a name may be in another encoding.
fn ascii_tail(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| *byte == b'<').unwrap_or(0);
    &line[start..]
}

/// Checks the links and the list of submodules that a commit brings. What a parent already has at the same place is not
/// checked again, because it may be the owner's.
fn changed_files(git: &Repository, commit: &git2::Commit<'_>) -> Result<(), Rejected> {
    let tree = commit.tree().map_err(|error| unreadable(&error))?;
    let parents: Vec<Tree<'_>> = commit.parents().filter_map(|parent| parent.tree().ok()).collect();
    let mut options = DiffOptions::new();
    options.include_typechange(true).skip_binary_check(true);
    let diff = git
        .diff_tree_to_tree(parents.first(), Some(&tree), Some(&mut options))
        .map_err(|error| unreadable(&error))?;
    for delta in diff.deltas().filter(|delta| delta.status() != Delta::Deleted) {
        let file = delta.new_file();
        let bytes = file.path_bytes().unwrap_or_default();
        let name = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_link = file.mode() == FileMode::Link;
        let is_list = names::is_dot_gitmodules(name) && file.mode() != FileMode::Commit;
        if !is_link && !is_list {
            continue;
        }
        let path = Path::new(std::str::from_utf8(bytes).unwrap_or_default());
        let is_inherited = parents
            .iter()
            .skip(1)
            .any(|parent| parent.get_path(path).is_ok_and(|entry| entry.id() == file.id()));
        if is_inherited {
            continue;
        }
        let blob = git.find_blob(file.id()).map_err(|error| unreadable(&error))?;
        let shown = || crate::clean::summary(&String::from_utf8_lossy(bytes), 120);
        if is_link {
            let depth = bytes.iter().filter(|byte| **byte == b'/').count();
            if let Some(why) = names::refused_target(depth, blob.content()) {
                return Err(Rejected::new(format!("the target of the link {} {why}", shown())));
            }
        }
        if is_list && let Some(why) = refused_submodules(blob.content()) {
            return Err(Rejected::new(format!("{}: {why}", shown())));
        }
    }
    Ok(())
}

/// Returns the reason why a list of submodules is refused: some versions of git run what is written there.
fn refused_submodules(content: &[u8]) -> Option<&'static str> {
    if content.len() > MAX_SUBMODULES {
        return Some("it is too long");
    }
    let Ok(text) = std::str::from_utf8(content) else { return Some("it is not text") };
    if text.contains(['\0', '\r']) || text.contains("\\\n") {
        return Some("it is not plain text");
    }
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let name = section.trim_end_matches(']');
            if name.split(['/', '\\', '"', ' ']).any(|part| part == "..") || name.contains("\"-") {
                return Some("a submodule's name leads elsewhere");
            }
            // A setting may follow on the same line, which no honest file has.
            if !section.ends_with(']') {
                return Some("a section can't be read");
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().trim_matches('"').trim();
        match key.trim().to_ascii_lowercase().as_str() {
            "url" => {
                let decoded = crate::clean::percent_decode(value);
                let scheme = value.split_once("::").map(|(scheme, _)| scheme);
                // `ext::` and the like name a program to run.
                let names_program =
                    scheme.is_some_and(|scheme| scheme.bytes().all(|b| b.is_ascii_alphanumeric()));
                if value.starts_with('-') || decoded.contains(['\n', '\r']) || names_program {
                    return Some("a submodule's address is not one");
                }
            }
            "path" => {
                let is_inside = !value.starts_with(['/', '-'])
                    && !value
                        .split(['/', '\\'])
                        .any(|part| part == ".." || names::is_dot_git(part.as_bytes()));
                if !is_inside {
                    return Some("a submodule's path leads elsewhere");
                }
            }
            "update" if value.starts_with('!') => return Some("a submodule names a command"),
            _ => {}
        }
    }
    None
}

fn unreadable(error: &git2::Error) -> Rejected {
    Rejected::new(format!("an object can't be read: {}", error.message()))
}

/// Limit on the size of a commit's head.
const MAX_HEAD: usize = 256 << 10;
/// Limit on the number of parents of a commit.
const MAX_PARENTS: usize = 64;
/// Limit on the number of folders in each other.
const MAX_DEPTH: u32 = 150;
/// Limit on the size of a list of submodules.
const MAX_SUBMODULES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_a_name_an_address_and_a_time() {
        for good in ["ann <ann@flock> 1 +0000", "<> 1700000000 -0330", "ü <a> 1 +0000"] {
            assert!(is_person(good.as_bytes()), "{good}");
        }
        assert!(is_person(b"\xfc <a> 1 +0000"), "a name in Latin-1");
        for bad in [
            "ann",
            "ann <a 1 +0000",
            "ann <a> x +0000",
            "a> <a> 1 +0000",
            "a <a> 1 0000",
            "a <a<b> 1 +0000",
            "a <a> 9999999999999999 +0000",
            "a <a> 1 +0000 ",
        ] {
            assert!(!is_person(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn a_list_of_submodules_runs_nothing_and_stays_inside() {
        for good in [
            "[submodule \"a\"]\n\tpath = a\n\turl = https://example.org/a.git\n",
            "[submodule \"a/b\"]\n\tpath = a/b\n\turl = ../b.git\n\tupdate = rebase\n",
            "",
        ] {
            assert_eq!(refused_submodules(good.as_bytes()), None, "{good}");
        }
        for bad in [
            "[submodule \"../a\"]\n\turl = x\n",
            "[submodule \"a\"]\n\turl = -u./payload\n",
            "[submodule \"a\"]\n\turl = \"-u./payload\"\n",
            "[submodule \"a\"]\n\turl = https://a/%0ahost=b\n",
            "[submodule \"a\"]\n\turl = ext::sh -c evil\n",
            "[submodule \"a\"]\n\tpath = ../a\n",
            "[submodule \"a\"]\n\tpath = .git/hooks\n",
            "[submodule \"a\"]\n\tpath = -x\n",
            "[submodule \"a\"]\n\tupdate = !evil\n",
            "[submodule \"a\"] url = -u\n",
            "[submodule \"a\"]\n\turl = \\\n-u\n",
        ] {
            assert!(refused_submodules(bad.as_bytes()).is_some(), "{bad}");
        }
    }
}

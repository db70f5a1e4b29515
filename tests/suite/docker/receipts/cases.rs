//! The cases of the campaign of liars: text files that say what a branch changes, and their format.
//!
//! A case begins with lines `key: value`, the first of which is `lie:`, `honest:` or, for a base, `base:`. Parts follow, each
//! with a line that begins with `@@ `. README.md in this folder describes them.

use std::collections::BTreeMap;
use std::path::Path;

use flock::receipt::Checks;

/// Files by their path, with git's mode and their content.
pub type Tree = BTreeMap<String, (u32, Vec<u8>)>;

const PLAIN: u32 = 0o100_644;
const EXECUTABLE: u32 = 0o100_755;
const LINK: u32 = 0o120_000;

/// The signature of a forged receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The one that the receipt had before.
    Not,
    /// One by another home's key.
    Other,
    Empty,
}

/// One branch, and what its author says about it.
#[derive(Debug)]
pub struct Case {
    pub name: String,
    /// What the lie is, or what honest work it is.
    pub text: String,
    pub is_lie: bool,
    pub base: Tree,
    /// The tree that the receipt is made for.
    pub delivered: Tree,
    /// The tree that comes with that receipt, if it was changed afterwards.
    pub later: Option<Tree>,
    pub checks: Checks,
    /// The checks when the receipt is used, if they were changed afterwards.
    pub later_checks: Option<Checks>,
    /// `true` if the checks do not even succeed on the base.
    pub base_fails: bool,
    /// Fields of the receipt and the values that they are replaced with.
    pub forged: Vec<(String, String)>,
    pub sign: Sign,
}

/// The lines of a file, apart into keys and parts.
struct Parts<'a> {
    keys: Vec<(&'a str, &'a str)>,
    /// The words after `@@ `, and the lines below.
    parts: Vec<(&'a str, Vec<&'a str>)>,
}

/// Reads the files of a folder that end with `.case`, sorted by name. `bases` is the folder of the bases.
pub fn all(folder: &Path, bases: &Path) -> Result<Vec<Case>, String> {
    let listed = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "case"));
    paths.sort();
    let one = |path: &std::path::PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        read(&name, &text, bases).map_err(|error| format!("{name}: {error}"))
    };
    paths.iter().map(one).collect()
}

/// Reads one case.
pub fn read(name: &str, text: &str, bases: &Path) -> Result<Case, String> {
    let parts = split(text)?;
    let mut keys = parts.keys.iter().copied();
    let (is_lie, text) = match keys.next() {
        Some(("lie", text)) => (true, text),
        Some(("honest", text)) => (false, text),
        _ => return Err("it begins with neither `lie:` nor `honest:`".to_owned()),
    };
    let mut case = Case {
        name: name.to_owned(),
        text: text.to_owned(),
        is_lie,
        base: Tree::new(),
        delivered: Tree::new(),
        later: None,
        checks: Checks { each_seconds: 60, all_seconds: 300, ..Checks::default() },
        later_checks: None,
        base_fails: false,
        forged: Vec::new(),
        sign: Sign::Not,
    };
    let (mut base, mut later) = ("calc", Vec::new());
    for (key, value) in keys {
        case.key(key, value, (&mut base, &mut later))?;
    }
    let commands = case.read_base(base, bases)?;
    if case.checks.commands.is_empty() {
        case.checks.commands = commands;
    }
    if !later.is_empty() {
        case.later_checks = Some(Checks { commands: later, ..case.checks.clone() });
    }
    for (head, lines) in parts.parts.iter().filter(|(head, _)| head.starts_with("base ")) {
        change(&mut case.base, head.trim_start_matches("base "), lines)?;
    }
    case.delivered = case.base.clone();
    for (head, lines) in parts.parts.iter().filter(|(head, _)| !head.starts_with("base ")) {
        if *head == "then" {
            case.later = Some(case.delivered.clone());
            continue;
        }
        let tree = case.later.as_mut().unwrap_or(&mut case.delivered);
        let before = tree.clone();
        change(tree, head, lines)?;
        if *tree == before {
            return Err(format!("`@@ {head}` changes nothing"));
        }
    }
    let is_changed = case.delivered != case.base || case.later.is_some();
    let is_late = !case.forged.is_empty() || case.later_checks.is_some() || case.base_fails;
    if case.later.as_ref() == Some(&case.delivered) {
        return Err("nothing is changed after `@@ then`".to_owned());
    }
    if !is_changed && !is_late { Err("the branch changes nothing".to_owned()) } else { Ok(case) }
}

impl Case {
    fn key<'a>(
        &mut self,
        key: &str,
        value: &'a str,
        (base, later): (&mut &'a str, &mut Vec<String>),
    ) -> Result<(), String> {
        match key {
            "base" => *base = value,
            "check" => self.checks.commands.push(value.to_owned()),
            "required" => self.checks.required.push(value.to_owned()),
            "declared" => self.checks.files.push(value.to_owned()),
            "seconds" => self.checks.each_seconds = value.parse().map_err(|_| "`seconds` is no number")?,
            "base-fails" => self.base_fails = true,
            "later-check" => later.push(value.to_owned()),
            "forge" => {
                let (field, value) = value.split_once(' ').ok_or("`forge` has no value")?;
                self.forged.push((field.to_owned(), value.to_owned()));
            }
            "sign" => {
                self.sign = match value {
                    "not" => Sign::Not,
                    "other" => Sign::Other,
                    "empty" => Sign::Empty,
                    _ => return Err("`sign` is `not`, `other` or `empty`".to_owned()),
                }
            }
            _ => return Err(format!("the key `{key}` is unknown")),
        }
        Ok(())
    }

    /// Reads the base with a name, and returns its checks.
    fn read_base(&mut self, name: &str, bases: &Path) -> Result<Vec<String>, String> {
        let path = bases.join(format!("{name}.case"));
        let text = std::fs::read_to_string(&path).map_err(|error| format!("the base `{name}`: {error}"))?;
        let parts = split(&text)?;
        for (head, lines) in &parts.parts {
            change(&mut self.base, head, lines)?;
        }
        let checks = parts.keys.iter().filter(|(key, _)| *key == "check");
        Ok(checks.map(|(_, value)| (*value).to_owned()).collect())
    }
}

fn split(text: &str) -> Result<Parts<'_>, String> {
    let mut found = Parts { keys: Vec::new(), parts: Vec::new() };
    for line in text.split('\n') {
        if let Some(head) = line.strip_prefix("@@ ") {
            found.parts.push((head.trim(), Vec::new()));
        } else if let Some((_, lines)) = found.parts.last_mut() {
            lines.push(line);
        } else if !line.trim().is_empty() {
            let (key, value) = line.split_once(':').ok_or_else(|| format!("`{line}` is no `key: value`"))?;
            found.keys.push((key.trim(), value.trim()));
        }
    }
    for (_, lines) in &mut found.parts {
        // The empty line before the next part, or what follows the last line end of the file.
        if lines.last().is_some_and(|line| line.is_empty()) {
            lines.pop();
        }
    }
    Ok(found)
}

/// Changes a tree as a part says.
fn change(tree: &mut Tree, head: &str, lines: &[&str]) -> Result<(), String> {
    let wrong = || format!("`@@ {head}` is not understood");
    let (verb, rest) = head.split_once(' ').ok_or_else(wrong)?;
    let (count, rest) = match verb {
        "repeat" => {
            let (count, rest) = rest.split_once(' ').ok_or_else(wrong)?;
            (count.parse().map_err(|_| wrong())?, rest)
        }
        _ => (1, rest),
    };
    let (first, rest) = path(rest)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let has_text = lines.iter().any(|line| !line.is_empty());
    if !matches!(verb, "write" | "escaped" | "repeat") && has_text {
        return Err(format!("`@@ {head}` has a text"));
    }
    match verb {
        "write" | "escaped" | "repeat" => {
            let mode = if words.contains(&"executable") { EXECUTABLE } else { PLAIN };
            let is_empty = words.contains(&"empty");
            let known = words.iter().all(|word| matches!(*word, "executable" | "empty"));
            if !known || is_empty == has_text {
                return Err(wrong());
            }
            let line = |line: &&str| {
                line.strip_prefix('\\').filter(|rest| rest.starts_with("@@")).unwrap_or(line).to_owned()
                    + "\n"
            };
            let content = match verb {
                _ if is_empty => Vec::new(),
                "escaped" => unescape(&lines.concat())?,
                _ => lines.iter().map(line).collect::<String>().repeat(count).into_bytes(),
            };
            put(tree, first, (mode, content));
        }
        "link" => {
            let (target, _) = path(rest.trim().strip_prefix("->").ok_or_else(wrong)?.trim())?;
            put(tree, first, (LINK, target.into_bytes()));
        }
        "delete" => drop(take(tree, &first)?),
        "executable" | "plain" => {
            let file = tree.get_mut(&first).ok_or_else(|| format!("there is no {first}"))?;
            file.0 = if verb == "plain" { PLAIN } else { EXECUTABLE };
        }
        "rename" => {
            let (to, _) = path(rest.trim().strip_prefix("->").ok_or_else(wrong)?.trim())?;
            for (old, file) in take(tree, &first)? {
                put(tree, format!("{to}{}", &old[first.len()..]), file);
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

/// Puts a file into a tree in place of whatever is there, and of files where its folders are.
fn put(tree: &mut Tree, path: String, file: (u32, Vec<u8>)) {
    tree.retain(|known, _| {
        !known.starts_with(&format!("{path}/")) && !path.starts_with(&format!("{known}/"))
    });
    tree.insert(path, file);
}

/// Takes a file out of a tree, or all files of a folder.
fn take(tree: &mut Tree, path: &str) -> Result<Tree, String> {
    let inside = format!("{path}/");
    let is_in = |known: &String| known == path || known.starts_with(&inside);
    let (taken, left): (Tree, Tree) = std::mem::take(tree).into_iter().partition(|(known, _)| is_in(known));
    *tree = left;
    if taken.is_empty() { Err(format!("there is no {path}")) } else { Ok(taken) }
}

/// Reads a path, which may stand in quotes, and returns the rest of the line.
fn path(text: &str) -> Result<(String, &str), String> {
    let text = text.trim_start();
    let (path, rest) = match text.strip_prefix('"') {
        Some(quoted) => {
            let (path, rest) = quoted.split_once('"').ok_or("a path has no end")?;
            (String::from_utf8(unescape(path)?).map_err(|_| "a path is not UTF-8")?, rest)
        }
        None => {
            let (path, rest) = text.split_once(' ').unwrap_or((text, ""));
            (path.to_owned(), rest)
        }
    };
    if path.is_empty() { Err("a path is empty".to_owned()) } else { Ok((path, rest)) }
}

/// Replaces `\n`, `\xNN`, `\u{HEX}` and the like.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut found = Vec::new();
    let mut chars = text.chars();
    let wrong = || "an escape is wrong".to_owned();
    while let Some(c) = chars.next() {
        if c != '\\' {
            found.extend(c.to_string().into_bytes());
            continue;
        }
        match chars.next().ok_or_else(wrong)? {
            'n' => found.push(b'\n'),
            'r' => found.push(b'\r'),
            't' => found.push(b'\t'),
            '0' => found.push(0),
            'x' => {
                let digits: String = chars.by_ref().take(2).collect();
                found.push(u8::from_str_radix(&digits, 16).map_err(|_| wrong())?);
            }
            'u' => {
                let digits: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                found.extend(code.ok_or_else(wrong)?.to_string().into_bytes());
            }
            other => found.extend(other.to_string().into_bytes()),
        }
    }
    Ok(found)
}

/// Writes a tree as git objects and commits it. Names that git itself would refuse are written all the same: a branch is
/// what somebody else made.
pub fn commit(repository: &git2::Repository, tree: &Tree) -> String {
    let files: Vec<Entry<'_>> = tree.iter().map(|(path, file)| (path.as_str(), file)).collect();
    let root = write(repository, &files);
    let tree = repository.find_tree(root).unwrap();
    let who = git2::Signature::new("coder", "coder@example.com", &git2::Time::new(1, 0)).unwrap();
    repository.commit(None, &who, &who, "work", &tree, &[]).unwrap().to_string()
}

/// A path with the mode and the content of its file.
type Entry<'a> = (&'a str, &'a (u32, Vec<u8>));

fn write(repository: &git2::Repository, files: &[Entry<'_>]) -> git2::Oid {
    let mut entries: Vec<(String, u32, git2::Oid)> = Vec::new();
    let mut folders: BTreeMap<&str, Vec<Entry<'_>>> = BTreeMap::new();
    for (path, file) in files {
        match path.split_once('/') {
            Some((folder, rest)) => folders.entry(folder).or_default().push((rest, file)),
            None => entries.push(((*path).to_owned(), file.0, repository.blob(&file.1).unwrap())),
        }
    }
    for (name, files) in folders {
        entries.push((name.to_owned(), 0o40_000, write(repository, &files)));
    }
    // git sorts a folder as if its name ended with a slash.
    entries.sort_by_key(|(name, mode, _)| if *mode == 0o40_000 { format!("{name}/") } else { name.clone() });
    let mut data = Vec::new();
    for (name, mode, id) in entries {
        data.extend(format!("{mode:o} {name}\0").into_bytes());
        data.extend(id.as_bytes());
    }
    repository.odb().unwrap().write(git2::ObjectType::Tree, &data).unwrap()
}

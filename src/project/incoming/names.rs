//! Names in a tree that no file may have. Some file systems drop characters from a name or have a second name for a
//! file, so there are many spellings of `.git`.

/// Returns the reason why a file or folder may not have this name, or `None` if it may. The text continues a sentence
/// that begins with the name.
#[must_use]
pub(crate) fn refused(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("is an empty name"),
        b"." | b".." => Some("is the name of the folder itself or of the one above"),
        _ if name.contains(&b'/') || name.contains(&0) => Some("is not the name of one file"),
        _ if name.len() > MAX_NAME => Some("is too long"),
        _ if is_dot_git(name) => Some("is git's own folder"),
        _ => None,
    }
}

/// Returns `true` for `.git` in any spelling that some file system takes for it.
#[must_use]
pub(crate) fn is_dot_git(name: &[u8]) -> bool {
    is_spelling_of(name, ".git", |short| short == b"git~1")
}

/// Returns `true` for `.gitmodules` in any spelling that some file system takes for it.
#[must_use]
pub(crate) fn is_dot_gitmodules(name: &[u8]) -> bool {
    is_spelling_of(name, ".gitmodules", |short| {
        let number = short.strip_prefix(b"gitmod~").or_else(|| short.strip_prefix(b"gi7eba~"));
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    })
}

/// Compares a name with `wanted` as HFS+ and NTFS do. `is_short` decides about names in the form of 8.3.
fn is_spelling_of(name: &[u8], wanted: &str, is_short: impl Fn(&[u8]) -> bool) -> bool {
    // HFS+ does not count these characters, and no file system of a Mac counts case.
    let folded: String = String::from_utf8_lossy(name)
        .chars()
        .filter(|c| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    if folded == wanted {
        return true;
    }
    // NTFS drops dots and spaces at the end, and what follows a colon is a stream of the same file.
    let end = name.iter().position(|byte| matches!(byte, b'\\' | b':')).unwrap_or(name.len());
    let mut short = name[..end].to_ascii_lowercase();
    while short.last().is_some_and(|byte| matches!(byte, b' ' | b'.')) {
        short.pop();
    }
    short == wanted.as_bytes() || is_short(&short)
}

/// Returns the reason why a link at this depth (0 for the root of the tree) may not have this target, or `None` if it
/// may. The target has to stay in the tree and out of `.git`.
#[must_use]
pub(crate) fn refused_target(depth: usize, target: &[u8]) -> Option<&'static str> {
    if target.is_empty() || target.contains(&0) || target.len() > MAX_TARGET {
        return Some("is no path");
    }
    if target.starts_with(b"/") {
        return Some("is an absolute path");
    }
    let mut depth = depth;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return Some("leads out of the project"),
            },
            _ if is_dot_git(part) => return Some("leads into git's own folder"),
            _ => depth += 1,
        }
    }
    None
}

/// Limit on the length of a name, which is the one of Linux.
const MAX_NAME: usize = 255;
/// Limit on the length of a link's target.
const MAX_TARGET: usize = 4_095;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_git_is_refused() {
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            ".git",
            ".GIT",
            ".Git",
            ".git.",
            ".git ",
            ".git. .",
            ".git:x",
            ".git\\x",
            "git~1",
            "GIT~1",
            "GIT~1.",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{206a}T",
            ".git::$INDEX_ALLOCATION",
        ] {
            assert!(refused(bad.as_bytes()).is_some(), "{bad:?}");
        }
        for good in
            [".github", ".gitignore", "git", ".git2", "git~2", "a.git", "..a", "...", "ü", ".gi", "x:y"]
        {
            assert_eq!(refused(good.as_bytes()), None, "{good:?}");
        }
        assert!(refused(&[b'x'; 256]).is_some() && refused(&[0xff, 0xfe]).is_none());
        for bad in
            [".gitmodules", ".GITMODULES", ".gitmodules ", "GITMOD~1", "gi7eba~12", ".gitmo\u{200e}dules"]
        {
            assert!(is_dot_gitmodules(bad.as_bytes()), "{bad}");
        }
        for good in [".gitmodules2", "gitmod~", "gitmodules", "gi7eba~x"] {
            assert!(!is_dot_gitmodules(good.as_bytes()), "{good}");
        }
    }

    #[test]
    fn a_link_stays_in_the_tree() {
        for (depth, target) in
            [(0, "a"), (0, "./a/../b"), (1, "../a"), (2, "../../a"), (0, "a/../b"), (0, "a//b")]
        {
            assert_eq!(refused_target(depth, target.as_bytes()), None, "{depth} {target}");
        }
        for (depth, target) in [
            (0, ""),
            (0, "/etc/passwd"),
            (0, ".."),
            (0, "a/../../b"),
            (1, "../.."),
            (0, ".git/config"),
            (1, "../.GIT"),
            (0, "a/git~1/x"),
            (0, "a\0b"),
        ] {
            assert!(refused_target(depth, target.as_bytes()).is_some(), "{depth} {target}");
        }
    }
}

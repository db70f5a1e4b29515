//! The Node on which a program of npm runs.

use std::path::{Path, PathBuf};

use super::executable;

/// Returns the Node beside which the package was installed, or the first suitable one on PATH. The result is the real
/// file, which must work on its own, because only that file is mounted.
pub fn find(package: &Path) -> Result<PathBuf, String> {
    let beside = package.ancestors().filter(|folder| folder.ends_with("lib")).find_map(Path::parent);
    let beside = beside.map(|prefix| prefix.join("bin/node"));
    let named = which::which_all("node").into_iter().flatten();
    let mut found = "there is no node on PATH".to_owned();
    // Of all candidates, the reason of the last failure is reported.
    for path in beside.into_iter().chain(named) {
        let Ok(path) = fs_err::canonicalize(&path) else { continue };
        if !executable::is_native(&path) {
            found = format!("{} is a script", path.display());
        } else if is_standalone(&path) {
            return Ok(path);
        } else {
            found = format!("{} needs libraries of this machine that a sandbox has not", path.display());
        }
    }
    Err(format!("{found}; it runs on Node: install that from nodejs.org and put it on PATH"))
}

/// Returns `true` if Node is one file. Distributions build it as a small program and a library, while a complete one
/// has many megabytes.
fn is_standalone(node: &Path) -> bool {
    const SMALL: u64 = 8 << 20;
    fs_err::metadata(node).is_ok_and(|found| found.len() > SMALL)
        || fs_err::read(node).is_ok_and(|all| !all.windows(7).any(|word| word == b"libnode"))
}

//! Finds the native program to which an installed command leads.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::interface::ProgramFiles;

/// Returns the processor's name as npm packages use it.
pub fn npm_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns `true` if a file is a Linux program, and not a script.
pub fn is_native(path: &Path) -> bool {
    let mut magic = [0; 4];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"\x7fELF"
}

/// Returns the native program to which a command leads: the command itself, or the first of `places` that exists below
/// one of its parent folders. An installer leaves a script as the command if it could not put the program there.
///
/// # Errors
///
/// Returns [`INCOMPLETE`] if there is none.
pub fn native(command: &Path, places: &[String]) -> Result<PathBuf, String> {
    if is_native(command) {
        return Ok(command.to_owned());
    }
    command
        .ancestors()
        .skip(1)
        .flat_map(|folder| places.iter().map(move |place| folder.join(place)))
        .find(|path| is_native(path))
        .ok_or_else(|| INCOMPLETE.to_owned())
}

/// Returns the parts of a program that is a single file.
pub fn single(name: &str, file: &Path) -> ProgramFiles {
    let inside = format!("/opt/flock/{name}/{name}");
    ProgramFiles {
        mounts: vec![(file.to_owned(), inside.clone())],
        host: vec![file.display().to_string()],
        sandbox: vec![inside],
    }
}

/// Message for a program that is not complete. It completes "can't be used: …".
pub const INCOMPLETE: &str = "it leads to no program for this machine";

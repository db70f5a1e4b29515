//! Finding the native program that an installed command leads to.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::program::Parts;

/// The processor's name as packages on npm have it.
pub fn npm_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Whether a file is a program for Linux, and no script.
pub fn is_native(path: &Path) -> bool {
    let mut magic = [0; 4];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"\x7fELF"
}

/// The native program that a command leads to: itself, or one of the `places` below a folder that it is in. An
/// installer leaves a script in its place where it could not put it there.
///
/// # Errors
///
/// [`INCOMPLETE`], where there is none.
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

/// The parts of a program that is one file.
pub fn single(name: &str, file: &Path) -> Parts {
    let inside = format!("/opt/flock/{name}/{name}");
    Parts {
        mounts: vec![(file.to_owned(), inside.clone())],
        host: vec![file.display().to_string()],
        sandbox: vec![inside],
    }
}

/// What is said where a program is not all there; it completes "can't be used: …".
pub const INCOMPLETE: &str = "it leads to no program for this machine";

//! Libraries in C that a test loads before a program's own ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::docker;

/// Compiles a file of `tests/suite` into a folder. `None` after saying so where nothing compiles C. Under
/// `FLOCK_TEST_REQUIRE_DOCKER=1` that is a failure, because `standalone/prepare.sh` installs a compiler.
pub fn library(source: &str, folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite").join(source);
    let library = folder.join(source.file_name().unwrap()).with_extension("so");
    let args = ["-shared", "-fPIC", "-pthread", "-o"];
    let compiled = Command::new("cc").args(args).args([&library, &source]).output();
    match compiled {
        Ok(output) if output.status.success() => Some(library),
        other => {
            let must = docker::is_required();
            assert!(!must, "FLOCK_TEST_REQUIRE_DOCKER=1 and {source:?} is not compiled: {other:?}");
            eprintln!("not tested: nothing compiles C here: {other:?}");
            None
        }
    }
}

//! Builds what the binary carries: the helper that is a sandbox's main process.
//!
//! It is a program of its own, static so that it runs in any image, and std-only so that rustc alone builds
//! it. Its SHA-256 names it: a changed helper is a changed sandbox.

#![expect(clippy::disallowed_methods, reason = "a build script is told everything by the environment")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use sha2::{Digest, Sha256};

const SOURCES: &str = "src/sandbox/helper";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    for source in ["program", "frame.rs", "message.rs", "codec.rs"] {
        println!("cargo::rerun-if-changed={SOURCES}/{source}");
    }
    let program = PathBuf::from(env::var("OUT_DIR")?).join("flock-helper");
    if env::var("CARGO_CFG_TARGET_OS")? == "linux" {
        compile(&program)?;
    } else {
        // Sandboxes need Linux; elsewhere flock still builds.
        fs::write(&program, [])?;
    }
    let digest = Sha256::digest(fs::read(&program)?);
    println!("cargo::rustc-env=FLOCK_HELPER_SHA256={digest:x}");
    Ok(())
}

fn compile(program: &Path) -> Result<(), Box<dyn Error>> {
    let mut rustc = Command::new(env::var("RUSTC")?);
    rustc.arg(format!("{SOURCES}/program/main.rs"));
    rustc.arg("-o").arg(program);
    rustc.args(["--crate-name=flock_helper", "--edition=2024", "--target", &env::var("TARGET")?]);
    rustc.args(["-Ctarget-feature=+crt-static", "-Cpanic=abort", "-Copt-level=s", "-Ccodegen-units=1"]);
    // Both sides compile the protocol, and each needs its own half only.
    rustc.args(["-Cstrip=symbols", "-Adead_code"]);
    // The same sources give the same bytes, wherever they lie.
    rustc.arg(format!("--remap-path-prefix={}=flock", env::current_dir()?.display()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let status = rustc.status()?;
    if status.success() {
        return Ok(());
    }
    Err("the sandbox helper did not compile: it needs a C linker and the static C library \
         (on Debian and Ubuntu: apt-get install gcc libc6-dev)"
        .into())
}

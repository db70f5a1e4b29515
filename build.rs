//! Builds what the binary carries: the helper that is a sandbox's main process, and the version with its commit.
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
    // Not the repository's HEAD: a commit alone, of what is compiled already, would compile everything again. The commit
    // is looked up where something is compiled anyway.
    for source in ["build.rs", "src", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rerun-if-env-changed={COMMIT}");
    println!("cargo::rustc-env=FLOCK_VERSION={}", version()?);
    // Tests start the program thousands of times. At a fixed address, where nothing has to be relocated, that takes half as
    // long. A program that is used keeps an address that nobody can guess.
    if env::var("PROFILE")? == "debug" && env::var("CARGO_CFG_TARGET_OS")? == "linux" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let program = out.join("flock-helper");
    let known = out.join("flock-helper.sources");
    let sources = sources()?;
    if !program.exists() || fs::read_to_string(&known).ok().as_ref() != Some(&sources) {
        compile(&program)?;
        fs::write(known, sources)?;
    }
    let digest = Sha256::digest(fs::read(&program)?);
    println!("cargo::rustc-env=FLOCK_HELPER_SHA256={digest:x}");
    Ok(())
}

/// Names the commit where there is no repository, as in a tarball.
const COMMIT: &str = "FLOCK_COMMIT";

/// The version, and in brackets the commit where that is known: `0.2.0 (0123456789ab)`, with `-dirty` where what is
/// compiled differs from it.
fn version() -> Result<String, Box<dyn Error>> {
    let version = env::var("CARGO_PKG_VERSION")?;
    let told =
        env::var(COMMIT).ok().filter(|commit| commit.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
    Ok(match told.filter(|commit| !commit.is_empty()).or_else(commit) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    })
}

/// The commit of this source's own repository, not of one that it lies in.
fn commit() -> Option<String> {
    let folder = env::current_dir().ok()?.canonicalize().ok()?;
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
    if top != folder {
        return None;
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--", "src", "build.rs", "Cargo.toml", "Cargo.lock"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}-dirty") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").env("GIT_OPTIONAL_LOCKS", "0").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// What the helper is compiled from and by, to tell whether it has to be compiled again.
fn sources() -> Result<String, Box<dyn Error>> {
    let mut hash = Sha256::new();
    let mut left: Vec<PathBuf> = [
        "program",
        "frame.rs",
        "delivery.rs",
        "message.rs",
        "file_message.rs",
        "codec.rs",
        "output_buffer.rs",
    ]
    .iter()
    .map(|name| Path::new(SOURCES).join(name))
    .collect();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let mut inner =
                fs::read_dir(&path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
            inner.sort();
            left.extend(inner);
        } else {
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update(fs::read(&path)?);
        }
    }
    hash.update(fs::read("build.rs")?);
    let compiler = Command::new(env::var("RUSTC")?).arg("-vV").output()?;
    hash.update(compiler.stdout);
    hash.update(env::var("TARGET")?);
    hash.update(env::var("RUSTC_LINKER").unwrap_or_default());
    Ok(format!("{:x}", hash.finalize()))
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

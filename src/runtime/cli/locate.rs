//! Where agent programs are on this machine.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::program::{Parts, Program};
use crate::env;

/// Where installers put programs of all kinds, below a person's home; a service's PATH often lacks these.
const USUAL: [&str; 5] = [".local/bin", ".bun/bin", ".npm-global/bin", ".volta/bin", "node_modules/.bin"];

/// How long a program may take to say its version.
const SHORT: Duration = Duration::from_secs(20);

/// No folder, and none can be made there.
const NOWHERE: &str = "/dev/null";

/// A program that is installed.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where its name leads to, with all links followed.
    pub command: PathBuf,
    /// What it consists of.
    pub parts: Parts,
}

/// Finds a program on PATH or where its own installer or another one puts it.
///
/// # Errors
///
/// What is missing; the text completes "… is not installed: …".
pub fn find(program: &dyn Program) -> Result<Found, String> {
    let name = program.command();
    let named = which::which_in(name, Some(search_path(program.places())), "/")
        .map_err(|_| format!("no command {name} on PATH or in the places where it is usually put"))?;
    let command = fs_err::canonicalize(&named).map_err(|error| error.to_string())?;
    let parts =
        program.parts(&command).map_err(|why| format!("{} can't be used: {why}", command.display()))?;
    Ok(Found { command, parts })
}

/// What it says its version is; `None` where it says none in time.
pub async fn version(program: &dyn Program, found: &Found) -> Option<String> {
    let output = asked(program, found, &["--version"]).await?;
    program.version(&String::from_utf8_lossy(&output.stdout))
}

/// The options that flock needs and it does not have; `None` where it does not say what it has.
pub async fn missing_options(program: &dyn Program, found: &Found) -> Option<Vec<&'static str>> {
    let options = program.options();
    let output = asked(program, found, options.help).await?;
    // Some write it to the one, some to the other.
    let help = [output.stdout, output.stderr].concat();
    options.missing_in(&String::from_utf8_lossy(&help))
}

/// What it says when it is started with these words; `None` where it does not end in time.
async fn asked(program: &dyn Program, found: &Found, words: &[&str]) -> Option<std::process::Output> {
    let (file, arguments) = found.parts.host.split_first()?;
    let mut command = tokio::process::Command::new(file);
    command
        .args(arguments)
        .args(words)
        .stdin(std::process::Stdio::null())
        .env_clear()
        .envs(super::host::environment())
        .kill_on_drop(true);
    if let Some(login) = program.login() {
        // One that can't pass over its user's settings would read them for this too, and write old ones anew.
        command.env(login.variable, NOWHERE);
    }
    tokio::time::timeout(SHORT, command.output()).await.ok()?.ok()
}

/// PATH, and after it the places where installers put the program.
fn search_path(places: &[&str]) -> OsString {
    let own = env::PATH.get_os().unwrap_or_default();
    let home = dirs::home_dir();
    let usual = home.iter().flat_map(|home| places.iter().chain(&USUAL).map(|place| home.join(place)));
    let all = std::env::split_paths(&own).filter(|folder| folder.is_absolute());
    std::env::join_paths(all.chain(usual)).unwrap_or(own)
}

//! Finds agent programs on this machine.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::interface::{Program, ProgramFacts, ProgramFiles};
use crate::env;

/// Folders below a user's home in which common installers put programs. The PATH of a service often lacks them.
const INSTALL_FOLDERS: [&str; 5] =
    [".local/bin", ".bun/bin", ".npm-global/bin", ".volta/bin", "node_modules/.bin"];

/// Time limit for a program to report its version.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);

/// A path that is not a folder, and below which none can be made.
const NOWHERE: &str = "/dev/null";

/// Finds the files of a program on PATH, or where its own installer or a common one puts it.
///
/// # Errors
///
/// Returns the missing part. The text completes "… is not installed: …".
pub fn find(program: &dyn Program) -> Result<ProgramFiles, String> {
    let ProgramFacts { command, places, .. } = program.facts();
    files(command, places, |command| program.parts(command))
}

/// Finds the command with this name on PATH, or where an installer puts it, and returns the files that `parts` names for
/// it. `places` are as in [`ProgramFacts::places`].
///
/// # Errors
///
/// Returns the missing part, as [`find`] does.
pub fn files(
    name: &str,
    places: &[&str],
    parts: impl FnOnce(&Path) -> Result<ProgramFiles, String>,
) -> Result<ProgramFiles, String> {
    let named = which::which_in(name, Some(search_path(places)), "/")
        .map_err(|_| format!("no command {name} on PATH or in the places where it is usually put"))?;
    let command = fs_err::canonicalize(&named).map_err(|error| error.to_string())?;
    parts(&command).map_err(|why| format!("{} can't be used: {why}", command.display()))
}

/// Returns the version that the program reports. `None` if it reports none in time.
pub async fn version(program: &dyn Program, found: &ProgramFiles) -> Option<String> {
    let output = query_output(program, found, &["--version"]).await?;
    program.version(&String::from_utf8_lossy(&output.stdout))
}

/// Returns the options that flock needs and the program lacks. `None` if the program does not list its options.
pub async fn missing_options(program: &dyn Program, found: &ProgramFiles) -> Option<Vec<&'static str>> {
    let options = program.facts().options;
    let output = query_output(program, found, options.help).await?;
    // Some programs print their help to standard output, others to standard error.
    let help = [output.stdout, output.stderr].concat();
    options.missing_in(&String::from_utf8_lossy(&help))
}

/// Returns the output of the program for these arguments. `None` if it does not end in time.
async fn query_output(
    program: &dyn Program,
    found: &ProgramFiles,
    words: &[&str],
) -> Option<std::process::Output> {
    let (file, arguments) = found.host.split_first()?;
    let mut command = tokio::process::Command::new(file);
    command
        .args(arguments)
        .args(words)
        .stdin(std::process::Stdio::null())
        .env_clear()
        .envs(super::host::environment())
        .kill_on_drop(true);
    if let Some(login) = program.facts().login {
        // A program that cannot ignore its user's settings would read them for this too, and rewrite old ones.
        command.env(login.variable, NOWHERE);
    }
    tokio::time::timeout(QUERY_TIMEOUT, command.output()).await.ok()?.ok()
}

/// Returns PATH, followed by the folders in which installers put the program.
fn search_path(places: &[&str]) -> OsString {
    let own = env::PATH.get_os().unwrap_or_default();
    let home = dirs::home_dir();
    let usual =
        home.iter().flat_map(|home| places.iter().chain(&INSTALL_FOLDERS).map(|place| home.join(place)));
    // A relative folder would depend on where flock was started.
    let all = std::env::split_paths(&own).filter(|folder| folder.is_absolute());
    std::env::join_paths(all.chain(usual)).unwrap_or(own)
}

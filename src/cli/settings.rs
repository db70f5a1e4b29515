//! Checks of settings that have no effect: keys that flock does not read, and sandbox settings that are never allowed.

use serde_json::Value;

use super::{Context, Failure};
use crate::config::ignored::{self, IgnoredSetting};
use crate::config::{self, Agent, Config, ConfigError, SandboxMode, parse};
use crate::error::Kind;
use crate::home::Home;
use crate::sandbox::SandboxError;
use crate::sandbox::engine::Engine;
use crate::sandbox::spec;

/// Returns the settings in flock's own block that it does not read. The list is empty if the file can't be read.
pub(crate) fn unread(home: &Home) -> Vec<IgnoredSetting> {
    // A file that can't be read is reported by the command that needs it, so this list is just empty.
    config::file::read_document(home)
        .map(|(_, document)| ignored::settings(&document, home))
        .unwrap_or_default()
}

/// Warns of each setting that flock does not read.
pub(crate) fn warn_of_ignored(home: &Home, context: &Context) {
    for unread in unread(home) {
        context.printer.warn(&format!("{}; flock ignores it", unread.text()));
    }
}

/// Returns an error for each sandbox that can't be made as configured. Its agent can run no command.
pub(crate) fn refused(home: &Home, config: &Config) -> Vec<SandboxError> {
    let engine = Engine::from_env();
    // Only agents with a sandbox can be refused. The settings of the others have no effect.
    let sandboxed = config.agents.iter().filter(|agent| agent.sandbox == SandboxMode::All);
    let check = |agent: &Agent| spec::check(home, agent, engine.socket()).err();
    sandboxed.filter_map(check).collect()
}

/// Returns the changed document and the configuration that it stands for, without writing anything.
///
/// # Errors
///
/// Returns an error if the configuration is not valid, or if the change would make it invalid.
pub(crate) fn planned(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<(), ConfigError>,
) -> Result<(Value, Config), Failure> {
    // The change is made on a copy of the document, and the file itself is not locked.
    let (_, mut document) = config::file::read_document(home)?;
    change(&mut document)?;
    let config = parse::config(&document, home)
        .map_err(|problem| ConfigError::Refused { at: problem.at, message: problem.message })?;
    Ok((document, config))
}

/// Warns of sandboxes that can't be made as configured.
pub(crate) fn warn_of_invalid_sandboxes(home: &Home, config: &Config, context: &Context) {
    for error in refused(home, config) {
        context.printer.warn(&format!("{error}: the agent can run no command"));
    }
}

/// Fails if a setting has no effect, or if a sandbox can't be made as configured.
///
/// # Errors
///
/// Returns an error that lists all of them.
pub(crate) fn check(home: &Home, config: &Config) -> Result<(), Failure> {
    let unread = unread(home);
    if let Some(first) = unread.first() {
        return Err(ignored_failure(&unread).hint(format!("flock config unset {}", first.at)));
    }
    let refused = refused(home, config);
    if refused.is_empty() {
        return Ok(());
    }
    // All of them are reported at once, so that a person can repair them together.
    let texts: Vec<String> = refused.iter().map(ToString::to_string).collect();
    Err(Failure::new(Kind::Failed, texts.join("\n")).hint("flock config get agents"))
}

fn ignored_failure(unread: &[IgnoredSetting]) -> Failure {
    let texts: Vec<String> = unread.iter().map(IgnoredSetting::text).collect();
    Failure::new(Kind::Usage, texts.join("\n"))
}

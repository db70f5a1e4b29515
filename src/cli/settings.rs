//! Settings that can be written and do not do what they say: keys that flock does not read, and what no sandbox may have.

use serde_json::Value;

use super::{Context, Failure};
use crate::config::unread::{self, Unread};
use crate::config::{self, Agent, Config, ConfigError, SandboxMode, parse};
use crate::error::Kind;
use crate::home::Home;
use crate::sandbox::SandboxError;
use crate::sandbox::engine::Engine;
use crate::sandbox::spec;

/// The settings below flock's own block that are not followed; empty where the file can't be read.
pub fn unread(home: &Home) -> Vec<Unread> {
    config::file::read_document(home)
        .map(|(_, document)| unread::settings(&document, home))
        .unwrap_or_default()
}

/// Warns of each of them.
pub fn warn_of_unread(home: &Home, context: &Context) {
    for unread in unread(home) {
        context.printer.warn(&format!("{}; flock goes on without it", unread.text()));
    }
}

/// The sandboxes that can't be made as they are configured: their agents can run no command.
pub fn refused(home: &Home, config: &Config) -> Vec<SandboxError> {
    let engine = Engine::from_env();
    let sandboxed = config.agents.iter().filter(|agent| agent.sandbox == SandboxMode::All);
    let check = |agent: &Agent| spec::check(home, agent, engine.socket()).err();
    sandboxed.filter_map(check).collect()
}

/// The document with a change and what it then means, without writing anything.
///
/// # Errors
///
/// If the configuration is not usable, or the change would make it so.
pub fn planned(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<(), ConfigError>,
) -> Result<(Value, Config), Failure> {
    let (_, mut document) = config::file::read_document(home)?;
    change(&mut document)?;
    let config = parse::config(&document, home)
        .map_err(|problem| ConfigError::Refused { at: problem.at, message: problem.message })?;
    Ok((document, config))
}

/// Refuses a change that brings a setting which is not followed.
///
/// # Errors
///
/// With each of them, and the nearest known key.
pub fn check_change(before: &Value, after: &Value, home: &Home) -> Result<(), Failure> {
    match unread::added(before, after, home) {
        unread if unread.is_empty() => Ok(()),
        unread => Err(not_read(&unread).hint("flock config get plugins.entries.flock.config")),
    }
}

/// Warns of sandboxes that can't be made as they are configured.
pub fn warn_of_refused(home: &Home, config: &Config, context: &Context) {
    for error in refused(home, config) {
        context.printer.warn(&format!("{error}: it can run no command"));
    }
}

/// Fails where a setting does not do what it says.
///
/// # Errors
///
/// With all of them.
pub fn check(home: &Home, config: &Config) -> Result<(), Failure> {
    let unread = unread(home);
    if let Some(first) = unread.first() {
        return Err(not_read(&unread).hint(format!("flock config unset {}", first.at)));
    }
    let refused = refused(home, config);
    if refused.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = refused.iter().map(ToString::to_string).collect();
    Err(Failure::new(Kind::Failed, texts.join("\n")).hint("flock config get agents"))
}

fn not_read(unread: &[Unread]) -> Failure {
    let texts: Vec<String> = unread.iter().map(Unread::text).collect();
    Failure::new(Kind::Usage, texts.join("\n"))
}

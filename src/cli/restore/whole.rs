//! Restores a whole home from an archive of `flock backup`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::super::backup::ProgressWatcher;
use super::super::{Context, Exit, Failure, team};
use super::require_stopped;
use crate::backup::manifest::{Manifest, Part};
use crate::backup::restore::{RestoredOnServer, UnpackedHome, require_empty, unpack};
use crate::clock::{self, unix_ms};
use crate::config::{self, ConfigError};
use crate::error::Kind;
use crate::home::lock::Lock;
use crate::home::{Home, elsewhere, instance};
use crate::id::{EngineName, hex};
use crate::openclaw;
use crate::sandbox::containers;
use crate::sandbox::engine::Engine;
use crate::store::transfer::{Destination, MoveError};
use crate::store::{Level, Store, StoreError};
use crate::swarm::Actor;
use crate::ui::StyledLine;

/// The wishes for a restore.
pub(super) struct Wish<'w> {
    pub(super) archive: &'w Path,
    /// Moves a home that is there aside.
    pub(super) replace: bool,
    /// The place of the restored database.
    pub(super) to: Destination,
    pub(super) replace_nul: bool,
}

/// Makes a home of an archive.
///
/// # Errors
///
/// Returns an error if something is there and `replace` is not set, if something of it runs, if the person did not agree,
/// if the archive is not whole, or if the database can't be brought to the server. What was there is then unchanged.
pub(super) fn run(wish: &Wish<'_>, context: &Context) -> Result<Exit, Failure> {
    let (archive, replace) = (wish.archive, wish.replace);
    let home = context.place()?;
    let empty = require_empty(&home, archive);
    // A place that is not empty, where nothing runs, is kept from starting until the end.
    let _stopped = match empty {
        Ok(()) => None,
        Err(error) if !replace => return Err(error.into()),
        Err(_) => {
            agree(&home, archive, context)?;
            hold(&home, context)?
        }
    };
    let watcher = ProgressWatcher(context.printer.progress("restoring the home"));
    let unpacked = unpack(archive, &home, &watcher)?;
    let moved = unpacked.move_database(&wish.to, wish.replace_nul, &watcher);
    let moved = moved.map_err(|error| not_on_server(error, &unpacked))?;
    watcher.0.step("opening the database");
    open_database(&unpacked, archive, context).map_err(|failure| left_behind(failure, moved.as_ref()))?;
    let manifest = unpacked.manifest.clone();
    // Of the home that is replaced. The configuration in the archive may name others.
    let engines = team::other_engines(&home);
    let aside = unpacked.place(&home, (archive, replace));
    let aside = aside.map_err(|error| left_behind(error.into(), moved.as_ref()))?;
    let mut notes = Vec::new();
    // From here on the home is restored. What follows is done by the next command if this one is killed.
    if let Err(failure) = settle(&home, context) {
        notes.push(format!("the configuration needs attention: {}", failure.text()));
    }
    if aside.is_some() {
        notes.extend(remove_containers(&home, engines, context));
    }
    notes.extend(remote_workspaces(&home, &manifest, aside.is_some()));
    let (files, _) = manifest.totals();
    watcher.0.done(&format!("restored {files} files to {}", home.root().display()));
    if let (None, Some(server)) = (&moved, manifest.database.as_ref().and_then(|found| found.server.as_ref()))
    {
        notes.push(format!(
            "its database was on the server at {server}, and is in a file of the home now; flock home move brings it to a \
             server"
        ));
    }
    if config::read(&home).is_ok_and(|config| config.blobs.is_some()) {
        let note = "its second place belongs to the original home; if that is gone: flock storage take";
        notes.push(note.to_owned());
    }
    let server = moved.map(|moved| moved.to);
    report(&home, &manifest, (aside.as_deref(), server, notes), context);
    Ok(Exit::Done)
}

/// Returns the failure for a database that did not get to the server. Nothing of the home is there then.
fn not_on_server(error: MoveError, unpacked: &UnpackedHome) -> Failure {
    let is_password = matches!(error, MoveError::Store(StoreError::Connect { .. }));
    let mut failure = Failure::from(error);
    if is_password {
        // The hint of the error names the secret in the folder that is gone by now.
        let without = unpacked.manifest.without.contains(&Part::Secrets);
        let from =
            if without { "the backup has no secrets" } else { "the password is the one in the backup" };
        failure.hint = Some(format!(
            "{from}; without --to the database is in a file, and flock home move brings it to the server later"
        ));
    }
    failure
}

/// Adds what a failed restore left on the server to a failure.
fn left_behind(mut failure: Failure, moved: Option<&RestoredOnServer>) -> Failure {
    if let Some(moved) = moved {
        let drop = format!("the whole copy on the server is of no use; drop it: {}", moved.drop);
        failure.hint = Some(match failure.hint.take() {
            Some(hint) => format!("{hint}; {drop}"),
            None => drop,
        });
    }
    failure
}

fn agree(home: &Home, archive: &Path, context: &Context) -> Result<(), Failure> {
    if context.yes() {
        return Ok(());
    }
    let unasked = Failure::new(Kind::Usage, format!("replacing {} must be confirmed", home.root().display()))
        .hint(format!("flock restore {} --replace --yes", archive.display()));
    let question = format!("Move {} aside and put the backup in its place?", home.root().display());
    context.confirm(&question, unasked, "nothing was changed")
}

/// Keeps the home that is replaced from starting. A folder without a `run` is no home in which something could run.
fn hold(home: &Home, context: &Context) -> Result<Option<Lock>, Failure> {
    if !home.run().is_dir() {
        return Ok(None);
    }
    require_stopped(home, "the home is in use: flock runs", context).map(Some)
}

/// Opens the restored database as a start would, which brings one of an older flock to this version, and records the
/// restore in the audit.
fn open_database(unpacked: &UnpackedHome, archive: &Path, context: &Context) -> Result<(), Failure> {
    let home = unpacked.home();
    let store = Store::open(&home)?;
    let made = clock::utc(unpacked.manifest.at);
    let detail = format!("from {}, the backup of {made}", archive.display());
    let entry = Actor::system().entry("home.restore", "home", Level::Red, detail);
    context.block_on(async {
        store.audit().append(entry, unix_ms()).await?;
        Ok(store.settle().await?)
    })
}

/// Gives a home without keys a token of its own, and brings the configuration to its new place.
fn settle(home: &Home, context: &Context) -> Result<(), Failure> {
    let (_, mut document) = config::file::read_document(home)?;
    let has_token = auth(&mut document)
        .is_none_or(|auth| auth.get("token").and_then(Value::as_str).is_some_and(|token| !token.is_empty()));
    if !has_token {
        let token = hex(&rand::random::<[u8; 32]>());
        // Without a token, the configuration is not usable before the change.
        config::complete(home, |document| {
            if let Some(auth) = auth(document) {
                auth.insert("token".to_owned(), json!(token));
            }
            Ok::<_, ConfigError>(())
        })?;
    }
    context.writable_home().map(drop)
}

/// Returns the block with the token of the gateway.
fn auth(document: &mut Value) -> Option<&mut Map<String, Value>> {
    document.pointer_mut("/gateway/auth").and_then(Value::as_object_mut)
}

/// Removes the containers of the home that was replaced: their workspaces are the old ones. Returns a note for each engine
/// where that fails.
fn remove_containers(home: &Home, others: Vec<Engine>, context: &Context) -> Vec<String> {
    let own = Engine::from_env();
    // A machine without an engine has no containers. Another engine may only be stopped.
    let own = own.socket().is_none_or(Path::exists).then_some(own);
    let mut notes = Vec::new();
    for engine in own.into_iter().chain(others) {
        let removed = context.block_on(async {
            engine.ping().await?;
            Ok(containers::remove_all(&engine, home).await?)
        });
        if let Err(failure) = removed {
            notes.push(format!("its old sandboxes could not be removed: {}", failure.text()));
        }
    }
    notes
}

/// Returns a note for each engine on another machine that has workspaces. The archive has only their marks.
fn remote_workspaces(home: &Home, manifest: &Manifest, is_replaced: bool) -> Vec<String> {
    let is_copy = instance::read(home).ok() != manifest.home.id;
    if is_replaced && !is_copy {
        // The original is the home that was moved aside.
        return Vec::new();
    }
    let mut engines: BTreeMap<EngineName, Vec<String>> = BTreeMap::new();
    for (agent, mark) in elsewhere::marks(&home.workspaces()).unwrap_or_default() {
        engines.entry(mark.engine).or_default().push(agent.to_string());
    }
    let note = |(engine, agents): (EngineName, Vec<String>)| {
        let agents = agents.join(", ");
        match is_copy {
            true => format!(
                "the workspaces of {agents} in the engine {engine} stay the original home's, and this one does not use \
                 them; for the files of the last checkpoints: flock engine remove {engine} --force"
            ),
            false => format!(
                "the workspaces of {agents} in the engine {engine} have their present files, not those of the backup; \
                 if the original home is still there, on another machine, never run both"
            ),
        }
    };
    engines.into_iter().map(note).collect()
}

fn report(
    home: &Home,
    manifest: &Manifest,
    (aside, server, notes): (Option<&Path>, Option<String>, Vec<String>),
    context: &Context,
) {
    let printer = &context.printer;
    let needs_openclaw = config::read(home).is_ok_and(|config| openclaw::agents(&config).next().is_some());
    if printer.is_json() {
        printer.json(&json!({
            "home": home.root(),
            "at": manifest.at,
            "flock": manifest.flock,
            "from": manifest.home.path,
            "replaced": aside,
            "server": server,
            "without": manifest.without,
            "enterAgain": manifest.enter_again,
            "needsOpenclaw": needs_openclaw,
            "notes": notes,
        }));
        return;
    }
    printer.say(format!("it is the home of {}", clock::local(manifest.at)).as_str());
    if let Some(aside) = aside {
        printer.say(format!("the home that was there is kept in {}", aside.display()).as_str());
    }
    if let Some(server) = server {
        printer.say(format!("its database is on the server at {server}").as_str());
    }
    for note in &notes {
        printer.warn(note);
    }
    if manifest.without.contains(&Part::Secrets) && !manifest.enter_again.is_empty() {
        printer.warn(&format!(
            "these keys are not in the backup, enter them again: {}",
            manifest.enter_again.join(", ")
        ));
    }
    if manifest.without.contains(&Part::Workspaces) {
        printer.warn("the workspaces and checkpoints are not in the backup");
    }
    if needs_openclaw {
        printer.say(StyledLine::new().plain("install OpenClaw again with ").accent("flock update"));
    }
    printer.say(StyledLine::new().plain("start it with ").accent("flock start"));
}

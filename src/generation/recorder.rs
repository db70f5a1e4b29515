//! Writes generations. All of them are written under the lock of the configuration.

use std::time::Duration;

use serde_json::Value;

use super::kept_out::keep_out;
use super::origin::Origin;
use super::pending_rollback::PendingRollback;
use super::record::{FORMAT, Generation, HomeState};
use super::{difference, log, pending_rollback};
use crate::clock;
use crate::fault_point::{self, FaultPoint};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic, version};

/// The version of this program.
const PROGRAM: &str = env!("FLOCK_VERSION");
/// Longest time that a writer waits for other writers.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest configuration, in bytes.
const MAX_CONFIG: u64 = 8 << 20;
/// The party of a change that nobody made by flock.
pub(crate) const BY_HAND: &str = "unknown";

/// The next generation, which is written down before the configuration changes.
#[derive(Debug)]
pub(crate) struct Draft {
    home: Home,
    number: u64,
    keep: u32,
}

/// Writes the generation that a change of the configuration makes, before the file is replaced. Returns `None` if the
/// change makes none, as the change of a key alone. Without `before` the present file is broken and says nothing. The
/// caller holds the lock of the configuration.
///
/// # Errors
///
/// Returns an error if a file can't be read or written. Then the configuration must not be changed.
pub(crate) fn prepare(
    home: &Home,
    before: Option<&Value>,
    after: &Value,
) -> Result<Option<Draft>, HomeError> {
    let last = match (before, log::newest(home)?) {
        (None, Some(last)) => last,
        (before, _) => settle(home, before.unwrap_or(after))?,
    };
    let state = HomeState { config: keep_out(after), ..last.state.clone() };
    let Some(next) = successor(home, last, state)? else { return Ok(None) };
    log::write(&log::underway(home), &next)?;
    fault_point::reach(FaultPoint::GenerationDrafted);
    Ok(Some(Draft { home: home.clone(), number: next.number, keep: keep(after) }))
}

impl Draft {
    /// Makes the draft a generation, once the configuration is replaced.
    ///
    /// If that fails, the next look does it: the record of the change is there.
    pub(crate) fn commit(self) {
        fault_point::reach(FaultPoint::ConfigReplaced);
        if let Err(error) = publish(&self.home, self.number) {
            tracing::warn!(%error, "failed to name a generation; the next look does it");
        }
        log::prune(&self.home, self.keep);
        fault_point::reach(FaultPoint::GenerationKept);
    }

    /// Drops the draft, because the configuration was not replaced.
    pub(crate) fn cancel(self) {
        // A draft that remains is dropped by the next look, which compares it with the file.
        let _ = fs_err::remove_file(log::underway(&self.home));
    }
}

/// Records a change that was made to another part than the configuration. Nothing is recorded if nothing differs.
///
/// # Errors
///
/// Returns an error if a file can't be read or written, or if the configuration is not JSON.
pub(crate) fn change(home: &Home, change: impl FnOnce(&mut HomeState)) -> Result<(), HomeError> {
    version::check_writable(home)?;
    let _lock = Lock::acquire(&home.config_lock(), LOCK_TIMEOUT)?;
    // A rollback records at its end what it has changed.
    if pending_rollback::is_open(home) {
        return Ok(());
    }
    let present = present(home)?;
    let last = settle(home, &present)?;
    let mut state = last.state.clone();
    change(&mut state);
    if !state.differs(&last.state) {
        // The schema follows the program: it belongs to the generation that brought the program.
        if state.schema != last.state.schema {
            log::write(&log::path(home, last.number), &Generation { state, ..last })?;
        }
        return Ok(());
    }
    if let Some(next) = successor(home, last, state)? {
        log::write(&log::path(home, next.number), &next)?;
        log::prune(home, keep(&present));
        fault_point::reach(FaultPoint::GenerationKept);
    }
    Ok(())
}

/// Notices what was changed by hand: the configuration, and `found` about the other parts. Returns the newest
/// generation.
///
/// # Errors
///
/// Returns an error if a file can't be read or written, or if the configuration is not JSON.
pub(crate) fn look(home: &Home, found: impl FnOnce(&mut HomeState)) -> Result<Generation, HomeError> {
    let by_hand = Origin { operation: None, ..Origin::new(BY_HAND, "changed by hand") };
    let origin = if Origin::current().makes_home { Origin::current() } else { by_hand };
    origin.run(|| change(home, found))?;
    log::newest(home)?.ok_or_else(|| HomeError::NotInitialised { root: home.root().to_owned() })
}

/// Records something of the present state that was not known before, without making a generation of it.
///
/// # Errors
///
/// Returns an error if a file can't be read or written.
pub(crate) fn complete(home: &Home, learn: impl FnOnce(&mut HomeState)) -> Result<(), HomeError> {
    version::check_writable(home)?;
    let _lock = Lock::acquire(&home.config_lock(), LOCK_TIMEOUT)?;
    if pending_rollback::is_open(home) {
        return Ok(());
    }
    let last = settle(home, &present(home)?)?;
    let mut state = last.state.clone();
    learn(&mut state);
    if state != last.state {
        log::write(&log::path(home, last.number), &Generation { state, ..last })?;
    }
    Ok(())
}

/// Records the end of a rollback as a new generation, while its record is still there. It can be repeated.
///
/// # Errors
///
/// Returns an error if a file can't be read or written.
pub(crate) fn conclude(
    home: &Home,
    rollback: &PendingRollback,
    reached: impl FnOnce(&mut HomeState),
) -> Result<(), HomeError> {
    let _lock = Lock::acquire(&home.config_lock(), LOCK_TIMEOUT)?;
    let present = present(home)?;
    let Some(last) = log::newest(home)? else { return Ok(()) };
    // A process that was killed after this step has recorded it.
    if last.number > rollback.from && last.back_to == Some(rollback.to) {
        return Ok(());
    }
    let mut state = HomeState { config: keep_out(&present), ..last.state.clone() };
    reached(&mut state);
    let why = format!("flock rollback {}", rollback.to);
    let origin = Origin { back_to: Some(rollback.to), ..Origin::new(&rollback.by, why) };
    let next = origin.run(|| next(home, &last, Some(&last.state), last.number + 1, state));
    log::write(&log::path(home, next.number), &next)?;
    log::prune(home, keep(&present));
    Ok(())
}

/// Completes or drops the draft of a process that was killed, makes the first generation if there is none, and makes one
/// of a configuration that was changed by hand. Returns the newest generation.
fn settle(home: &Home, present: &Value) -> Result<Generation, HomeError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let folder = home.generations();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(HomeError::io("make the folder", &folder))?;
    let present = keep_out(present);
    // A draft that can't be read was not written to its end, so its change was not made.
    if let Ok(Some(draft)) = log::read_file(&log::underway(home))
        && draft.state.config == present
    {
        publish(home, draft.number)?;
    } else {
        remove(home)?;
    }
    let Some(last) = log::newest(home)? else { return first(home, present) };
    if last.state.config == present {
        return Ok(last);
    }
    let by_hand = Origin { operation: None, ..Origin::new(BY_HAND, "changed by hand") };
    let state = HomeState { config: present, ..last.state.clone() };
    let next = by_hand.run(|| next(home, &last, Some(&last.state), last.number + 1, state));
    log::write(&log::path(home, next.number), &next)?;
    Ok(next)
}

/// Makes the first generation of a home: the state in which it was found.
fn first(home: &Home, config: Value) -> Result<Generation, HomeError> {
    let current = Origin::current();
    let found = || Origin { operation: None, ..Origin::new(BY_HAND, "found as it is") };
    let origin = if current.makes_home { current } else { found() };
    let openclaw = std::fs::read_link(home.openclaw()).ok();
    let openclaw = openclaw.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    let state = HomeState { config, program: PROGRAM.to_owned(), openclaw, ..HomeState::default() };
    let generation = Generation {
        format: FORMAT,
        number: 1,
        at: clock::unix_ms(),
        by: origin.by,
        why: origin.why,
        home: home.root().to_owned(),
        what: Vec::new(),
        operation: origin.operation,
        renamed: None,
        back_to: None,
        state,
    };
    log::write(&log::path(home, 1), &generation)?;
    Ok(generation)
}

/// Returns the generation that a change makes. A change of the same operation as the newest generation becomes part of
/// that one.
fn successor(home: &Home, last: Generation, state: HomeState) -> Result<Option<Generation>, HomeError> {
    if !state.differs(&last.state) {
        return Ok(None);
    }
    let operation = Origin::current().operation;
    let is_part = operation.is_some() && operation == last.operation;
    if !is_part {
        return Ok(Some(next(home, &last, Some(&last.state), last.number + 1, state)));
    }
    let before = log::read(home, last.number - 1).ok().flatten();
    let mut next = next(home, &last, before.as_ref().map(|before| &before.state), last.number, state);
    // The operation began with its first change.
    next.at = last.at;
    next.renamed = next.renamed.or(last.renamed);
    Ok(Some(next))
}

fn next(
    home: &Home,
    last: &Generation,
    before: Option<&HomeState>,
    number: u64,
    mut state: HomeState,
) -> Generation {
    let (origin, mut before) = (Origin::current(), before.cloned());
    // A home that was moved or copied has other package stores than before. Only what has just changed is of these. Nothing was
    // removed from the former ones.
    if last.home != home.root() {
        state.packages.retain(|agent, profile| last.state.packages.get(agent) != Some(profile));
        before.iter_mut().for_each(|before| before.packages.clear());
    }
    let what = before.map(|before| difference::between(&before, &state)).unwrap_or_default();
    Generation {
        format: FORMAT,
        number,
        // The clock may have been set back. Generations are shown in their order.
        at: clock::unix_ms().max(last.at),
        by: origin.by,
        why: origin.why,
        home: home.root().to_owned(),
        what,
        operation: origin.operation,
        renamed: origin.renames,
        back_to: origin.back_to,
        state,
    }
}

fn publish(home: &Home, number: u64) -> Result<(), HomeError> {
    let to = log::path(home, number);
    fs_err::rename(log::underway(home), &to).map_err(HomeError::io("write", &to))?;
    let folder = home.generations();
    let synced = std::fs::File::open(&folder).and_then(|folder| folder.sync_all());
    synced.map_err(HomeError::io("sync", &folder))
}

fn remove(home: &Home) -> Result<(), HomeError> {
    let path = log::underway(home);
    match fs_err::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(HomeError::io("remove", &path)(error))
        }
        _ => Ok(()),
    }
}

fn present(home: &Home) -> Result<Value, HomeError> {
    let path = home.config();
    let bytes = atomic::read(&path, MAX_CONFIG)?;
    let bytes = bytes.ok_or_else(|| HomeError::NotInitialised { root: home.root().to_owned() })?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    serde_json::from_slice(bytes).map_err(|error| HomeError::io("read", &path)(error.into()))
}

/// Returns the number of generations to keep that a configuration names.
fn keep(document: &Value) -> u32 {
    let named = document.pointer("/plugins/entries/flock/config/generations/keep").and_then(Value::as_u64);
    named.and_then(|keep| u32::try_from(keep).ok()).unwrap_or(log::DEFAULT_KEEP)
}

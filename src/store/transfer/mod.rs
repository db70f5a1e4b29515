//! The move of a home's whole database between a file and a server of PostgreSQL.
//!
//! The source is only read, and nobody else changes it meanwhile. Its rows are read once to measure them, copied in
//! batches, and read again from the target. Only if both have the same rows, and the audit in the target is whole, does the
//! home use the target. The source is kept, and refuses to be used from then on.
//!
//! A move that was interrupted goes on where it was, unless rows of the source have changed since.

pub(in crate::store) mod catalog;
mod copy;
mod digest;
mod end;
mod error;
pub(in crate::store) mod moment;
mod page;
pub(in crate::store) mod state;

use std::path::Path;

use serde::Serialize;

use self::catalog::MovedTable;
use self::copy::{NulRule, Survey};
use self::end::End;
pub(crate) use self::error::MoveError;
use self::state::{MovedNote, NOTE_TABLE, STATE_TABLE};
use super::audit_chain::{self, AuditVerification, ChainHead, PruneMarker};
use super::location::{self, Location};
use super::postgres::{SchemaEnd, Settings};
use super::sql::{self, Connection};
use super::sqlite::file_end::{self, FileEnd};
use super::{Store, StoreError};
use crate::clock;
use crate::fault_point::{FaultPoint, reach};
use crate::home::{Home, HomeError, instance};

/// The place where the database shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    File,
    Server {
        /// As in `postgres://flock@db.example/flock`, without a password.
        address: String,
        /// The schema for the tables, if it has not the usual name.
        schema: Option<String>,
        /// The name of the secret with the password, if it is not the usual one.
        secret: Option<String>,
    },
}

/// A move that somebody asks for.
#[derive(Clone, Debug)]
pub(crate) struct MoveRequest {
    pub(crate) home: Home,
    pub(crate) to: Destination,
    /// Set to replace NUL characters, which PostgreSQL can't store.
    pub(crate) replace_nul: bool,
    /// The name under which an interrupted move to a server is known there. `None` takes the id of the home.
    pub(crate) owner: Option<String>,
}

impl MoveRequest {
    fn owner(&self) -> Result<String, HomeError> {
        self.owner.clone().map_or_else(|| home_id(&self.home), Ok)
    }
}

/// Is told how far a move is.
pub(crate) trait MoveWatcher {
    /// The next step begins.
    fn step(&self, text: &str);

    /// So many rows of the step are done.
    fn at(&self, done: u64, of: u64);

    /// Returns `true` if the move shall end before the next batch of rows.
    fn is_stopped(&self) -> bool;
}

/// A table and its number of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MovedRows {
    pub(crate) name: String,
    pub(crate) rows: u64,
}

/// What a move would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MovePlan {
    pub(crate) from: String,
    pub(crate) to: String,
    /// The state of the target, as a phrase.
    pub(crate) target: String,
    pub(crate) rows: u64,
    pub(crate) tables: Vec<MovedRows>,
}

/// A source that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeptSource {
    /// The path of the file, or the place of the schema.
    pub(crate) place: String,
    /// The command that deletes it.
    pub(crate) delete: String,
}

/// What a move did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MoveReport {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) rows: u64,
    /// The number of rows that an interrupted move had copied already.
    pub(crate) copied_before: u64,
    /// Set if an interrupted move had copied rows that were not those of the source any more.
    pub(crate) began_anew: bool,
    pub(crate) tables: Vec<MovedRows>,
    /// The last row of the audit, which was verified in the target.
    pub(crate) audit_end: i64,
    /// The fault of the source's audit, which the copy has as well.
    pub(crate) audit_fault: Option<String>,
    pub(crate) kept: KeptSource,
}

/// Looks at what a move would do, and changes nothing. A gateway may run meanwhile.
///
/// # Errors
///
/// Returns the error with which the move would be refused, as far as it can be seen.
pub(crate) fn plan(request: &MoveRequest, watcher: &dyn MoveWatcher) -> Result<MovePlan, MoveError> {
    let home = &request.home;
    match (Location::of(home)?, &request.to) {
        (Location::File(path), Destination::Server { .. }) => {
            let (settings, secret) = server_of(request)?;
            let source = FileEnd::look(&path)?.ok_or(MoveError::NoDatabase)?;
            let target = SchemaEnd::look(home, settings, secret)?;
            check_server(&target)?;
            let copied = known_in_schema(&target, &request.owner()?)?;
            planned(request, End::File(&source), (target.place(), copied), watcher)
        }
        (Location::Postgres { settings, secret }, Destination::File) => {
            require_no_file(home)?;
            let source = SchemaEnd::look(home, *settings, secret)?;
            if source.version()? == 0 {
                return Err(MoveError::NoDatabase);
            }
            let draft = FileEnd::look(&location::draft(home)).ok().flatten();
            let copied = draft.and_then(|draft| copied_rows(&draft.connection()).ok());
            let place = home.database().display().to_string();
            planned(request, End::Schema(&source), (place, copied), watcher)
        }
        (at, _) => Err(there(&at)),
    }
}

fn planned(
    request: &MoveRequest,
    source: End<'_>,
    (place, copied): (String, Option<u64>),
    watcher: &dyn MoveWatcher,
) -> Result<MovePlan, MoveError> {
    let tables = source.catalog()?.all();
    let survey = copy::survey(&source.connection(), &tables, nul_rule(request), watcher)?;
    survey.require_storable()?;
    Ok(MovePlan {
        from: source.place(),
        to: place,
        target: match copied {
            None => "nothing is there yet".to_owned(),
            Some(rows) => format!("an interrupted move has copied {rows} rows"),
        },
        rows: survey.rows(),
        tables: counted(&tables, &survey),
    })
}

/// Moves the database. Nothing of the home may run, and the caller holds the locks that say so.
///
/// # Errors
///
/// Returns an error if the move is refused or fails. The home then uses the database that it had, which is unchanged.
pub(crate) fn run(request: &MoveRequest, watcher: &dyn MoveWatcher) -> Result<MoveReport, MoveError> {
    match (Location::of(&request.home)?, &request.to) {
        (Location::File(path), Destination::Server { .. }) => to_server(request, &path, watcher),
        (Location::Postgres { settings, secret }, Destination::File) => {
            to_file(request, (*settings, secret), watcher)
        }
        (at, _) => Err(there(&at)),
    }
}

/// Returns the command that drops the home's database on its server; `None` if it is in a file.
///
/// # Errors
///
/// Returns an error if the place of the database can't be read.
pub(crate) fn drop_command(home: &Home) -> Result<Option<String>, MoveError> {
    Ok(match Location::of(home)? {
        Location::File(_) => None,
        Location::Postgres { settings, .. } => Some(settings.drop_command()),
    })
}

fn to_server(request: &MoveRequest, path: &Path, watcher: &dyn MoveWatcher) -> Result<MoveReport, MoveError> {
    let home = &request.home;
    let (settings, secret) = server_of(request)?;
    watcher.step("opening both databases");
    let target = SchemaEnd::hold(home, settings.clone(), secret.clone())?;
    check_server(&target)?;
    let known = known_in_schema(&target, &request.owner()?)?;
    // Makes a missing database, and brings an old one to this version, as every other command does.
    drop(Store::open(home)?);
    let source = FileEnd::hold(path)?;
    let copier = Copier { request, source: End::File(&source), watcher };
    if known.is_none() {
        // A home that can't be moved leaves nothing on the server.
        copier.require_storable()?;
        begin_in_schema(&target, &request.owner()?)?;
    }
    target.migrate()?;
    let prepared = copier.prepare(End::Schema(&target), known.unwrap_or(0))?;
    if !prepared.fits {
        if state::is_proven(&target.connection()).map_err(read_failed)? {
            // It was complete, so somebody may have used it since. Otherwise the move was killed before its last step.
            if !copier.is_untouched(End::Schema(&target), &prepared.tables)? {
                let what = "a database of flock that was moved there".to_owned();
                return Err(MoveError::Occupied { place: target.place(), what, drop: target.drop_command() });
            }
            // Before anything else, so that nobody takes the half for a database.
            target.connection().in_transaction(state::unprove).map_err(prepare_failed)?;
        }
        target.empty(&end::names(&prepared.tables)).map_err(prepare_failed)?;
        prepared.begin(End::Schema(&target))?;
    }
    let facts = copier.fill(End::Schema(&target), &prepared)?;
    let proved = target.commit_to_disk(state::prove);
    proved.map_err(|source| StoreError::query("write down that the copy is complete", source))?;
    reach(FaultPoint::MoveProved);
    let kept = location::switch_to_server(home, &settings, &secret, clock::unix_ms())?;
    reach(FaultPoint::MoveSwitched);
    // The tables about the move mean nothing any more. If they stay, they say that the copy is complete.
    if let Err(error) = target.connection().in_transaction(state::end) {
        tracing::warn!(error = crate::error::chain(&error), "failed to drop what was known of the move");
    }
    let place = kept.display().to_string();
    let kept = KeptSource { delete: format!("rm '{place}'"), place };
    Ok(facts.report(path.display().to_string(), target.place(), kept))
}

fn to_file(
    request: &MoveRequest,
    (settings, secret): (Settings, String),
    watcher: &dyn MoveWatcher,
) -> Result<MoveReport, MoveError> {
    let home = &request.home;
    require_no_file(home)?;
    watcher.step("opening both databases");
    let source = SchemaEnd::hold(home, settings, secret)?;
    let own = home_id(home)?;
    let note = source.note().map_err(read_failed)?;
    match &note {
        // A move of this home was killed after its last row.
        Some(note) if note.home == own => {}
        Some(note) => {
            let (place, to) = (source.place(), note.place.clone());
            return Err(StoreError::MovedAway { place, to, at: note.at }.into());
        }
        None if source.version()? == 0 => return Err(MoveError::NoDatabase),
        None => source.migrate()?,
    }
    let copier = Copier { request, source: End::Schema(&source), watcher };
    let (mut target, copied) = open_draft(home)?;
    let prepared = copier.prepare(End::File(&target), copied)?;
    if !prepared.fits {
        if prepared.has_begun {
            drop(target);
            file_end::remove_draft(&location::draft(home))?;
            target = new_draft(home)?;
        }
        prepared.begin(End::File(&target))?;
    }
    let facts = copier.fill(End::File(&target), &prepared)?;
    watcher.step("checking the new file");
    let ended = target.connection().in_transaction(state::end);
    ended.map_err(|source| StoreError::query("end the move", source))?;
    target.finish()?;
    reach(FaultPoint::MoveProved);
    let database = home.database().display().to_string();
    if note.is_none() {
        let note = MovedNote { home: own, place: database.clone(), at: clock::unix_ms() };
        let retired = source.retire(&note);
        retired.map_err(|error| {
            StoreError::query("have the server refuse changes of the old database", error)
        })?;
    }
    reach(FaultPoint::MoveRetired);
    location::switch_to_file(home)?;
    reach(FaultPoint::MoveSwitched);
    let kept = KeptSource { place: source.place(), delete: source.drop_command() };
    Ok(facts.report(source.place(), database, kept))
}

/// A copy from a source that is held.
struct Copier<'m> {
    request: &'m MoveRequest,
    source: End<'m>,
    watcher: &'m dyn MoveWatcher,
}

/// What is to be copied, and what of it the target has.
struct Prepared {
    tables: Vec<MovedTable>,
    survey: Survey,
    /// The number of rows in the target.
    copied: u64,
    /// Set if an earlier attempt has begun with the tables.
    has_begun: bool,
    /// Set if what the target has is the beginning of this copy.
    fits: bool,
}

/// What is known of a complete copy.
struct Facts {
    tables: Vec<MovedRows>,
    rows: u64,
    copied_before: u64,
    began_anew: bool,
    audit: AuditVerification,
}

impl Facts {
    fn report(self, from: String, to: String, kept: KeptSource) -> MoveReport {
        MoveReport {
            from,
            to,
            rows: self.rows,
            copied_before: self.copied_before,
            began_anew: self.began_anew,
            tables: self.tables,
            audit_end: self.audit.last,
            audit_fault: self.audit.broken.map(|fault| fault.to_string()),
            kept,
        }
    }
}

impl Prepared {
    /// Writes down in an empty target what is to be copied.
    fn begin(&self, target: End<'_>) -> Result<(), MoveError> {
        let planned = self.tables.iter().zip(&self.survey.digests);
        let begun = target.connection().in_transaction(|transaction| state::plan(transaction, planned));
        Ok(begun.map_err(prepare_failed)?)
    }
}

impl Copier<'_> {
    /// Reads the source, and compares it with what an earlier attempt was to copy.
    fn prepare(&self, target: End<'_>, copied: u64) -> Result<Prepared, MoveError> {
        let tables = catalog::moved_tables(&self.source.catalog()?, &target.catalog()?);
        let tables = tables.map_err(MoveError::Tables)?;
        let rule = nul_rule(self.request);
        let survey = copy::survey(&self.source.connection(), &tables, rule, self.watcher)?;
        survey.require_storable()?;
        let known = state::tables(&target.connection()).map_err(read_failed)?;
        let fits = copy::fits(&known, &tables, &survey.digests);
        Ok(Prepared { tables, survey, copied, has_begun: !known.is_empty(), fits })
    }

    /// Reads the source, and refuses one with texts that the target can't store.
    fn require_storable(&self) -> Result<(), MoveError> {
        let tables = self.source.catalog()?.all();
        let rule = nul_rule(self.request);
        copy::survey(&self.source.connection(), &tables, rule, self.watcher)?.require_storable()
    }

    /// Returns `true` if a complete copy has exactly the rows that were copied.
    fn is_untouched(&self, target: End<'_>, tables: &[MovedTable]) -> Result<bool, MoveError> {
        let connection = target.connection();
        let known = state::tables(&connection).map_err(read_failed)?;
        let now = copy::survey(&connection, tables, NulRule::Keep, self.watcher)?;
        Ok(copy::fits(&known, tables, &now.digests))
    }

    /// Copies the rows that the target does not have, and compares the two databases.
    fn fill(&self, target: End<'_>, prepared: &Prepared) -> Result<Facts, MoveError> {
        let Prepared { tables, survey, copied, fits, .. } = prepared;
        let rows = survey.rows();
        self.fill_rows(target, prepared)?;
        let finished = end::finish_rows(target, tables).map_err(MoveError::from).and_then(|()| {
            self.watcher.step("verifying the audit");
            self.verify_audit(target)
        });
        if matches!(finished, Err(MoveError::Audit(_) | MoveError::Store(StoreError::Doubtful { .. }))) {
            // The same rows would fail again, so the next attempt begins anew.
            target.connection().in_transaction(state::spoil).map_err(prepare_failed)?;
        }
        Ok(Facts {
            tables: counted(tables, survey),
            rows,
            copied_before: if *fits { *copied } else { 0 },
            began_anew: !fits && *copied > 0,
            audit: finished?,
        })
    }

    /// Copies the rows that the target does not have, compares them, and has the target go on with the source's numbers.
    fn fill_rows(&self, target: End<'_>, prepared: &Prepared) -> Result<(), MoveError> {
        let Prepared { tables, survey, .. } = prepared;
        let (from, to) = (self.source.connection(), target.connection());
        copy::copy((&from, &to), tables, (nul_rule(self.request), survey.rows()), self.watcher)?;
        copy::compare(target, tables, survey, self.watcher)?;
        self.watcher.step("finishing the copy");
        Ok(end::go_on_after(self.source, target)?)
    }

    /// Verifies the audit of both ends. The one of the target has to be as whole as that of the source.
    fn verify_audit(&self, target: End<'_>) -> Result<AuditVerification, MoveError> {
        let home = &self.request.home;
        let head = home.audit_head();
        let source = self.source.verify_audit(&head)?;
        if let End::File(file) = target {
            note_beginning(home, file)?;
        }
        let copied = target.verify_audit(&head)?;
        match (&source.broken, &copied.broken) {
            (None, Some(fault)) => Err(MoveError::Audit(fault.to_string())),
            _ if (source.rows, source.last) != (copied.rows, copied.last) => {
                let text = format!("it has {} rows, and {} were copied", copied.rows, source.rows);
                Err(MoveError::Audit(text))
            }
            (fault, _) => {
                Ok(AuditVerification { rows: copied.rows, last: copied.last, broken: (*fault).clone() })
            }
        }
    }
}

/// Writes down in the home where the audit in a file begins.
///
/// Rows at the beginning may have been deleted from another home that shares the database of a server. A file is of one
/// home, which has to know that flock deleted them.
fn note_beginning(home: &Home, file: &FileEnd) -> Result<(), MoveError> {
    let Some((id, hash)) = audit_chain::base(&file.connection()).map_err(read_failed)? else {
        return Ok(());
    };
    let base = ChainHead::new(id, &hash);
    let mut given_up = PruneMarker::read(&home.audit_head())?;
    if !given_up.rows.contains(&base) {
        given_up.rows.push(base);
        given_up.write(&home.audit_head())?;
    }
    Ok(())
}

/// Returns the server that the move leads to.
fn server_of(request: &MoveRequest) -> Result<(Settings, String), MoveError> {
    let Destination::Server { address, schema, secret } = &request.to else {
        return Err(MoveError::Target("it is no server".to_owned()));
    };
    location::server(address, schema.as_deref(), secret.as_deref()).map_err(MoveError::Target)
}

fn there(location: &Location) -> MoveError {
    MoveError::There {
        place: match location {
            Location::File(path) => format!("a file of the home, {}", path.display()),
            Location::Postgres { settings, .. } => format!("on a server, at {settings}"),
        },
    }
}

/// Refuses a server that can't hold flock's tables.
fn check_server(target: &SchemaEnd) -> Result<(), MoveError> {
    let facts = target.facts().map_err(read_failed)?;
    let refused = |reason, command| Err(MoveError::Server { place: target.place(), reason, command });
    if facts.encoding != "UTF8" {
        return refused(
            format!("its encoding is {}, and only UTF8 has all characters", facts.encoding),
            "createdb --encoding UTF8 --template template0 makes another database".to_owned(),
        );
    }
    if !facts.may_create {
        return refused(
            format!("{} may not make tables there", facts.user),
            format!("as its owner: GRANT CREATE ON DATABASE \"{}\" TO \"{}\"", facts.database, facts.user),
        );
    }
    Ok(())
}

fn require_no_file(home: &Home) -> Result<(), MoveError> {
    let path = home.database();
    let is_there = path.try_exists().map_err(HomeError::io("look at", &path))?;
    if is_there { Err(MoveError::FileThere { path }) } else { Ok(()) }
}

/// Finds an interrupted move of this owner in a schema. Returns the number of its copied rows; `None` if nothing is there.
///
/// Returns [`MoveError::Occupied`] if the schema has anything else.
fn known_in_schema(end: &SchemaEnd, owner: &str) -> Result<Option<u64>, MoveError> {
    let relations = end.relations().map_err(read_failed)?;
    if relations.is_empty() {
        return Ok(None);
    }
    let connection = end.connection();
    let has = |name: &str| relations.iter().any(|relation| relation == name);
    let what = if has(NOTE_TABLE) {
        "a database of flock that was moved away from there".to_owned()
    } else if has(STATE_TABLE) {
        if state::home(&connection).map_err(read_failed)?.as_deref() == Some(owner) {
            return Ok(Some(copied_rows(&connection).map_err(read_failed)?));
        }
        "a move of another home".to_owned()
    } else if has("schema_version") {
        "a database of flock".to_owned()
    } else {
        let more = if relations.len() > 3 { ", ..." } else { "" };
        let first: Vec<&str> = relations.iter().take(3).map(String::as_str).collect();
        format!("the tables {}{more}", first.join(", "))
    };
    Err(MoveError::Occupied { place: end.place(), what, drop: end.drop_command() })
}

/// Returns the number of rows that a move has copied.
fn copied_rows(connection: &Connection<'_>) -> sql::Result<u64> {
    Ok(state::tables(connection)?.values().map(|table| table.copied).sum())
}

/// Writes down in an empty schema whose move begins there.
fn begin_in_schema(target: &SchemaEnd, owner: &str) -> Result<(), MoveError> {
    let begun = target.connection().in_transaction(|transaction| {
        target.create()?;
        state::begin(transaction, owner, clock::unix_ms())
    });
    Ok(begun.map_err(prepare_failed)?)
}

/// Opens the file into which an interrupted move has copied, or makes it. Returns the number of its copied rows.
fn open_draft(home: &Home) -> Result<(FileEnd, u64), MoveError> {
    let path = location::draft(home);
    if path.exists() {
        // A draft in which nothing is known of the move is complete and has not got its name, or has nothing yet. To copy
        // again is simpler than to tell the two apart.
        if let Ok(mut draft) = FileEnd::draft(&path)
            && let Ok(copied) = copied_rows(&draft.connection())
        {
            draft.migrate()?;
            return Ok((draft, copied));
        }
        file_end::remove_draft(&path)?;
    }
    Ok((new_draft(home)?, 0))
}

fn new_draft(home: &Home) -> Result<FileEnd, MoveError> {
    begin_file(&location::draft(home), &home_id(home)?)
}

/// Makes a file with empty tables, and writes down whose copy begins there.
fn begin_file(path: &Path, id: &str) -> Result<FileEnd, MoveError> {
    let mut file = FileEnd::draft(path)?;
    let begun =
        file.connection().in_transaction(|transaction| state::begin(transaction, id, clock::unix_ms()));
    begun.map_err(prepare_failed)?;
    file.migrate()?;
    Ok(file)
}

/// Returns what tells this home from others: its id, or its path before it has one.
fn home_id(home: &Home) -> Result<String, HomeError> {
    match instance::read(home) {
        Err(HomeError::NoInstance { .. }) => Ok(home.root().display().to_string()),
        read => read,
    }
}

fn nul_rule(request: &MoveRequest) -> NulRule {
    match (&request.to, request.replace_nul) {
        (Destination::File, _) => NulRule::Keep,
        (Destination::Server { .. }, false) => NulRule::Refuse,
        (Destination::Server { .. }, true) => NulRule::Replace,
    }
}

fn counted(tables: &[MovedTable], survey: &Survey) -> Vec<MovedRows> {
    let counted = |(table, digest): (&MovedTable, &digest::TableDigest)| MovedRows {
        name: table.name.clone(),
        rows: digest.rows,
    };
    tables.iter().zip(&survey.digests).map(counted).collect()
}

fn read_failed(source: sql::Error) -> StoreError {
    StoreError::query("read what is known of a move", source)
}

fn prepare_failed(source: sql::Error) -> StoreError {
    StoreError::query("prepare the new database", source)
}

#[cfg(test)]
mod tests;

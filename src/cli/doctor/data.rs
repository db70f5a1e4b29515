//! Checks of stored data: the database, the hash chain of the audit log, and the transcripts.

use std::time::Duration;

use super::check::Check;
use super::fix::Fix;
use crate::agent::transcript::inspect::{self, TranscriptFault};
use crate::backup::record::BackupRecord;
use crate::cli::database;
use crate::clock::{self, unix_ms};
use crate::error::KERNEL_LOG_HINT;
use crate::home::{Home, HomeError};
use crate::store::integrity::{self, CheckDepth};
use crate::store::{self, AuditFilter, Reader, StoreError, backups, search_index};

/// Time limit for checking the database without `--deep`.
const QUICK_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of damaged transcripts that are listed by name.
const MAX_NAMED: usize = 5;

/// Checks that the server of the database answers in time. Returns a fault, or `None` if it does and if the database is a file.
///
/// Each check that reads the database would wait for a server that hangs, and say the same.
pub(crate) fn silent_server(home: &Home) -> Option<Check> {
    store::server_address(home).ok()??;
    let error = database::read_view(home, async |_| Ok::<(), StoreError>(())).err()?;
    let mut check = Check::failed("database", error.into());
    check.message.push_str("; what is in it was not checked");
    Some(check)
}

/// Runs all checks of stored data. With `deep` all of it is read. `silent` is the fault of [`silent_server`].
pub(crate) fn all(home: &Home, deep: bool, silent: Option<Check>) -> Vec<Check> {
    let mut checks = match silent {
        Some(silent) => vec![silent],
        None => {
            let checks = [Some(database(home, deep)), audit(home, deep), lost_writes(home)];
            checks.into_iter().flatten().collect()
        }
    };
    checks.extend(transcripts(home, deep));
    checks.extend(search_index(home));
    checks.extend(whole_backup(home));
    checks
}

fn database(home: &Home, deep: bool) -> Check {
    const NAME: &str = "database";
    const MEND: &str = "flock stop, then: flock restore";
    match store::server_address(home) {
        Ok(Some(place)) => return on_server(home, &place),
        Ok(None) => {}
        Err(error) => return Check::failed(NAME, error.into()),
    }
    let path = home.database();
    let is_there = match path.try_exists() {
        Ok(is_there) => is_there,
        Err(source) => {
            return Check::failed(NAME, HomeError::Io { verb: "look at", path, source }.into());
        }
    };
    if !is_there {
        // The audit head is a file beside the database. It proves that there was a database.
        if home.audit_head().exists() {
            let text = format!("{} is gone; {}", path.display(), backup_note(home));
            return Check::bad(NAME, text, MEND).with_fix(Fix::Database);
        }
        return Check::ok(NAME, "there is no database yet");
    }
    let depth = if deep { CheckDepth::Deep } else { CheckDepth::Quick(QUICK_TIMEOUT) };
    match integrity::check(&path, depth) {
        Ok(checked) if !checked.is_whole() => {
            let text = format!("{} is damaged: {}; {}", path.display(), checked.summary(), backup_note(home));
            Check::bad(NAME, text, MEND).with_fix(Fix::Database)
        }
        // A large database may take longer than the limit. Saying "whole" would then be wrong.
        Ok(checked) if checked.is_partial => Check::ok(
            NAME,
            format!(
                "no damage in the part that could be checked in {QUICK_TIMEOUT:?}; {}",
                backup_note(home)
            ),
        ),
        Ok(_) => Check::ok(NAME, format!("whole; {}", backup_note(home))),
        Err(error) => Check::failed(NAME, error.into()),
    }
}

/// Checks that the server of the database can be reached.
fn on_server(home: &Home, place: &str) -> Check {
    const NAME: &str = "database";
    match Reader::open(home) {
        Ok(Some(_)) => Check::ok(
            NAME,
            format!(
                "PostgreSQL keeps it at {place}, and can be reached; checks and daily backups are the server's own, and \
                 flock backup has a copy of it"
            ),
        ),
        Ok(None) => Check::ok(NAME, format!("PostgreSQL can be reached at {place}; there are no tables yet")),
        Err(error) => Check::failed(NAME, error.into()),
    }
}

fn backup_note(home: &Home) -> String {
    match backups(home).first() {
        Some(backup) => format!("the newest backup is of {}", clock::local(backup.at)),
        None => "there is no backup yet".to_owned(),
    }
}

/// Reports the newest backup of the whole home, once there was one.
fn whole_backup(home: &Home) -> Option<Check> {
    const NAME: &str = "backup";
    let record = match BackupRecord::read(home) {
        Ok(record) => record?,
        Err(error) => return Some(Check::failed(NAME, error.into())),
    };
    let (at, file) = (clock::local(record.at), record.file.display());
    let verified = if record.verified { "verified then" } else { "not verified" };
    // The disk that it is on may only be missing at the moment, so this is no fault.
    let there = if record.file.is_file() { "" } else { ", and not there now" };
    Some(Check::ok(NAME, format!("the newest backup of the home is of {at}: {file}, {verified}{there}")))
}

fn audit(home: &Home, deep: bool) -> Option<Check> {
    const NAME: &str = "audit";
    const MEND: &str = "flock audit --verify";
    // Problems with opening the database are reported by its own check.
    Reader::open(home).ok()??;
    let found = database::read(home, async |reader| {
        if deep {
            reader.audit().verify().await.map(|verified| (Some(verified.rows), verified.broken))
        } else {
            reader.audit().check_ends().await.map(|broken| (None, broken))
        }
    });
    Some(match found.transpose()? {
        Ok((_, Some(broken))) => {
            let text = format!("{broken}: the disk lost writes, or somebody changed the database");
            Check::bad(NAME, text, MEND)
        }
        Ok((Some(rows), None)) => Check::ok(NAME, format!("{rows} rows, each follows the one before it")),
        Ok((None, None)) => Check::ok(NAME, "no row is missing at the beginning or the end"),
        Err(error) => Check::failed(NAME, error.into()),
    })
}

/// Reports that the disk lost writes, which an earlier start found. It is reported for 30 days.
fn lost_writes(home: &Home) -> Option<Check> {
    const NAME: &str = "writes";
    const NEWS: i64 = 30 * 24 * 3_600_000;
    let filter = AuditFilter {
        action: Some("disk.lost".to_owned()),
        since: Some(unix_ms().saturating_sub(NEWS)),
        ..AuditFilter::default()
    };
    // The newest report is enough: earlier ones are in the audit log.
    let rows = database::read(home, async |reader| reader.audit().rows(&filter, 1).await);
    let row = rows.ok()??.pop()?;
    let text =
        format!("the start at {} found that the disk lost writes: {}", clock::local(row.at), row.detail);
    Some(Check::warn(NAME, text, "check the disk and the newest messages: dmesg; flock audit --action disk"))
}

fn transcripts(home: &Home, deep: bool) -> Vec<Check> {
    const NAME: &str = "sessions";
    let paths = inspect::all(home);
    // A glance reads only the beginning and the end of each transcript.
    let look = if deep { inspect::read_whole } else { inspect::check_ends };
    let flaws: Vec<TranscriptFault> = paths.iter().filter_map(|path| look(path)).collect();
    if flaws.is_empty() {
        let how = if deep { "each line is a record" } else { "beginning and end are intact" };
        return vec![Check::ok(NAME, format!("{} transcripts: {how}", paths.len()))];
    }
    let more = flaws.len().saturating_sub(MAX_NAMED);
    let mut checks: Vec<Check> =
        flaws.into_iter().take(MAX_NAMED).map(|flaw| flaw_check(NAME, &flaw)).collect();
    if more > 0 {
        checks.push(Check::bad(
            NAME,
            format!("{more} more transcripts have flaws"),
            "flock doctor --deep --json",
        ));
    }
    checks
}

/// Reports a damaged search index. It holds nothing that is not elsewhere too.
fn search_index(home: &Home) -> Option<Check> {
    const NAME: &str = "search";
    match search_index::check(home) {
        Ok(found) => Some(match found? {
            None => Check::ok(NAME, "the search index is whole"),
            Some(fault) => {
                let text = format!("{} is damaged: {fault}; it is made anew", home.search_index().display());
                Check::warn(NAME, text, "flock doctor --fix").with_fix(Fix::SearchIndex)
            }
        }),
        Err(error) => Some(Check::failed(NAME, error.into())),
    }
}

fn flaw_check(name: &'static str, flaw: &TranscriptFault) -> Check {
    let path = flaw.path.display();
    let mend = if flaw.is_of_disk { KERNEL_LOG_HINT.to_owned() } else { format!("ls -l {path}") };
    Check::bad(name, format!("{path}: {}", flaw.what), mend)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_one_fault() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        assert!(silent_server(&home).is_none(), "the database is a file");
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = gone.local_addr().unwrap().port();
        drop(gone);
        let place = format!(r#"{{"postgres": "postgres://flock@127.0.0.1:{port}/flock?sslmode=disable"}}"#);
        fs_err::write(home.store_location(), place).unwrap();
        let silent = silent_server(&home).unwrap();
        assert!(silent.message.ends_with("what is in it was not checked"), "{silent:?}");
        let checks = all(&home, false, Some(silent.clone()));
        assert_eq!(checks[0], silent);
        assert!(checks[1..].iter().all(|check| !["database", "audit", "writes"].contains(&check.name)));
    }
}

//! Deletes records that the owner does not want to keep any longer (`retention`), once a day. A kind of record without
//! a number of days is kept for ever.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio_util::sync::CancellationToken;

use super::clock_check::{self, ClockVerdict, DAY};
use crate::agent::Engine;
use crate::clock::unix_ms;
use crate::config::{Live, Retention};
use crate::error::chain;
use crate::home::Home;
use crate::store::{Level, Store, StoreError};
use crate::swarm::Actor;

/// Interval between two runs.
const INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Most messages that are deleted in one transaction. It is small because posts wait for the transaction.
const BATCH_SIZE: u32 = 2000;
/// Most receipts that are deleted in one transaction. Each may have megabytes of output.
const RECEIPTS: u32 = 20;

/// Interval between two looks while the clock is doubted. It is short because a person may confirm the clock.
const RECHECK_INTERVAL: Duration = Duration::from_secs(600);

/// Deletes old records now and once a day, until `stop` is cancelled. `newest` is the time of the newest row when this
/// process started, in Unix milliseconds.
pub(crate) async fn watch(
    engine: Arc<Engine>,
    live: Arc<Live>,
    newest: Option<i64>,
    stop: CancellationToken,
) {
    let mut looked: Option<Instant> = None;
    loop {
        let since_look = looked.map(|at| i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX));
        looked = Some(Instant::now());
        let now = unix_ms();
        if engine.store().is_in_group() {
            // A gateway without others does it at its start. An agent of the last day may only be unknown here yet.
            let forgotten = engine.forget_purged(now - DAY).await;
            log_failure(forgotten, "failed to delete what purged agents have left");
        }
        let retention = live.current().retention;
        let pause = if retention == Retention::default() {
            // Nothing is to be deleted, so a doubtful clock is no concern.
            save_clock_state(live.home(), clock_check::ClockState { seen_at: now, jump: None });
            INTERVAL
        } else if check_clock(live.home(), engine.store(), newest, since_look, now).await {
            delete_old_records(&engine, &live, retention, now).await;
            INTERVAL
        } else {
            RECHECK_INTERVAL
        };
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Returns `true` if the clock can be trusted. Doubt is reported once. What was learned about the clock is written to
/// the home.
async fn check_clock(
    home: &Home,
    store: &Store,
    newest: Option<i64>,
    since_look: Option<i64>,
    now: i64,
) -> bool {
    let note = clock_check::read(home).unwrap_or_else(|error| {
        tracing::warn!(error = chain(&error), "failed to read the record of the clock");
        clock_check::ClockState::default()
    });
    let (verdict, after) = clock_check::judge(note, newest, since_look, now);
    // The note is saved even if the clock is doubted, so that a restart does not forget the doubt.
    save_clock_state(home, after);
    let ClockVerdict::Doubted { jump, new } = verdict else { return true };
    if new {
        let days = (jump.found_at - jump.from) / DAY;
        tracing::warn!(
            days,
            "the clock is days ahead of the newest record, so nothing is deleted for its age before tomorrow; if \
             the clock is right: flock doctor --confirm-clock"
        );
        let detail =
            format!("the clock is {days} days ahead of the newest record; nothing is deleted for its age");
        let entry = Actor::system().entry("retention.held", "clock", Level::Yellow, detail);
        log_failure(store.audit().append(entry, now).await, "failed to write into the audit");
    }
    false
}

fn save_clock_state(home: &Home, note: clock_check::ClockState) {
    log_failure(clock_check::write(home, &note), "failed to write the record of the clock");
}

async fn delete_old_records(engine: &Engine, live: &Live, retention: Retention, now: i64) {
    log_failure(rows(engine.store(), retention, now).await, "failed to delete old rows");
    if let Some(before) = before(retention.traces, now) {
        log_failure(engine.forget_requests(before).await, "failed to delete old sessions");
    }
    if let Some(days) = retention.logs {
        let folder = live.home().logs();
        let age = INTERVAL.saturating_mul(days);
        let removed = tokio::task::spawn_blocking(move || logs(&folder, age, SystemTime::now())).await;
        if !matches!(removed, Ok(Ok(_))) {
            tracing::error!(?removed, "failed to remove old logs");
        }
    }
}

/// Logs the failure of one step. The other steps are done all the same.
fn log_failure<T>(result: Result<T, impl std::error::Error>, failed: &'static str) {
    if let Err(error) = result {
        tracing::error!(error = chain(&error), "{failed}");
    }
}

fn before(days: Option<u32>, now: i64) -> Option<i64> {
    days.map(|days| now - i64::from(days) * DAY)
}

/// Deletes rows of the database that are too old, and writes a row about each kind to the audit.
///
/// # Errors
///
/// Returns the store's error if the database can't be read or written. Batches that were deleted before stay deleted.
pub(crate) async fn rows(store: &Store, retention: Retention, now: i64) -> Result<(), StoreError> {
    if let Some(before) = before(retention.messages, now) {
        let mut forgotten = 0;
        loop {
            // One batch per transaction: between two of them, posts get their turn.
            let some = store.posts().delete_before(before, BATCH_SIZE).await?;
            forgotten += some;
            if some == 0 {
                break;
            }
        }
        if forgotten > 0 {
            let detail = format!("{forgotten} of more than {} days ago", retention.messages.unwrap_or(0));
            let entry = Actor::system().entry("retention.messages", "messages", Level::Yellow, detail);
            store.audit().append(entry, now).await?;
        }
    }
    if let Some(before) = before(retention.receipts, now) {
        let mut forgotten = 0;
        loop {
            let some = store.receipts().delete_before(before, RECEIPTS).await?;
            forgotten += some;
            if some == 0 {
                break;
            }
        }
        if forgotten > 0 {
            let detail = format!("{forgotten} of more than {} days ago", retention.receipts.unwrap_or(0));
            let entry = Actor::system().entry("retention.receipts", "receipts", Level::Yellow, detail);
            store.audit().append(entry, now).await?;
        }
    }
    // The audit comes last, so that the row about the deleted messages is written before older rows go.
    if let Some(before) = before(retention.audit, now) {
        let detail = format!("rows of more than {} days ago", retention.audit.unwrap_or(0));
        let entry = Actor::system().entry("retention.audit", "audit", Level::Yellow, detail);
        store.audit().prune(before, entry, now).await?;
    }
    Ok(())
}

/// Removes old logs that nobody writes any more: rotated ones, and those of builds. Returns their number.
fn logs(folder: &Path, age: Duration, now: SystemTime) -> std::io::Result<usize> {
    let mut removed = 0;
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let set_aside = name.split_once(".log.").is_some_and(|(_, number)| is_number(number));
        let is_over = set_aside || (name.starts_with("build-") && name.ends_with(".log"));
        let written = entry.metadata()?.modified()?;
        if is_over && now.duration_since(written).is_ok_and(|since| since > age) {
            fs_err::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ChannelId;
    use crate::store::{AuditFilter, Page};
    use crate::swarm::channel::ChannelSpec;
    use crate::swarm::testing::Team;

    #[tokio::test]
    async fn rows_are_deleted_after_their_days_and_only_where_days_are_set() {
        let team = Team::new();
        let ann = Actor::human("ann");
        let dev: ChannelId = "dev".parse().unwrap();
        let members = vec!["human:ann".parse().unwrap()];
        let wanted = ChannelSpec { id: dev.clone(), topic: "work".into(), members, message: None };
        team.swarm.create_channel(&ann, wanted).await.unwrap();
        for text in ["one", "two", "three"] {
            team.swarm.post_as_system(&dev, text.to_owned(), false).await.unwrap();
        }
        let said = async || team.store.posts().page(&dev, Page::Last, 50).await.unwrap().len();
        let audited = async || team.store.audit().rows(&AuditFilter::default(), 100).await.unwrap().len();
        let (messages, rows_before) = (said().await, audited().await);
        let later = unix_ms() + 3 * DAY;
        rows(&team.store, Retention::default(), later).await.unwrap();
        let long = Retention { messages: Some(4), audit: Some(4), ..Retention::default() };
        rows(&team.store, long, later).await.unwrap();
        assert_eq!((said().await, audited().await), (messages, rows_before));
        let short = Retention { messages: Some(2), audit: Some(2), ..Retention::default() };
        rows(&team.store, short, later).await.unwrap();
        assert_eq!(said().await, 1, "the last of a channel stays");
        let left = team.store.audit().rows(&AuditFilter::default(), 100).await.unwrap();
        let actions: Vec<&str> = left.iter().map(|row| row.action.as_str()).collect();
        assert_eq!(actions, ["retention.audit", "retention.messages"]);
        team.store.sync().await.unwrap();
        assert_eq!(team.store.audit().verify().await.unwrap().broken, None);
    }

    #[tokio::test]
    async fn nothing_is_deleted_after_a_clock_jump() {
        let team = Team::new();
        let home = team.swarm.home();
        team.store
            .audit()
            .append(Actor::system().entry("x", "y", Level::Green, String::new()), unix_ms())
            .await
            .unwrap();
        let newest = team.store.audit().newest_time().await.unwrap();
        assert!(newest.is_some());
        let ahead = unix_ms() + 40 * DAY;
        for looks in 0..3 {
            assert!(!check_clock(home, &team.store, newest, None, ahead + looks).await);
        }
        let rows = team.store.audit().rows(&AuditFilter::default(), 100).await.unwrap();
        let held = rows.iter().filter(|row| row.action == "retention.held").count();
        assert_eq!(held, 1, "it is said once");
        assert!(clock_check::confirm(home, ahead).unwrap());
        assert!(check_clock(home, &team.store, newest, None, ahead + 9).await);
    }

    #[tokio::test]
    async fn undelivered_messages_are_kept() {
        let team = Team::new();
        let dev: ChannelId = "dev".parse().unwrap();
        let members = vec!["coder".parse().unwrap()];
        let wanted = ChannelSpec { id: dev.clone(), topic: "work".into(), members, message: None };
        team.swarm.create_channel(&Actor::human("ann"), wanted).await.unwrap();
        for text in ["one", "two"] {
            team.swarm.post_as_system(&dev, text.to_owned(), false).await.unwrap();
        }
        let said = async || team.store.posts().page(&dev, Page::Last, 50).await.unwrap().len();
        let before = said().await;
        let short = Retention { messages: Some(1), ..Retention::default() };
        rows(&team.store, short, unix_ms() + 3 * DAY).await.unwrap();
        assert_eq!(said().await, before);
    }

    #[test]
    fn active_logs_stay_and_old_rotated_ones_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["gateway.log", "gateway.log.1", "build-x.log", "notes.txt"] {
            fs_err::write(folder.path().join(name), "x").unwrap();
        }
        let day = Duration::from_secs(86_400);
        let now = SystemTime::now();
        assert_eq!(logs(folder.path(), day, now).unwrap(), 0);
        assert_eq!(logs(folder.path(), day, now + day * 2).unwrap(), 2);
        let left = |name: &str| folder.path().join(name).exists();
        assert!(left("gateway.log") && left("notes.txt") && !left("gateway.log.1") && !left("build-x.log"));
    }
}

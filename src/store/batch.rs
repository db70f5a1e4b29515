//! Changes that are committed together.
//!
//! Each can be undone alone. Messages that wait beside each other are first tried as one change, which on a server costs
//! about as many ways there and back as one message. If that fails, each is tried alone, so only those fail that have to.
//! If nothing else waits, they are even a transaction of their own, whose failures may be found as late as its commit.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::change::{CommitCallback, PendingChange, PendingPost, Work};
use super::health::StorageHealth;
use super::post;
use super::sql::{self, Cause};

/// The size of the messages, in bytes of their texts, from which no further one is posted together with them. Their
/// statements are in memory until the server has taken them.
pub(super) const MAX_TOGETHER: usize = 1 << 20;

/// A transaction for changes that are committed together. Unless it is committed, dropping it undoes all of them.
pub(super) trait Batch {
    /// Returns it as the changes see it.
    fn transaction(&self) -> sql::Transaction<'_>;

    /// Begins a change.
    fn begin_change(&mut self) -> sql::Result<()>;

    /// Keeps the change for the commit.
    fn keep_change(&mut self) -> sql::Result<()>;

    /// Undoes the change. Those before it stay.
    fn undo_change(&mut self) -> sql::Result<()>;

    /// Returns `true` if a failure has ended the whole transaction.
    fn is_over(&self) -> bool;

    fn commit(self) -> sql::Result<()>;
}

/// The outcome of an attempt to make a change.
enum Attempt {
    Kept,
    Undone(sql::Error),
    Panicked,
}

/// Returns `true` if all changes are messages, and [`post_as_one`] can post them.
pub(super) fn are_posts(changes: &VecDeque<PendingChange>) -> bool {
    let bytes: Option<usize> = changes.iter().map(size).sum();
    bytes.is_some_and(|bytes| bytes < MAX_TOGETHER)
}

/// Posts messages by a transaction that was begun for one change. Returns `false` if they were not posted, and have to be tried
/// as other changes are.
///
/// # Errors
///
/// Returns the failure that would be that of each of them.
pub(super) fn post_as_one<B: Batch>(mut batch: B, posts: &VecDeque<PendingChange>) -> sql::Result<bool> {
    match attempt(&mut batch, |transaction| post_together(transaction, posts)) {
        Ok(Attempt::Kept) => match batch.commit() {
            Ok(()) => Ok(true),
            // The database refuses one of them, and has undone all.
            Err(error) if error.cause() == Cause::Statement => Ok(false),
            Err(error) => Err(error),
        },
        Ok(Attempt::Undone(_) | Attempt::Panicked) => Ok(false),
        // The connection broke before the commit was sent, so nothing is posted. Another one may work.
        Err(error) if error.cause() == Cause::Unreachable => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the changes one after the other and commits them. The callbacks of changes that depend on the commit are added to
/// `waiting`.
///
/// # Errors
///
/// Returns the failure that ended the transaction. Changes that were not begun yet are left in `changes`.
pub(super) fn make<B: Batch>(
    mut batch: B,
    changes: &mut VecDeque<PendingChange>,
    waiting: &mut Vec<CommitCallback>,
    condition: &StorageHealth,
) -> sql::Result<()> {
    while let Some(change) = changes.pop_front() {
        let mut group = VecDeque::from([change]);
        take_posts(changes, &mut group);
        if group.len() > 1 {
            match attempt(&mut batch, |transaction| post_together(transaction, &group)) {
                Ok(Attempt::Undone(_) | Attempt::Panicked) => {}
                done => {
                    waiting.extend(group.into_iter().map(|change| change.answer));
                    done?;
                    continue;
                }
            }
        }
        while let Some(PendingChange { work, answer, .. }) = group.pop_front() {
            match attempt(&mut batch, |transaction| work.run(transaction)) {
                Ok(Attempt::Kept) => waiting.push(answer),
                Ok(Attempt::Undone(error)) => {
                    condition.write_failed(&error);
                    answer(Err(error));
                }
                // The callback is dropped without an answer, from which its caller gets `StoreError::Stopped`.
                Ok(Attempt::Panicked) => {
                    tracing::error!("a change of the database panicked and was rolled back");
                }
                Err(error) => {
                    waiting.push(answer);
                    waiting.extend(group.into_iter().map(|change| change.answer));
                    return Err(error);
                }
            }
        }
    }
    batch.commit()
}

/// Adds the changes at the front to the group that are messages, if the group's own change is one.
fn take_posts(changes: &mut VecDeque<PendingChange>, group: &mut VecDeque<PendingChange>) {
    let Some(mut bytes) = group.front().and_then(size) else { return };
    while let Some(next) = changes.pop_front_if(|next| size(next).is_some() && bytes < MAX_TOGETHER) {
        bytes += size(&next).unwrap_or_default();
        group.push_back(next);
    }
}

/// Returns the size of a message's text, in bytes. `None` for another change.
pub(super) fn size(change: &PendingChange) -> Option<usize> {
    match &change.work {
        Work::Post(pending) => Some(pending.new.content.len()),
        Work::Any(_) => None,
    }
}

/// Posts the messages of a group by one change.
fn post_together(transaction: &sql::Transaction<'_>, group: &VecDeque<PendingChange>) -> sql::Result<()> {
    let pending = || {
        group.iter().filter_map(|change| match &change.work {
            Work::Post(pending) => Some(&**pending),
            Work::Any(_) => None,
        })
    };
    let posts: Vec<_> = pending().map(|PendingPost { new, .. }| new).collect();
    let outcomes = post::post_all(transaction, &posts)?;
    pending().zip(outcomes).for_each(|(pending, outcome)| pending.outcome.fill(outcome));
    Ok(())
}

/// Makes one change, and undoes it if it fails.
///
/// # Errors
///
/// Returns the failure that ended the whole transaction.
fn attempt<B: Batch>(
    batch: &mut B,
    work: impl FnOnce(&sql::Transaction<'_>) -> sql::Result<()>,
) -> sql::Result<Attempt> {
    batch.begin_change()?;
    // A panic in one change must not stop the thread for all others.
    let done = catch_unwind(AssertUnwindSafe(|| work(&batch.transaction())));
    match done.map(|done| done.and_then(|()| batch.keep_change())) {
        Ok(Ok(())) => Ok(Attempt::Kept),
        // Some failures, such as a full disk, end the whole transaction.
        Ok(Err(error)) if batch.is_over() => Err(error),
        Ok(Err(error)) => {
            batch.undo_change()?;
            Ok(Attempt::Undone(error))
        }
        Err(_) => {
            batch.undo_change()?;
            Ok(Attempt::Panicked)
        }
    }
}

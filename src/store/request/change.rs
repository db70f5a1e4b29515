//! The changes of a request, from its beginning to its end.

use std::sync::atomic::Ordering;

use super::{
    Along, NewRequest, RequestRow, RequestState, RequestStep, RequestTransition, digest, find, next,
};
use crate::clock::MAX_DIFFERENCE;
use crate::id::ChannelId;
use crate::store::audit::{self, AuditEntry, Level};
use crate::store::notice::NoticeKind;
use crate::store::sql::{self, Transaction, params};
use crate::store::subjects::Requests;
use crate::store::{Store, StoreError, exchange, gateway_group};

/// Returns `true` if the time of a request is over. If several gateways use the database, it is over by the clocks of all: the
/// time in its row is by the clock of the one that made it.
fn is_over(transaction: &Transaction<'_>, found: &RequestRow, now: i64) -> sql::Result<bool> {
    let since = now.saturating_sub(found.expires_at);
    Ok(since >= MAX_DIFFERENCE || since >= 0 && !gateway_group::is_made(transaction)?)
}

/// Takes a step if the current state allows it. A request whose time is over is expired instead of approved or begun.
pub(super) fn take(
    transaction: &Transaction<'_>,
    id: &str,
    step: RequestStep,
    now: i64,
) -> sql::Result<RequestTransition> {
    let Some(found) = find(transaction, id)? else { return Ok(RequestTransition::Unknown) };
    let Some(state) = next(found.state, found.level, step) else { return Ok(RequestTransition::Not(found)) };
    // Other steps need no check: a denial or a result is true however late it comes.
    let is_over =
        matches!(step, RequestStep::Approve | RequestStep::Begin) && is_over(transaction, &found, now)?;
    let state = if is_over { RequestState::Expired } else { state };
    let ends = !state.is_open();
    transaction
        .prepare_cached(
            "UPDATE request SET state = ?2,
                ended_at = CASE WHEN CAST(?3 AS BIGINT) <> 0 THEN ?4 ELSE ended_at END WHERE id = ?1",
        )?
        .execute((id, state, ends, now))?;
    let Some(found) = find(transaction, id)? else { return Ok(RequestTransition::Unknown) };
    if !is_over {
        return Ok(RequestTransition::Done(found));
    }
    let entry = AuditEntry {
        actor: "system".to_owned(),
        action: "request.expire",
        subject: id.to_owned(),
        level: found.level,
        detail: String::new(),
        session: None,
        turn: None,
    };
    audit::append(transaction, &entry, now)?;
    Ok(RequestTransition::Expired(found))
}

/// Returns the result of a change that was made.
pub(super) fn changed(transaction: &Transaction<'_>, id: &str) -> sql::Result<RequestTransition> {
    Ok(find(transaction, id)?.map_or(RequestTransition::Unknown, RequestTransition::Done))
}

fn to_json(reasons: &[String]) -> String {
    serde_json::to_string(reasons).unwrap_or_else(|_| "[]".to_owned())
}

impl Requests<&Store> {
    /// Adds a request. Returns `false` if the id is in use, and the caller takes another one.
    pub async fn add(self, new: NewRequest, along: Along) -> Result<bool, StoreError> {
        self.write("keep a request", move |transaction| {
            // A new request starts at its lowest level: `?9` is bound to both columns.
            let level = new.floor.as_str();
            let inserted = transaction
                .prepare_cached(
                    "INSERT INTO request (id, kind, agent, session, channel, body, sha256, reason,
                        floor, level, why, state, scope, created_at, expires_at, asks_sysadmin)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
                     ON CONFLICT DO NOTHING",
                )?
                .execute(params![
                    new.id,
                    new.kind,
                    new.agent.as_str(),
                    new.session.as_str(),
                    new.channel.as_ref().map(ChannelId::as_str),
                    new.body,
                    digest(&new.body),
                    new.reason,
                    level,
                    to_json(&new.why),
                    new.state,
                    new.scope.as_str(),
                    new.now,
                    new.expires_at,
                    new.asks_sysadmin,
                ])?;
            // A refused id must leave nothing in the audit or in an inbox.
            if inserted == 1 {
                along.write(transaction, new.now)?;
                if let Some(exchange) = &new.exchange {
                    exchange::add(transaction, exchange)?;
                }
            }
            Ok(inserted == 1)
        })
        .await
    }

    /// Takes a step that has no condition besides the state: hold, deny, expire, answer, finish or fail. `result` is a
    /// text about the outcome.
    pub(crate) async fn step(
        self,
        id: String,
        step: RequestStep,
        result: Option<String>,
        along: Along,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        let moved = self.write("change a request", move |transaction| {
            // These two steps have more conditions, and functions of their own.
            if matches!(step, RequestStep::Approve | RequestStep::Begin) {
                return Ok(find(transaction, &id)?.map_or(RequestTransition::Unknown, RequestTransition::Not));
            }
            let moved = take(transaction, &id, step, now)?;
            if !matches!(moved, RequestTransition::Done(_)) {
                return Ok(moved);
            }
            // Of the steps that are allowed here, only a denial is a decision.
            let decides = step == RequestStep::Deny;
            let decided_by = decides.then_some(along.entry.actor.as_str());
            transaction
                .prepare_cached(
                    "UPDATE request SET result = coalesce(?2, result), decided_by = coalesce(?3, decided_by),
                        decided_at = coalesce(?4, decided_at) WHERE id = ?1",
                )?
                .execute((&id, &result, decided_by, decides.then_some(now)))?;
            along.write(transaction, now)?;
            // A call may wait for the answer at another gateway.
            if decides || step == RequestStep::Expire {
                transaction.tell(NoticeKind::Request, &id);
            }
            // What is done is a grant from now on.
            if step == RequestStep::Finish {
                transaction.tell(NoticeKind::Grant, "");
            }
            changed(transaction, &id)
        });
        let moved = moved.await;
        // Counted even after an error: an outdated count would keep a stale cache, while one count too many costs only
        // a new read.
        self.0.access.grants.fetch_add(1, Ordering::SeqCst);
        moved
    }

    /// Approves exactly the body with this digest, in the name of the person in the audit row. The request must begin
    /// before `expires_at`.
    pub(crate) async fn approve(
        self,
        id: String,
        sha256: String,
        expires_at: i64,
        along: Along,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        self.write("approve a request", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(RequestTransition::Unknown) };
            // The digest is compared with the stored one and with the body itself, so an edited row can't be approved.
            if found.sha256 != sha256 || digest(&found.body) != sha256 {
                return Ok(RequestTransition::Changed(found));
            }
            let moved = take(transaction, &id, RequestStep::Approve, now)?;
            if !matches!(moved, RequestTransition::Done(_)) {
                return Ok(moved);
            }
            // Until now the deadline was that of the decision. From here on it is that of the start.
            transaction
                .prepare_cached(
                    "UPDATE request SET decided_by = ?2, decided_at = ?3, approved = ?4, expires_at = ?5
                     WHERE id = ?1",
                )?
                .execute((&id, &along.entry.actor, now, &sha256, expires_at))?;
            along.write(transaction, now)?;
            // The agent's gateway begins it at once. A crash of the server must not take the approval back after that.
            transaction.wait_for_disk()?;
            transaction.tell(NoticeKind::Request, &id);
            changed(transaction, &id)
        })
        .await
    }

    /// Marks a request as begun if it may begin.
    ///
    /// It must be in time, must never have begun before, and must not wait for the sysadmin. Its body must still be the
    /// one that was asked for and, if a person decides, the one that was approved. A request with another body fails
    /// permanently, and [`RequestTransition::Changed`] is returned.
    pub(crate) async fn begin(
        self,
        id: String,
        entry: AuditEntry,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        self.write("begin a request", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(RequestTransition::Unknown) };
            let may_begin = next(found.state, found.level, RequestStep::Begin).is_some();
            // `used_at` is a second guard against beginning twice, independent of the state.
            if !may_begin || found.used_at.is_some() || found.asks_sysadmin {
                return Ok(RequestTransition::Not(found));
            }
            // A body must match its approval if the request was approved or needs an approval.
            let held = found.level == Level::Red || found.state == RequestState::Approved;
            let actual = digest(&found.body);
            let intact = actual == found.sha256 && (!held || found.approved.as_ref() == Some(&actual));
            let moved = take(transaction, &id, RequestStep::Begin, now)?;
            let RequestTransition::Done(found) = moved else { return Ok(moved) };
            transaction
                .prepare_cached("UPDATE request SET used_at = ?2 WHERE id = ?1")?
                .execute((&id, now))?;
            if intact {
                audit::append(transaction, &entry, now)?;
                return Ok(RequestTransition::Done(RequestRow { used_at: Some(now), ..found }));
                // The row goes through Running to Failed, so that it can't begin again.
            }
            take(transaction, &id, RequestStep::Fail, now)?;
            let result = "not run: it is not what was asked for and approved";
            transaction
                .prepare_cached("UPDATE request SET result = ?2 WHERE id = ?1")?
                .execute((&id, result))?;
            let entry = AuditEntry { level: Level::Red, detail: result.to_owned(), ..entry };
            audit::append(transaction, &entry, now)?;
            Ok(RequestTransition::Changed(find(transaction, &id)?.unwrap_or(found)))
        })
        .await
    }

    /// Raises the level of a request and adds the reason. A level that needs a person moves the request to
    /// [`RequestState::Waiting`].
    ///
    /// Returns [`RequestTransition::Not`] if the new level is not higher, or if the request is past its decision.
    pub(crate) async fn raise(
        self,
        id: String,
        level: Level,
        why: String,
        along: Along,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        self.write("raise a request's level", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(RequestTransition::Unknown) };
            let early = matches!(found.state, RequestState::Triage | RequestState::Waiting);
            if !early || level <= found.level {
                return Ok(RequestTransition::Not(found));
            }
            // A raise also answers the question to the sysadmin, so the flag is cleared with it.
            let reasons = to_json(&[&found.why[..], std::slice::from_ref(&why)].concat());
            transaction
                .prepare_cached("UPDATE request SET level = ?2, why = ?3, asks_sysadmin = 0 WHERE id = ?1")?
                .execute((&id, level.as_str(), reasons))?;
            if level == Level::Red && found.state == RequestState::Triage {
                take(transaction, &id, RequestStep::Hold, now)?;
            }
            along.write(transaction, now)?;
            changed(transaction, &id)
        })
        .await
    }

    /// Records that the sysadmin lets a waiting request begin. Returns [`RequestTransition::Not`] if it does not wait for the
    /// sysadmin.
    pub(crate) async fn release(
        self,
        id: String,
        why: String,
        along: Along,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        self.write("let a request begin", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(RequestTransition::Unknown) };
            if !found.asks_sysadmin || found.state != RequestState::Triage {
                return Ok(RequestTransition::Not(found));
            }
            let reasons = to_json(&[&found.why[..], std::slice::from_ref(&why)].concat());
            transaction
                .prepare_cached("UPDATE request SET why = ?2, asks_sysadmin = 0 WHERE id = ?1")?
                .execute((&id, reasons))?;
            along.write(transaction, now)?;
            transaction.tell(NoticeKind::Request, &id);
            changed(transaction, &id)
        })
        .await
    }
}

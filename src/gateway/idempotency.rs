//! Handles the header `Idempotency-Key`. A request that a client sends again under the same key counts as the same
//! request and gets the outcome of the first one, for a day and even after a restart. A repeat that arrives while the
//! first request runs waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::error::ApiError;
use super::state::Gateway;
use crate::clock::unix_ms;
use crate::error::chain;
use crate::id::{SessionKey, TurnId};
use crate::store::{IdempotencyKey, KeyedRequest, StoreError, TurnState, text_digest};
use crate::sync::lock;

/// Name of the request header with the key.
pub(crate) const HEADER: &str = "idempotency-key";
/// Name of the response header that is `true` if the response belongs to an earlier request.
pub(crate) const REPLAYED_HEADER: &str = "idempotent-replayed";

/// Most bytes in a key.
const MAX_KEY_BYTES: usize = 255;

/// Returns the idempotency key of a request, if it has one. `said` holds the parts that must be equal in a repeat under
/// the same key.
///
/// # Errors
///
/// Returns 400 if the header is not a valid key.
pub(crate) fn key(
    headers: &HeaderMap,
    caller: &str,
    said: &[&[u8]],
) -> Result<Option<IdempotencyKey>, ApiError> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let fits = |name: &&str| (1..=MAX_KEY_BYTES).contains(&name.len());
    let Some(name) = value.to_str().ok().map(str::trim).filter(fits) else {
        let message = format!("the header {HEADER} is 1 to {MAX_KEY_BYTES} printable ASCII characters");
        return Err(ApiError::invalid("invalid_idempotency_key", message));
    };
    let mut all = Vec::new();
    for part in said {
        // Each part is preceded by its length, so that text that moves from one part to the next makes a different
        // request.
        all.extend_from_slice(&part.len().to_be_bytes());
        all.extend_from_slice(part);
    }
    let digest = text_digest(&crate::id::hex(&all));
    Ok(Some(IdempotencyKey { caller: caller.to_owned(), name: name.to_owned(), digest }))
}

/// The keys whose first request runs in this process.
#[derive(Debug, Default)]
pub(crate) struct RunningKeys(Mutex<HashMap<(String, String), watch::Receiver<()>>>);

/// The entry of a running key. Repeats that wait for it continue when it is dropped.
struct KeyGuard {
    gateway: Arc<Gateway>,
    name: (String, String),
    _ends: watch::Sender<()>,
}

impl KeyGuard {
    /// Takes the entry of this key. If a request with the key runs, the error is a receiver that closes when that
    /// request ends.
    fn take(gateway: &Arc<Gateway>, key: &IdempotencyKey) -> Result<Self, watch::Receiver<()>> {
        let name = (key.caller.clone(), key.name.clone());
        let mut running = lock(&gateway.keys.0);
        if let Some(first) = running.get(&name) {
            return Err(first.clone());
        }
        let (ends, waits) = watch::channel(());
        running.insert(name.clone(), waits);
        drop(running);
        Ok(Self { gateway: Arc::clone(gateway), name, _ends: ends })
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        lock(&self.gateway.keys.0).remove(&self.name);
    }
}

/// The outcome of a request in the form in which it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum StoredOutcome {
    Answer(Value),
    Failure { status: u16, code: String, message: String, hint: Option<String> },
}

/// The first request under a key. [`Self::end`] stores its outcome. If this is dropped before [`Self::began`] was
/// called, the request did nothing and the key becomes free.
pub(crate) struct Claim {
    key: IdempotencyKey,
    /// The turn for which it was claimed. After a late end, the key may be another one's.
    turn: TurnId,
    hold: Option<KeyGuard>,
    began: bool,
}

/// An earlier request under the same key.
pub(crate) struct EarlierRequest {
    pub session: SessionKey,
    pub turn: TurnId,
    /// Unix milliseconds at which it was sent.
    pub created_at: i64,
    /// The stored response.
    pub answer: Value,
}

/// The request that a key stands for.
pub(crate) enum ClaimOutcome {
    /// The current request, with its claim if it has a key.
    Now(Option<Claim>),
    /// An earlier request.
    Before(Box<EarlierRequest>),
}

/// Claims the key for the request that begins this turn, or waits for the end of the request that holds the key.
///
/// # Errors
///
/// Returns 422 if the key was used for a different request, the stored failure of the earlier request, or the store's
/// error if the database can't be read or written.
pub(crate) async fn claim(
    gateway: &Arc<Gateway>,
    key: Option<IdempotencyKey>,
    session: &SessionKey,
    turn: TurnId,
) -> Result<ClaimOutcome, ApiError> {
    let Some(key) = key else { return Ok(ClaimOutcome::Now(None)) };
    let store = gateway.swarm.store();
    loop {
        let hold = match KeyGuard::take(gateway, &key) {
            Ok(hold) => hold,
            Err(mut first) => {
                // Nothing is ever sent, so an error here means that the other request has ended.
                drop(first.changed().await);
                continue;
            }
        };
        // The entry in memory only orders requests of this process. The row makes the key hold across a restart.
        let known = store.idempotency_keys().claim(key.clone(), session.clone(), turn, unix_ms()).await;
        let Some(known) = known.map_err(ApiError::explained)? else {
            return Ok(ClaimOutcome::Now(Some(Claim { key, turn, hold: Some(hold), began: false })));
        };
        if known.digest != key.digest {
            return Err(key_reused());
        }
        let (Some(session), Some(turn)) = (known.session.clone(), known.turn) else {
            return Err(key_reused());
        };
        let Some(kept) = known_outcome(gateway, &key, &known, &session, turn).await? else {
            // The earlier request did nothing, so its key is free for this one.
            store.idempotency_keys().release(key.clone(), turn).await.map_err(ApiError::explained)?;
            continue;
        };
        let created_at = known.created_at;
        return match kept {
            StoredOutcome::Answer(answer) => {
                Ok(ClaimOutcome::Before(Box::new(EarlierRequest { session, turn, created_at, answer })))
            }
            StoredOutcome::Failure { status, code, message, hint } => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FAILED_DEPENDENCY);
                let mut error = ApiError::new(status, code, message).finally().of_turn(&session, turn);
                error.hint = hint;
                Err(error)
            }
        };
    }
}

fn key_reused() -> ApiError {
    ApiError::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "idempotency_key_reused",
        "another request was sent under this idempotency key in the last 24 hours",
    )
}

/// Returns the outcome of a known request, or `None` if it never began. If a gateway was killed in the middle of the
/// request, its turn is looked up.
async fn known_outcome(
    gateway: &Gateway,
    key: &IdempotencyKey,
    known: &KeyedRequest,
    session: &SessionKey,
    turn: TurnId,
) -> Result<Option<StoredOutcome>, ApiError> {
    if let Some(answer) = &known.answer {
        return serde_json::from_str(answer).map(Some).map_err(ApiError::internal);
    }
    let store = gateway.swarm.store();
    // The key was claimed, but the turn never got a row: nothing was done.
    let Some(row) = store.turns().find(turn).await.map_err(ApiError::explained)? else { return Ok(None) };
    let answer = if row.state == TurnState::Done {
        let engine = &gateway.engine;
        match engine.handed_out(session, turn).await.map_err(ApiError::explained)? {
            Some((text, calls)) => Some((text, "tool_calls", calls)),
            None => {
                let stored = engine.answer_of(session, turn).await.map_err(ApiError::explained)?;
                stored.map(|stored| (stored.content, "stop", Vec::new()))
            }
        }
    } else {
        None
    };
    let kept = match answer {
        Some((text, stop, calls)) => StoredOutcome::Answer(serde_json::json!({
            "text": text,
            "stop": stop,
            "calls": calls,
            "model": row.model,
            "steps": row.steps,
            "usage": {"input": row.tokens.input, "output": row.tokens.output,
                "cacheRead": row.tokens.cache_read, "cacheWrite": row.tokens.cache_write},
        })),
        None => StoredOutcome::Failure {
            status: StatusCode::FAILED_DEPENDENCY.as_u16(),
            code: "interrupted".to_owned(),
            message: row.error.unwrap_or_else(|| {
                "the gateway stopped while this turn ran; what it did is in its session".to_owned()
            }),
            hint: Some(format!("flock session show {session}")),
        },
    };
    // The outcome is stored, so a further repeat does not have to look at the turn again.
    store_outcome(gateway, key, turn, &kept).await;
    Ok(Some(kept))
}

async fn store_outcome(gateway: &Gateway, key: &IdempotencyKey, turn: TurnId, kept: &StoredOutcome) {
    let Ok(text) = serde_json::to_string(kept) else { return };
    let keys = gateway.swarm.store().idempotency_keys();
    if let Err(error) = keys.set_answer(key.clone(), turn, text).await {
        tracing::error!(error = chain(&error), "failed to keep the answer to a request");
    }
}

impl Claim {
    /// Records that the turn was accepted. From now on only its end tells if it did something.
    pub(crate) const fn began(&mut self) {
        self.began = true;
    }

    /// Stores the outcome of the request. If the turn failed without doing anything, the key becomes free, so the
    /// client may try again with it.
    pub(crate) async fn end(mut self, ended: &Result<Value, ApiError>) {
        self.began = true;
        let Some(hold) = self.hold.take() else { return };
        let gateway = Arc::clone(&hold.gateway);
        let kept = match ended {
            Ok(answer) => StoredOutcome::Answer(answer.clone()),
            Err(error) if !error.did_something => {
                free(&gateway, self.key.clone(), self.turn).await;
                return;
            }
            Err(error) => StoredOutcome::Failure {
                status: error.status.as_u16(),
                code: error.code.to_string(),
                message: error.message.clone(),
                hint: error.hint.clone(),
            },
        };
        store_outcome(&gateway, &self.key, self.turn, &kept).await;
        // The entry is released only now, so that a waiting repeat finds the stored outcome.
        drop(hold);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(hold) = self.hold.take().filter(|_| !self.began) else { return };
        let (key, turn) = (self.key.clone(), self.turn);
        // `drop` can't wait for the database, so a task frees the key.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { free(&hold.gateway, key, turn).await });
        }
    }
}

async fn free(gateway: &Gateway, key: IdempotencyKey, turn: TurnId) {
    let freed: Result<(), StoreError> = gateway.swarm.store().idempotency_keys().release(key, turn).await;
    if let Err(error) = freed {
        tracing::error!(error = chain(&error), "failed to free an idempotency key");
    }
}

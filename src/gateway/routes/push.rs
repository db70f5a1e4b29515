//! `/api/dashboard/push`: the notifications of the browser that asks, by Web Push.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::JsonResult;
use crate::clock::unix_ms;
use crate::error::chain;
use crate::gateway::auth::{BrowserCaller, Caller};
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::push::endpoint;
use crate::gateway::push::subscribe::{self, BrowserSubscription};
use crate::gateway::state::Gateway;
use crate::store::{MAX_SUBSCRIPTIONS, PushSubscription};

/// Returns the gateway's public key for push services, and the subscription of the browser.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
) -> JsonResult {
    let browser = browser(&caller)?;
    let owner = Arc::clone(&gateway);
    let key = tokio::task::spawn_blocking(move || owner.vapid.get(owner.home())).await;
    let key = key.map_err(ApiError::internal)?.map_err(|error| {
        tracing::error!(error = chain(&error), "the key for push services can't be used");
        ApiError::internal(error)
    })?;
    let known = gateway.swarm.store().push_subscriptions().list(unix_ms()).await;
    let known = known.map_err(ApiError::explained)?;
    let own = known.iter().find(|known| known.sign_in == browser.sign_in);
    Ok(axum::Json(json!({"publicKey": key.public(), "subscription": own.map(describe)})))
}

/// Subscribes the browser, in place of an earlier subscription of it.
pub(crate) async fn subscribe(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    JsonBody(described): JsonBody<BrowserSubscription>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let browser = browser(&caller)?;
    let new = subscribe::checked(&browser.sign_in, &described, gateway.limits.push, unix_ms());
    let new = new.map_err(|bad| {
        let message = format!("{} can't be used: {}", bad.field, bad.problem);
        ApiError::invalid("invalid_subscription", message)
    })?;
    let shown = describe(&new);
    if !subscribe::add(&gateway, &browser.person, new).await.map_err(ApiError::explained)? {
        let message = format!("{MAX_SUBSCRIPTIONS} browsers get notifications already");
        let error = ApiError::conflict("too_many_subscriptions", message);
        return Err(error.with_hint("flock dashboard sessions"));
    }
    Ok((StatusCode::CREATED, axum::Json(json!({"subscription": shown}))))
}

/// Ends the subscription of the browser.
pub(crate) async fn unsubscribe(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
) -> JsonResult {
    let browser = browser(&caller)?;
    let ended = subscribe::end(&gateway, &browser.person, &browser.sign_in).await;
    let ended = ended.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"ended": ended})))
}

/// Returns a subscription in the JSON form of the API. Its address and keys are secrets.
pub(crate) fn describe(subscription: &PushSubscription) -> Value {
    json!({
        "service": endpoint::service(&subscription.endpoint),
        "createdAt": subscription.created_at,
        "result": subscription.result,
        "resultAt": subscription.result_at,
        "failures": subscription.failures,
    })
}

fn browser(caller: &Caller) -> Result<&BrowserCaller, ApiError> {
    match caller {
        Caller::Browser(browser) => Ok(browser),
        _ => Err(ApiError::forbidden("browser_only", "notifications belong to a browser that is signed in")
            .with_hint("flock dashboard")),
    }
}

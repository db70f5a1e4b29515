//! The turns of the other gateways.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Full, Limited};

use super::connection;
use crate::error::chain;
use crate::gateway::routes::sessions::{ShownTurn, shown_turns};
use crate::gateway::state::Gateway;
use crate::store::{Epoch, LivingGateway};

/// The path of the list at the port for gateways.
const PATH: &str = "/turns";
/// Longest time for the answer of a gateway. A list is shown without those of one that is slower.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 16 << 20;

/// Answers another gateway with the turns of this one. Returns `None` if it asks for something else.
pub(super) fn answer(gateway: &Gateway, path: &str) -> Option<Response<Body>> {
    (path == PATH).then(|| Json(shown_turns(gateway)).into_response())
}

/// Returns the turns that run or wait at the other gateways.
pub(in crate::gateway) async fn turns(gateway: &Gateway) -> Vec<ShownTurn> {
    ask_all(gateway).await.into_values().flatten().collect()
}

/// Returns the numbers of turns that run and that wait at each of the other gateways which answers.
pub(in crate::gateway) async fn counts(gateway: &Gateway) -> BTreeMap<Epoch, (usize, usize)> {
    let count = |turns: Vec<ShownTurn>| {
        let waiting = turns.iter().filter(|turn| turn.state == "waiting").count();
        (turns.len() - waiting, waiting)
    };
    ask_all(gateway).await.into_iter().map(|(epoch, turns)| (epoch, count(turns))).collect()
}

async fn ask_all(gateway: &Gateway) -> BTreeMap<Epoch, Vec<ShownTurn>> {
    let others = gateway.swarm.ownership().others();
    let asked = others.into_iter().filter(|other| other.peer.is_some()).map(|other| async move {
        match tokio::time::timeout(TIMEOUT, ask(gateway, &other)).await {
            Ok(Ok(turns)) => Some((other.epoch, turns)),
            Ok(Err(error)) => {
                tracing::warn!(
                    gateway = other.name,
                    error = chain(&*error),
                    "failed to ask a gateway for its turns"
                );
                None
            }
            Err(_) => {
                tracing::warn!(gateway = other.name, "a gateway did not tell its turns in time");
                None
            }
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn ask(
    gateway: &Gateway,
    other: &LivingGateway,
) -> Result<Vec<ShownTurn>, Box<dyn std::error::Error + Send + Sync>> {
    let Some(key) = gateway.peer_key.get() else { return Ok(Vec::new()) };
    let request = Request::get(PATH).header("host", "flock").body(Full::new(Bytes::new()))?;
    let answer = connection::send(key, other, gateway.swarm.ownership(), request).await?;
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await?.to_bytes();
    Ok(serde_json::from_slice(&body)?)
}

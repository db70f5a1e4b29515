//! The other gateways of a group: requests are passed on to the one that has the agent.
//!
//! Each gateway has a second port for the others alone. Both ends of a connection show the keys that are in their rows of the
//! database, so a connection is as secret and as sure as TLS makes it, on one machine or between two.
//!
//! | file | subject |
//! |---|---|
//! | `key` | the key of this run, and TLS with it |
//! | `listener` | the port for the others |
//! | `connection` | one request to another gateway |
//! | `statement` | who asked, as one gateway tells another |
//! | `routing` | which agent a request is about |
//! | `forward` | passing it on |
//! | `follow` | the events of the others |
//! | `turns` | their turns |
//! | `mcp_call` | calls of MCP servers that they run |

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};

use super::state::Gateway;

mod connection;
mod follow;
mod forward;
mod key;
mod listener;
mod mcp_call;
mod routing;
mod statement;
mod turns;

pub(super) use follow::run as follow_events;
pub(super) use forward::{ELSEWHERE, Placed, place};
pub(crate) use key::PeerKey;
pub(super) use listener::{PeersError, open, serve};
pub(super) use mcp_call::{answer as answer_mcp_call, call as call_mcp_server, is_call as is_mcp_call};
pub(crate) use statement::OwnerLogin;
pub(super) use statement::{HEADER, StatedCaller, Statement};
pub(super) use turns::{counts, turns};

/// Answers what only gateways ask. Returns `None` for a request that is passed on.
pub(super) fn answer<B>(gateway: &Arc<Gateway>, request: &Request<B>) -> Option<Response<Body>> {
    let (path, query) = (request.uri().path(), request.uri().query());
    turns::answer(gateway, path).or_else(|| follow::answer(gateway, path, query, request.headers()))
}

//! Git's protocol over HTTP for the agents of a project. Only sandboxes reach it, through the port on which their helper
//! listens; the gateway's own port does not have it. So the agent is known from the sandbox that a request comes from,
//! and there is no credential that could leak.
//!
//! In a sandbox the address is `http://127.0.0.1:3128/git/PROJECT`. [`service`] takes a request, [`upload_pack`] answers
//! `git fetch` and [`receive_pack`] answers `git push`. Version 0 of the protocol is spoken: a client that asks for a
//! newer one goes on with this one.

mod advertisement;
mod packet;
mod receive_pack;
mod request_body;
mod service;
mod upload_pack;

pub use service::{GitService, PushListener};

/// The prefix of the paths that this serves.
pub(crate) const PREFIX: &str = "/git/";

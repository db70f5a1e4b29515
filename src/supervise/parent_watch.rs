//! The connection of a supervised process to its supervisor.
//!
//! The standard input of the process is a pipe whose other end only the supervisor holds. When the supervisor is gone,
//! even after `kill -9`, the pipe closes, and the process stops by itself instead of running unsupervised.
//!
//! `PR_SET_PDEATHSIG` is not used: it fires when the *thread* that spawned the process ends, and it allows no graceful
//! stop.

use std::os::fd::AsFd as _;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use crate::env;

/// Waits until the supervisor of this process is gone. Never returns if there is no supervisor.
///
/// Call it once, and stop gracefully when it returns. Standard error may be closed by then: a write to it fails, which
/// must not end the process.
pub(crate) async fn wait_for_supervisor_exit() {
    if env::SUPERVISED.get_os().is_some()
        && let Some(mut pipe) = standard_input()
    {
        let mut piece = [0; 64];
        // The supervisor writes nothing. Data that arrives by mistake is not the end.
        while matches!(pipe.read(&mut piece).await, Ok(1..)) {}
        return;
    }
    std::future::pending::<()>().await;
}

fn standard_input() -> Option<Receiver> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
    Receiver::from_owned_fd(input).ok()
}

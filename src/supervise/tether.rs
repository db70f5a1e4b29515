//! What ties a supervised process to its supervisor: its standard input is a pipe whose other end only the
//! supervisor holds. When the supervisor is gone, also by `kill -9`, the pipe ends, and the process stops by
//! itself instead of living on without anybody who watches it.
//!
//! `PR_SET_PDEATHSIG` was refused: it fires when the *thread* that spawned the process ends, and knows
//! nothing of a graceful stop.

use std::os::fd::AsFd as _;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use crate::env;

/// Returns when the supervisor of this process is gone. Where there is none, it never returns.
///
/// Call it once, and stop gracefully when it returns. Standard error may be closed by then: a write to it
/// fails, and must not end the process.
pub async fn released() {
    if env::SUPERVISED.get_os().is_some()
        && let Some(mut pipe) = standard_input()
    {
        let mut piece = [0; 64];
        // The supervisor writes nothing; what came by mistake is no end.
        while matches!(pipe.read(&mut piece).await, Ok(1..)) {}
        return;
    }
    std::future::pending::<()>().await;
}

fn standard_input() -> Option<Receiver> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
    Receiver::from_owned_fd(input).ok()
}

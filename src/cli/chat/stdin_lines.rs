//! Lines from stdin, as a person types them.

use std::io::BufRead as _;

use tokio::sync::mpsc;

/// Reads lines until the end of stdin.
///
/// The thread is not joined: it blocks in a read that only the person can end, and it must not keep the process alive.
pub(crate) fn read() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

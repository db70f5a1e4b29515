//! A person's lines, as they type them.

use std::io::BufRead as _;

use tokio::sync::mpsc;

/// Reads lines until the end of stdin. The thread is left alone when nobody waits any more: it hangs in a
/// read that only the person can end, and must not keep the process.
pub fn read() -> mpsc::Receiver<String> {
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

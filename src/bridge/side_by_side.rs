//! Attempts at sending that go on side by side, one for each place.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::Notify;

use crate::clock::unix_ms;

/// Messages that wait to be sent to places. A place takes one after the other.
pub(super) trait Waiting {
    type Message;
    type Error;
    type Place: Clone + Eq + Hash;

    fn place(message: &Self::Message) -> Self::Place;

    /// Returns the time in Unix milliseconds before which a message is not tried.
    fn next_at(message: &Self::Message) -> i64;

    /// Returns what waits, the oldest first.
    async fn look(&self) -> Result<Vec<Self::Message>, Self::Error>;

    /// Attempts to send a message, and records the result.
    async fn attempt(&self, message: Self::Message) -> Result<(), Self::Error>;
}

/// Attempts what is due until nothing is. Returns the time in Unix milliseconds at which the next one is, if any waits.
///
/// It looks again when an attempt has ended, when something becomes due, and after `wake`. So a place whose platform does
/// not answer holds up no other place.
///
/// # Errors
///
/// Returns the first error. The attempts that are under way are dropped.
pub(super) async fn attempt_due<W: Waiting>(wake: &Notify, queue: &W) -> Result<Option<i64>, W::Error> {
    let mut attempts = FuturesUnordered::new();
    let mut busy = HashSet::new();
    loop {
        // No attempt goes on during the look, so what it finds for a place that is not busy is not being sent.
        let waiting = queue.look().await?;
        let now = unix_ms();
        let later = waiting.iter().map(W::next_at).filter(|&at| at > now).min();
        for one in waiting {
            let place = W::place(&one);
            if W::next_at(&one) <= now && busy.insert(place.clone()) {
                attempts.push(async move { (place, queue.attempt(one).await) });
            }
        }
        if attempts.is_empty() {
            return Ok(later);
        }
        let mut ended = tokio::select! {
            ended = attempts.next() => ended,
            () = wake.notified() => None,
            () = until(later) => None,
        };
        // All that have ended need one look, not one each.
        while let Some((place, result)) = ended {
            result?;
            busy.remove(&place);
            ended = attempts.next().now_or_never().flatten();
        }
    }
}

/// Waits until a time in Unix milliseconds, or without end.
pub(super) async fn until(at: Option<i64>) {
    match at {
        Some(at) => {
            tokio::time::sleep(Duration::from_millis(u64::try_from(at - unix_ms()).unwrap_or(0))).await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A place, the number of the message, and the time at which it is due.
    type Message = (char, usize, i64);

    #[derive(Default)]
    struct Queue {
        waiting: RefCell<Vec<Message>>,
        sent: RefCell<Vec<(char, usize)>>,
        /// The first message to `a` is answered after this.
        answer: Notify,
    }

    impl Waiting for Queue {
        type Message = Message;
        type Error = &'static str;
        type Place = char;

        fn place(message: &Message) -> char {
            message.0
        }

        fn next_at(message: &Message) -> i64 {
            message.2
        }

        async fn look(&self) -> Result<Vec<Message>, &'static str> {
            let mut places = HashSet::new();
            // As in the outbox: the oldest of each place.
            Ok(self.waiting.borrow().iter().copied().filter(|one| places.insert(one.0)).collect())
        }

        async fn attempt(&self, message: Message) -> Result<(), &'static str> {
            match message {
                ('a', 0, _) => self.answer.notified().await,
                ('x', ..) => return Err("full"),
                _ => {}
            }
            self.sent.borrow_mut().push((message.0, message.1));
            self.waiting.borrow_mut().retain(|known| *known != message);
            Ok(())
        }
    }

    fn queue(waiting: &[Message]) -> Queue {
        Queue { waiting: RefCell::new(waiting.to_vec()), ..Queue::default() }
    }

    #[tokio::test]
    async fn a_place_that_does_not_answer_holds_up_no_other_and_keeps_its_order() {
        let (wake, queue) = (Notify::new(), queue(&[('a', 0, 0), ('a', 1, 0), ('b', 0, 0)]));
        let post = async {
            while queue.sent.borrow().is_empty() {
                tokio::task::yield_now().await;
            }
            // One that comes while the other place does not answer.
            queue.waiting.borrow_mut().push(('b', 1, 0));
            wake.notify_one();
            while queue.sent.borrow().len() < 2 {
                tokio::task::yield_now().await;
            }
            queue.answer.notify_one();
        };
        let (due, ()) = tokio::join!(attempt_due(&wake, &queue), post);
        assert_eq!(due, Ok(None));
        assert_eq!(*queue.sent.borrow(), [('b', 0), ('b', 1), ('a', 0), ('a', 1)]);
    }

    #[tokio::test]
    async fn what_is_due_later_is_named_and_an_error_ends_it() {
        let later = unix_ms() + 3_600_000;
        let wake = Notify::new();
        assert_eq!(attempt_due(&wake, &queue(&[('b', 0, later)])).await, Ok(Some(later)));
        assert_eq!(attempt_due(&wake, &queue(&[('x', 0, 0)])).await, Err("full"));
    }
}

//! The pace of a run that brings the index up to date while nobody waits for it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The rest of a run as a multiple of its work before it. The run shares the processors and the database with the posts and
/// turns of all gateways, and can take minutes where there is much to take in. A search waits for none of it: it takes in
/// what it can by itself.
const REST: u32 = 3;

/// Returns a function that a run calls between two batches, and that returns `false` if the run is to end. It has `rest` wait
/// in proportion to the time since the last rest.
pub(super) fn resting(now: impl Fn() -> Instant, rest: impl Fn(Duration) -> bool) -> impl Fn() -> bool {
    let began = Cell::new(now());
    move || {
        let worked = now().saturating_duration_since(began.get());
        let goes_on = rest(worked.saturating_mul(REST));
        began.set(now());
        goes_on
    }
}

/// Blocks the thread for this time, or until `stop` is cancelled. Returns `false` in that case.
pub(super) fn rest(stop: &CancellationToken, time: Duration) -> bool {
    Handle::current().block_on(stop.run_until_cancelled(tokio::time::sleep(time))).is_some()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_run_rests_in_proportion_to_its_work_and_not_to_its_rests() {
        let (clock, rests) = (Cell::new(Instant::now()), RefCell::new(Vec::new()));
        let pass = |time: Duration| clock.set(clock.get() + time);
        let goes_on = resting(
            || clock.get(),
            |time| {
                rests.borrow_mut().push(time);
                pass(time);
                rests.borrow().len() < 3
            },
        );
        let works = [20, 0, 100].map(Duration::from_millis);
        let answers = works.map(|work| {
            pass(work);
            goes_on()
        });
        assert_eq!(*rests.borrow(), works.map(|work| work * REST));
        assert_eq!(answers, [true, true, false]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stop_ends_a_rest_at_once_and_all_that_would_follow() {
        let stop = CancellationToken::new();
        let rest_for = |time| {
            let stop = stop.clone();
            tokio::task::spawn_blocking(move || rest(&stop, time))
        };
        assert!(rest_for(Duration::ZERO).await.unwrap(), "nothing stops this one");
        let day = Duration::from_secs(24 * 60 * 60);
        let begun = rest_for(day);
        stop.cancel();
        for rest in [begun, rest_for(day)] {
            let goes_on = tokio::time::timeout(Duration::from_secs(60), rest).await.unwrap().unwrap();
            assert!(!goes_on);
        }
    }
}

//! Discord's rate limits, as its answers tell of them.
//!
//! Routes share buckets, whose names Discord tells in a header. A bucket counts for each channel, server or webhook on
//! its own. A bucket that is known to be empty is not asked again before its time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use reqwest::Method;
use reqwest::header::HeaderMap;

/// Largest number of buckets that are remembered.
const MAX_BUCKETS: usize = 4096;
/// The longest wait that an answer can demand.
const LONGEST: Duration = Duration::from_secs(3600);
/// The wait where Discord asks for one and does not say how long.
const DEFAULT: Duration = Duration::from_secs(5);

/// The limits that are known.
#[derive(Default)]
pub(super) struct RateLimits {
    /// The bucket's name of each route that was used.
    names: HashMap<Route, String>,
    buckets: HashMap<Key, Bucket>,
    /// Set while no request at all is taken.
    all_until: Option<Instant>,
}

/// The method, and the path with empty braces in place of ids.
pub(super) type Route = (Method, &'static str);

/// The bucket's name, or the route while that is unknown, and the channel, server or webhook.
type Key = (String, String);

struct Bucket {
    remaining: u64,
    until: Instant,
}

impl RateLimits {
    /// Takes one request from a bucket. Returns the wait if it is empty.
    pub(super) fn take(&mut self, route: &Route, major: &str, now: Instant) -> Option<Duration> {
        if let Some(wait) = self.all_until.and_then(|until| until.checked_duration_since(now)) {
            return Some(wait);
        }
        let key = self.key(route, major);
        let bucket = self.buckets.get_mut(&key)?;
        if bucket.until <= now {
            self.buckets.remove(&key);
            return None;
        }
        if bucket.remaining == 0 {
            return Some(bucket.until - now);
        }
        bucket.remaining -= 1;
        None
    }

    /// Remembers what the headers of an answer say.
    pub(super) fn learn(&mut self, route: &Route, major: &str, headers: &HeaderMap, now: Instant) {
        if let Some(name) = text(headers, "x-ratelimit-bucket").filter(|name| name.len() <= 100) {
            self.names.insert(route.clone(), name.to_owned());
        }
        let remaining = text(headers, "x-ratelimit-remaining").and_then(|text| text.parse().ok());
        if let (Some(remaining), Some(wait)) = (remaining, seconds(headers, "x-ratelimit-reset-after")) {
            self.remember(route, major, Bucket { remaining, until: now + wait }, now);
        }
    }

    /// Remembers that a request was one too many, and returns the wait.
    pub(super) fn refused(
        &mut self,
        route: &Route,
        major: &str,
        headers: &HeaderMap,
        body: &serde_json::Value,
        now: Instant,
    ) -> Duration {
        let wait = body["retry_after"].as_f64().and_then(duration);
        let wait = wait.or_else(|| seconds(headers, "retry-after")).unwrap_or(DEFAULT);
        // An answer without JSON is not Discord's: its network has shut this address out.
        let is_for_all = body["global"] == true || !body.is_object();
        if is_for_all {
            self.all_until = Some(now + wait);
        } else {
            self.remember(route, major, Bucket { remaining: 0, until: now + wait }, now);
        }
        wait
    }

    fn key(&self, route: &Route, major: &str) -> Key {
        let named = self.names.get(route).cloned();
        (named.unwrap_or_else(|| format!("{} {}", route.0, route.1)), major.to_owned())
    }

    fn remember(&mut self, route: &Route, major: &str, bucket: Bucket, now: Instant) {
        if self.buckets.len() >= MAX_BUCKETS {
            self.buckets.retain(|_, bucket| bucket.until > now);
        }
        if self.buckets.len() < MAX_BUCKETS {
            let key = self.key(route, major);
            self.buckets.insert(key, bucket);
        }
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn seconds(headers: &HeaderMap, name: &str) -> Option<Duration> {
    text(headers, name)?.parse().ok().and_then(duration)
}

/// Returns a number of seconds as a time that can be waited.
fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().map(|wait| wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ROUTE: Route = (Method::POST, "/channels/{}/messages");
    const READ: Route = (Method::GET, "/channels/{}/messages");

    fn headers(of: &[(&'static str, &'static str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn told(remaining: &'static str) -> HeaderMap {
        headers(&[
            ("x-ratelimit-bucket", "b"),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset-after", "2.5"),
        ])
    }

    #[test]
    fn an_empty_bucket_is_not_asked_before_its_time() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        assert_eq!(limits.take(&ROUTE, "1", now), None);
        limits.learn(&ROUTE, "1", &told("1"), now);
        assert_eq!(limits.take(&ROUTE, "1", now), None);
        assert_eq!(limits.take(&ROUTE, "1", now), Some(Duration::from_millis(2500)));
        assert_eq!(limits.take(&ROUTE, "2", now), None);
        assert_eq!(limits.take(&ROUTE, "1", now + Duration::from_secs(3)), None);
    }

    #[test]
    fn routes_of_one_bucket_share_it() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        limits.learn(&READ, "1", &told("9"), now);
        limits.learn(&ROUTE, "1", &told("0"), now);
        assert!(limits.take(&READ, "1", now).is_some());
    }

    #[test]
    fn the_methods_of_a_route_have_buckets_of_their_own() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        let other = headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset-after", "5")]);
        limits.learn(&READ, "1", &other, now);
        assert_eq!(limits.take(&ROUTE, "1", now), None);
        limits.learn(&ROUTE, "1", &told("0"), now);
        assert_eq!(limits.take(&READ, "1", now), Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_refusal_says_the_wait_in_its_body_or_header() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        let of_route = json!({"retry_after": 1.5, "global": false});
        assert_eq!(
            limits.refused(&ROUTE, "1", &HeaderMap::new(), &of_route, now),
            Duration::from_millis(1500)
        );
        assert_eq!(limits.take(&ROUTE, "1", now), Some(Duration::from_millis(1500)));
        assert_eq!(limits.take(&ROUTE, "2", now), None);
        let of_all = json!({"retry_after": 1.0, "global": true});
        limits.refused(&ROUTE, "1", &HeaderMap::new(), &of_all, now);
        assert_eq!(limits.take(&ROUTE, "2", now), Some(Duration::from_secs(1)));
        let ban = limits.refused(&ROUTE, "1", &headers(&[("retry-after", "7")]), &Value::Null, now);
        assert_eq!((ban, limits.take(&ROUTE, "3", now)), (Duration::from_secs(7), Some(ban)));
    }

    #[test]
    fn a_wait_that_makes_no_sense_is_bounded() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        for (seconds, wait) in [(json!(-1), DEFAULT), (json!(1e300), DEFAULT), (json!(1e9), LONGEST)] {
            let body = json!({"retry_after": seconds});
            assert_eq!(limits.refused(&ROUTE, "1", &HeaderMap::new(), &body, now), wait);
        }
    }
}

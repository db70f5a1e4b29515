//! Reads the time until a quota can be used again from the body of a refusal.

use std::time::Duration;

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde_json::Value;

use super::{duration, windows};

/// The time zone in which Google's daily quotas begin anew, at midnight.
const GOOGLE_ZONE: &str = "America/Los_Angeles";

/// Returns the wait that the error object of a refusal names.
pub(in crate::provider) fn wait(error: &Value, now: Timestamp) -> Option<Duration> {
    openai(error, now).or_else(|| google(&error["details"], now)).or_else(|| router(error, now))
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// Reads the usage window of a ChatGPT subscription: `resets_in_seconds`, or `resets_at` in Unix seconds.
fn openai(error: &Value, now: Timestamp) -> Option<Duration> {
    let number = |name: &str| error[name].as_f64();
    number("resets_in_seconds")
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .or_else(|| number("resets_at").and_then(windows::epoch).map(|at| until(at, now)))
}

/// Reads the details of Google's errors.
///
/// Google names a `retryDelay` of seconds even if the quota of the whole day is used up, so the violated quota comes
/// first.
fn google(details: &Value, now: Timestamp) -> Option<Duration> {
    let all = details.as_array().map(Vec::as_slice).unwrap_or_default();
    let named = all.iter().find_map(|one| {
        let at = one["metadata"]["quotaResetTimeStamp"].as_str().and_then(|text| text.parse().ok());
        at.map(|at| until(at, now))
            .or_else(|| duration::leading(one["metadata"]["quotaResetDelay"].as_str()?))
    });
    let is_daily = all
        .iter()
        .flat_map(|one| one["violations"].as_array().into_iter().flatten())
        .any(|violation| violation["quotaId"].as_str().is_some_and(|id| id.contains("PerDay")));
    let day = || is_daily.then(|| next_midnight(now)).flatten();
    let delay = || all.iter().find_map(|one| duration::leading(one["retryDelay"].as_str()?));
    named.or_else(day).or_else(delay)
}

/// Returns the time until the next midnight in California. `None` if this machine does not know the zone.
fn next_midnight(now: Timestamp) -> Option<Duration> {
    let zone = TimeZone::get(GOOGLE_ZONE).ok()?;
    let tomorrow = now.to_zoned(zone.clone()).date().checked_add(1.day()).ok()?;
    let midnight = tomorrow.to_datetime(Time::midnight()).to_zoned(zone).ok()?;
    Some(until(midnight.timestamp(), now))
}

/// Reads the headers that OpenRouter puts into its error.
fn router(error: &Value, now: Timestamp) -> Option<Duration> {
    let reset = &error["metadata"]["headers"]["X-RateLimit-Reset"];
    let number = reset.as_f64().or_else(|| reset.as_str()?.parse().ok())?;
    windows::epoch(number).map(|at| until(at, now))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_providers_body_names_its_time() {
        let now: Timestamp = "2026-02-28T12:00:00Z".parse().unwrap();
        let google =
            |details: Value| json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details});
        let quota = |id: &str| json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]});
        let delay = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"});
        for (error, expected) in [
            (
                json!({"type": "usage_limit_reached", "plan_type": "pro", "resets_at": 1_772_283_600}),
                Some(3_600.0),
            ),
            (json!({"type": "usage_limit_reached", "resets_in_seconds": 5_400}), Some(5_400.0)),
            (google(json!([delay])), Some(34.5)),
            (
                google(json!([quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"), delay])),
                Some(34.5),
            ),
            // Midnight in California is 08:00 UTC in winter.
            (
                google(json!([quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), delay])),
                Some(72_000.0),
            ),
            (
                google(json!([{"reason": "QUOTA_EXHAUSTED", "metadata": {"quotaResetDelay": "2h13m20.5s"}}])),
                Some(8_000.5),
            ),
            (
                google(json!([{"metadata": {"quotaResetTimeStamp": "2026-02-28T12:10:00Z",
                    "quotaResetDelay": "1s"}}])),
                Some(600.0),
            ),
            (
                json!({"code": 429, "metadata": {"headers": {"X-RateLimit-Reset": "1772280060000"}}}),
                Some(60.0),
            ),
            (json!({"code": "insufficient_quota"}), None),
            (json!({"resets_at": "soon", "details": "none", "metadata": 1}), None),
            (Value::Null, None),
        ] {
            assert_eq!(wait(&error, now).map(|wait| wait.as_secs_f64()), expected, "{error}");
        }
    }

    #[test]
    fn a_day_of_summer_time_has_its_own_length() {
        // The clocks go forward on 2026-03-08 in California, so midnight is an hour nearer.
        let evening: Timestamp = "2026-03-08T08:30:00Z".parse().unwrap();
        assert_eq!(next_midnight(evening).map(|wait| wait.as_secs()), Some(22 * 3_600 + 1_800));
    }
}

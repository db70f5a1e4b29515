//! The log of a background process: lines on its stderr, which the supervisor stores.

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::runtime::program;
use crate::{env, provider};

/// The log targets that receive every word of providers and agent programs.
const RAW_TARGETS: [&str; 2] = [provider::RAW_TARGET, program::RAW_TARGET];

/// Starts logging with the filter in `FLOCK_LOG`.
///
/// The filter is a level, or `target=level` parts such as `info` or `flock=debug,hyper=info`. `FLOCK_DEBUG` or `DEBUG`
/// adds the raw output of providers and agent programs, which no level enables alone. A second call changes nothing.
pub(crate) fn start() {
    let filter = filter(env::LOG.get().as_deref(), env::DEBUG.is_on() || env::ANY_DEBUG.is_on());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        // If stderr is gone, a complaint about it on stderr would panic.
        .log_internal_errors(false);
    // An error means that a subscriber is already set, as in tests. The first one stays.
    drop(tracing_subscriber::registry().with(filter).with(lines).try_init());
}

/// Returns the filter for the text of `FLOCK_LOG`. Only `raw` adds the raw output of providers and agent programs.
fn filter(text: Option<&str>, raw: bool) -> Targets {
    let filter = text.and_then(|text| text.parse::<Targets>().ok()).unwrap_or_else(|| {
        Targets::new().with_default(LevelFilter::WARN).with_target("flock", LevelFilter::INFO)
    });
    // The raw targets are set after the filter was parsed: `FLOCK_LOG=trace` must not log conversations.
    let raw = if raw { LevelFilter::TRACE } else { LevelFilter::INFO };
    RAW_TARGETS.into_iter().fold(filter, |filter, target| filter.with_target(target, raw))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn no_level_logs_conversations_without_debug() {
        for target in RAW_TARGETS {
            for text in ["trace", "flock=trace", &format!("{target}=trace")] {
                let closed = filter(Some(text), false);
                assert!(!closed.would_enable(target, &Level::DEBUG), "{text} {target}");
                assert!(filter(Some(text), true).would_enable(target, &Level::TRACE), "{text} {target}");
            }
        }
        assert!(filter(Some("trace"), false).would_enable("flock::gateway", &Level::TRACE));
        let unset = filter(None, true);
        assert!(RAW_TARGETS.iter().all(|target| unset.would_enable(target, &Level::TRACE)));
        assert!(!unset.would_enable("flock::gateway", &Level::DEBUG));
    }
}

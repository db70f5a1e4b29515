//! The log of a background process: lines on its stderr, which the supervisor stores.

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::env;

/// The log targets that receive every word of providers and agent programs.
const RAW: [&str; 2] = ["flock::provider::stream", "flock::runtime::cli::ear"];

/// Starts logging with the filter in `FLOCK_LOG`.
///
/// The filter is a level, or `target=level` parts such as `info` or `flock=debug,hyper=info`. `FLOCK_DEBUG` or `DEBUG`
/// adds the raw output of providers and agent programs, which no level enables alone. A second call changes nothing.
pub fn start() {
    let filter = env::LOG.get().and_then(|text| text.parse::<Targets>().ok()).unwrap_or_else(|| {
        Targets::new().with_default(LevelFilter::WARN).with_target("flock", LevelFilter::INFO)
    });
    // The raw targets are set after the filter was parsed: `FLOCK_LOG=trace` must not log conversations.
    let raw =
        if env::DEBUG.is_on() || env::ANY_DEBUG.is_on() { LevelFilter::TRACE } else { LevelFilter::INFO };
    let filter = RAW.into_iter().fold(filter, |filter, target| filter.with_target(target, raw));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        // If stderr is gone, a complaint about it on stderr would panic.
        .log_internal_errors(false);
    // An error means that a subscriber is already set, as in tests. The first one stays.
    drop(tracing_subscriber::registry().with(filter).with(lines).try_init());
}

//! The log of a background process: lines on its stderr, which the supervisor keeps.

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::env;

/// Where providers and programs are logged word for word.
const RAW: [&str; 2] = ["flock::provider::stream", "flock::runtime::cli::ear"];

/// Starts logging, as `FLOCK_LOG` says: a level, or `target=level` parts, as in `info` or
/// `flock=debug,hyper=info`; `FLOCK_DEBUG` or `DEBUG` adds what providers and agent programs say word for word, which no
/// level does by itself. A second call changes nothing.
pub fn start() {
    let filter = env::LOG.get().and_then(|text| text.parse::<Targets>().ok()).unwrap_or_else(|| {
        Targets::new().with_default(LevelFilter::WARN).with_target("flock", LevelFilter::INFO)
    });
    let raw =
        if env::DEBUG.is_on() || env::ANY_DEBUG.is_on() { LevelFilter::TRACE } else { LevelFilter::INFO };
    let filter = RAW.into_iter().fold(filter, |filter, target| filter.with_target(target, raw));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        // Where stderr is gone, complaining about it on stderr would panic.
        .log_internal_errors(false);
    drop(tracing_subscriber::registry().with(filter).with(lines).try_init());
}

//! The server of PostgreSQL that tests may use, if there is one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the address of the server, which lets the tests in without a password; `None` after saying why a test does not
/// run. Under `FLOCK_TEST_REQUIRE_POSTGRES=1` a missing server is a failure.
pub fn server() -> Option<String> {
    let server = std::env::var("FLOCK_TEST_POSTGRES").ok().filter(|address| !address.is_empty());
    if server.is_none() {
        let must = std::env::var("FLOCK_TEST_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
        assert!(!must, "FLOCK_TEST_REQUIRE_POSTGRES=1 and FLOCK_TEST_POSTGRES names no server");
        eprintln!("not run: FLOCK_TEST_POSTGRES names no server");
    }
    server
}

/// Returns the name of a schema that nobody has used. The unit tests of the store drop those of processes that are gone.
pub fn schema() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("flock_test_{}_suite{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

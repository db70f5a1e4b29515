//! The server of PostgreSQL that measurements use.

/// Returns the address that `FLOCK_TEST_POSTGRES` names.
pub fn address() -> Option<String> {
    std::env::var("FLOCK_TEST_POSTGRES").ok().filter(|address| !address.is_empty())
}

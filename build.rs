//! Builds what the binary carries.
fn main() {}

//! The flock command.
fn main() {}

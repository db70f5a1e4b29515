//! A second place for what has to outlive the machine's disk.

mod s3;
mod transcripts;
mod vaults;
mod verbs;

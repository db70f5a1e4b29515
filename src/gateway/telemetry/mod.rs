//! Sends what [`crate::telemetry`] has recorded to a collector, by OTLP over HTTP in protobuf.

mod client;
mod exporter;
mod retry;

pub(crate) use client::CollectorClient;
pub(crate) use exporter::Exporter;

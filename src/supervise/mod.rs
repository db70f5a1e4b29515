//! Supervision: the background process that keeps gateways running.

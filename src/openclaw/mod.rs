//! What flock knows of OpenClaw, the Node.js gateway that it can run beside its own.

pub mod plugin;

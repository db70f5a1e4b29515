//! The native gateway: HTTP in front, turns behind.

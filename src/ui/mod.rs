//! Everything that writes to a terminal.

//! The home: the folder that holds one flock. This module owns its layout, its locks, atomic replacement of
//! its files, its format version, and the only safe way to open what an agent can write.

pub mod layout;

pub use layout::Home;

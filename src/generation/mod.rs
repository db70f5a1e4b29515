//! The generations of a home: its numbered states, as with NixOS.
//!
//! Each change of the configuration, an agent, OpenClaw, flock's own program, an image or an agent's packages is a
//! generation with who made it, when and why. `flock rollback` goes back to one.
//!
//! A generation has no key and no token: [`kept_out`] takes them out of the configuration and puts the present ones
//! back. [`recorder`] writes generations under the lock of the configuration, so they have one order. [`log`] keeps the
//! files. [`pending_rollback`] is the record of a rollback in progress.

pub mod difference;
pub mod kept_out;
pub mod log;
pub mod origin;
pub mod pending_rollback;
pub mod record;
pub mod recorder;

pub use origin::Origin;
pub use record::{Generation, HomeState};
pub(crate) use recorder::{change, look, prepare};

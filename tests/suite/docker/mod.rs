//! What needs a real engine.

mod attend;
mod cli;
mod egress;
mod faults;
mod freeze;
mod grants;
mod halt;
mod helper;
mod hostile;
mod images;
mod measure;
mod mounts;

mod sandbox;
mod store;
mod supervise;
mod tools;
mod turns;
mod uninstall;

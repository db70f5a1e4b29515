//! What needs a real engine.

mod attend;
mod builds;
mod cli;
mod copy;
mod described;
mod egress;
mod faults;
mod freeze;
mod generations;
mod grants;
mod halt;
mod helper;
mod hostile;
mod images;
mod measure;
mod mounts;

mod runtimes;
mod sandbox;
mod store;
mod supervise;
mod tools;
mod turns;
mod uninstall;
mod users;
mod walls;

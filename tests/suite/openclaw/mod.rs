//! The bundled OpenClaw gateway, with a stand-in of its repository.

mod add;
mod faults;
mod install;
mod plugin;
mod server;
mod serving;
pub mod stage;
mod supervised;
mod turns;
mod uninstall;
mod update;
mod upstream;

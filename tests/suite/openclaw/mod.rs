//! The bundled OpenClaw gateway, with a stand-in of its repository.

mod faults;
mod install;
mod server;
mod plugin;
mod stage;
mod turns;
mod upstream;

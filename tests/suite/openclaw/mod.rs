//! The bundled OpenClaw gateway, with a stand-in of its repository.

mod install;
mod upstream;

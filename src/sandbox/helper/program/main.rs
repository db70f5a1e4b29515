//! The helper inside a sandbox. It is the container's main process and starts commands as the frames from flock tell
//! it.
//!
//! build.rs compiles it separately for the sandbox, statically and with nothing but the standard library. It trusts the
//! frames of its connection, and nothing else in its container.

#[path = "../codec.rs"]
mod codec;
mod confine;
#[path = "../delivery.rs"]
mod delivery;
#[path = "../file_message.rs"]
mod file_message;
mod files;
#[path = "../frame.rs"]
mod frame;
mod guest;
mod job;
#[path = "../message.rs"]
mod message;
#[path = "../output_buffer.rs"]
mod output_buffer;
mod probe;
mod server;
mod streams;
mod sweep;
mod sys;

use std::process::ExitCode;

fn main() -> ExitCode {
    let word = std::env::args_os().nth(1).unwrap_or_default();
    let rest = || std::env::args_os().skip(2);
    // Before anything else runs, so that every process in the container inherits the filter.
    match word == "restrict" {
        true => confine::restrict(),
        false => confine::confine(),
    }
    match word.to_str() {
        Some("run") => return guest::run(rest()),
        Some("confine") => return confine::run(rest()),
        Some("restrict") if rest().next().is_some() => return confine::run(rest()),
        _ => {}
    }
    sys::settle();
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("probe") {
        return probe::run(&arguments.next().unwrap_or_default());
    }
    match server::Server::new() {
        Ok(mut server) => {
            server.run();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("flock-helper: {error}");
            ExitCode::FAILURE
        }
    }
}

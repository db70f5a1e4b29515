//! What a person sees of a defect: one short message and what to do, no stack of addresses unless asked.

use std::io::Write as _;

use crate::env;

/// Replaces the standard panic message. `RUST_BACKTRACE` brings the standard one back below ours.
pub fn install() {
    let standard = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or("no message");
        let message = super::clean::inline(message);
        let _ = writeln!(
            std::io::stderr().lock(),
            "error: internal error{place}: {message}\n\nhint: this is a defect of flock; run `flock doctor` \
             and report what it says together with this message"
        );
        if env::BACKTRACE.is_on() {
            standard(info);
        }
    }));
}

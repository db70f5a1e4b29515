//! The message for a panic: one short text with the next step, and a backtrace only on request.

use std::io::Write as _;
use std::panic::UnwindSafe;
use std::process::ExitCode;

use crate::env;
use crate::error::Kind;

/// Runs the program. A panic ends it with the exit code of an internal error.
pub fn catch(program: impl FnOnce() -> ExitCode + UnwindSafe) -> ExitCode {
    install_hook();
    std::panic::catch_unwind(program).unwrap_or_else(|_| ExitCode::from(Kind::Internal.exit_code()))
}

/// Replaces the standard panic message. If `RUST_BACKTRACE` is set, the standard message follows flock's own.
fn install_hook() {
    let standard = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or("no message");
        let message = crate::clean::inline(message);
        // `eprintln!` would panic again if stderr is closed. The error is ignored, since nobody could read it.
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    /// The child process of the tests below, a program with a defect. The tests need a child because the panic hook and
    /// the exit code belong to the whole process.
    #[test]
    #[ignore = "run by the other tests in a process of its own"]
    #[expect(clippy::exit, reason = "the exit code is what is tested, in a process of its own")]
    fn a_program_that_panics() {
        // Without `--exact` a person runs all ignored tests, and this one would end their process.
        if !std::env::args().any(|argument| argument == "--exact") {
            return;
        }
        let end = catch(|| panic!("index \u{1b}[31mout\u{202e} of bounds\nerror: forged"));
        std::process::exit(if end == ExitCode::from(70) { 70 } else { 1 });
    }

    fn child(backtrace: Option<&str>) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "--nocapture", "ui::panic::tests::a_program_that_panics"]);
        command.env_clear().env("ANTHROPIC_API_KEY", "sk-planted");
        command.envs(backtrace.map(|value| ("RUST_BACKTRACE", value)));
        command.output().unwrap()
    }

    #[test]
    fn a_panic_ends_with_70_and_a_message_for_people() {
        let ended = child(None);
        assert_eq!(ended.status.code(), Some(70), "{ended:?}");
        let text = String::from_utf8(ended.stderr).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let [message, "", hint] = lines[..] else { panic!("{text}") };
        assert!(message.starts_with("error: internal error at src/ui/panic.rs:"), "{text}");
        assert!(message.contains("out") && message.ends_with("error: forged"), "{text}");
        assert!(hint.starts_with("hint: ") && hint.contains("flock doctor"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']) && !text.contains("sk-planted"), "{text:?}");
    }

    #[test]
    fn a_backtrace_is_printed_only_on_request() {
        let text = |backtrace| String::from_utf8(child(backtrace).stderr).unwrap();
        assert!(text(Some("1")).contains("stack backtrace"));
        for off in [None, Some("0")] {
            assert!(!text(off).contains("backtrace"), "{off:?}");
        }
    }
}

//! `flock completions`: scripts for shells. They leave the command lines of util-linux's `flock` alone.

use clap_complete::Shell;

use super::{Context, Exit, Failure};

/// Print a completion script for a shell
///
/// bash: flock completions bash > ~/.local/share/bash-completion/completions/flock
///
/// zsh: flock completions zsh > a folder of $fpath, as _flock
///
/// fish: flock completions fish > ~/.config/fish/completions/flock.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    pub shell: Kind,
}

/// A shell that scripts are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// GNU Bash.
    Bash,
    /// Z shell.
    Zsh,
    /// fish.
    Fish,
}

/// Prints the script.
///
/// # Errors
///
/// None of its own.
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    context.printer.raw(script(args.shell).as_bytes());
    Ok(Exit::Done)
}

/// The script for a shell.
#[must_use]
pub fn script(shell: Kind) -> String {
    let (generator, ours) = match shell {
        Kind::Bash => (Shell::Bash, include_str!("completions/tail.bash")),
        Kind::Zsh => (Shell::Zsh, ""),
        Kind::Fish => (Shell::Fish, include_str!("completions/tail.fish")),
    };
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut super::command(), "flock", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Kind::Zsh {
        // The body of the function is kept under another name; ours decides between the two programs.
        script = script.replace("\n_flock() {", "\n_flock_verbs() {");
        if let Some(end) = script.rfind("\nif [ \"$funcstack[1]\"") {
            script.truncate(end);
        }
        script.push_str(include_str!("completions/tail.zsh"));
    }
    script.push_str(ours);
    script
}

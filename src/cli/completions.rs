//! `flock completions`: completion scripts for shells. They leave the command lines of util-linux's `flock` alone.

use super::{Context, Exit, Failure};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "bash: flock completions bash > ~/.local/share/bash-completion/completions/flock\n\
                        zsh:  flock completions zsh > ~/.zfunc/_flock, with ~/.zfunc on $fpath\n\
                        fish: flock completions fish > ~/.config/fish/completions/flock.fish")]
pub(crate) struct Args {
    /// Shell that runs the script
    #[arg(value_enum)]
    pub shell: Shell,
}

/// A shell that scripts are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
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
/// Never returns an error.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    context.printer.raw(script(args.shell).as_bytes());
    Ok(Exit::Done)
}

/// Returns the completion script of a shell.
#[must_use]
pub fn script(shell: Shell) -> String {
    let (generator, ours) = match shell {
        Shell::Bash => (clap_complete::Shell::Bash, include_str!("completions/tail.bash")),
        Shell::Zsh => (clap_complete::Shell::Zsh, ""),
        Shell::Fish => (clap_complete::Shell::Fish, include_str!("completions/tail.fish")),
    };
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut offered(), "flock", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Zsh {
        // The generated function is renamed. flock's own `_flock` decides which of the two programs is meant and calls
        // it.
        script =
            script.replace("\n_flock() {", "\n_flock_verbs() {").replace(":_default'", ":_flock_values'");
        // The generated script ends with its own registration, which is cut off, since the tail has another one.
        if let Some(end) = script.rfind("\nif [ \"$funcstack[1]\"") {
            script.truncate(end);
        }
        script.push_str(include_str!("completions/tail.zsh"));
    }
    if shell == Shell::Fish {
        // For the value of an option, fish offers only what the line of that option names.
        script = script.replace(" -r\n", " -r -a \"(__flock_values)\"\n");
    }
    script.push_str(ours);
    script
}

/// Returns the command line without the hidden verbs, which only flock itself calls.
fn offered() -> clap::Command {
    let all = super::command();
    clap::Command::new("flock")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned())
}

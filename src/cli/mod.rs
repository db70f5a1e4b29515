//! The command line: one file for each verb, with its help, its arguments and its code.
//!
//! A new verb is a file with `Args` (its doc comment is the help) and `run(args, &Context) -> Result<Exit, Failure>`, a
//! variant of `Verb` and an arm of `Verb::run`. Verbs write all output through [`Printer`] and never end the process.

mod acp;
mod add;
mod approvals;
mod audit;
mod backup;
mod bridge;
pub mod channel;
mod chat;
mod checkpoint;
pub mod completions;
mod config;
mod context;
mod dashboard;
mod database;
mod destination;
mod doctor;
mod edit;
mod engine;
mod fork;
mod freeze;
mod gateway;
mod generations;
mod hold;
mod home;
mod hook;
mod images;
mod in_process;
mod init;
mod install_progress;
mod list;
mod logs;
mod mcp;
mod models;
mod nix;
mod openclaw;
mod pending_operations;
mod people;
mod person;
mod programs;
mod project;
mod prompt;
mod race;
mod receipt;
mod reconnect;
mod remove;
mod rename;
mod replay;
mod restart;
mod restore;
mod resume;
mod rewind;
mod rollback;
mod runtime_name;
mod schedule;
mod search;
mod service;
mod session;
mod settings;
mod sim;
mod skill;
mod start;
mod status;
mod stop;
mod storage;
mod stored;
mod supervise;
mod tasks;
mod team;
mod token;
mod token_file;
mod top;
mod uninstall;
mod update;
mod usage;
mod usage_error;
mod util_linux;
mod value_completion;
mod verify;
mod write_check;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::error::Kind;
use crate::generation::Origin;
pub(crate) use crate::ui::Failure;
use crate::ui::{Color, OutputOptions, Printer};
pub(crate) use context::{Context, Exit};

/// Run a supervised team of AI agents on this machine, each confined in a sandbox
#[derive(Debug, Parser)]
#[command(
    name = "flock",
    version = env!("FLOCK_VERSION"),
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Get started:
  flock init        Set up a home
  flock add coder   Add an agent
  flock start       Start the gateway
  flock chat coder  Talk with the agent"
)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    verb: Verb,
}

/// The options of every verb.
#[derive(Debug, clap::Args)]
struct GlobalArgs {
    /// Home folder to use [default: $FLOCK_HOME, else ~/.flock]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    home: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
    /// Print only data, warnings and errors
    #[arg(short, long, global = true, help_heading = "Global options")]
    quiet: bool,
    /// Print more details
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    verbose: u8,
    /// Use of colour
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        help_heading = "Global options"
    )]
    color: Color,
    /// Never prompt: skip confirmations and use defaults, or fail if there is none
    #[arg(short, long, global = true, help_heading = "Global options")]
    yes: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::Args),
    Start(start::Args),
    Stop(stop::Args),
    Restart(restart::Args),
    Status(status::Args),
    Logs(logs::Args),
    Service(service::Args),
    Add(add::Args),
    Edit(Box<edit::Args>),
    #[command(visible_alias = "rm")]
    Remove(remove::Args),
    Rename(rename::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Tasks(tasks::Args),
    Config(config::Args),
    Nix(nix::Args),
    Engine(engine::Args),
    Update(update::Args),
    Generations(generations::Args),
    Rollback(rollback::Args),
    Approvals(approvals::Args),
    Token(token::Args),
    Bridge(bridge::Args),
    Mcp(mcp::Args),
    Skill(skill::Args),
    Project(project::Args),
    Person(people::Args),
    Freeze(freeze::FreezeArgs),
    Thaw(freeze::ThawArgs),
    Resume(resume::Args),
    Checkpoint(checkpoint::MakeArgs),
    Checkpoints(checkpoint::ListArgs),
    Rewind(rewind::Args),
    Fork(fork::Args),
    Race(race::Args),
    Schedule(schedule::Args),
    Hook(hook::Args),
    Usage(usage::Args),
    Audit(audit::Args),
    Search(search::Args),
    Receipt(receipt::Args),
    Verify(verify::Args),
    Doctor(doctor::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Home(home::Args),
    Storage(storage::Args),
    Uninstall(uninstall::Args),
    Completions(completions::Args),
    Chat(chat::Args),
    Acp(acp::Args),
    Dashboard(dashboard::Args),
    Top(top::Args),
    Channel(channel::Args),
    Session(session::Args),
    Prompt(prompt::Args),
    Replay(replay::Args),
    Sim(sim::Args),
    Gateway(gateway::Args),
    #[command(hide = true)]
    Hold(hold::Args),
    #[command(hide = true)]
    Supervise(supervise::Args),
}

impl Verb {
    fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self {
            Self::Init(args) => init::run(&args, context),
            Self::Start(args) => start::run(&args, context),
            Self::Stop(args) => stop::run(&args, context),
            Self::Restart(args) => restart::run(&args, context),
            Self::Status(args) => status::run(&args, context),
            Self::Logs(args) => logs::run(&args, context),
            Self::Service(args) => service::run(&args, context),
            Self::Add(args) => add::run(&args, context),
            Self::Edit(args) => edit::run(&args, context),
            Self::Remove(args) => remove::run(&args, context),
            Self::Rename(args) => rename::run(&args, context),
            Self::List(args) => list::run(&args, context),
            Self::Tasks(args) => tasks::run(&args, context),
            Self::Config(args) => config::run(&args, context),
            Self::Nix(args) => nix::run(&args, context),
            Self::Engine(args) => engine::run(&args, context),
            Self::Update(args) => update::run(&args, context),
            Self::Generations(args) => generations::run(&args, context),
            Self::Rollback(args) => rollback::run(&args, context),
            Self::Approvals(args) => approvals::run(&args, context),
            Self::Token(args) => token::run(&args, context),
            Self::Bridge(args) => bridge::run(&args, context),
            Self::Mcp(args) => mcp::run(&args, context),
            Self::Skill(args) => skill::run(&args, context),
            Self::Project(args) => project::run(&args, context),
            Self::Person(args) => people::run(&args, context),
            Self::Freeze(args) => freeze::freeze(&args, context),
            Self::Thaw(args) => freeze::thaw(&args, context),
            Self::Resume(args) => resume::run(&args, context),
            Self::Checkpoint(args) => checkpoint::make(&args, context),
            Self::Checkpoints(args) => checkpoint::list(&args, context),
            Self::Rewind(args) => rewind::run(&args, context),
            Self::Fork(args) => fork::run(&args, context),
            Self::Race(args) => race::run(&args, context),
            Self::Schedule(args) => schedule::run(&args, context),
            Self::Hook(args) => hook::run(&args, context),
            Self::Usage(args) => usage::run(&args, context),
            Self::Audit(args) => audit::run(&args, context),
            Self::Search(args) => search::run(&args, context),
            Self::Receipt(args) => receipt::run(&args, context),
            Self::Verify(args) => verify::run(&args, context),
            Self::Doctor(args) => doctor::run(&args, context),
            Self::Backup(args) => backup::run(&args, context),
            Self::Restore(args) => restore::run(&args, context),
            Self::Home(args) => home::run(&args, context),
            Self::Storage(args) => storage::run(&args, context),
            Self::Uninstall(args) => uninstall::run(&args, context),
            Self::Completions(args) => completions::run(&args, context),
            Self::Chat(args) => chat::run(&args, context),
            Self::Acp(args) => acp::run(&args, context),
            Self::Dashboard(args) => dashboard::run(&args, context),
            Self::Top(args) => top::run(&args, context),
            Self::Channel(args) => channel::run(&args, context),
            Self::Session(args) => session::run(&args, context),
            Self::Prompt(args) => prompt::run(&args, context),
            Self::Replay(args) => replay::run(&args, context),
            Self::Sim(args) => sim::run(&args, context),
            Self::Gateway(args) => gateway::run(&args, context),
            Self::Hold(args) => hold::run(&args, context),
            Self::Supervise(args) => supervise::run(&args, context),
        }
    }
}

/// Runs the program inside its panic hook and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // Completion and the handover come first, because neither is a command line that clap would accept.
    if value_completion::answer(&args, command) {
        return ExitCode::SUCCESS;
    }
    if util_linux::is_for_util_linux(&args, is_verb) {
        let failure = util_linux::exec(&args);
        Printer::new(OutputOptions::default()).fail(&failure);
        return ExitCode::from(failure.kind.exit_code());
    }
    // Files of agents and of the team are private to the owner. Files for sandboxes get their mode explicitly.
    ::nix::sys::stat::umask(::nix::sys::stat::Mode::from_bits_truncate(0o077));
    parse_and_run(&args)
}

/// Runs a command line in this process, without the panic hook and the handover to util-linux. Tests that kill their own
/// process call it.
#[must_use]
pub fn parse_and_run(args: &[OsString]) -> ExitCode {
    let mut command = command();
    let parsed = command.try_get_matches_from_mut(args).and_then(|mut found| {
        let verbs = verbs(&found);
        let cli = Cli::from_arg_matches_mut(&mut found).map_err(|error| error.format(&mut command))?;
        Ok((verbs, cli))
    });
    match parsed {
        Ok((verbs, cli)) => {
            let mut origin = Origin::new(person::party().to_string(), format!("flock {verbs}"));
            // These run for long and make changes that have nothing to do with each other.
            if matches!(cli.verb, Verb::Gateway(_) | Verb::Supervise(_)) {
                origin = Origin { operation: None, ..Origin::new("system", "the gateway") };
            }
            // Its changes are those that a person makes in an editor, over days.
            if matches!(cli.verb, Verb::Acp(_)) {
                origin.operation = None;
            }
            origin.makes_home = matches!(cli.verb, Verb::Init(_));
            Origin::set_for_process(origin);
            run(cli)
        }
        Err(error) => refuse(&error, args),
    }
}

/// Returns the verbs of a command line, as in `config set`. Its values are left out: they may be keys.
fn verbs(found: &clap::ArgMatches) -> String {
    let verbs = std::iter::successors(found.subcommand(), |(_, found)| found.subcommand());
    verbs.map(|(verb, _)| verb).collect::<Vec<_>>().join(" ")
}

/// Returns clap's definition of the command line, for completions and for the reference in docs/.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

fn run(cli: Cli) -> ExitCode {
    let global = cli.global;
    let printer = Printer::new(OutputOptions {
        json: global.json,
        quiet: global.quiet,
        verbose: global.verbose,
        color: global.color,
    });
    let context = Context::new(printer, global.home, global.yes);
    let exit = cli.verb.run(&context).unwrap_or_else(|failure| {
        context.printer.fail(&failure);
        Exit::Failed(failure.kind)
    });
    // A verb that succeeded but could not write its output has not told the result, so the exit code reports it.
    match (exit, context.printer.write_error()) {
        (Exit::Done, Some(error)) => {
            context.printer.fail(&Failure::with_cause("failed to write to stdout", error));
            ExitCode::from(Kind::Failed.exit_code())
        }
        (exit, _) => ExitCode::from(exit.code()),
    }
}

/// Prints help and version to stdout, and an error about the command line to stderr, or as JSON with `--json`.
fn refuse(error: &clap::Error, args: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        // A closed stdout means that the reader has seen enough.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if args.iter().any(|arg| arg == "--json") {
        let printer = Printer::new(OutputOptions { json: true, ..OutputOptions::default() });
        printer.fail(&usage_error::failure(error, args));
    } else {
        // clap's own printing is not used, because the typed words may contain control characters.
        Printer::new(OutputOptions::default()).usage(&error.to_string());
    }
    ExitCode::from(Kind::Usage.exit_code())
}

/// Returns `true` if a word is a verb. It is called before parsing, on every start, so it must not build clap's whole
/// tree.
fn is_verb(word: &str) -> bool {
    Verb::has_subcommand(word) || ALIASES.contains(&word)
}

const ALIASES: [&str; 3] = ["help", "ls", "rm"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_name_of_a_verb_is_known_before_parsing() {
        for verb in command().get_subcommands() {
            for name in std::iter::once(verb.get_name()).chain(verb.get_all_aliases()) {
                assert!(is_verb(name), "{name}");
            }
        }
    }
}

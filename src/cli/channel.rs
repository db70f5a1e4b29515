//! `flock channel`: the actions of a person in channels.

mod archive;
mod assign;
pub(super) mod backend;
mod create;
mod follow;
mod list;
mod post;
mod read;
mod reopen;
mod show;
mod title;

use clap::Subcommand;

use super::{Context, Exit, Failure, person};

/// Read, write and manage channels
///
/// Works without a gateway, too: messages that are posted then are delivered when the gateway starts.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(visible_alias = "ls")]
    List(list::Args),
    Create(create::Args),
    Post(post::Args),
    Read(read::Args),
    Assign(assign::Args),
    Rename(title::RenameArgs),
    Topic(title::TopicArgs),
    Archive(archive::Args),
    Reopen(reopen::Args),
}

/// The name under which a person does something.
#[derive(Debug, clap::Args)]
struct AuthorArg {
    /// Name to act under [default: your login]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

impl AuthorArg {
    /// Returns the given name, or the login name in which characters that a name can't hold are replaced.
    fn name(&self) -> String {
        self.name.clone().unwrap_or_else(person::name)
    }
}

/// Runs the verb below `channel`.
///
/// # Errors
///
/// Returns an error if there is no home, or if the channel can't be read or changed.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::List(args) => list::run(args, context),
        Verb::Create(args) => create::run(args, context),
        Verb::Post(args) => post::run(args, context),
        Verb::Read(args) => read::run(args, context),
        Verb::Assign(args) => assign::run(args, context),
        Verb::Rename(args) => title::rename(args, context),
        Verb::Topic(args) => title::topic(args, context),
        Verb::Archive(args) => archive::run(args, context),
        Verb::Reopen(args) => reopen::run(args, context),
    }
}

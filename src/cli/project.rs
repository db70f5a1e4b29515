//! `flock project`: git repositories that agents work on, and the work that is joined with them.

mod diff_text;
mod look;
mod queue;

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::channel::backend;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person};
use crate::config::Review;
use crate::error::Kind;
use crate::gateway::routes::projects::{AgentsChange, NewProject};
use crate::id::{AgentId, ProjectName};
use crate::supervise::gateway_client::Call;

/// Let agents work on a git repository
///
/// Each agent of a project has a clone in its workspace and writes only its own branches. What it submits is joined with
/// the project's tip one after the other, after its checks passed. Your repository is only read, until you land the
/// result.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Add(AddArgs),
    /// List the projects
    #[command(visible_alias = "ls")]
    List,
    /// Show a project: its tip, its agents' branches, what is submitted and what is claimed
    Show {
        /// Name of the project
        project: ProjectName,
    },
    Diff(look::DiffArgs),
    Log(look::LogArgs),
    /// Fetch what is new in your repository
    Sync {
        /// Name of the project
        project: ProjectName,
    },
    /// Give agents a clone of a project
    Assign {
        /// Name of the project
        project: ProjectName,
        /// Agents that get a clone
        #[arg(required = true, value_name = "ID")]
        agents: Vec<AgentId>,
    },
    /// Take a project away from agents
    ///
    /// Their branches stay in flock's repository, and the files of their clones in their workspaces.
    Unassign {
        /// Name of the project
        project: ProjectName,
        /// Agents that lose their clone
        #[arg(required = true, value_name = "ID")]
        agents: Vec<AgentId>,
    },
    /// Remove a project with flock's repository and the agents' branches in it
    Remove {
        /// Name of the project
        project: ProjectName,
    },
    Submit(queue::SubmitArgs),
    Submissions(queue::ListArgs),
    Accept(queue::AcceptArgs),
    Refuse(queue::RefuseArgs),
    Withdraw(queue::WithdrawArgs),
    Land(queue::LandArgs),
}

/// Add a repository that agents work on
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock project add lib --repo ~/src/lib --check 'python3 -m unittest'
  flock project add site --repo https://github.com/example/site --setup 'npm ci' --setup-egress registry.npmjs.org \\
      --check 'npm test' --review person --agent coder --agent tester")]
struct AddArgs {
    /// Name of the project
    project: ProjectName,
    /// Your repository: a path or a URL
    #[arg(long, value_name = "PATH|URL")]
    repo: String,
    /// Branch of your repository that work is joined on
    #[arg(long, default_value = "main")]
    branch: String,
    /// Command that prepares a tree for its checks
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,
    /// Host that the preparation may reach; can be given more than once
    #[arg(long, value_name = "HOST[:PORT]", requires = "setup")]
    setup_egress: Vec<String>,
    /// Command that a change has to pass; can be given more than once
    #[arg(long = "check", value_name = "COMMAND")]
    checks: Vec<String>,
    /// File that a change has to have; can be given more than once
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,
    /// Minutes that one command may take
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=240))]
    check_minutes: Option<u64>,
    /// Reviewer of a change before it is merged
    #[arg(long, value_enum, default_value_t)]
    review: Review,
    /// Agent that gets a clone; can be given more than once
    #[arg(long = "agent", value_name = "ID")]
    agents: Vec<AgentId>,
}

/// Time that a request may take. Fetching a large repository takes long.
const TIMEOUT: Duration = Duration::from_secs(1_800);

/// Runs the verb below `project`.
///
/// # Errors
///
/// Returns an error if the project or the agent does not exist, if the repository can't be read, or if the gateway or the
/// database fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Add(wanted) => add(wanted, context),
        Verb::List => look::list(context),
        Verb::Show { project } => look::show(project, context),
        Verb::Diff(wanted) => look::diff(wanted, context),
        Verb::Log(wanted) => look::log(wanted, context),
        Verb::Sync { project } => sync(project, context),
        Verb::Assign { project, agents } => assign(project, agents, true, context),
        Verb::Unassign { project, agents } => assign(project, agents, false, context),
        Verb::Remove { project } => remove(project, context),
        Verb::Submit(wanted) => queue::submit(wanted, context),
        Verb::Submissions(wanted) => queue::list(wanted, context),
        Verb::Accept(wanted) => queue::accept(wanted, context),
        Verb::Refuse(wanted) => queue::refuse(wanted, context),
        Verb::Withdraw(wanted) => queue::withdraw(wanted, context),
        Verb::Land(wanted) => queue::land(wanted, context),
    }
}

fn add(wanted: &AddArgs, context: &Context) -> Result<Exit, Failure> {
    let new = NewProject {
        name: wanted.project.clone(),
        repo: location(&wanted.repo)?,
        branch: wanted.branch.clone(),
        agents: wanted.agents.clone(),
        setup: wanted.setup.clone(),
        setup_egress: wanted.setup_egress.clone(),
        checks: wanted.checks.clone(),
        files: wanted.files.clone(),
        check_minutes: wanted.check_minutes,
        review: wanted.review,
        by: Some(person::name()),
    };
    let answer = change(context, Call::post("/api/projects").json(&new)?)?;
    let tip = answer["tip"]["commit"].as_str().unwrap_or_default();
    let short = tip.get(..12).unwrap_or(tip);
    done(
        context,
        &answer,
        &format!("{} is added; its tip is {short} of your branch {}", new.name, new.branch),
    )
}

/// Returns a path as the gateway needs it, because the gateway runs in another folder. A URL stays as it is.
fn location(text: &str) -> Result<String, Failure> {
    if text.contains("://") || (text.contains('@') && text.contains(':') && !text.starts_with(['/', '.'])) {
        return Ok(text.to_owned());
    }
    let hint = "flock project add --help";
    let found = fs_err::canonicalize(text)
        .map_err(|error| Failure::with_cause("the repository can't be found", &error).hint(hint))?;
    found.into_os_string().into_string().map_err(|path| {
        Failure::new(Kind::Usage, format!("the path {} is not UTF-8", path.display())).hint(hint)
    })
}

fn sync(project: &ProjectName, context: &Context) -> Result<Exit, Failure> {
    let path = backend::path(&format!("/api/projects/{project}/sync"), &json!({"by": person::name()}));
    let answer = change(context, Call::post(&path))?;
    let text = answer["message"].as_str().unwrap_or_default();
    if answer["outcome"] == "conflict" {
        context.printer.warn(&format!("{project}: {text}"));
        return done(context, &answer, "");
    }
    done(context, &answer, &format!("{project}: {text}"))
}

fn assign(
    project: &ProjectName,
    agents: &[AgentId],
    is_assigned: bool,
    context: &Context,
) -> Result<Exit, Failure> {
    let by = Some(person::name());
    let (add, remove) = if is_assigned { (agents.to_vec(), vec![]) } else { (vec![], agents.to_vec()) };
    let call =
        Call::post(&format!("/api/projects/{project}/agents")).json(&AgentsChange { add, remove, by })?;
    let answer = change(context, call)?;
    let names: Vec<&str> = agents.iter().map(AsRef::as_ref).collect();
    let verb = match (is_assigned, names.len()) {
        (true, 1) => "works",
        (true, _) => "work",
        (false, 1) => "no longer works",
        (false, _) => "no longer work",
    };
    done(context, &answer, &format!("{} {verb} on {project}", names.join(", ")))
}

fn remove(project: &ProjectName, context: &Context) -> Result<Exit, Failure> {
    if !context.yes() {
        let unasked = Failure::new(Kind::Usage, format!("removing {project} must be confirmed"))
            .hint(format!("flock project remove {project} --yes"));
        let question = format!("Remove {project} with the work of its agents that was not landed?");
        context.confirm(&question, unasked, &format!("{project} was not removed"))?;
    }
    let path = backend::path(&format!("/api/projects/{project}"), &json!({"by": person::name()}));
    let answer = change(context, Call::delete(&path))?;
    done(context, &answer, &format!("{project} is removed; your repository is as it was"))
}

/// Makes a change by the gateway or, if none runs, in this process.
fn change(context: &Context, call: Call) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    // A repeated request could be refused, because the change was made.
    Ok(context.block_on(Reconnector::new(&home, context).send(call, Repeat::Unsent, TIMEOUT))?.answer)
}

/// Asks for something that changes nothing.
fn fetch(context: &Context, path: &str) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    Ok(context
        .block_on(Reconnector::new(&home, context).send(Call::get(path), Repeat::Safe, TIMEOUT))?
        .answer)
}

fn done(context: &Context, answer: &Value, text: &str) -> Result<Exit, Failure> {
    if context.printer.is_json() {
        context.printer.json(answer);
    } else if !text.is_empty() {
        context.printer.say(text);
    }
    Ok(Exit::Done)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

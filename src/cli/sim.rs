//! `flock sim`: how a team of a given size would work on a project, without asking a model.

mod shown;

use clap::builder::RangedU64ValueParser;

use super::{Context, Exit, Failure, database};
use crate::agent::prompt_report::PromptReport;
use crate::clock::unix_ms;
use crate::config::{Agent, Config, Live, ModelCost, Project};
use crate::error::Kind;
use crate::home::Home;
use crate::id::ProjectName;
use crate::project::ProjectRepository;
use crate::project::simulation::{Manner, Outcome, Pace, Work, past_work, play};
use crate::provider::price;
use crate::receipt::Receipt;
use crate::store::ReceiptFilter;

/// Show what a team of this size would cost on a project, and where its agents would wait for each other
///
/// Plays the last changes of the project's tip as if a team made them: each change is a piece of work that the next free
/// agent does by a script, submits, and sees checked, reviewed and merged. No model is asked, no check is run, and
/// nothing is changed.
///
/// Each number is a range. At its lower end every change is right at once and the provider keeps what it has read before;
/// at its upper end every change is right at the third attempt and everything is read anew with each call. The size of
/// prompts is that of the project's agents, the time of the checks that of the newest receipt.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock sim lib --agents 4
  flock sim lib --agents 8 --work 100 --check-seconds 90")]
pub(crate) struct Args {
    /// Name of the project
    project: ProjectName,
    /// Number of agents
    #[arg(long, value_name = "NUMBER", value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    agents: usize,
    /// Number of past changes that are done again
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = RangedU64ValueParser::<usize>::new().range(1..=500))]
    work: usize,
    /// Seconds that the checks take [default: as long as for the newest receipt, else 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    check_seconds: Option<u64>,
    /// Seconds that a model call takes
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=3_600))]
    call_seconds: u64,
    /// Minutes until a person has reviewed a change
    #[arg(long, value_name = "MINUTES", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=10_080))]
    review_minutes: u64,
}

/// The time of the checks, and where it is known from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CheckTime {
    ms: u64,
    source: &'static str,
}

/// Time of checks of which nothing is known, in milliseconds.
const UNKNOWN_CHECKS: u64 = 60_000;

/// An agent of the simulated team.
struct Member<'a> {
    agent: &'a Agent,
    /// Tokens of its prompt and tools.
    prompt: u64,
    price: Option<ModelCost>,
}

/// The outcomes at the two ends of the range.
struct Range {
    low: Outcome,
    high: Outcome,
}

/// Everything that is shown.
struct Simulation<'a> {
    project: &'a Project,
    work: usize,
    checks: CheckTime,
    call_ms: u64,
    team: Vec<Member<'a>>,
    /// The outcomes of teams of one agent and more, up to the wanted number.
    by_size: Vec<Range>,
}

/// Plays the work and prints the outcome.
///
/// # Errors
///
/// Returns an error if there is no such project, if it has no agent or no past change, or if its repository can't be read.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let config = Live::open(home.clone())?.current();
    let Some(project) = config.projects.iter().find(|project| project.name == args.project) else {
        let text = format!("there is no project {}", args.project);
        return Err(Failure::new(Kind::Usage, text).hint("flock project list"));
    };
    let work = work(&home, project, args.work)?;
    let team = team(&home, &config, project, args.agents)?;
    let checks = match args.check_seconds {
        Some(seconds) => CheckTime { ms: seconds * 1_000, source: "as given" },
        None => check_time(&home, project)?,
    };
    let by_size = (1..=args.agents)
        .map(|size| {
            let outcome = |manner| play(&work, &pace(args, project, &checks, &team[..size], manner));
            Range { low: outcome(Manner::Sure), high: outcome(Manner::Laborious) }
        })
        .collect();
    let call_ms = args.call_seconds * 1_000;
    shown::print(&Simulation { project, work: work.len(), checks, call_ms, team, by_size }, context);
    Ok(Exit::Done)
}

fn pace(args: &Args, project: &Project, checks: &CheckTime, team: &[Member<'_>], manner: Manner) -> Pace {
    Pace {
        call: args.call_seconds * 1_000,
        checks: checks.ms,
        person: args.review_minutes * 60_000,
        review: project.review,
        manner,
        prompts: team.iter().map(|member| member.prompt).collect(),
    }
}

fn work(home: &Home, project: &Project, count: usize) -> Result<Vec<Work>, Failure> {
    let repository = ProjectRepository::open(&home.project_repository(&project.name))?;
    let tip = repository.branch(&project.branch)?;
    let found = tip.map(|tip| past_work(&repository, tip, count)).transpose()?.unwrap_or_default();
    if found.is_empty() {
        let text = format!("the project {} has no past change that could be done again", project.name);
        return Err(Failure::new(Kind::Failed, text).hint(format!("flock project sync {}", project.name)));
    }
    Ok(found)
}

/// Returns the team: the project's agents in turn until there are enough.
fn team<'a>(
    home: &Home,
    config: &'a Config,
    project: &Project,
    size: usize,
) -> Result<Vec<Member<'a>>, Failure> {
    let own = |agent: &&Agent| project.has_agent(&agent.id);
    let mut members = Vec::new();
    for agent in config.agents.iter().filter(own) {
        let report = PromptReport::of(home, config, agent, unix_ms()).map_err(|error| {
            Failure::with_cause(format!("failed to make the prompt of {}", agent.id), &error)
        })?;
        let price = agent.model.as_ref().and_then(|model| price::of(config, model));
        members.push((agent, report.tokens + report.tools.tokens, price));
    }
    if members.is_empty() {
        let text = format!("no agent works on the project {}", project.name);
        return Err(
            Failure::new(Kind::Failed, text).hint(format!("flock project assign {} AGENT", project.name))
        );
    }
    let member = |(agent, prompt, price): &(&'a Agent, u64, Option<ModelCost>)| Member {
        agent,
        prompt: *prompt,
        price: *price,
    };
    Ok(members.iter().cycle().take(size).map(member).collect())
}

/// Returns the time that the newest receipt's checks took. They are run once more to see if they notice a failing test.
fn check_time(home: &Home, project: &Project) -> Result<CheckTime, Failure> {
    if project.checks.is_empty() {
        return Ok(CheckTime { ms: 0, source: "there are none" });
    }
    let filter = ReceiptFilter { project: Some(project.name.to_string()), ..ReceiptFilter::default() };
    let newest = database::read(home, async |reader| reader.receipts().list(&filter, 1).await)?;
    let newest = newest.and_then(|mut found| found.pop());
    let receipt = newest.and_then(|found| Receipt::parse(found.document.as_bytes()).ok());
    Ok(match receipt {
        Some(receipt) => CheckTime { ms: taken(&receipt), source: "as for the newest receipt" },
        None => CheckTime { ms: UNKNOWN_CHECKS, source: "a guess: there is no receipt yet" },
    })
}

fn taken(receipt: &Receipt) -> u64 {
    let runs: u64 = receipt.runs.iter().map(|run| run.took_ms).sum();
    let setup = receipt.setup.as_ref().filter(|setup| !setup.cached).map_or(0, |setup| setup.run.took_ms);
    let again = if receipt.canaries.is_empty() { 1 } else { 2 };
    (runs * again + setup).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::document::SetupRun;
    use crate::receipt::{Checks, testing};

    #[test]
    fn the_time_of_the_checks_counts_a_setup_that_ran() {
        let tree = testing::tree(&[("a", "100644", "1")]);
        let mut receipt = testing::receipt(&Checks::of(&["one", "two"]), &tree);
        receipt.runs.iter_mut().for_each(|run| run.took_ms = 2_000);
        assert_eq!(taken(&receipt), 4_000);
        let mut run = testing::run("npm ci", 0, "");
        run.took_ms = 30_000;
        let setup = SetupRun { cached: false, key: String::new(), result_sha256: String::new(), run };
        receipt.setup = Some(setup.clone());
        assert_eq!(taken(&receipt), 34_000);
        receipt.setup = Some(SetupRun { cached: true, ..setup });
        assert_eq!(taken(&receipt), 4_000);
    }
}

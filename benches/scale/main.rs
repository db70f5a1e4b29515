//! How the costs of a team grow with its size, by a simulation on real databases:
//! `cargo bench --bench scale -- [--small] [--agents N…] [--database sqlite|postgres…] [--posts N] [--messages N] [--csv FILE]`.
//!
//! PostgreSQL is the server that `FLOCK_TEST_POSTGRES` names, which lets the measurement in without a password. Each size
//! runs in a process of its own, so that the memory of one is not counted for the next. Prints a Markdown table. Exits with
//! 1 if a limit is missed, or if a message was not delivered. `--small` is a short form of it without limits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::needless_pass_by_value,
    reason = "a program for developers that may fail loudly"
)]

mod placement;
mod server;
mod simulation;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::{Command, ExitCode, Stdio};

use simulation::{Database, Plan};

/// The rows of the table: the name of a figure, its description, and its limit.
const ROWS: [(&str, &str, Option<f64>); 30] = [
    ("turns_count", "turns", None),
    ("simulated_s", "simulated time, s", None),
    ("worked_s", "time that it took, s", None),
    ("step_median_ms", "a step of the scheduler, median, ms", None),
    ("step_p99_ms", "the same, p99", Some(5.0)),
    ("step_max_ms", "the same, longest", None),
    ("round_median_ms", "a round of the scheduler's owner with its reads, median, ms", None),
    ("round_p99_ms", "the same, p99", None),
    ("look_median_ms", "a look for work that nobody announced, median, ms", None),
    ("look_p99_ms", "the same, p99", None),
    ("post_median_ms", "a person's post until it is committed, median, ms", None),
    ("post_p99_ms", "the same, p99", None),
    ("agent_post_median_ms", "an agent's post, median, ms", None),
    ("wake_median_ms", "from a person's post to the start of a turn, median, ms", None),
    ("wake_p99_ms", "the same, p99", Some(100.0)),
    ("wake_max_ms", "the same, longest", None),
    ("ready_median_ms", "from a person's post until its turn has read it, median, ms", None),
    ("ready_p99_ms", "the same, p99", None),
    ("placement_median_ms", "choosing the engine of an agent, one for each 100 agents, median, ms", None),
    ("placement_p99_ms", "the same, p99", None),
    ("placed_median_ms", "placing an agent, with its rows and the answers of engines, median, ms", None),
    ("placed_p99_ms", "the same, p99", None),
    ("found_median_ms", "finding the engine of an agent for a command, median, ms", None),
    ("found_p99_ms", "the same, p99", None),
    ("moves_ms", "looking which agents have to move to another engine, ms", None),
    ("configuration_ms", "reading the configuration, ms", None),
    ("first_look_ms", "the first look of a start, ms", None),
    ("memory_mib", "resident memory at the end, MiB", None),
    ("database_mib", "size of the database, MiB", None),
    ("fill_s", "filling the database before, s", None),
];

/// What the command line asks for.
struct Options {
    agents: Vec<usize>,
    databases: Vec<String>,
    posts: usize,
    messages: usize,
    csv: Option<String>,
    has_limits: bool,
    /// Set in a process that makes one measurement.
    is_one: bool,
}

/// The figures of one measurement, by name.
type Measured = HashMap<String, f64>;

fn main() -> ExitCode {
    let options = options();
    if options.is_one {
        one(&options);
        return ExitCode::SUCCESS;
    }
    let mut columns: Vec<(String, usize, Measured)> = Vec::new();
    for database in &options.databases {
        for agents in &options.agents {
            eprintln!("{agents} agents on {database}");
            columns.push((database.clone(), *agents, measure(&options, database, *agents)));
        }
    }
    println!("{}", table(&columns));
    if let Some(file) = &options.csv {
        std::fs::write(file, csv(&columns)).unwrap();
    }
    let mut is_good = true;
    for (database, agents, figures) in &columns {
        let missed = ROWS.iter().filter(|_| options.has_limits).filter_map(|(name, _, limit)| {
            let value = figures[*name];
            limit.filter(|limit| value.is_nan() || value > *limit).map(|limit| (*name, value, limit))
        });
        for (name, value, limit) in missed {
            eprintln!("{agents} agents on {database}: {name} is {value:.1}, and the limit is {limit}");
            is_good = false;
        }
        if figures["undelivered_count"] != 0.0 {
            eprintln!("{agents} agents on {database}: messages were not delivered");
            is_good = false;
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options() -> Options {
    let mut options = Options {
        agents: Vec::new(),
        databases: Vec::new(),
        posts: 300,
        messages: 10,
        csv: None,
        has_limits: true,
        is_one: false,
    };
    let mut words = std::env::args().skip(1).peekable();
    while let Some(word) = words.next() {
        let mut value = || words.next_if(|next| !next.starts_with("--")).expect("an option lacks its value");
        match word.as_str() {
            "--small" => {
                (options.agents, options.posts, options.has_limits) = (vec![40], 10, false);
            }
            "--agents" => {
                options.agents = vec![value().parse().unwrap()];
                while let Some(next) = words.next_if(|next| !next.starts_with("--")) {
                    options.agents.push(next.parse().unwrap());
                }
            }
            "--database" => {
                options.databases = vec![value()];
                options.databases.extend(words.next_if(|next| !next.starts_with("--")));
            }
            "--posts" => options.posts = value().parse().unwrap(),
            "--messages" => options.messages = value().parse().unwrap(),
            "--csv" => options.csv = Some(value()),
            "--one" => options.is_one = true,
            // Cargo adds this word.
            "--bench" => {}
            other => panic!("unknown option {other}"),
        }
    }
    if options.agents.is_empty() {
        options.agents = vec![100, 1_000, 10_000];
    }
    if options.databases.is_empty() {
        options.databases.push("sqlite".to_owned());
        options.databases.extend(server::address().map(|_| "postgres".to_owned()));
    }
    options
}

/// Makes one measurement in a process of its own.
fn measure(options: &Options, database: &str, agents: usize) -> Measured {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--one", "--database", database, "--agents", &agents.to_string()])
        .args(["--posts", &options.posts.to_string(), "--messages", &options.messages.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{agents} agents on {database}: the measurement failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

fn one(options: &Options) {
    let database = || match options.databases[0].as_str() {
        "sqlite" => Database::Sqlite,
        "postgres" => Database::postgres(&server::address().expect("FLOCK_TEST_POSTGRES names no server")),
        other => panic!("unknown database {other}"),
    };
    let plan = Plan { agents: options.agents[0], messages: options.messages, posts: options.posts, seed: 7 };
    let folder = tempfile::Builder::new().prefix("flock-scale-").tempdir_in("/var/tmp").unwrap();
    let agents = plan.agents;
    let mut figures = simulation::run(plan, &database(), folder.path());
    figures.set_sample("placement", placement::decisions(agents));
    placement::stored(agents, &database(), folder.path(), &mut figures);
    for (name, value) in figures.all() {
        println!("{name}={value}");
    }
}

fn table(columns: &[(String, usize, Measured)]) -> String {
    let mut text = "| figure | limit |".to_owned();
    for (database, agents, _) in columns {
        write!(text, " {database}, {agents} agents |").unwrap();
    }
    write!(text, "\n|---|---|{}\n", "---|".repeat(columns.len())).unwrap();
    for (name, description, limit) in ROWS {
        let limit = limit.map(|limit| limit.to_string()).unwrap_or_default();
        write!(text, "| {description} | {limit} |").unwrap();
        for (_, _, figures) in columns {
            write!(text, " {} |", shown(figures[name])).unwrap();
        }
        text.push('\n');
    }
    text
}

/// Returns a number with three digits that count.
fn shown(value: f64) -> String {
    match value {
        value if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

fn csv(columns: &[(String, usize, Measured)]) -> String {
    let Some((_, _, first)) = columns.first() else { return String::new() };
    let mut names: Vec<&String> = first.keys().collect();
    names.sort();
    let mut text = "database,agents,channels".to_owned();
    names.iter().for_each(|name| write!(text, ",{name}").unwrap());
    for (database, agents, figures) in columns {
        write!(text, "\n{database},{agents},{}", agents * 10).unwrap();
        names.iter().for_each(|name| write!(text, ",{}", figures[name.as_str()]).unwrap());
    }
    text.push('\n');
    text
}

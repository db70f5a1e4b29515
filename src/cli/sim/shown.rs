//! The outcome of a simulation, for people and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Member, Range, Simulation};
use crate::cli::Context;
use crate::config::Review;
use crate::project::simulation::{Outcome, Spent, Wait};
use crate::provider::price;
use crate::ui::progress::span;
use crate::ui::{StyledLine, Table, TextStyle};

/// A larger team has to be faster by this factor to be worth naming.
const WORTH: f64 = 1.1;
/// The most paths with conflicts that are shown.
const MAX_PATHS: usize = 8;

/// Prints a simulation.
pub(super) fn print(simulation: &Simulation<'_>, context: &Context) {
    if context.printer.is_json() {
        context.printer.json(&document(simulation));
        return;
    }
    let Some(whole) = simulation.by_size.last() else { return };
    let checks = span(Duration::from_millis(simulation.checks.ms));
    let line = format!(
        "{} of the last changes of {} done again by {} agent{}; no model was asked. The checks take {checks} ({}), a call of a \
         model {}.",
        simulation.work,
        simulation.project.name,
        simulation.team.len(),
        if simulation.team.len() == 1 { "" } else { "s" },
        simulation.checks.source,
        span(Duration::from_millis(simulation.call_ms)),
    );
    context.printer.line(line);
    for table in [sizes(simulation), members(simulation, whole), waits(whole), conflicts(whole)] {
        if !table.is_empty() {
            context.printer.line(String::new());
            context.printer.table(&table);
        }
    }
    context.printer.line(String::new());
    if simulation.project.review == Review::Agent {
        let text = "One agent alone has nobody who reviews its work: a person does.";
        context.printer.line(StyledLine::new().with(TextStyle::Dim, text));
    }
    context.printer.line(StyledLine::new().with(TextStyle::Strong, advice(simulation)));
}

/// Returns the two ends of a range, or one text if they are the same.
fn range(low: &str, high: &str) -> String {
    if low == high { low.to_owned() } else { format!("{low} – {high}") }
}

fn time(low: u64, high: u64) -> String {
    range(&duration(low), &duration(high))
}

/// Returns a duration, such as `38s` or `10h 38m`.
fn duration(ms: u64) -> String {
    let minutes = ms / 60_000;
    if minutes < 60 {
        return span(Duration::from_millis(ms));
    }
    format!("{}h {:02}m", minutes / 60, minutes % 60)
}

fn count(low: u64, high: u64) -> String {
    range(&rounded(low), &rounded(high))
}

/// Returns a number of tokens in thousands or millions.
fn rounded(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// Returns dollars and cents. Rounding up, so that a small cost never looks like none.
fn dollars(micros: u64) -> String {
    let cents = micros.div_ceil(10_000);
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn tokens(spent: &Spent) -> u64 {
    let usage = spent.usage;
    usage.input + usage.cache_read + usage.cache_write + usage.output
}

/// Returns the cost of what an agent spends in millionths of a dollar. `None` if its model has no known price.
fn cost(member: &Member<'_>, outcome: &Outcome, at: usize) -> Option<u64> {
    let (spent, _) = outcome.agents.get(at)?;
    member.price.as_ref().map(|price| price::cost(price, &spent.usage))
}

/// Returns the cost of all agents. `None` if one of their prices is not known.
fn whole_cost(team: &[Member<'_>], outcome: &Outcome) -> Option<u64> {
    team.iter().enumerate().map(|(at, member)| cost(member, outcome, at)).sum()
}

fn price_range(low: Option<u64>, high: Option<u64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => range(&dollars(low), &dollars(high)),
        _ => "unknown".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "times of less than a century")]
fn ratio(one: u64, other: u64) -> f64 {
    if other == 0 { 1.0 } else { one as f64 / other as f64 }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", ratio(part, whole.max(1)) * 100.0)
}

fn sizes(simulation: &Simulation<'_>) -> Table {
    let mut table =
        Table::new(&["AGENTS", "TIME", "FASTER", "CALLS", "TOKENS", "USD", "CAME BACK", "TRAIN BUSY"]);
    let Some(alone) = simulation.by_size.first() else { return table };
    for (at, Range { low, high }) in simulation.by_size.iter().enumerate() {
        let team = &simulation.team[..=at];
        let faster = |own: &Outcome, alone: &Outcome| format!("{:.1}×", ratio(alone.took, own.took));
        let (cheap, dear) = (low.spent(), high.spent());
        table.row([
            (at + 1).to_string(),
            time(low.took, high.took),
            range(&faster(low, &alone.low), &faster(high, &alone.high)),
            count(cheap.calls, dear.calls),
            count(tokens(&cheap), tokens(&dear)),
            price_range(whole_cost(team, low), whole_cost(team, high)),
            range(&low.came_back.to_string(), &high.came_back.to_string()),
            range(&percent(low.train, low.took), &percent(high.train, high.took)),
        ]);
    }
    table
}

fn members(simulation: &Simulation<'_>, whole: &Range) -> Table {
    let mut table = Table::new(&["AGENT", "MODEL", "CALLS", "TOKENS", "USD", "BUSY"]);
    for (at, member) in simulation.team.iter().enumerate() {
        let [(cheap, short), (dear, long)] = [&whole.low, &whole.high].map(|outcome| outcome.agents[at]);
        table.row([
            format!("{} {}", at + 1, member.agent.id),
            member.agent.model.as_ref().map_or_else(String::new, ToString::to_string),
            count(cheap.calls, dear.calls),
            count(tokens(&cheap), tokens(&dear)),
            price_range(cost(member, &whole.low, at), cost(member, &whole.high, at)),
            range(&percent(short, whole.low.took), &percent(long, whole.high.took)),
        ]);
    }
    table
}

/// The waits of an outcome, each with its name for people and in JSON.
fn named_waits(outcome: &Outcome) -> [(&'static str, &'static str, Wait); 3] {
    [
        ("others in the merge train", "train", outcome.queue),
        ("its reviewer", "reviewer", outcome.reviewer),
        ("work again after a conflict", "conflict", outcome.conflict),
    ]
}

fn waits(whole: &Range) -> Table {
    let mut table = Table::new(&["WORK WAITS FOR", "TOGETHER", "LONGEST"]);
    for ((name, _, low), (_, _, high)) in named_waits(&whole.low).into_iter().zip(named_waits(&whole.high)) {
        if low.total + high.total > 0 {
            table.row([name.to_owned(), time(low.total, high.total), time(low.longest, high.longest)]);
        }
    }
    table
}

fn conflicts(whole: &Range) -> Table {
    let mut table = Table::new(&["CONFLICTS AT", "NUMBER"]);
    let mut paths: Vec<(&String, u64, u64)> = whole
        .high
        .conflicts
        .iter()
        .map(|(path, high)| (path, whole.low.conflicts.get(path).copied().unwrap_or_default(), *high))
        .collect();
    paths.sort_by_key(|(_, low, high)| std::cmp::Reverse(low + high));
    for (path, low, high) in paths.into_iter().take(MAX_PATHS) {
        table.row([path.clone(), range(&low.to_string(), &high.to_string())]);
    }
    table
}

/// Returns the size of a team above which another agent brings less than a tenth, at the lower end.
fn enough(by_size: &[Range]) -> usize {
    let mut best = 1;
    for (at, range) in by_size.iter().enumerate().skip(1) {
        let before = by_size.get(best - 1).map_or(0, |range| range.low.took);
        if ratio(before, range.low.took) >= WORTH {
            best = at + 1;
        }
    }
    best
}

fn advice(simulation: &Simulation<'_>) -> String {
    let size = simulation.by_size.len();
    let enough = enough(&simulation.by_size);
    let Some(Range { low, .. }) = simulation.by_size.last() else { return String::new() };
    let why = match named_waits(low).into_iter().max_by_key(|(_, _, wait)| wait.total) {
        Some((name, _, wait)) if wait.total > 0 => format!(" Most of the waiting is for {name}."),
        _ => String::new(),
    };
    if enough < size {
        return format!(
            "More than {enough} agent{} would gain little.{why}",
            if enough == 1 { "" } else { "s" }
        );
    }
    format!("Each of the {size} agents makes the team faster.{why}")
}

fn outcome_document(simulation: &Simulation<'_>, team: &[Member<'_>], outcome: &Outcome) -> Value {
    let spent = outcome.spent();
    let agents: Vec<Value> = team
        .iter()
        .enumerate()
        .map(|(at, member)| {
            let (spent, busy) = outcome.agents[at];
            json!({
                "agent": member.agent.id,
                "model": member.agent.model,
                "calls": spent.calls,
                "usage": spent.usage,
                "costMicros": cost(member, outcome, at),
                "busyMs": busy,
            })
        })
        .collect();
    let waits: serde_json::Map<String, Value> = named_waits(outcome)
        .into_iter()
        .map(|(_, key, wait)| (key.to_owned(), json!({"totalMs": wait.total, "longestMs": wait.longest})))
        .collect();
    json!({
        "tookMs": outcome.took,
        "calls": spent.calls,
        "usage": spent.usage,
        "costMicros": whole_cost(team, outcome),
        "cameBack": outcome.came_back,
        "checked": outcome.checked,
        "trainMs": outcome.train,
        "checkMs": simulation.checks.ms,
        "waits": waits,
        "conflicts": outcome.conflicts,
        "agents": agents,
    })
}

fn document(simulation: &Simulation<'_>) -> Value {
    let sizes: Vec<Value> = simulation
        .by_size
        .iter()
        .enumerate()
        .map(|(at, range)| {
            let team = &simulation.team[..=at];
            json!({
                "agents": at + 1,
                "low": outcome_document(simulation, team, &range.low),
                "high": outcome_document(simulation, team, &range.high),
            })
        })
        .collect();
    json!({
        "project": simulation.project.name,
        "work": simulation.work,
        "checkMs": simulation.checks.ms,
        "checkSource": simulation.checks.source,
        "callMs": simulation.call_ms,
        "enough": enough(&simulation.by_size),
        "sizes": sizes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_look_like_nothing() {
        assert_eq!([0, 9_999, 12_345, 2_560_000].map(rounded), ["0", "9999", "12k", "2.5M"]);
        assert_eq!([0, 1, 10_000, 1_234_567].map(dollars), ["0.00", "0.01", "0.01", "1.24"]);
        assert_eq!(range("1", "1"), "1");
        assert_eq!(
            [59_000, 3_540_000, 3_600_000, 45_300_000].map(duration),
            ["59s", "59m 00s", "1h 00m", "12h 35m"]
        );
        assert_eq!(price_range(Some(1), None), "unknown");
    }

    #[test]
    fn a_team_is_large_enough_when_another_agent_gains_less_than_a_tenth() {
        let range = |took| Range { low: Outcome { took, ..Outcome::default() }, high: Outcome::default() };
        assert_eq!(enough(&[range(100), range(60), range(58), range(57)]), 2);
        assert_eq!(enough(&[range(100), range(100)]), 1);
        assert_eq!(enough(&[range(100), range(100), range(50)]), 3);
    }
}

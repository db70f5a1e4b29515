//! `flock usage`: shows how much models were used and what that cost.

use jiff::Zoned;
use jiff::civil::Date;

use super::{Context, Exit, Failure};
use crate::cli::database;
use crate::id::AgentId;
use crate::store::{BridgeTraffic, UsageBy, UsageSum};
use crate::swarm::budget;
use crate::ui::{Table, TextStyle};

/// Show the usage of models and its cost
///
/// Days are days in the time zone of this machine. The cost is the charge that the provider reports, else it is
/// computed from the configuration (models.providers.NAME.models[].cost) or the price table. It is not a bill. For a
/// model without a price, only the tokens are counted. The messages over each bridge are shown below.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock usage
  flock usage --since 2026-02-01 --by model")]
pub(crate) struct Args {
    /// Day to show, as in 2026-02-28 [default: today]
    #[arg(long, conflicts_with = "since")]
    day: Option<Date>,
    /// First day to show; all later days are shown, too
    #[arg(long, value_name = "DAY")]
    since: Option<Date>,
    /// Show only the usage of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Grouping of the sums
    #[arg(long, value_enum, default_value_t)]
    by: UsageBy,
}

/// Prints the sums for a period of time.
///
/// # Errors
///
/// Returns an error if there is no home, or if the database can't be read.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    // A day is a day in the time zone of this machine, as people expect.
    let filter = budget::usage_filter(args.day, args.since, Zoned::now().date(), args.agent.clone());
    let found = database::read(&home, async |reader| {
        Ok((reader.usage().sums(&filter, args.by).await?, reader.usage().bridges(&filter).await?))
    })?;
    let (sums, bridges) = found.unwrap_or_default();
    if context.printer.is_json() {
        context.printer.json(&budget::report(&filter, &sums, &bridges));
        return Ok(Exit::Done);
    }
    if sums.is_empty() {
        context.printer.say("no model was asked in that time");
    } else {
        show_sums(&sums, args.by, context);
    }
    if !bridges.is_empty() {
        context.printer.line("");
        context.printer.table(&bridge_table(&bridges));
    }
    Ok(Exit::Done)
}

fn show_sums(sums: &[UsageSum], by: UsageBy, context: &Context) {
    let sum = budget::total(sums);
    context.printer.table(&table(sums, &sum, by));
    if sum.unpriced > 0 {
        let calls =
            if sum.unpriced == 1 { "1 call was".to_owned() } else { format!("{} calls were", sum.unpriced) };
        let text = format!("{calls} of models whose price is not known: their cost is not counted");
        context.printer.warn(&text);
    }
}

fn bridge_table(bridges: &[BridgeTraffic]) -> Table {
    let mut table = Table::new(&["BRIDGE", "RECEIVED", "SENT"]);
    for bridge in bridges {
        table.styled_row(vec![
            (TextStyle::Accent, bridge.name.clone()),
            (TextStyle::Plain, bridge.received.to_string()),
            (TextStyle::Plain, bridge.sent.to_string()),
        ]);
    }
    table
}

fn table(sums: &[UsageSum], total: &UsageSum, by: UsageBy) -> Table {
    let name = match by {
        UsageBy::Agent => "AGENT",
        UsageBy::Channel => "CHANNEL",
        UsageBy::Model => "MODEL",
        UsageBy::Day => "DAY",
        UsageBy::Server => "MCP SERVER",
        UsageBy::Person => "PERSON",
    };
    let mut table = Table::new(&[name, "CALLS", "INPUT", "CACHED", "OUTPUT", "USD"]);
    for (tone, sum) in sums.iter().map(|sum| (TextStyle::Accent, sum)).chain([(TextStyle::Strong, total)]) {
        let name = if sum.name.is_empty() { "(no channel)" } else { &sum.name };
        table.styled_row(vec![
            (tone, name.to_owned()),
            (TextStyle::Plain, sum.calls.to_string()),
            (TextStyle::Plain, (sum.input + sum.cache_write).to_string()),
            (TextStyle::Plain, sum.cache_read.to_string()),
            (TextStyle::Plain, sum.output.to_string()),
            (TextStyle::Plain, dollars(sum)),
        ]);
    }
    table
}

/// Formats dollars with four decimal places. A `+` marks a sum in which some prices are unknown.
fn dollars(sum: &UsageSum) -> String {
    // No price at all is known, and `0.0000` would look as if it were free.
    if sum.unpriced == sum.calls && sum.calls > 0 {
        return "unknown".to_owned();
    }
    // Rounding up, so that a small cost never looks like none.
    let ten_thousandths = sum.cost_micros.div_ceil(100);
    let more = if sum.unpriced > 0 { "+" } else { "" };
    format!("{}.{:04}{more}", ten_thousandths / 10_000, ten_thousandths % 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_have_four_places_and_mark_unknown_prices() {
        let sum =
            |calls, unpriced, cost_micros| UsageSum { calls, unpriced, cost_micros, ..UsageSum::default() };
        assert_eq!(dollars(&sum(1, 0, 1)), "0.0001");
        assert_eq!(dollars(&sum(1, 0, 12_345_600)), "12.3456");
        assert_eq!(dollars(&sum(2, 1, 1_000_000)), "1.0000+");
        assert_eq!(dollars(&sum(2, 2, 0)), "unknown");
        assert_eq!(dollars(&sum(0, 0, 0)), "0.0000");
    }
}

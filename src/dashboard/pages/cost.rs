//! The cost of the use of models: by day, agent, model and channel, as plots with the numbers beside them.

use askama::Template;
use jiff::ToSpan as _;
use serde::Deserialize;

use crate::dashboard::format::{count, fill, money};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};

/// The spans of time that can be chosen, in days.
const SPANS: [i64; 4] = [1, 7, 30, 90];
/// The span of a page that names none.
const DEFAULT_SPAN: i64 = 1;
/// The longest bar.
const BAR: u64 = 100;

#[derive(Deserialize)]
pub(super) struct Usage {
    pub(super) usage: Vec<Sum>,
    total: Sum,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sum {
    pub(super) name: String,
    calls: u64,
    unpriced: u64,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    pub(super) cost_micros: u64,
    pub(super) tokens: u64,
}

#[derive(Deserialize)]
pub(super) struct BudgetList {
    pub(super) budgets: Vec<Budget>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Budget {
    pub(super) scope: String,
    pub(super) name: String,
    tokens: Option<Amount>,
    cost_micros: Option<Amount>,
}

#[derive(Deserialize)]
struct Amount {
    limit: u64,
    used: u64,
    reserved: u64,
}

/// The number by which the rows of the tables are sorted, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Cost,
    Tokens,
    Input,
    Output,
    Cache,
    Calls,
}

impl Measure {
    /// All of them, in the order of the columns.
    const ALL: [Self; 6] = [Self::Cost, Self::Tokens, Self::Input, Self::Output, Self::Cache, Self::Calls];

    /// Returns its name in the address of the page.
    const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Tokens => "tokens",
            Self::Input => "input",
            Self::Output => "output",
            Self::Cache => "cache",
            Self::Calls => "calls",
        }
    }

    const fn title(self, texts: &Texts) -> &'static str {
        match self {
            Self::Cost => texts.cost,
            Self::Tokens => texts.tokens,
            Self::Input => texts.input,
            Self::Output => texts.output,
            Self::Cache => texts.cache,
            Self::Calls => texts.calls,
        }
    }

    fn of(self, sum: &Sum) -> u64 {
        match self {
            Self::Cost => sum.cost_micros,
            Self::Tokens => sum.tokens,
            Self::Input => sum.input,
            Self::Output => sum.output,
            Self::Cache => sum.cache_read.saturating_add(sum.cache_write),
            Self::Calls => sum.calls,
        }
    }
}

/// The head of a column with numbers.
struct ColumnView {
    title: &'static str,
    /// The address of the page with the rows in the order of this column.
    address: String,
    is_sorted: bool,
    is_first: bool,
}

#[derive(Template)]
#[template(path = "cost.html")]
struct CostPage {
    layout: Layout,
    spans: Vec<Span>,
    columns: Vec<ColumnView>,
    total: SumView,
    budgets: Vec<BudgetView>,
    tables: Vec<TableView>,
}

/// A limit for today, in tokens or in money.
pub(super) struct BudgetView {
    name: String,
    pub(super) used: String,
    reserved: String,
    pub(super) limit: String,
    /// Lengths of the two parts of its bar.
    used_bar: u64,
    reserved_bar: u64,
    pub(super) is_used_up: bool,
}

struct Span {
    address: String,
    text: String,
    is_shown: bool,
}

struct TableView {
    id: &'static str,
    title: &'static str,
    sums: Vec<SumView>,
    export: String,
}

struct SumView {
    name: String,
    calls: String,
    input: String,
    output: String,
    cache: String,
    tokens: String,
    cost: String,
    /// Calls without a known price, which the cost lacks.
    unpriced: u64,
    /// Length of its bar.
    bar: u64,
}

/// Returns the page. `?days=` in its query chooses the span of time, and `&sort=` the number by which rows are sorted.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query: &str) -> Result<Page, ApiFailure> {
    let days = query::value(query, "days").and_then(|days| days.parse().ok()).unwrap_or(DEFAULT_SPAN);
    let days = if SPANS.contains(&days) { days } else { DEFAULT_SPAN };
    let sort = query::value(query, "sort");
    let sort = Measure::ALL.into_iter().find(|measure| sort.as_deref() == Some(measure.name()));
    let texts = viewer.texts();
    // Days are those of this machine's time zone.
    let today = jiff::Zoned::now().date();
    let since = today.checked_sub((days - 1).days()).unwrap_or(today);
    let by = [
        ("day", texts.by_day),
        ("agent", texts.by_agent),
        ("model", texts.by_model),
        ("channel", texts.by_channel),
    ];
    let paths = by.map(|(by, _)| format!("/api/usage?since={since}&by={by}"));
    let of_people = format!("/api/usage?since={since}&by=person");
    let (budgets, day, agent, model, channel, person) = tokio::join!(
        fetch::<BudgetList>(api, "/api/usage/budgets"),
        fetch::<Usage>(api, &paths[0]),
        fetch::<Usage>(api, &paths[1]),
        fetch::<Usage>(api, &paths[2]),
        fetch::<Usage>(api, &paths[3]),
        fetch::<Usage>(api, &of_people),
    );
    let all = [day?, agent?, model?, channel?];
    let total = sum_view(texts, &all[0].total, 0);
    let mut person = person?;
    // What counts for nobody is the owner's and the team's own, and without people that is all.
    person.usage.retain(|sum| !sum.name.is_empty());
    let person = (!person.usage.is_empty()).then_some((("person", texts.by_person), person));
    let tables = by.into_iter().zip(all).chain(person).map(|((by, title), usage)| TableView {
        id: by,
        title,
        sums: sums(texts, usage.usage, by == "day", sort),
        export: format!("/api/usage?since={since}&by={by}&format=csv"),
    });
    let spans = SPANS.map(|span| Span {
        address: match sort {
            Some(sort) => format!("/dashboard/cost?days={span}&sort={}", sort.name()),
            None => format!("/dashboard/cost?days={span}"),
        },
        text: if span == 1 { texts.today.to_owned() } else { fill(texts.last_days, &[&span.to_string()]) },
        is_shown: span == days,
    });
    let columns = Measure::ALL.map(|measure| ColumnView {
        title: measure.title(texts),
        address: format!("/dashboard/cost?days={days}&sort={}", measure.name()),
        is_sorted: sort == Some(measure),
        is_first: measure == Measure::Cost,
    });
    Page::of(&CostPage {
        columns: columns.into(),
        budgets: budgets?.budgets.iter().flat_map(|budget| budget_views(texts, budget)).collect(),
        tables: tables.collect(),
        layout: Layout::new(viewer, Some(NavItem::Cost), texts.cost),
        spans: spans.into(),
        total,
    })
}

/// Returns a row for each limit of a budget.
pub(super) fn budget_views(texts: &Texts, budget: &Budget) -> Vec<BudgetView> {
    let name = match budget.scope.as_str() {
        "agent" => fill(texts.budget_of_agent, &[&budget.name]),
        "channel" => fill(texts.budget_of_channel, &[&budget.name]),
        "person" => fill(texts.budget_of_person, &[&budget.name]),
        _ => texts.budget_of_day.to_owned(),
    };
    let row = |amount: &Amount, shown: &dyn Fn(u64) -> String| {
        let part =
            |part: u64| (u128::from(part) * u128::from(BAR) / u128::from(amount.limit.max(1))).min(100);
        let (used, taken) = (part(amount.used), part(amount.used.saturating_add(amount.reserved)));
        BudgetView {
            name: name.clone(),
            used: shown(amount.used),
            reserved: shown(amount.reserved),
            limit: shown(amount.limit),
            used_bar: u64::try_from(used).unwrap_or(BAR),
            reserved_bar: u64::try_from(taken - used).unwrap_or(BAR),
            is_used_up: amount.used >= amount.limit,
        }
    };
    let tokens = budget
        .tokens
        .as_ref()
        .map(|amount| row(amount, &|tokens| fill(texts.count_of_tokens, &[&count(tokens)])));
    let cost = budget.cost_micros.as_ref().map(|amount| row(amount, &money));
    tokens.into_iter().chain(cost).collect()
}

/// Returns the rows of a table. Without a chosen number, days stay in their order, and of all others the most expensive
/// comes first. The bars show the number by which the rows are sorted.
fn sums(texts: &Texts, mut sums: Vec<Sum>, are_days: bool, sort: Option<Measure>) -> Vec<SumView> {
    let weight = |sum: &Sum| match sort {
        Some(measure) => (measure.of(sum), sum.cost_micros),
        None => (sum.cost_micros, sum.tokens),
    };
    if are_days && sort.is_none() {
        sums.reverse();
    } else {
        sums.sort_by_key(|sum| std::cmp::Reverse(weight(sum)));
    }
    let has_cost = sums.iter().any(|sum| sum.cost_micros > 0);
    // Without a known price, tokens say who uses most.
    let measure = sort.unwrap_or(if has_cost { Measure::Cost } else { Measure::Tokens });
    let size = |sum: &Sum| measure.of(sum);
    let most = sums.iter().map(size).max().unwrap_or_default().max(1);
    sums.iter()
        .map(|sum| sum_view(texts, sum, (size(sum).saturating_mul(BAR) / most).max(u64::from(size(sum) > 0))))
        .collect()
}

fn sum_view(texts: &Texts, sum: &Sum, bar: u64) -> SumView {
    SumView {
        name: if sum.name.is_empty() { texts.no_channel.to_owned() } else { sum.name.clone() },
        calls: count(sum.calls),
        input: count(sum.input),
        output: count(sum.output),
        cache: count(sum.cache_read + sum.cache_write),
        tokens: count(sum.tokens),
        cost: money(sum.cost_micros),
        unpriced: sum.unpriced,
        bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::Language;

    fn sum(name: &str, cost_micros: u64, tokens: u64, calls: u64) -> Sum {
        let (input, output, cache_read, cache_write) = (tokens, 0, 0, 0);
        Sum {
            name: name.to_owned(),
            calls,
            unpriced: 0,
            input,
            output,
            cache_read,
            cache_write,
            cost_micros,
            tokens,
        }
    }

    #[test]
    fn rows_are_sorted_by_the_chosen_number_which_the_bars_show() {
        let shown = |are_days, sort| {
            let rows = vec![sum("a", 5, 100, 1), sum("b", 9, 50, 4), sum("c", 0, 200, 2)];
            let rows = sums(Language::English.texts(), rows, are_days, sort);
            rows.into_iter().map(|row| (row.name, row.bar)).collect::<Vec<_>>()
        };
        let of = |rows: [(&str, u64); 3]| rows.map(|(name, bar)| (name.to_owned(), bar)).to_vec();
        assert_eq!(shown(false, None), of([("b", 100), ("a", 55), ("c", 0)]));
        assert_eq!(shown(false, Some(Measure::Tokens)), of([("c", 100), ("a", 50), ("b", 25)]));
        assert_eq!(shown(false, Some(Measure::Calls)), of([("b", 100), ("c", 50), ("a", 25)]));
        assert_eq!(shown(true, None), of([("c", 0), ("b", 100), ("a", 55)]), "the newest day first");
        assert_eq!(shown(true, Some(Measure::Tokens)), of([("c", 100), ("a", 50), ("b", 25)]));
    }
}

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
const DEFAULT_SPAN: i64 = 7;
/// The longest bar.
const BAR: u64 = 100;

#[derive(Deserialize)]
struct Usage {
    usage: Vec<Sum>,
    total: Sum,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sum {
    name: String,
    calls: u64,
    unpriced: u64,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    cost_micros: u64,
    tokens: u64,
}

#[derive(Deserialize)]
struct BudgetList {
    budgets: Vec<Budget>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Budget {
    scope: String,
    name: String,
    tokens: Option<Amount>,
    cost_micros: Option<Amount>,
}

#[derive(Deserialize)]
struct Amount {
    limit: u64,
    used: u64,
    reserved: u64,
}

#[derive(Template)]
#[template(path = "cost.html")]
struct CostPage {
    layout: Layout,
    spans: Vec<Span>,
    total: SumView,
    budgets: Vec<BudgetView>,
    tables: Vec<TableView>,
}

/// A limit for today, in tokens or in money.
struct BudgetView {
    name: String,
    used: String,
    reserved: String,
    limit: String,
    /// Lengths of the two parts of its bar.
    used_bar: u64,
    reserved_bar: u64,
    is_used_up: bool,
}

struct Span {
    days: i64,
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

/// Returns the page. `?days=` in its query chooses the span of time.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query: &str) -> Result<Page, ApiFailure> {
    let days = query::value(query, "days").and_then(|days| days.parse().ok()).unwrap_or(DEFAULT_SPAN);
    let days = if SPANS.contains(&days) { days } else { DEFAULT_SPAN };
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
    let (budgets, day, agent, model, channel) = tokio::join!(
        fetch::<BudgetList>(api, "/api/usage/budgets"),
        fetch::<Usage>(api, &paths[0]),
        fetch::<Usage>(api, &paths[1]),
        fetch::<Usage>(api, &paths[2]),
        fetch::<Usage>(api, &paths[3]),
    );
    let all = [day?, agent?, model?, channel?];
    let total = sum_view(texts, &all[0].total, 0);
    let tables = by.into_iter().zip(all).map(|((by, title), usage)| TableView {
        id: by,
        title,
        sums: sums(texts, usage.usage, by == "day"),
        export: format!("/api/usage?since={since}&by={by}&format=csv"),
    });
    let spans = SPANS.map(|span| Span {
        days: span,
        text: if span == 1 { texts.today.to_owned() } else { fill(texts.last_days, &[&span.to_string()]) },
        is_shown: span == days,
    });
    Page::of(&CostPage {
        budgets: budgets?.budgets.iter().flat_map(|budget| budget_views(texts, budget)).collect(),
        tables: tables.collect(),
        layout: Layout::new(viewer, Some(NavItem::Cost), texts.cost),
        spans: spans.into(),
        total,
    })
}

/// Returns a row for each limit of a budget.
fn budget_views(texts: &Texts, budget: &Budget) -> Vec<BudgetView> {
    let name = match budget.scope.as_str() {
        "agent" => fill(texts.budget_of_agent, &[&budget.name]),
        "channel" => fill(texts.budget_of_channel, &[&budget.name]),
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

/// Returns the rows of a table. Days stay in their order; of all others the most expensive comes first.
fn sums(texts: &Texts, mut sums: Vec<Sum>, are_days: bool) -> Vec<SumView> {
    let weight = |sum: &Sum| (sum.cost_micros, sum.tokens);
    if are_days {
        sums.reverse();
    } else {
        sums.sort_by_key(|sum| std::cmp::Reverse(weight(sum)));
    }
    let has_cost = sums.iter().any(|sum| sum.cost_micros > 0);
    // Without a known price, tokens say who uses most.
    let size = |sum: &Sum| if has_cost { sum.cost_micros } else { sum.tokens };
    let most = sums.iter().map(size).max().unwrap_or_default().max(1);
    sums.iter()
        .map(|sum| sum_view(texts, sum, (size(sum) * BAR / most).max(u64::from(size(sum) > 0))))
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

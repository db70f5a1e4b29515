//! The graph: who talks to whom, the tasks as trees, and who worked when.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::TAU;

use askama::Template;
use serde::Deserialize;

use super::{session, sessions};
use crate::clean;
use crate::dashboard::format::{Moment, fill};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::id::SessionKey;

/// The spans of time that can be chosen, in hours.
const SPANS: [i64; 3] = [1, 6, 24];
const DEFAULT_SPAN: i64 = 24;
const HOUR: i64 = 3_600_000;

/// Size of the picture of contacts, and the circle on which its nodes stand.
const SIZE: f64 = 600.0;
const RADIUS: f64 = 215.0;
/// Width of the line of time, and the height of an agent's row.
const WIDTH: f64 = 1000.0;
const ROW: usize = 28;
/// Width of the narrowest bar on the line of time.
const NARROWEST: f64 = 2.0;

#[derive(Deserialize)]
struct Graph {
    since: i64,
    now: i64,
    contacts: Vec<Contact>,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Contact {
    from: String,
    to: String,
    kind: String,
    count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Turn {
    agent: Option<String>,
    session: SessionKey,
    state: String,
    started_at: i64,
    ended_at: Option<i64>,
}

#[derive(Deserialize)]
struct TaskList {
    tasks: Vec<Task>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    id: String,
    context_id: String,
    requester: String,
    assignee: String,
    session: SessionKey,
    state: String,
    summary: String,
    created_at: i64,
}

#[derive(Template)]
#[template(path = "graph.html")]
struct GraphPage {
    layout: Layout,
    spans: Vec<Span>,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    contacts: Vec<ContactView>,
    trees: Vec<Tree>,
    rows: Vec<Row>,
    marks: Vec<Mark>,
    height: usize,
}

struct Span {
    hours: i64,
    text: String,
    is_shown: bool,
}

struct Node {
    name: String,
    /// `agent`, `human` or `channel`.
    kind: &'static str,
    x: String,
    y: String,
    /// The place where its name begins: `start`, `middle` or `end`.
    anchor: &'static str,
    text_x: String,
    text_y: String,
}

struct Edge {
    from: (String, String),
    to: (String, String),
    width: String,
    title: String,
}

struct ContactView {
    from: String,
    to: String,
    kind: &'static str,
    count: u64,
}

struct Tree {
    id: String,
    tasks: Vec<TaskView>,
}

struct TaskView {
    id: String,
    requester: String,
    assignee: String,
    address: String,
    state: String,
    summary: String,
    created: Moment,
    depth: usize,
}

struct Row {
    agent: String,
    y: usize,
    bars: Vec<Bar>,
}

struct Bar {
    x: String,
    width: String,
    /// The number of turns that it stands for.
    turns: u64,
    state: String,
    title: String,
    address: String,
}

struct Mark {
    x: String,
    text: String,
}

/// Returns the page. `?hours=` in its query chooses the span of time.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query: &str) -> Result<Page, ApiFailure> {
    let hours = query::value(query, "hours").and_then(|hours| hours.parse().ok()).unwrap_or(DEFAULT_SPAN);
    let hours = if SPANS.contains(&hours) { hours } else { DEFAULT_SPAN };
    let since = crate::clock::unix_ms() - hours * HOUR;
    let path = format!("/api/graph?since={since}");
    let (graph, tasks) =
        tokio::join!(fetch::<Graph>(api, &path), fetch::<TaskList>(api, "/api/tasks?limit=200"));
    let (graph, tasks) = (graph?, tasks?);
    let texts = viewer.texts();
    let (nodes, edges) = picture(&graph.contacts);
    let rows = rows(texts, &graph);
    let contacts = graph.contacts.iter().map(|contact| ContactView {
        from: contact.from.clone(),
        to: contact.to.clone(),
        kind: kind_text(texts, &contact.kind),
        count: contact.count,
    });
    let mut contacts: Vec<ContactView> = contacts.collect();
    contacts.sort_by_key(|contact| std::cmp::Reverse(contact.count));
    let spans = SPANS.map(|span| Span {
        hours: span,
        text: fill(texts.last_hours, &[&span.to_string()]),
        is_shown: span == hours,
    });
    Page::of(&GraphPage {
        layout: Layout::new(viewer, Some(NavItem::Graph), texts.graph),
        spans: spans.into(),
        nodes,
        edges,
        contacts,
        trees: trees(tasks.tasks),
        height: rows.len() * ROW + ROW,
        marks: marks(graph.since, graph.now),
        rows,
    })
}

/// Places everybody on a circle and draws a line for each pair, as thick as they talk much.
fn picture(contacts: &[Contact]) -> (Vec<Node>, Vec<Edge>) {
    let names: BTreeSet<&str> = contacts.iter().flat_map(|contact| [&*contact.from, &*contact.to]).collect();
    let places: BTreeMap<&str, f64> =
        names.iter().enumerate().map(|(at, name)| (*name, angle(at, names.len()))).collect();
    let point =
        |angle: f64, radius: f64| (SIZE / 2.0 + radius * angle.sin(), SIZE / 2.0 - radius * angle.cos());
    let nodes = places.iter().map(|(name, angle)| {
        let ((x, y), (text_x, text_y)) = (point(*angle, RADIUS), point(*angle, RADIUS + 14.0));
        Node {
            kind: match name.as_bytes() {
                [b'#', ..] => "channel",
                _ if name.starts_with("human:") => "human",
                _ => "agent",
            },
            anchor: match angle.sin() {
                sine if sine > 0.2 => "start",
                sine if sine < -0.2 => "end",
                _ => "middle",
            },
            name: (*name).to_owned(),
            x: short(x),
            y: short(y),
            text_x: short(text_x),
            text_y: short(text_y + 5.0),
        }
    });
    let mut pairs: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for contact in contacts {
        *pairs.entry((&contact.from, &contact.to)).or_default() += contact.count;
    }
    let most = pairs.values().copied().max().unwrap_or(1);
    let edges = pairs.iter().filter_map(|((from, to), count)| {
        let place =
            |name| places.get(name).map(|angle| point(*angle, RADIUS)).map(|(x, y)| (short(x), short(y)));
        Some(Edge {
            from: place(*from)?,
            to: place(*to)?,
            width: short(1.0 + 7.0 * share(*count, most)),
            title: format!("{from} → {to}: {count}"),
        })
    });
    (nodes.collect(), edges.collect())
}

fn angle(at: usize, of: usize) -> f64 {
    let (at, of) = (u32::try_from(at).unwrap_or(0), u32::try_from(of).unwrap_or(1).max(1));
    TAU * f64::from(at) / f64::from(of)
}

#[allow(clippy::cast_precision_loss, reason = "a picture needs no more than three digits")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn short(number: f64) -> String {
    format!("{number:.1}")
}

/// Returns the tasks of each context as a tree, the newest context first.
fn trees(tasks: Vec<Task>) -> Vec<Tree> {
    let mut contexts: Vec<(String, Vec<Task>)> = Vec::new();
    for task in tasks {
        match contexts.iter_mut().find(|(id, _)| *id == task.context_id) {
            Some((_, tasks)) => tasks.push(task),
            None => contexts.push((task.context_id.clone(), vec![task])),
        }
    }
    contexts
        .into_iter()
        .map(|(id, mut tasks)| {
            tasks.sort_by_key(|task| task.created_at);
            let depths = depths(&tasks);
            let tasks = tasks.into_iter().zip(depths).map(|(task, depth)| TaskView {
                address: sessions::address(&task.session),
                requester: clean::inline(&task.requester).into_owned(),
                summary: clean::inline(&task.summary).into_owned(),
                created: Moment::new(task.created_at),
                id: task.id,
                assignee: task.assignee,
                state: task.state,
                depth,
            });
            Tree { id, tasks: tasks.collect() }
        })
        .collect()
}

/// Returns how deep each task is: one below the newest earlier task whose agent asks for it.
fn depths(tasks: &[Task]) -> Vec<usize> {
    let mut depths: Vec<usize> = Vec::with_capacity(tasks.len());
    for (at, task) in tasks.iter().enumerate() {
        let parent = tasks[..at].iter().rposition(|earlier| earlier.assignee == task.requester);
        depths.push(parent.map_or(0, |parent| depths[parent] + 1).min(8));
    }
    depths
}

/// Returns a row for each agent with its turns on the line of time.
fn rows(texts: &'static Texts, graph: &Graph) -> Vec<Row> {
    let span = (graph.now - graph.since).max(1);
    let place = |at: i64| {
        let at = u64::try_from((at - graph.since).clamp(0, span)).unwrap_or(0);
        WIDTH * share(at, u64::try_from(span).unwrap_or(1))
    };
    let mut turns: Vec<&Turn> = graph.turns.iter().collect();
    turns.sort_by_key(|turn| turn.started_at);
    let mut agents: BTreeMap<&str, Vec<Stretch<'_>>> = BTreeMap::new();
    for turn in turns {
        let Some(agent) = turn.agent.as_deref() else { continue };
        let (begin, end) = (place(turn.started_at), place(turn.ended_at.unwrap_or(graph.now)));
        // A turn of a millisecond can be seen too.
        let end = end.max(begin + NARROWEST);
        let stretches = agents.entry(agent).or_default();
        match stretches.last_mut() {
            Some(last) if last.last.state == turn.state && begin < last.end + NARROWEST => {
                last.add(turn, end);
            }
            _ => stretches.push(Stretch { begin, end, count: 1, first: turn, last: turn }),
        }
    }
    let rows = agents.into_iter().enumerate().map(|(at, (agent, stretches))| Row {
        agent: agent.to_owned(),
        y: at * ROW,
        bars: stretches.iter().map(|stretch| stretch.bar(texts)).collect(),
    });
    rows.collect()
}

/// Turns of one agent in one state that lie so close on the line of time that they are drawn as one. Thousands of turns
/// would otherwise make a page of megabytes of bars that nobody can tell apart.
struct Stretch<'a> {
    /// Places on the line of time.
    begin: f64,
    end: f64,
    count: u64,
    first: &'a Turn,
    last: &'a Turn,
}

impl<'a> Stretch<'a> {
    fn add(&mut self, turn: &'a Turn, end: f64) {
        self.end = self.end.max(end);
        self.count += 1;
        self.last = turn;
    }

    fn bar(&self, texts: &'static Texts) -> Bar {
        let (turn, state) = (self.last, session::state_text(texts, &self.last.state));
        let [first, last] = [self.first, turn].map(|turn| crate::clock::local(turn.started_at));
        let title = if self.count == 1 {
            format!("{}: {state}, {last}", turn.session)
        } else {
            let turns = fill(texts.turns_between, &[&self.count.to_string(), &first, &last]);
            format!("{turns}: {state}. {}", turn.session)
        };
        Bar {
            x: short(self.begin),
            width: short(self.end - self.begin),
            turns: self.count,
            state: turn.state.clone(),
            title,
            address: sessions::address(&turn.session),
        }
    }
}

/// Returns the times that are written below the line of time: its begin, middle and end.
fn marks(since: i64, now: i64) -> Vec<Mark> {
    let mark = |part: i64| {
        let at = since + (now - since) * part / 4;
        let part = u64::try_from(part).unwrap_or(0);
        Mark { x: short(WIDTH * share(part, 4)), text: crate::clock::local(at)[11..16].to_owned() }
    };
    (0..=4).map(mark).collect()
}

fn kind_text(texts: &'static Texts, kind: &str) -> &'static str {
    match kind {
        "mention" => texts.contact_mention,
        "direct" => texts.contact_direct,
        _ => texts.contact_post,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(from: &str, to: &str, count: u64) -> Contact {
        Contact { from: from.to_owned(), to: to.to_owned(), kind: "post".to_owned(), count }
    }

    #[test]
    fn who_talks_most_has_the_thickest_line() {
        let (nodes, edges) = picture(&[contact("human:ann", "#dev", 1), contact("coder", "#dev", 7)]);
        let kinds: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.kind)).collect();
        assert_eq!(kinds, [("#dev", "channel"), ("coder", "agent"), ("human:ann", "human")]);
        assert_eq!(edges.iter().map(|edge| edge.width.as_str()).collect::<Vec<_>>(), ["8.0", "2.0"]);
        assert!(picture(&[]).0.is_empty());
    }

    #[test]
    fn a_task_stands_below_the_one_whose_agent_asked_for_it() {
        let task = |id: &str, requester: &str, assignee: &str, created_at| Task {
            id: id.to_owned(),
            context_id: "c".to_owned(),
            requester: requester.to_owned(),
            assignee: assignee.to_owned(),
            session: format!("agent:{assignee}:flock:dm:x").parse().unwrap(),
            state: "working".to_owned(),
            summary: String::new(),
            created_at,
        };
        let found = trees(vec![
            task("3", "coder", "tester", 3),
            task("1", "human:ann", "lead", 1),
            task("2", "lead", "coder", 2),
            task("4", "lead", "writer", 4),
        ]);
        let shown: Vec<_> = found[0].tasks.iter().map(|task| (task.id.as_str(), task.depth)).collect();
        assert_eq!(shown, [("1", 0), ("2", 1), ("3", 2), ("4", 1)]);
    }

    #[test]
    fn a_turn_lies_on_the_line_where_it_ran() {
        let turn = |agent: &str, started_at, ended_at| Turn {
            agent: Some(agent.to_owned()),
            session: format!("agent:{agent}:flock:main:ann").parse().unwrap(),
            state: "done".to_owned(),
            started_at,
            ended_at,
        };
        let graph = Graph {
            since: 1_000,
            now: 2_000,
            contacts: Vec::new(),
            turns: vec![turn("a", 1_250, Some(1_500)), turn("b", 0, None), turn("a", 1_999, Some(1_999))],
        };
        let rows = rows(crate::dashboard::Language::English.texts(), &graph);
        let bars =
            |row: &Row| row.bars.iter().map(|bar| (bar.x.clone(), bar.width.clone())).collect::<Vec<_>>();
        assert_eq!(bars(&rows[0])[0], ("250.0".to_owned(), "250.0".to_owned()));
        assert_eq!(bars(&rows[0])[1].1, "2.0");
        assert_eq!(bars(&rows[1]), [("0.0".to_owned(), "1000.0".to_owned())]);
    }

    #[test]
    fn turns_that_nobody_could_tell_apart_are_one_bar() {
        let turn = |state: &str, started_at| Turn {
            agent: Some("a".to_owned()),
            session: format!("agent:a:flock:main:ann{started_at}").parse().unwrap(),
            state: state.to_owned(),
            started_at,
            ended_at: Some(started_at + 100),
        };
        let mut turns: Vec<Turn> = (0..1_000).rev().map(|number| turn("done", number * 1_000)).collect();
        turns.push(turn("failed", 500_500));
        turns.push(turn("done", 50_000_000));
        let graph = Graph { since: 0, now: 86_400_000, contacts: Vec::new(), turns };
        let rows = rows(crate::dashboard::Language::English.texts(), &graph);
        let states: Vec<_> = rows[0].bars.iter().map(|bar| bar.state.as_str()).collect();
        assert_eq!(states, ["done", "failed", "done", "done"], "what failed is seen");
        assert!(rows[0].bars[0].title.starts_with("501 turns, "), "{}", rows[0].bars[0].title);
        assert!(
            rows[0].bars[0].address.ends_with("ann500000"),
            "the newest one: {}",
            rows[0].bars[0].address
        );
        assert!(rows[0].bars[3].title.starts_with("agent:a:"), "{}", rows[0].bars[3].title);
    }
}

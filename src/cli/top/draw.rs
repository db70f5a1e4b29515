//! A frame of a state.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Table, TableState};

use super::snapshot::{Agent, Part, Snapshot};
use super::state::{RequestView, Top, View, sign};
use crate::cli::approvals;

/// Lines of a screen that a request leaves free, for its title and its keys.
const REQUEST_MARGIN: u16 = 2;
/// Lines of a screen from which on the selected agent has lines of its own.
const DETAIL_FROM: u16 = 14;
/// Lines of these.
const DETAIL_LINES: u16 = 4;

const KEYS: [(&str, &str); 11] = [
    ("j k, arrows", "select an agent"),
    ("s, S", "sort by another column, reverse"),
    ("f", "freeze or thaw the agent"),
    ("F", "freeze or thaw all agents"),
    ("Enter, c", "chat with the agent"),
    ("C", "follow a channel"),
    ("a", "read the agent's request, then approve it"),
    ("Esc, q", "go back, quit"),
    ("Ctrl-C", "quit"),
    ("Ctrl-Z", "suspend"),
    ("?", "this help"),
];

/// The circumstances of a frame that are not part of the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub has_color: bool,
    /// The time, in milliseconds since 1970.
    pub now: i64,
}

impl Look {
    /// Returns a style that says by its weight what it says by its colour.
    fn style(self, color: Color, modifier: Modifier) -> Style {
        let style = Style::new().add_modifier(modifier);
        if self.has_color { style.fg(color) } else { style }
    }

    fn state(self, state: &str) -> Style {
        match state {
            "asking" => self.style(Color::Yellow, Modifier::BOLD),
            "frozen" => self.style(Color::Cyan, Modifier::BOLD),
            "blocked" => self.bad(),
            "paused" => self.style(Color::Yellow, Modifier::empty()),
            "working" => self.style(Color::Green, Modifier::empty()),
            _ => Style::new(),
        }
    }

    fn bad(self) -> Style {
        self.style(Color::Red, Modifier::BOLD)
    }

    fn age(self, at: Option<i64>) -> String {
        at.map_or_else(|| "-".to_owned(), |at| span(self.now.saturating_sub(at)))
    }
}

/// Returns the width and height that the lines of a request have on a screen.
pub(super) fn request_size(area: Rect) -> (u16, u16) {
    (area.width, area.height.saturating_sub(REQUEST_MARGIN))
}

/// The lines of a frame that can be chosen: agents, or channels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rows {
    area: Rect,
    /// The number of the uppermost one.
    first: usize,
}

impl Rows {
    /// Returns the number of the one at a place of the screen.
    pub(super) fn at(self, column: u16, row: u16) -> Option<usize> {
        let is_inside = self.area.contains(Position { x: column, y: row });
        is_inside.then(|| self.first + usize::from(row - self.area.y))
    }
}

/// Draws the state. Returns the lines that can be chosen.
pub(super) fn draw(frame: &mut Frame<'_>, top: &Top, look: Look) -> Rows {
    let area = frame.area();
    if let View::Request(request) = &top.view {
        draw_request(frame, request, top.notice.as_deref());
        return Rows::default();
    }
    let head = head(top, look);
    let head_height = u16::try_from(head.len()).unwrap_or(u16::MAX).min(area.height / 3).max(1);
    let detail_height = if area.height >= DETAIL_FROM { DETAIL_LINES } else { 0 };
    let [above, middle, below, last] = Layout::vertical([
        Constraint::Length(head_height),
        Constraint::Min(0),
        Constraint::Length(detail_height),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(head), above);
    let agents = draw_agents(frame, top, look, middle);
    if let Some(agent) = top.agent() {
        frame.render_widget(Paragraph::new(detail(agent, look)), below);
    }
    frame.render_widget(Paragraph::new(footer(top)), last);
    match &top.view {
        View::Help => {
            draw_list(frame, middle, KEYS.iter().map(|(key, what)| format!("{key:<12} {what}")), None);
            Rows::default()
        }
        View::Channels { channels, at } => {
            draw_list(frame, middle, channels.iter().map(|(id, topic)| format!("{id}  {topic}")), Some(*at))
        }
        View::Team => agents,
        View::ConfirmAll { .. } | View::Request(_) => Rows::default(),
    }
}

fn head(top: &Top, look: Look) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    match &top.snapshot {
        Some(snapshot) => lines.push(Line::raw(gateway(snapshot))),
        None if top.lost.is_none() => lines.push(Line::raw("flock: asking the gateway")),
        None => {}
    }
    if let Some(lost) = &top.lost {
        lines.push(Line::styled(format!("! {lost}"), look.bad()));
    }
    if let Some(snapshot) = &top.snapshot {
        lines.extend(snapshot.problems.iter().map(|text| Line::styled(format!("! {text}"), look.bad())));
        lines.extend(parts("engines", &snapshot.engines, look));
        if snapshot.requests > 0 {
            let text = if snapshot.requests == 1 {
                "? 1 request waits".to_owned()
            } else {
                format!("? {} requests wait", snapshot.requests)
            };
            lines.push(Line::styled(text, look.state("asking")));
        }
        lines.extend(parts("storage", &snapshot.storage, look));
        lines.extend(parts("backup", snapshot.backup.as_slice(), look));
        lines.extend(parts("database", snapshot.database.as_slice(), look));
        // The others take over from one that is gone, so a low screen leaves these out first.
        lines.extend(parts("gateways", &snapshot.gateways, look));
    }
    lines
}

fn gateway(snapshot: &Snapshot) -> String {
    format!(
        "flock {}  {} running, {} waiting  up {}  {} MiB",
        snapshot.version,
        snapshot.running,
        snapshot.waiting,
        span(i64::try_from(snapshot.uptime_ms).unwrap_or(i64::MAX)),
        snapshot.memory_bytes >> 20,
    )
}

/// Returns engines, gateways, copies and so on in one line. `None` without any.
fn parts(title: &'static str, parts: &[Part], look: Look) -> Option<Line<'static>> {
    if parts.is_empty() {
        return None;
    }
    let mut spans = vec![Span::raw(title)];
    for part in parts {
        let style = if part.is_good { Style::new() } else { look.bad() };
        spans.extend([Span::raw("  "), Span::styled(part.text.clone(), style)]);
    }
    Some(Line::from(spans))
}

/// A column of the table.
struct Column {
    title: &'static str,
    width: Width,
    /// The width of the screen from which on it is shown.
    from: u16,
    text: fn(&Agent, Look) -> String,
    style: fn(&Agent, Look) -> Style,
}

/// The width of a column.
#[derive(Clone, Copy)]
enum Width {
    Fixed(u16),
    /// The width of its longest text, and at most this.
    Longest(u16),
    /// A part of what the others leave.
    Rest,
}

const fn plain(title: &'static str, width: Width, from: u16, text: fn(&Agent, Look) -> String) -> Column {
    Column { title, width, from, text, style: |_, _| Style::new() }
}

const COLUMNS: [Column; 10] = [
    plain("AGENT", Width::Longest(20), 0, |agent, _| agent.id.clone()),
    plain("ROLE", Width::Longest(12), 100, |agent, _| agent.role.clone()),
    Column {
        title: "STATE",
        width: Width::Fixed(9),
        from: 0,
        text: |agent, _| format!("{} {}", sign(&agent.state), agent.state),
        style: |agent, look| look.state(&agent.state),
    },
    plain("SINCE", Width::Fixed(7), 0, |agent, look| look.age(agent.since)),
    plain("DETAIL", Width::Rest, 70, |agent, _| agent.detail.clone()),
    plain("SESSION", Width::Rest, 150, |agent, _| agent.session.clone()),
    plain("MODEL", Width::Longest(30), 130, |agent, _| agent.model.clone()),
    Column {
        title: "SANDBOX",
        width: Width::Longest(34),
        from: 115,
        text: sandbox_text,
        style: |agent, look| if agent.sandbox.is_good { Style::new() } else { look.bad() },
    },
    plain("TODAY", Width::Fixed(9), 0, |agent, _| money(agent.cost())),
    plain("BY HOUR", Width::Fixed(24), 80, |agent, _| bars(&agent.hours)),
];

impl Column {
    fn constraint(&self, agents: &[&Agent], look: Look) -> Constraint {
        match self.width {
            Width::Fixed(width) => Constraint::Length(width),
            Width::Rest => Constraint::Fill(1),
            Width::Longest(most) => {
                let texts = agents.iter().map(|agent| (self.text)(agent, look));
                let widths = texts.map(|text| Span::raw(text).width()).chain([self.title.len()]);
                let longest = u16::try_from(widths.max().unwrap_or_default()).unwrap_or(most);
                Constraint::Length(longest.min(most))
            }
        }
    }
}

fn sandbox_text(agent: &Agent, look: Look) -> String {
    match agent.sandbox.probed_at {
        Some(at) => format!("{} {} ago", agent.sandbox.text, look.age(Some(at))),
        None => agent.sandbox.text.clone(),
    }
}

fn on_engine(agent: &Agent) -> String {
    match agent.sandbox.engine.as_str() {
        "" => String::new(),
        engine => format!(", on engine {engine}"),
    }
}

fn draw_agents(frame: &mut Frame<'_>, top: &Top, look: Look, area: Rect) -> Rows {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| area.width >= column.from).collect();
    let agents = top.agents();
    let cell = |column: &Column, agent: &Agent| {
        Cell::from((column.text)(agent, look)).style((column.style)(agent, look))
    };
    let rows = agents.iter().map(|agent| Row::new(columns.iter().map(|column| cell(column, agent))));
    let header = Row::new(columns.iter().map(|column| column.title)).style(Modifier::BOLD);
    let table = Table::new(rows, columns.iter().map(|column| column.constraint(&agents, look)))
        .header(header)
        .row_highlight_style(Modifier::REVERSED)
        .column_spacing(1);
    let mut selection = TableState::new().with_selected(top.place());
    frame.render_stateful_widget(table, area, &mut selection);
    let [_, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    Rows { area: below, first: selection.offset() }
}

fn detail(agent: &Agent, look: Look) -> Vec<Line<'static>> {
    let title = |name: &'static str| Span::styled(name, Modifier::BOLD);
    let line = |name, text: String| Line::from(vec![title(name), Span::raw(text)]);
    vec![
        line(
            "agent    ",
            format!(
                "{}, {}, {} {} {}",
                agent.id,
                agent.role,
                agent.state,
                look.age(agent.since),
                agent.detail
            ),
        ),
        line("session  ", agent.session.clone()),
        line("model    ", agent.model.clone()),
        line("sandbox  ", format!("{}{}", sandbox_text(agent, look), on_engine(agent))),
    ]
}

fn footer(top: &Top) -> String {
    if let View::ConfirmAll { freeze } = top.view {
        let verb = if freeze { "Freeze" } else { "Thaw" };
        return format!("{verb} all agents? y/n");
    }
    if let Some(notice) = &top.notice {
        return notice.clone();
    }
    let arrow = if top.is_reversed { ", reversed" } else { "" };
    format!("? help  q quit  f freeze  c chat  a request  s sort: {}{arrow}", top.sorting.name())
}

fn draw_list(
    frame: &mut Frame<'_>,
    area: Rect,
    lines: impl Iterator<Item = String>,
    at: Option<usize>,
) -> Rows {
    let lines: Vec<Line<'static>> = lines
        .enumerate()
        .map(|(place, text)| {
            let style =
                if at == Some(place) { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            Line::styled(text, style)
        })
        .collect();
    // The chosen line stays on the screen.
    let first = (at.unwrap_or_default() + 1).saturating_sub(usize::from(area.height));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).scroll((u16::try_from(first).unwrap_or(u16::MAX), 0)), area);
    Rows { area, first }
}

fn draw_request(frame: &mut Frame<'_>, request: &RequestView, notice: Option<&str>) {
    let area = frame.area();
    let (width, height) = request_size(area);
    let [above, middle, below] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(height), Constraint::Length(1)])
            .areas(area);
    let lines = request.lines(width);
    let end = (request.top + usize::from(height)).min(lines.len());
    let title = format!("Request {}  lines {} to {end} of {}", request.id, request.top + 1, lines.len());
    frame.render_widget(Paragraph::new(Line::styled(title, Modifier::BOLD)), above);
    let shown = lines.get(request.top..end).unwrap_or_default().iter().map(|row| {
        Line::from(vec![Span::styled(row.name.clone(), Modifier::BOLD), Span::raw(row.text.clone())])
    });
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), middle);
    let footer = match notice {
        _ if request.asks => format!("{} y/n", approvals::QUESTION),
        Some(notice) => notice.to_owned(),
        None if request.is_read && request.can_be_approved => "a approve  Esc back".to_owned(),
        None if request.can_be_approved => "Space next page  (approve at its end)  Esc back".to_owned(),
        None => "Space next page  Esc back".to_owned(),
    };
    frame.render_widget(Paragraph::new(footer), below);
}

/// Returns a bar for each hour. An hour that is not zero can be seen.
fn bars(hours: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = hours.iter().copied().max().unwrap_or_default().max(1);
    let bar = |cost: u64| {
        let height = usize::try_from(cost.saturating_mul(8).div_ceil(most)).unwrap_or(8);
        height.checked_sub(1).and_then(|at| BARS.get(at)).copied().unwrap_or(' ')
    };
    hours.iter().map(|cost| bar(*cost)).collect()
}

fn money(micros: u64) -> String {
    let cents = micros.saturating_add(5_000) / 10_000;
    if micros > 0 && cents == 0 {
        "<$0.01".to_owned()
    } else {
        format!("${}.{:02}", cents / 100, cents % 100)
    }
}

/// Returns a time span in its largest unit.
fn span(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;

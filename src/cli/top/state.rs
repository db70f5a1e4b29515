//! The state of the screen, and how a key or an answer changes it. Nothing here has an effect of its own.

use std::cmp::Ordering;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::snapshot::{Agent, Snapshot};
use crate::ui::pager::{self, PagerRow};

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct Top {
    /// The newest answer of the gateway. It stays while the gateway does not answer.
    pub snapshot: Option<Snapshot>,
    /// The reason why the gateway can't be asked at the moment.
    pub lost: Option<String>,
    /// The id of the selected agent. An id keeps the selection when the order changes.
    pub selected: Option<String>,
    pub sorting: Sorting,
    pub is_reversed: bool,
    pub view: View,
    /// The result of the last key, until the next key.
    pub notice: Option<String>,
}

/// The order of the agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sorting {
    #[default]
    State,
    Name,
    Cost,
    Since,
}

impl Sorting {
    const fn next(self) -> Self {
        match self {
            Self::State => Self::Name,
            Self::Name => Self::Cost,
            Self::Cost => Self::Since,
            Self::Since => Self::State,
        }
    }

    /// Returns its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Name => "name",
            Self::Cost => "cost",
            Self::Since => "since",
        }
    }
}

/// The part of the screen that has the keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Team,
    Help,
    /// The question before all agents are frozen or thawed.
    ConfirmAll {
        freeze: bool,
    },
    /// The list of channels, as ids and topics.
    Channels {
        channels: Vec<(String, String)>,
        at: usize,
    },
    Request(RequestView),
}

/// A request that is being read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestView {
    pub id: String,
    /// The digest of exactly what is shown. An approval is bound to it.
    pub sha256: String,
    pub rows: Vec<PagerRow>,
    pub can_be_approved: bool,
    /// The first line that is shown.
    pub top: usize,
    /// `true` once the last line was on the screen.
    pub is_read: bool,
    /// `true` while the person is asked.
    pub asks: bool,
}

/// The effect of a key, which the loop carries out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    Suspend,
    Freeze { agent: String, freeze: bool },
    FreezeAll { freeze: bool },
    Chat(String),
    ListChannels,
    Follow(String),
    ShowRequest(String),
    Approve { id: String, sha256: String },
}

/// Lines of a request for a turn of the mouse's wheel.
const WHEEL_LINES: usize = 3;

/// The signs beside the words, and the order by urgency.
const STATES: [(&str, char); 8] = [
    ("asking", '?'),
    ("frozen", '#'),
    ("blocked", '!'),
    ("paused", '='),
    ("working", '>'),
    ("queued", '+'),
    ("idle", '.'),
    ("asleep", 'z'),
];

/// Returns the sign of a state.
pub(super) fn sign(state: &str) -> char {
    STATES.iter().find(|(name, _)| *name == state).map_or(' ', |(_, sign)| *sign)
}

impl RequestView {
    /// Returns the lines for a width.
    pub(super) fn lines(&self, width: u16) -> Vec<PagerRow> {
        pager::wrap(&self.rows, usize::from(width).max(12))
    }

    /// Scrolls to a line as far as there are lines, and notes if the last one is then on the screen.
    pub(super) fn settle(&mut self, width: u16, height: u16) {
        let (lines, height) = (self.lines(width).len(), usize::from(height));
        self.top = self.top.min(lines.saturating_sub(height));
        // A screen without room shows nothing.
        self.is_read |= height > 0 && self.top + height >= lines;
    }
}

impl Top {
    /// Takes an answer of the gateway.
    pub(super) fn take(&mut self, snapshot: Snapshot) {
        self.lost = None;
        self.snapshot = Some(snapshot);
        if self.agent().is_none() {
            self.selected = self.agents().first().map(|agent| agent.id.clone());
        }
    }

    /// Returns the agents in the order in which they are shown.
    pub(super) fn agents(&self) -> Vec<&Agent> {
        let mut agents: Vec<&Agent> = self.snapshot.iter().flat_map(|snapshot| &snapshot.agents).collect();
        agents.sort_by(|a, b| {
            let order = self.compare(a, b);
            (if self.is_reversed { order.reverse() } else { order }).then_with(|| a.id.cmp(&b.id))
        });
        agents
    }

    fn compare(&self, a: &Agent, b: &Agent) -> Ordering {
        let rank = |agent: &Agent| STATES.iter().position(|(name, _)| *name == agent.state);
        match self.sorting {
            // A state of a newer gateway has no rank and comes first.
            Sorting::State => rank(a).cmp(&rank(b)),
            Sorting::Name => a.id.cmp(&b.id),
            Sorting::Cost => b.cost().cmp(&a.cost()),
            Sorting::Since => b.since.cmp(&a.since),
        }
    }

    /// Returns the selected agent.
    pub(super) fn agent(&self) -> Option<&Agent> {
        let selected = self.selected.as_ref()?;
        self.snapshot.as_ref()?.agents.iter().find(|agent| agent.id == *selected)
    }

    /// Returns the place of the selected agent among [`Self::agents`].
    pub(super) fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.agents().iter().position(|agent| agent.id == *selected)
    }

    /// Takes a key. `height` is the number of lines of a page.
    pub(super) fn on_key(&mut self, key: KeyEvent, height: u16) -> Option<Effect> {
        self.notice = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Effect::Quit),
                KeyCode::Char('z') => Some(Effect::Suspend),
                _ => None,
            };
        }
        match &mut self.view {
            View::Team => return self.on_team_key(key.code),
            View::Help => self.view = View::Team,
            View::ConfirmAll { freeze } => {
                let freeze = *freeze;
                self.view = View::Team;
                if matches!(key.code, KeyCode::Char('y' | 'Y')) {
                    return Some(Effect::FreezeAll { freeze });
                }
                self.notice = Some("nothing was changed".to_owned());
            }
            View::Channels { channels, at } => match key.code {
                KeyCode::Enter => {
                    let chosen = channels.get(*at).map(|(id, _)| id.clone());
                    self.view = View::Team;
                    return chosen.map(Effect::Follow);
                }
                KeyCode::Down | KeyCode::Char('j') => *at = (*at + 1).min(channels.len().saturating_sub(1)),
                KeyCode::Up | KeyCode::Char('k') => *at = at.saturating_sub(1),
                KeyCode::Esc | KeyCode::Char('q') => self.view = View::Team,
                _ => {}
            },
            View::Request(request) => {
                if request.asks {
                    request.asks = false;
                    if matches!(key.code, KeyCode::Char('y' | 'Y')) {
                        let (id, sha256) = (request.id.clone(), request.sha256.clone());
                        self.view = View::Team;
                        return Some(Effect::Approve { id, sha256 });
                    }
                    self.notice = Some(format!("{} was not approved", request.id));
                    return None;
                }
                let page = usize::from(height).max(1);
                match key.code {
                    KeyCode::Down | KeyCode::Char('j') => request.top += 1,
                    KeyCode::Up | KeyCode::Char('k') => request.top = request.top.saturating_sub(1),
                    KeyCode::PageDown | KeyCode::Char(' ') => request.top += page,
                    KeyCode::PageUp => request.top = request.top.saturating_sub(page),
                    KeyCode::Char('a') if !request.can_be_approved => {
                        self.notice = Some("this request can't be approved any more".to_owned());
                    }
                    KeyCode::Char('a') if !request.is_read => {
                        self.notice = Some("read it to its end first".to_owned());
                    }
                    KeyCode::Char('a') => request.asks = true,
                    KeyCode::Esc | KeyCode::Char('q') => self.view = View::Team,
                    _ => {}
                }
            }
        }
        None
    }

    /// Takes a click on the line with this number, or elsewhere.
    pub(super) fn on_click(&mut self, line: Option<usize>) {
        let Some(line) = line else { return };
        match &mut self.view {
            View::Team => self.select(|at, last| if line <= last { line } else { at }),
            View::Channels { channels, at } if line < channels.len() => *at = line,
            _ => {}
        }
    }

    /// Takes a turn of the mouse's wheel.
    pub(super) fn on_wheel(&mut self, is_down: bool) {
        let step = |at: usize, by| if is_down { at + by } else { at.saturating_sub(by) };
        match &mut self.view {
            View::Team => self.select(|at, last| step(at, 1).min(last)),
            View::Channels { channels, at } => *at = step(*at, 1).min(channels.len().saturating_sub(1)),
            View::Request(request) => request.top = step(request.top, WHEEL_LINES),
            View::Help | View::ConfirmAll { .. } => {}
        }
    }

    fn on_team_key(&mut self, key: KeyCode) -> Option<Effect> {
        match key {
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Down | KeyCode::Char('j') => self.select(|at, last| (at + 1).min(last)),
            KeyCode::Up | KeyCode::Char('k') => self.select(|at, _| at.saturating_sub(1)),
            KeyCode::Home => self.select(|_, _| 0),
            KeyCode::End => self.select(|_, last| last),
            KeyCode::Char('s') => self.sorting = self.sorting.next(),
            KeyCode::Char('S') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('?') => self.view = View::Help,
            KeyCode::Char('C') => return Some(Effect::ListChannels),
            KeyCode::Char('F') => {
                let freeze = self.snapshot.as_ref()?.agents.iter().any(|agent| agent.state != "frozen");
                self.view = View::ConfirmAll { freeze };
            }
            KeyCode::Char('f') => {
                let agent = self.agent()?;
                let freeze = agent.state != "frozen";
                return Some(Effect::Freeze { agent: agent.id.clone(), freeze });
            }
            KeyCode::Enter | KeyCode::Char('c') => return Some(Effect::Chat(self.agent()?.id.clone())),
            KeyCode::Char('a') => match self.agent()?.request.clone() {
                Some(request) => return Some(Effect::ShowRequest(request)),
                None => self.notice = Some("no request of this agent waits".to_owned()),
            },
            _ => {}
        }
        None
    }

    fn select(&mut self, to: impl FnOnce(usize, usize) -> usize) {
        let agents = self.agents();
        let Some(last) = agents.len().checked_sub(1) else { return };
        let at = to(self.place().unwrap_or_default(), last);
        self.selected = agents.get(at).map(|agent| agent.id.clone());
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

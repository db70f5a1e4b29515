//! The loop of `flock top`: it reads keys, signals and the gateway's answers, and carries out what the state decides.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossterm::event::{self, Event, KeyEventKind, MouseButton, MouseEventKind};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nix::sys::signal::{Signal, raise};
use ratatui::layout::Rect;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::draw::{self, Look, Rows};
use super::snapshot::{self, Snapshot};
use super::state::{Effect, RequestView, Top, View};
use crate::clean;
use crate::cli::reconnect::{Reconnector, Repeat};
use crate::cli::{Context, Exit, Failure, approvals, person, team};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::home::Home;
use crate::supervise::gateway_client::{Call, Client};
use crate::swarm::triage::{ApprovalDecision, view};
use crate::ui::pager::PagerRow;
use crate::ui::screen::{Mouse, Screen};

/// The shortest time between two readings of the routes.
const SHORTEST: Duration = Duration::from_millis(250);
/// The longest time between two readings of the routes, if no event comes.
const LONGEST: Duration = Duration::from_secs(5);
/// Pause before the gateway is looked for again.
const PAUSE: Duration = Duration::from_secs(1);
/// Time that an action may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time without a byte after which the stream of events counts as broken. The gateway writes more often.
const IDLE: Duration = Duration::from_secs(60);
/// Time after which times of a frame are written anew.
const TICK: Duration = Duration::from_secs(1);
/// Time for which the reader of keys waits at once, and so the longest wait for it to pause.
const KEY_WAIT: Duration = Duration::from_millis(50);

/// News from the gateway.
enum News {
    Snapshot(Box<Snapshot>),
    Lost(String),
}

/// The end of an action.
enum Outcome {
    Notice(String),
    Channels(Vec<(String, String)>),
}

type Action<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// Shows the team until the person quits.
///
/// # Errors
///
/// Returns an error if the terminal can't be used.
pub(super) async fn run(home: &Home, context: &Context, mouse: Mouse) -> Result<Exit, Failure> {
    // Messages of other parts would be written over the screen.
    let silent = context.silent();
    let refresh = Notify::new();
    let (sender, news) = mpsc::unbounded_channel();
    tokio::select! {
        exit = watch(home, context, mouse, &silent, &refresh, news) => exit,
        () = follow_gateway(home, &silent, &refresh, &sender) => Ok(Exit::Done),
    }
}

#[expect(clippy::too_many_lines, reason = "one loop with one arm for each source")]
async fn watch(
    home: &Home,
    context: &Context,
    mouse: Mouse,
    silent: &Context,
    refresh: &Notify,
    mut news: mpsc::UnboundedReceiver<News>,
) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| Failure::with_cause("failed to use the terminal", &error);
    let listen = |kind| signal(kind).map_err(failed);
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut stop = listen(SignalKind::from_raw(Signal::SIGTSTP as i32))?;
    let mut carry_on = listen(SignalKind::from_raw(Signal::SIGCONT as i32))?;

    let look = |now| Look { has_color: context.printer.is_colored(), now };
    let mut screen = Screen::open(context.printer.is_colored(), mouse).map_err(failed)?;
    let mut keys = Keys::start();
    let mut top = Top::default();
    let (mut area, mut rows) = (Rect::default(), Rows::default());
    let mut actions: FuturesUnordered<Action<'_>> = FuturesUnordered::new();
    loop {
        screen
            .draw(|frame| {
                area = frame.area();
                let (width, height) = draw::request_size(area);
                if let View::Request(request) = &mut top.view {
                    request.settle(width, height);
                }
                rows = draw::draw(frame, &top, look(unix_ms()));
            })
            .map_err(failed)?;
        let effect = tokio::select! {
            event = keys.next() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    top.on_key(key, draw::request_size(area).1)
                }
                Some(Event::Mouse(mouse)) => {
                    match mouse.kind {
                        MouseEventKind::Down(MouseButton::Left) => top.on_click(rows.at(mouse.column, mouse.row)),
                        MouseEventKind::ScrollDown => top.on_wheel(true),
                        MouseEventKind::ScrollUp => top.on_wheel(false),
                        _ => {}
                    }
                    None
                }
                Some(_) => None,
                // The terminal can't be read any more.
                None => Some(Effect::Quit),
            },
            Some(news) = news.recv() => {
                match news {
                    News::Snapshot(snapshot) => top.take(*snapshot),
                    News::Lost(why) => top.lost = Some(why),
                }
                None
            }
            Some(outcome) = actions.next(), if !actions.is_empty() => {
                refresh.notify_one();
                match outcome {
                    Outcome::Notice(text) => top.notice = Some(text),
                    Outcome::Channels(channels) => top.view = View::Channels { channels, at: 0 },
                }
                None
            }
            _ = terminate.recv() => Some(Effect::Quit),
            _ = hang_up.recv() => Some(Effect::Quit),
            _ = interrupt.recv() => Some(Effect::Quit),
            _ = stop.recv() => Some(Effect::Suspend),
            _ = carry_on.recv() => {
                // After a SIGSTOP nobody knows what was written to the terminal meanwhile.
                screen.enter().map_err(failed)?;
                None
            }
            () = tokio::time::sleep(TICK) => None,
        };
        let Some(effect) = effect else { continue };
        match effect {
            Effect::Quit => return Ok(Exit::Done),
            Effect::Suspend => {
                keys.pause();
                screen.leave();
                // The shell notices that its job has stopped; it continues here.
                let _ = raise(Signal::SIGSTOP);
                screen.enter().map_err(failed)?;
                keys.resume();
            }
            Effect::Chat(agent) => {
                keys.pause();
                screen.leave();
                top.notice = run_verb(home, context, &["chat", &agent]).await;
                screen.enter().map_err(failed)?;
                keys.resume();
                // Ctrl-C was meant for the other verb.
                while let Some(Some(())) = now_or_never(interrupt.recv()) {}
            }
            Effect::Follow(channel) => {
                keys.pause();
                screen.leave();
                top.notice = run_verb(home, context, &["channel", "read", &channel, "--follow"]).await;
                screen.enter().map_err(failed)?;
                keys.resume();
                while let Some(Some(())) = now_or_never(interrupt.recv()) {}
            }
            Effect::Freeze { agent, freeze } => {
                let verb = if freeze { "freeze" } else { "thaw" };
                let path = format!("/api/agents/{agent}/{verb}?by={}", person::name());
                actions.push(Box::pin(freeze_by(home, silent, path)));
            }
            Effect::FreezeAll { freeze } => {
                let verb = if freeze { "freeze" } else { "thaw" };
                actions.push(Box::pin(freeze_by(home, silent, format!("/api/{verb}?by={}", person::name()))));
            }
            Effect::ListChannels => actions.push(Box::pin(list_channels(home, silent))),
            Effect::ShowRequest(id) => match read_request(home, id) {
                Ok(request) => top.view = View::Request(request),
                Err(failure) => top.notice = Some(line(&failure)),
            },
            Effect::Approve { id, sha256 } => actions.push(Box::pin(approve(home, silent, id, sha256))),
        }
    }
}

/// Keeps an eye on the gateway. It returns only if nobody listens any more.
async fn follow_gateway(
    home: &Home,
    context: &Context,
    refresh: &Notify,
    news: &mpsc::UnboundedSender<News>,
) {
    let reconnector = Reconnector::new(home, context);
    loop {
        let why = match reconnector.gateway().await {
            Ok(Some(gateway)) => follow_events(&gateway, refresh, news).await,
            Ok(None) => "the gateway is not running: flock start".to_owned(),
            Err(failure) => line(&failure),
        };
        if news.send(News::Lost(why)).is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads the routes again after events, and returns why it ended.
async fn follow_events(gateway: &Client, refresh: &Notify, news: &mpsc::UnboundedSender<News>) -> String {
    let lost = |error: &dyn std::error::Error| {
        clean::inline(&format!("the gateway does not answer, trying again: {}", chain(error))).into_owned()
    };
    let mut events = match gateway.ask(Call::get("/api/events"), TIMEOUT).await {
        Ok(answer) => answer.events(),
        Err(error) => return lost(&error),
    };
    loop {
        let snapshot = match snapshot::read(gateway).await {
            Ok(value) => Snapshot::parse(value),
            Err(error) => return lost(&error),
        };
        match snapshot {
            Ok(snapshot) => drop(news.send(News::Snapshot(Box::new(snapshot)))),
            Err(error) => return lost(&error),
        }
        let read_at = Instant::now();
        let mut is_due = false;
        // Events that come before the shortest time are read, too: what they say is in the next answers.
        while !is_due || read_at.elapsed() < SHORTEST {
            let until = read_at + if is_due { SHORTEST } else { LONGEST };
            tokio::select! {
                event = events.next(IDLE) => match event {
                    Ok(Some(_)) => is_due = true,
                    Ok(None) => return "the gateway ended: waiting for it".to_owned(),
                    Err(error) => return lost(&error),
                },
                () = refresh.notified() => is_due = true,
                () = tokio::time::sleep_until(until) => is_due = true,
            }
        }
    }
}

/// Reads everything that a person is shown before a decision.
fn read_request(home: &Home, id: String) -> Result<RequestView, Failure> {
    let row = approvals::find(home, &id)?;
    let mut rows = approvals::shown(&row);
    if let Some(granted) = approvals::granted_before(home, &row)? {
        let lines = view::granted_lines(&granted).into_iter();
        rows.extend(lines.map(|text| PagerRow { name: String::new(), text }));
    }
    Ok(RequestView {
        id,
        rows,
        can_be_approved: approvals::can_be_approved(&row),
        sha256: row.sha256,
        top: 0,
        is_read: false,
        asks: false,
    })
}

async fn freeze_by(home: &Home, context: &Context, path: String) -> Outcome {
    // Freezing twice has the same result, so the request may be repeated.
    let sent = Reconnector::new(home, context).send(Call::post(&path), Repeat::Safe, TIMEOUT).await;
    Outcome::Notice(match sent {
        Ok(done) => {
            let agents = done.answer["agents"].as_array().cloned().unwrap_or_default();
            let problem = agents.iter().find_map(|one| one["problem"].as_str());
            let changed = agents.iter().filter(|one| one["changed"] == Value::Bool(true));
            let names: Vec<&str> = changed.filter_map(|one| one["id"].as_str()).collect();
            let word = if path.contains("/freeze?") { "frozen" } else { "thawed" };
            match (problem, names.is_empty()) {
                (Some(problem), _) => {
                    clean::inline(&format!("a sandbox was not {word}: {problem}")).into_owned()
                }
                (None, true) => "nothing was changed".to_owned(),
                (None, false) => clean::inline(&format!("{word}: {}", names.join(", "))).into_owned(),
            }
        }
        Err(failure) => line(&failure),
    })
}

async fn list_channels(home: &Home, context: &Context) -> Outcome {
    let read = async {
        let gateway = Reconnector::new(home, context).gateway().await?.ok_or_else(team::not_running)?;
        Ok::<Value, Failure>(gateway.get_json("/api/channels?state=active", TIMEOUT).await?)
    };
    match read.await {
        Ok(answer) => {
            let text = |value: &Value| clean::inline(value.as_str().unwrap_or_default()).into_owned();
            let channels = answer["channels"].as_array().into_iter().flatten();
            let channels: Vec<_> =
                channels.map(|one| (text(&one["channelId"]), text(&one["topic"]))).collect();
            if channels.is_empty() {
                Outcome::Notice("there is no channel".to_owned())
            } else {
                Outcome::Channels(channels)
            }
        }
        Err(failure) => Outcome::Notice(line(&failure)),
    }
}

async fn approve(home: &Home, context: &Context, id: String, sha256: String) -> Outcome {
    let decision = ApprovalDecision::Approve { sha256 };
    Outcome::Notice(match approvals::take(home, &id, decision, context).await {
        Ok(row) => format!("approved {id}: {}", row.state.as_str()),
        Err(failure) => line(&failure),
    })
}

/// Runs another verb of this program on the terminal. Returns what has to be said about its end.
async fn run_verb(home: &Home, context: &Context, words: &[&str]) -> Option<String> {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Some(format!("failed to find this program: {error}")),
    };
    let color = if context.printer.is_colored() { "--color=always" } else { "--color=never" };
    let mut command = tokio::process::Command::new(program);
    command.args(words).arg(color).arg("--home").arg(home.root());
    match command.status().await {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("flock {}: {status}", words.join(" "))),
        Err(error) => Some(format!("failed to run flock {}: {error}", words.join(" "))),
    }
}

fn line(failure: &Failure) -> String {
    clean::inline(&failure.to_line_with_hint()).into_owned()
}

fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    futures_util::FutureExt::now_or_never(future)
}

/// The keys of the terminal, read by a thread, because the reading blocks.
struct Keys {
    events: mpsc::UnboundedReceiver<Event>,
    is_paused: Arc<AtomicBool>,
    /// Held while the thread reads.
    reading: Arc<Mutex<()>>,
}

impl Keys {
    fn start() -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let (is_paused, reading) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(())));
        let (paused, gate) = (Arc::clone(&is_paused), Arc::clone(&reading));
        // The thread ends with the process, or when a key finds nobody.
        std::thread::spawn(move || {
            while !sender.is_closed() {
                if paused.load(Ordering::SeqCst) {
                    std::thread::sleep(KEY_WAIT);
                    continue;
                }
                let _held = gate.lock().unwrap_or_else(PoisonError::into_inner);
                // It may have been paused while this thread waited.
                if paused.load(Ordering::SeqCst) {
                    continue;
                }
                match event::poll(KEY_WAIT).and_then(|ready| ready.then(event::read).transpose()) {
                    Ok(Some(event)) => drop(sender.send(event)),
                    Ok(None) => {}
                    Err(_) => return,
                }
            }
        });
        Self { events, is_paused, reading }
    }

    /// Returns the next event, `None` if there will be no more. Each key is returned by itself, so that a frame shows its
    /// result before the next one counts. Of many changes of the size only the last one is returned: a frame for each
    /// would leave no time for anything else.
    async fn next(&mut self) -> Option<Event> {
        let mut event = self.events.recv().await?;
        while event.is_resize()
            && let Ok(next) = self.events.try_recv()
        {
            event = next;
        }
        Some(event)
    }

    /// Leaves the terminal's input to another program. It returns when the thread reads no more.
    fn pause(&self) {
        self.is_paused.store(true, Ordering::SeqCst);
        drop(self.reading.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn resume(&mut self) {
        // Keys that were pressed before do not count for what is shown now.
        while self.events.try_recv().is_ok() {}
        self.is_paused.store(false, Ordering::SeqCst);
    }
}

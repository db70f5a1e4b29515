//! The scheduler by itself: what a step costs in a large team of which little has changed.

use std::hint::black_box;
use std::time::Instant;

use flock::id::{AgentId, SessionKey, SessionKind};
use flock::swarm::scheduler::{
    Effect, Mode, Priority, Scheduler, SchedulerEvent, Settings, TurnEnd, Urgency,
};

use crate::{Sample, row};

/// Members of a channel.
const MEMBERS: usize = 10;

pub fn run() {
    for (agents, channels) in [(100, 1_000), (1_000, 10_000)] {
        let figure = format!(
            "a scheduler step, {agents} agents, {channels} channels of {MEMBERS} with something unseen, a post in 10"
        );
        row(&figure, steps(agents, channels));
    }
}

/// Steps in which 10 channels were posted to, so that 100 sessions changed, and the turns that this started
/// have ended. No pace is over, so what waits stays and the team is as large in the last step as in the first.
fn steps(agents: usize, channels: usize) -> Sample {
    let names: Vec<AgentId> = (0..agents).map(|n| format!("agent-{n}").parse().unwrap()).collect();
    let mut scheduler = Scheduler::new(Settings::default());
    let mut now = 1_790_000_000_000;
    for agent in &names {
        let provider = Some("acme".to_owned());
        let last_turn_at = Some(now);
        let agent = agent.clone();
        let mode = Mode::Active;
        scheduler.on(
            SchedulerEvent::Agent { agent, mode, asleep: false, frozen: false, provider, last_turn_at },
            now,
        );
    }
    let sessions: Vec<Vec<SessionKey>> = (0..channels)
        .map(|channel| {
            let members = (0..MEMBERS).map(|n| &names[(channel * 7 + n * 31) % agents]);
            members.map(|agent| SessionKey::new(agent, SessionKind::Channel, &channel.to_string())).collect()
        })
        .collect();
    for session in sessions.iter().flatten().cloned() {
        scheduler.on(unseen(session, false), now);
    }
    let mut step = 0;
    Sample::of(1_000, || {
        now += 10;
        let posts: Vec<SchedulerEvent> = (0..10)
            .flat_map(|post| {
                let members = &sessions[(step * 10 + post) * 101 % channels];
                // One member of each is mentioned.
                members.iter().enumerate().map(|(n, session)| unseen(session.clone(), n == 0))
            })
            .collect();
        step += 1;
        let began = Instant::now();
        let mut started = Vec::new();
        for event in posts {
            started.extend(scheduler.on(event, now));
        }
        started.extend(scheduler.due(now));
        let mut next = 0;
        while let Some(Effect::Start { session, .. }) = started.get(next).cloned() {
            next += 1;
            started.extend(scheduler.on(SchedulerEvent::Ended { session, how: TurnEnd::Done }, now));
        }
        black_box(scheduler.next_deadline());
        began.elapsed()
    })
}

fn unseen(session: SessionKey, is_mention: bool) -> SchedulerEvent {
    let (priority, urgency) =
        if is_mention { (Priority::Mention, Urgency::Now) } else { (Priority::Message, Urgency::Tick) };
    SchedulerEvent::Unseen { session, priority, urgency }
}

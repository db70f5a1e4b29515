//! What a turn does before and after its model works, with the calls of the gateway in their order. The turn's own
//! records, its transcript and the usage of its model are left out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flock::id::{ChannelId, Party, SessionKey, TurnId};
use flock::store::BatchLimits;
use flock::swarm::scheduler::{SchedulerEvent, TurnEnd};
use flock::swarm::{Actor, Swarm};
use tokio::sync::mpsc::UnboundedSender;

/// The result of a task.
pub enum Done {
    /// A person's message was committed, after this time.
    Posted(Duration),
    /// A turn was given its messages. `ready` is the time since a person posted the one that started it.
    Begun { turn: Turn, ready: Option<Duration> },
    /// Nothing was new, so there was no turn.
    Empty,
    /// A turn has ended. `posted` is the time that its message took.
    Ended { posted: Option<Duration> },
}

/// A turn whose model works.
pub struct Turn {
    pub session: SessionKey,
    /// Set if messages came meanwhile.
    pub has_more: bool,
    id: TurnId,
    /// The last message that it was given.
    up_to: u64,
}

/// The limits of a batch are those of the gateway.
const LIMITS: BatchLimits =
    BatchLimits { messages: 50, bytes: 32 << 10, alone: |_| false, may_be_alone: true };

/// Posts a person's message.
pub async fn post(swarm: Arc<Swarm>, channel: ChannelId, text: String) -> Done {
    let began = Instant::now();
    swarm.post(&Actor::human("ann"), &channel, text, true).await.unwrap();
    Done::Posted(began.elapsed())
}

/// Gives a turn what is new for its session. `called` is when a person posted the message that started it.
pub async fn begin(
    swarm: Arc<Swarm>,
    session: SessionKey,
    called: Option<Instant>,
    events: UnboundedSender<SchedulerEvent>,
) -> Done {
    let id = TurnId::new();
    swarm.store().deliveries().turns_in_flight(&session).await.unwrap();
    swarm.store().inbox().take(session.clone(), id).await.unwrap();
    let Some(up_to) = take(&swarm, &session, id).await else {
        events.send(SchedulerEvent::Ended { session, how: TurnEnd::Empty }).unwrap();
        return Done::Empty;
    };
    let ready = called.map(|called| called.elapsed());
    Done::Begun { turn: Turn { session, has_more: false, id, up_to }, ready }
}

/// Ends a turn, which posts a message before if it `says` one.
pub async fn end(
    swarm: Arc<Swarm>,
    turn: Turn,
    says: Option<String>,
    events: UnboundedSender<SchedulerEvent>,
) -> Done {
    let Turn { session, has_more, id, mut up_to } = turn;
    if has_more && let Some(newest) = take(&swarm, &session, id).await {
        up_to = newest;
    }
    let (agent, channel) = (session.agent().clone(), session.channel().unwrap());
    let mut posted = None;
    if let Some(text) = says {
        let by = Actor { party: Party::Agent(agent.clone()), session: Some(session.clone()), turn: Some(id) };
        let began = Instant::now();
        swarm.post(&by, &channel, text, true).await.unwrap();
        posted = Some(began.elapsed());
    }
    swarm.store().posts().has_posted(&channel, id).await.unwrap();
    swarm.store().inbox().delete(id).await.unwrap();
    swarm.store().deliveries().end(agent, channel, id, Some(up_to)).await.unwrap();
    events.send(SchedulerEvent::Ended { session, how: TurnEnd::Done }).unwrap();
    Done::Ended { posted }
}

/// Takes what is new in the channel, and notes it as delivered. Returns the last message's number.
async fn take(swarm: &Swarm, session: &SessionKey, turn: TurnId) -> Option<u64> {
    let (agent, channel) = (session.agent().clone(), session.channel().unwrap());
    let deliveries = swarm.store().deliveries();
    let batch = deliveries.take_batch(agent.clone(), channel.clone(), turn, LIMITS).await.unwrap()?;
    deliveries.record(agent.clone(), channel, turn, batch.up_to).await.unwrap();
    Some(batch.up_to)
}

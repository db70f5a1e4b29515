//! Who is in the team, who is in which channel, and what they say.

use flock::id::{AgentId, ChannelId};
use rand::Rng as _;
use rand::rngs::StdRng;

use super::Plan;

/// Returns the id of an agent.
pub fn agent(number: usize) -> AgentId {
    format!("agent-{number}").parse().unwrap()
}

/// Returns the id of a channel.
pub fn channel(number: usize) -> ChannelId {
    format!("channel-{number}").parse().unwrap()
}

/// Returns the number in an id of a channel.
pub fn channel_number(id: &str) -> usize {
    id.rsplit('-').next().unwrap().parse().unwrap()
}

/// Returns the members of a channel. Each agent is in as many channels as any other.
pub fn members(plan: Plan, channel: usize) -> impl Iterator<Item = usize> {
    // 31 has no factor in common with the sizes of teams, so no agent is there twice.
    (0..Plan::MEMBERS).map(move |member| (channel * 7 + member * 31) % plan.agents)
}

/// Channels by how much is said in them: the first one most, the second half as much, the third a third (Zipf's law).
pub struct Popularity {
    /// For each channel, the share of what is said in it and in those before it.
    up_to: Vec<f64>,
}

impl Popularity {
    pub fn new(channels: usize) -> Self {
        let mut sum = 0.0;
        let sums = (1..=channels).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        let mut up_to: Vec<f64> = sums.collect();
        up_to.iter_mut().for_each(|share| *share /= sum);
        Self { up_to }
    }

    /// Returns a channel, the popular ones more often.
    pub fn choose(&self, rng: &mut StdRng) -> usize {
        let point: f64 = rng.random();
        self.up_to.partition_point(|share| *share < point).min(self.up_to.len() - 1)
    }

    /// Returns how many of this number of messages are in a channel, at least one.
    pub fn part(&self, channel: usize, messages: usize) -> usize {
        let before = channel.checked_sub(1).map_or(0.0, |before| self.up_to[before]);
        (((self.up_to[channel] - before) * messages as f64) as usize).max(1)
    }
}

const WORDS: [&str; 32] = [
    "after", "branch", "build", "cache", "change", "channel", "check", "column", "deploy", "error", "file",
    "finding", "index", "limit", "merge", "message", "module", "number", "parser", "patch", "plan", "query",
    "reason", "request", "result", "review", "server", "socket", "table", "test", "token", "version",
];

/// Returns a message of about 200 characters.
pub fn text(rng: &mut StdRng) -> String {
    let words: Vec<&str> = (0..28).map(|_| WORDS[rng.random_range(0..WORDS.len())]).collect();
    words.join(" ")
}

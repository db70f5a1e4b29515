//! Limits conversations of agents among themselves. It caps the number of their messages without a person's message,
//! and stops two agents that only call each other and messages that repeat. Pure functions of their arguments.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::id::{AgentId, Party};
use crate::store::{PostMentions, PostOutline};

/// Prefix of the messages with which flock reports a stop.
pub(crate) const MARK: &str = "The brake is on: ";

/// A message as the brake sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecentMessage {
    pub author: Party,
    /// Hash of the message's words without mentions, numbers and punctuation. Messages that differ only in these count
    /// as equal.
    pub digest: u64,
    /// Number of letters, not counting mentions.
    pub letters: usize,
    pub mentions: PostMentions,
    /// Unix milliseconds.
    pub at: i64,
}

impl RecentMessage {
    /// Creates the record of a message that begins with `text` and is `length` bytes long in total.
    #[must_use]
    pub(crate) fn new(author: Party, text: &str, length: usize, mentions: PostMentions, at: i64) -> Self {
        let mut hash = DefaultHasher::new();
        let mut letters = 0;
        for word in text.split_whitespace().filter(|word| !word.starts_with('@')) {
            let word: String =
                word.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect();
            letters += word.chars().count();
            word.hash(&mut hash);
        }
        // Only the start of a long message is known. Two messages with the same start count as equal only if their
        // lengths are equal too.
        let rest = length.saturating_sub(text.len());
        rest.hash(&mut hash);
        Self { author, digest: hash.finish(), letters: letters + rest, mentions, at }
    }
}

impl From<&PostOutline> for RecentMessage {
    fn from(post: &PostOutline) -> Self {
        Self::new(post.author.clone(), &post.start, post.length, post.mentions.clone(), post.at)
    }
}

/// The thresholds of the brake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopLimits {
    /// Maximum number of agents' messages without a person's message.
    pub turns_without_human: usize,
    /// Number of consecutive messages without new content before they are slowed down.
    pub slow_after: usize,
    /// Number of such messages before they wake nobody.
    pub stop_after: usize,
    /// Maximum number of letters of a message that counts as saying nothing.
    pub short: usize,
    /// Maximum age in milliseconds of a message that counts for `slow_after` and `stop_after`.
    pub window: i64,
    /// The first delay, in milliseconds. Each further delay is twice as long.
    pub wait: u64,
}

impl Default for LoopLimits {
    fn default() -> Self {
        Self {
            turns_without_human: 50,
            slow_after: 4,
            stop_after: 10,
            short: 24,
            window: 10 * 60_000,
            wait: 2_000,
        }
    }
}

/// The decision about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoopVerdict {
    /// The message wakes its recipients at once.
    Go,
    /// The message wakes its recipients after this many milliseconds.
    Slow(u64),
    /// The message wakes nobody, for this reason.
    Stop(LimitReason),
}

/// The reason why a message wakes nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitReason {
    /// This many messages of agents came without one of a person's.
    Turns(usize),
    /// Two agents only call each other.
    Calls,
    /// The same text is repeated.
    Echo,
}

impl LimitReason {
    /// Returns the text that is posted in the channel.
    #[must_use]
    pub(crate) fn channel_text(self) -> String {
        let rest = match self {
            Self::Turns(_) => "Agents' messages are kept and wake nobody until a person writes.",
            Self::Calls | Self::Echo => "Such messages are kept and wake nobody; say something new, or stop.",
        };
        format!("{self}. {rest}")
    }

    /// Returns the text for an agent whose message to `other` was not sent.
    #[must_use]
    pub(crate) fn refusal(self, other: &AgentId) -> String {
        let rest = match self {
            Self::Turns(_) => {
                "No more messages pass between you until a person writes to you or to them. End your turn with \
                 what you have, and say what is open"
            }
            Self::Calls | Self::Echo => {
                "Send something new, or end your turn with what you have; don't try the same again"
            }
        };
        format!("not sent to {other}: {self}. {rest}")
    }
}

impl std::fmt::Display for LimitReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turns(count) => write!(formatter, "{count} messages of agents without one of a person"),
            Self::Calls => formatter.write_str("two agents only call each other"),
            Self::Echo => formatter.write_str("the same message is repeated"),
        }
    }
}

/// Decides about the last of these messages, which are a channel's newest, oldest first. `now` is in Unix milliseconds.
#[must_use]
pub(crate) fn verdict(recent: &[RecentMessage], limits: &LoopLimits, now: i64) -> LoopVerdict {
    let Some((last, _)) = recent.split_last() else { return LoopVerdict::Go };
    // Only agents are limited. People and flock itself always get through.
    if last.author.agent().is_none() {
        return LoopVerdict::Go;
    }
    let agents: Vec<&RecentMessage> = recent
        .iter()
        .rev()
        .take_while(|message| !message.author.is_human())
        // flock's own messages between those of agents neither count nor interrupt the row.
        .filter(|message| message.author.agent().is_some())
        .collect();
    if agents.len() > limits.turns_without_human {
        return LoopVerdict::Stop(LimitReason::Turns(limits.turns_without_human));
    }
    let burst: Vec<&RecentMessage> =
        agents.into_iter().take_while(|message| message.at >= now.saturating_sub(limits.window)).collect();
    let same = burst.iter().filter(|message| message.digest == last.digest).count();
    let idle = count_ping_pong(&burst, limits.short);
    let (count, why) = if idle > same { (idle, LimitReason::Calls) } else { (same, LimitReason::Echo) };
    if count > limits.stop_after {
        return LoopVerdict::Stop(why);
    }
    match count.checked_sub(limits.slow_after + 1) {
        None => LoopVerdict::Go,
        // The shift is capped: with the default wait, the delay is at most 128 seconds.
        Some(more) => LoopVerdict::Slow(limits.wait << more.min(6)),
    }
}

/// Counts the messages without new content in the newest unbroken row in which two agents call each other. Such a
/// message is very short or repeats one that came earlier in the row. The newest message comes first.
fn count_ping_pong(burst: &[&RecentMessage], short: usize) -> usize {
    let Some(last) = burst.first() else { return 0 };
    let Some(other) = burst.iter().find(|message| message.author != last.author) else { return 0 };
    let calls = |message: &RecentMessage, callee: &Party| {
        callee.agent().is_some_and(|agent| message.mentions.has(agent))
    };
    let row: Vec<&&RecentMessage> = burst
        .iter()
        .take_while(|message| {
            (message.author == last.author && calls(message, &other.author))
                || (message.author == other.author && calls(message, &last.author))
        })
        .collect();
    let is_idle = |(place, message): &(usize, &&&RecentMessage)| {
        message.letters <= short || row[place + 1..].iter().any(|before| before.digest == message.digest)
    };
    row.iter().enumerate().filter(is_idle).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(author: &str, text: &str, at: i64) -> RecentMessage {
        let agents = text
            .split_whitespace()
            .filter_map(|word| word.strip_prefix('@'))
            .filter_map(|word| word.parse().ok())
            .collect();
        let mentions = PostMentions { agents, all: text.contains("@all") };
        RecentMessage::new(author.parse().unwrap(), text, text.len(), mentions, at)
    }

    /// A long sentence that is different for each number.
    fn prose(number: usize) -> String {
        let word: String =
            format!("{number:03}").bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        format!("the part {word} of the work is written and its tests pass as they should")
    }

    fn judge(messages: &[RecentMessage]) -> LoopVerdict {
        verdict(messages, &LoopLimits::default(), messages.last().map_or(0, |message| message.at))
    }

    #[test]
    fn digests_ignore_case_numbers_and_mentions() {
        let same = |a: &str, b: &str| said("a", a, 0).digest == said("a", b, 0).digest;
        assert!(same("OK @bob, attempt 7!", "ok attempt 8"));
        assert!(same("done", "Done."));
        assert!(!same("done", "not done"));
        let long = "x".repeat(400);
        let a = RecentMessage::new("a".parse().unwrap(), &long, 5000, PostMentions::default(), 0);
        let b = RecentMessage::new("a".parse().unwrap(), &long, 6000, PostMentions::default(), 0);
        assert_ne!(a.digest, b.digest);
    }

    #[test]
    fn agents_are_stopped_at_the_limit_without_a_person() {
        let talk = |count: usize| -> Vec<RecentMessage> {
            (0..count).map(|n| said(["a", "b", "c"][n % 3], &prose(n), n as i64 * 60_000)).collect()
        };
        assert_eq!(judge(&talk(50)), LoopVerdict::Go);
        assert!(matches!(judge(&talk(51)), LoopVerdict::Stop(LimitReason::Turns(50))));
        let mut heard = talk(51);
        heard.insert(20, said("human:ann", "go on", 0));
        assert_eq!(judge(&heard), LoopVerdict::Go, "a person's message resets it");
        let mut system = talk(50);
        system.extend((0..20).map(|_| said("system", "noted", 0)));
        assert_eq!(judge(&system), LoopVerdict::Go);
        system.push(said("a", &prose(99), 0));
        assert!(
            matches!(judge(&system), LoopVerdict::Stop(_)),
            "flock's own messages neither count nor reset"
        );
        assert_eq!(judge(&[]), LoopVerdict::Go);
    }

    #[test]
    fn repeated_messages_are_delayed_and_then_stopped() {
        let echo = |count: usize| -> Vec<RecentMessage> {
            (0..count).map(|n| said(["a", "b"][n % 2], &format!("Done, pass {n}!"), n as i64)).collect()
        };
        assert_eq!(judge(&echo(4)), LoopVerdict::Go);
        assert_eq!(judge(&echo(5)), LoopVerdict::Slow(2_000));
        assert_eq!(judge(&echo(6)), LoopVerdict::Slow(4_000));
        assert!(matches!(judge(&echo(11)), LoopVerdict::Stop(_)));
        let mut person = echo(20);
        person.push(said("human:ann", "done", 30));
        assert_eq!(judge(&person), LoopVerdict::Go, "a person may say what they like");
        let rare: Vec<RecentMessage> =
            (0..20).map(|n| said("a", "nightly run is done", n * 11 * 60_000)).collect();
        assert_eq!(judge(&rare), LoopVerdict::Go, "what comes now and then is no storm");
    }

    #[test]
    fn long_messages_between_two_agents_are_not_limited() {
        let work: Vec<RecentMessage> = (0..40)
            .map(|n| {
                let (author, other) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
                said(author, &format!("@{other} {}", prose(n)), n as i64 * 1000)
            })
            .collect();
        assert_eq!(judge(&work), LoopVerdict::Go);
    }

    #[test]
    fn two_agents_that_only_mention_each_other_are_stopped() {
        let words = ["yes", "no", "ok", "thanks", "sure", "right", "fine", "great"];
        for limits in [LoopLimits::default(), LoopLimits { turns_without_human: 5, ..LoopLimits::default() }]
        {
            let mut channel = vec![said("human:ann", "@a talk to @b", 0)];
            let mut now = 0;
            // Whoever is mentioned answers by mentioning the other agent, as long as that wakes anybody.
            let turns = (0..1000).position(|turn| {
                let (author, other) = if turn % 2 == 0 { ("a", "b") } else { ("b", "a") };
                now += 1000;
                channel.push(said(author, &format!("@{other} {}", words[turn % words.len()]), now));
                match verdict(&channel, &limits, now) {
                    LoopVerdict::Go => false,
                    LoopVerdict::Slow(wait) => {
                        now += i64::try_from(wait).unwrap();
                        false
                    }
                    LoopVerdict::Stop(_) => true,
                }
            });
            let turns = turns.expect("it ends");
            assert!(turns <= limits.stop_after.min(limits.turns_without_human), "{turns}");
        }
    }
}

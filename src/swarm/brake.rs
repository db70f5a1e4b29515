//! Brakes on agents that talk among themselves: a cap on their messages without one of a person's, and an
//! end for two that only call each other and for what is said over and over. Functions of values only.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::id::{AgentId, Party};
use crate::store::{Mentioned, RecentPost};

/// What the brake's own messages begin with.
pub const MARK: &str = "The brake is on: ";

/// A message as the brake sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recent {
    /// Who said it.
    pub author: Party,
    /// Of its words, without mentions, numbers and signs: what differs in these only is the same.
    pub digest: u64,
    /// How many letters it has without them.
    pub letters: usize,
    /// Whom it mentions.
    pub mentions: Mentioned,
    /// When, in Unix milliseconds.
    pub at: i64,
}

impl Recent {
    /// A message that begins with `text` and is `length` bytes long in all.
    #[must_use]
    pub fn new(author: Party, text: &str, length: usize, mentions: Mentioned, at: i64) -> Self {
        let mut hash = DefaultHasher::new();
        let mut letters = 0;
        for word in text.split_whitespace().filter(|word| !word.starts_with('@')) {
            let word: String =
                word.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect();
            letters += word.chars().count();
            word.hash(&mut hash);
        }
        // Two long messages that begin alike are not the same unless they are as long.
        let rest = length.saturating_sub(text.len());
        rest.hash(&mut hash);
        Self { author, digest: hash.finish(), letters: letters + rest, mentions, at }
    }
}

impl From<&RecentPost> for Recent {
    fn from(post: &RecentPost) -> Self {
        Self::new(post.author.clone(), &post.start, post.length, post.mentions.clone(), post.at)
    }
}

/// Where the brakes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages of agents without one of a person's.
    pub turns_without_human: usize,
    /// Messages that say nothing new in a row before they are slowed down.
    pub slow_after: usize,
    /// And before they wake nobody.
    pub stop_after: usize,
    /// How many letters a message has at most that says nothing.
    pub short: usize,
    /// How old a message may be to count for the last two, in milliseconds.
    pub window: i64,
    /// The first wait, in milliseconds; each further one is twice as long.
    pub wait: u64,
}

impl Default for Limits {
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

/// What is to be done with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It wakes whom it wakes.
    Go,
    /// It wakes them so many milliseconds later.
    Slow(u64),
    /// It wakes nobody, for this reason.
    Stop(Reason),
}

/// Why a message wakes nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// So many of agents without one of a person's.
    Turns(usize),
    /// Two only call each other.
    Calls,
    /// The same again and again.
    Echo,
}

impl Reason {
    /// What is said of it in a channel.
    #[must_use]
    pub fn in_channel(self) -> String {
        let rest = match self {
            Self::Turns(_) => "What agents say is kept and wakes nobody until a person says something.",
            Self::Calls | Self::Echo => "Such messages are kept and wake nobody; say what is new, or stop.",
        };
        format!("{self}. {rest}")
    }

    /// What an agent is told whose message to `other` was not sent.
    #[must_use]
    pub fn refusal(self, other: &AgentId) -> String {
        let rest = match self {
            Self::Turns(_) => {
                "Nothing more goes between you until a person says something to you or to them. End your turn with \
                 what you have, and say what is open"
            }
            Self::Calls | Self::Echo => {
                "Send something new, or end your turn with what you have: don't try the same again"
            }
        };
        format!("not sent to {other}: {self}. {rest}")
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turns(count) => write!(formatter, "{count} messages of agents without one of a person's"),
            Self::Calls => formatter.write_str("two agents only call each other"),
            Self::Echo => formatter.write_str("the same is said over and over"),
        }
    }
}

/// What is to be done with the last of these messages, which are a channel's newest, the oldest first.
/// `now` in Unix milliseconds.
#[must_use]
pub fn verdict(recent: &[Recent], limits: &Limits, now: i64) -> Verdict {
    let Some((last, _)) = recent.split_last() else { return Verdict::Go };
    if last.author.agent().is_none() {
        return Verdict::Go;
    }
    let agents: Vec<&Recent> = recent
        .iter()
        .rev()
        .take_while(|message| !message.author.is_human())
        .filter(|message| message.author.agent().is_some())
        .collect();
    if agents.len() > limits.turns_without_human {
        return Verdict::Stop(Reason::Turns(limits.turns_without_human));
    }
    let burst: Vec<&Recent> =
        agents.into_iter().take_while(|message| message.at >= now.saturating_sub(limits.window)).collect();
    let same = burst.iter().filter(|message| message.digest == last.digest).count();
    let idle = ping_pong(&burst, limits.short);
    let (count, why) = if idle > same { (idle, Reason::Calls) } else { (same, Reason::Echo) };
    if count > limits.stop_after {
        return Verdict::Stop(why);
    }
    match count.checked_sub(limits.slow_after + 1) {
        None => Verdict::Go,
        Some(more) => Verdict::Slow(limits.wait << more.min(6)),
    }
}

/// How many of the newest messages in a row two agents call each other with, saying nothing: very short, or
/// what one of them said in that row before. The newest comes first.
fn ping_pong(burst: &[&Recent], short: usize) -> usize {
    let Some(last) = burst.first() else { return 0 };
    let Some(other) = burst.iter().find(|message| message.author != last.author) else { return 0 };
    let calls =
        |message: &Recent, callee: &Party| callee.agent().is_some_and(|agent| message.mentions.has(agent));
    let row: Vec<&&Recent> = burst
        .iter()
        .take_while(|message| {
            (message.author == last.author && calls(message, &other.author))
                || (message.author == other.author && calls(message, &last.author))
        })
        .collect();
    let is_idle = |(place, message): &(usize, &&&Recent)| {
        message.letters <= short || row[place + 1..].iter().any(|before| before.digest == message.digest)
    };
    row.iter().enumerate().filter(is_idle).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(author: &str, text: &str, at: i64) -> Recent {
        let agents = text
            .split_whitespace()
            .filter_map(|word| word.strip_prefix('@'))
            .filter_map(|word| word.parse().ok())
            .collect();
        let mentions = Mentioned { agents, all: text.contains("@all") };
        Recent::new(author.parse().unwrap(), text, text.len(), mentions, at)
    }

    /// A long sentence that is different each time.
    fn prose(number: usize) -> String {
        let word: String =
            format!("{number:03}").bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        format!("the part {word} of the work is written and its tests pass as they should")
    }

    fn judge(messages: &[Recent]) -> Verdict {
        verdict(messages, &Limits::default(), messages.last().map_or(0, |message| message.at))
    }

    #[test]
    fn differences_that_say_nothing_do_not_count() {
        let same = |a: &str, b: &str| said("a", a, 0).digest == said("a", b, 0).digest;
        assert!(same("OK @bob, attempt 7!", "ok attempt 8"));
        assert!(same("done", "Done."));
        assert!(!same("done", "not done"));
        let long = "x".repeat(400);
        let a = Recent::new("a".parse().unwrap(), &long, 5000, Mentioned::default(), 0);
        let b = Recent::new("a".parse().unwrap(), &long, 6000, Mentioned::default(), 0);
        assert_ne!(a.digest, b.digest);
    }

    #[test]
    fn agents_may_say_so_much_without_a_person() {
        let talk = |count: usize| -> Vec<Recent> {
            (0..count).map(|n| said(["a", "b", "c"][n % 3], &prose(n), n as i64 * 60_000)).collect()
        };
        assert_eq!(judge(&talk(50)), Verdict::Go);
        assert!(matches!(judge(&talk(51)), Verdict::Stop(Reason::Turns(50))));
        let mut heard = talk(51);
        heard.insert(20, said("human:ann", "go on", 0));
        assert_eq!(judge(&heard), Verdict::Go, "a person's message resets it");
        let mut system = talk(50);
        system.extend((0..20).map(|_| said("system", "noted", 0)));
        assert_eq!(judge(&system), Verdict::Go);
        system.push(said("a", &prose(99), 0));
        assert!(matches!(judge(&system), Verdict::Stop(_)), "flock's own messages neither count nor reset");
        assert_eq!(judge(&[]), Verdict::Go);
    }

    #[test]
    fn what_is_said_over_and_over_is_slowed_and_stopped() {
        let echo = |count: usize| -> Vec<Recent> {
            (0..count).map(|n| said(["a", "b"][n % 2], &format!("Done, pass {n}!"), n as i64)).collect()
        };
        assert_eq!(judge(&echo(4)), Verdict::Go);
        assert_eq!(judge(&echo(5)), Verdict::Slow(2_000));
        assert_eq!(judge(&echo(6)), Verdict::Slow(4_000));
        assert!(matches!(judge(&echo(11)), Verdict::Stop(_)));
        let mut person = echo(20);
        person.push(said("human:ann", "done", 30));
        assert_eq!(judge(&person), Verdict::Go, "a person may say what they like");
        let rare: Vec<Recent> = (0..20).map(|n| said("a", "nightly run is done", n * 11 * 60_000)).collect();
        assert_eq!(judge(&rare), Verdict::Go, "what comes now and then is no storm");
    }

    #[test]
    fn two_who_work_together_are_not_held() {
        let work: Vec<Recent> = (0..40)
            .map(|n| {
                let (author, other) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
                said(author, &format!("@{other} {}", prose(n)), n as i64 * 1000)
            })
            .collect();
        assert_eq!(judge(&work), Verdict::Go);
    }

    #[test]
    fn a_storm_of_mentions_between_two_agents_ends() {
        let words = ["yes", "no", "ok", "thanks", "sure", "right", "fine", "great"];
        for limits in [Limits::default(), Limits { turns_without_human: 5, ..Limits::default() }] {
            let mut channel = vec![said("human:ann", "@a talk to @b", 0)];
            let mut now = 0;
            // Whoever is mentioned answers by mentioning the other, for as long as that wakes anybody.
            let turns = (0..1000).position(|turn| {
                let (author, other) = if turn % 2 == 0 { ("a", "b") } else { ("b", "a") };
                now += 1000;
                channel.push(said(author, &format!("@{other} {}", words[turn % words.len()]), now));
                match verdict(&channel, &limits, now) {
                    Verdict::Go => false,
                    Verdict::Slow(wait) => {
                        now += i64::try_from(wait).unwrap();
                        false
                    }
                    Verdict::Stop(_) => true,
                }
            });
            let turns = turns.expect("it ends");
            assert!(turns <= limits.stop_after.min(limits.turns_without_human), "{turns}");
        }
    }
}

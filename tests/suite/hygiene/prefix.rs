//! Tests that a request behind a cached prefix equals, byte for byte, the request of the whole conversation.

use std::sync::Arc;

use proptest::prelude::*;

use super::fake_providers::encoder::{RequestEncoder, request};
use super::generator::{self, ConversationGenerator};
use flock::agent::prefix_cache::{self, plain};
use flock::agent::transcript::hygiene::{Target, sanitise};
use flock::agent::transcript::{Entry, EntryKind, EntryMetadata};
use flock::config::Api;
use flock::provider::{BodyPrefix, Message, Request, Role, StopReason};

/// flock's context beside a message, as some models repeat it.
const ECHO: &str = "<flock-context source=\"flock\">time: 2026-11-23 13:44 +00:00</flock-context>";

/// Texts of people and models that contain patterns flock searches for.
const TEXTS: [&str; 9] = [
    ECHO,
    "Good morning.",
    "  two\n\nparagraphs, \"quoted\" \\ and ]} at the end]}",
    "<flock-context source=\"client\">not flock's</flock-context>",
    "[inter-session_message from=coder] hello",
    "<think>aloud</think> and an answer",
    "\u{1F980} \u{2028} \u{FEFF}odd letters\u{200B}",
    "<flock-from agent=\"coder\">x",
    ",",
];

fn plain_entry(role: Role, text: &str, target: &Target, number: usize) -> Entry {
    let about = EntryMetadata {
        id: format!("p{number}"),
        at: i64::try_from(number).unwrap(),
        route: (role == Role::Assistant).then(|| target.route.clone()),
        stop: (role == Role::Assistant).then_some(StopReason::End),
        ..EntryMetadata::default()
    };
    Entry { message: Arc::new(Message::text(role, text)), about: Arc::new(about) }
}

/// Returns plain turns, some without an answer and some with two.
fn plain_turns(picks: &[(usize, usize, u8)], target: &Target) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (asks, answers, kind) in picks {
        let mut say = |role, pick: &usize| {
            let number = entries.len();
            let text = TEXTS[pick % TEXTS.len()];
            // The echoed context stays as it is, because only a text of nothing else is removed.
            let text = if text == ECHO { text.to_owned() } else { format!("{text} {number}") };
            entries.push(plain_entry(role, &text, target, number));
        };
        say(Role::User, asks);
        if kind % 8 != 0 {
            say(Role::Assistant, answers);
        }
        if kind % 8 == 1 {
            say(Role::Assistant, asks);
        }
    }
    entries
}

/// Returns turns that may follow a cached prefix in a transcript: any turns, beginning with a person's message.
fn later_turns(seed: u64, count: usize) -> Vec<Entry> {
    let made = ConversationGenerator::new(seed).transcript(count);
    let is_stored = |entry: &&Entry| entry.about.kind != EntryKind::Compacted && !entry.about.imported;
    made.iter().filter(is_stored).skip_while(|entry| entry.role() != Role::User).cloned().collect()
}

fn body(
    target: &Target,
    wire: &RequestEncoder,
    entries: &[Entry],
    prefix: Option<Arc<BodyPrefix>>,
) -> Option<Vec<u8>> {
    let messages = sanitise(entries, target).unwrap().messages;
    let request = Request { prefix, ..request(target, messages) };
    Some(wire.provider(target)?.body(&request).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_request_behind_a_cached_prefix_equals_the_whole_request(
        picks in prop::collection::vec((0usize..9, 0usize..9, any::<u8>()), 1..12),
        more in prop::collection::vec((0usize..9, 0usize..9, any::<u8>()), 0..4),
        seed: u64,
        count in 1usize..5,
    ) {
        let wire = RequestEncoder::new();
        let after = later_turns(seed, count);
        prop_assume!(!after.is_empty());
        for target in generator::targets() {
            let Some(provider) = wire.provider(&target) else { continue };
            let mut kept = plain_turns(&picks, &target);
            kept.truncate(plain(&kept.iter().collect::<Vec<_>>()));
            if kept.is_empty() {
                continue;
            }
            let ready = |entries: &[Entry]| {
                prefix_cache::ready(entries.to_vec(), &target).map(|messages| request(&target, messages))
            };
            let Some(asked) = ready(&kept) else { continue };
            let mut prefix = BodyPrefix::new(&*provider, &asked).expect("every wire has its messages last");
            // One turn later, more is cached.
            let mut later = plain_turns(&more, &target);
            later.truncate(plain(&later.iter().collect::<Vec<_>>()));
            let whole: Vec<Entry> = kept.into_iter().chain(later.clone()).chain(after.clone()).collect();
            let after = match ready(&later) {
                Some(asked) => {
                    prefix = prefix.with_appended_messages(&*provider, &asked).unwrap();
                    after.clone()
                }
                None => later.into_iter().chain(after.clone()).collect(),
            };
            let following = request(&target, sanitise(&after, &target).unwrap().messages);
            prop_assert!(prefix.fits(&*provider, &following), "{:?}", target.route);
            let expected = body(&target, &wire, &whole, None).unwrap();
            let found = body(&target, &wire, &after, Some(Arc::new(prefix))).unwrap();
            prop_assert!(
                expected == found,
                "{:?}:\n{}\n{}",
                target.route,
                String::from_utf8_lossy(&expected),
                String::from_utf8_lossy(&found)
            );
        }
    }
}

#[test]
fn a_prefix_does_not_fit_another_prompt() {
    let wire = RequestEncoder::new();
    let target = Target::new(generator::route("openai/gpt-4o", Api::OpenAiCompletions));
    let provider = wire.provider(&target).unwrap();
    let kept = plain_turns(&[(0, 0, 2)], &target);
    let asked = request(&target, sanitise(&kept, &target).unwrap().messages);
    let prefix = BodyPrefix::new(&*provider, &asked).unwrap();
    assert!(prefix.fits(&*provider, &asked));
    let other = Request { system: "You are another test.".to_owned(), ..asked };
    assert!(!prefix.fits(&*provider, &other));
    let lost = Request { prefix: Some(Arc::new(prefix)), ..other };
    assert!(provider.body(&lost).is_err(), "nothing is sent that begins with something else");
}

#[test]
fn a_prefix_does_not_end_with_a_removed_answer() {
    let wire = RequestEncoder::new();
    for target in generator::targets() {
        let Some(provider) = wire.provider(&target) else { continue };
        let mut entries = plain_turns(&[(1, 1, 2), (1, 0, 2)], &target);
        assert_eq!(prefix_cache::ready(entries.clone(), &target), None, "{:?}", target.route);
        entries.truncate(2);
        let asked = request(&target, prefix_cache::ready(entries, &target).unwrap());
        let prefix = BodyPrefix::new(&*provider, &asked).unwrap();
        assert!(prefix.with_appended_messages(&*provider, &request(&target, Vec::new())).is_none());
    }
}

#[test]
fn only_plain_texts_up_to_an_answer_are_cached() {
    let target = Target::new(generator::route("openai/gpt-4o", Api::OpenAiCompletions));
    let count = |entries: &[Entry]| plain(&entries.iter().collect::<Vec<_>>());
    let two = plain_turns(&[(0, 0, 2), (1, 1, 2)], &target);
    assert_eq!(count(&two), 4);
    assert_eq!(count(&two[..3]), 2, "what has no answer may still be joined with what follows");
    assert_eq!(count(&two[1..]), 0, "a conversation begins with a person");
    let mut broken_off = two.clone();
    Arc::make_mut(&mut broken_off[3].about).stop = Some(StopReason::Aborted);
    assert_eq!(count(&broken_off), 2);
    let mut brought = two.clone();
    Arc::make_mut(&mut brought[0].about).imported = true;
    assert_eq!(count(&brought), 0);
    let mut blank = two;
    blank[2] = plain_entry(Role::User, " ", &target, 2);
    assert_eq!(count(&blank), 2);
}

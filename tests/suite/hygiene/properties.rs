//! Properties that hold for every policy and every conversation.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;

use super::fake_providers::is_blank_block;
use super::generator::{self, ConversationGenerator};
use flock::agent::transcript::hygiene::policy::{HygienePolicy, IdFormat};
use flock::agent::transcript::hygiene::{Target, apply_rules, sanitise};
use flock::agent::transcript::{Entry, EntryKind};
use flock::provider::{Block, Role};

fn clean_once(entries: &[Entry], target: &Target) -> Vec<Entry> {
    apply_rules(entries, target, &HygienePolicy::of(target)).0
}

/// Returns people's texts, without blank ones.
fn user_texts(entries: &[Entry]) -> Vec<String> {
    let users = entries.iter().filter(|entry| entry.role() == Role::User);
    let texts = users.flat_map(|entry| &entry.message.content).filter(|block| !is_blank_block(block));
    let texts = texts.filter_map(|block| match block {
        Block::Text { text, .. } => {
            Some(text.to_lowercase().replace("[inter-session_message", "[inter-session message"))
        }
        _ => None,
    });
    texts.collect()
}

fn is_valid_id(id: &str, ids: IdFormat) -> bool {
    let plain = |text: &str, most| {
        (1..=most).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    match ids {
        IdFormat::Pairs => {
            let (call, item) = id.split_once('|').map_or((id, "fc_x"), |(call, item)| (call, item));
            call.starts_with("call_") && plain(call, 64) && item.starts_with("fc_") && plain(item, 64)
        }
        IdFormat::Nine => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        IdFormat::Strict | IdFormat::Native => plain(id, 64) || id.starts_with("functions."),
        IdFormat::Own => (1..=64).contains(&id.len()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn every_policy_produces_an_accepted_conversation(seed: u64, turns in 0usize..12) {
        let entries = ConversationGenerator::new(seed).transcript(turns);
        let stored = entries.clone();
        for target in generator::targets() {
            let policy = HygienePolicy::of(&target);
            let ready = clean_once(&entries, &target);
            prop_assert!(entries == stored, "the stored conversation stays as it is");
            let again = clean_once(&ready, &target);
            let other = again.iter().zip(&ready).find(|(again, ready)| again != ready);
            prop_assert!(other.is_none() && again.len() == ready.len(), "{:?}: no fixed point: {other:#?}", policy.row);
            prop_assert!(clean_once(&entries, &target) == ready, "{:?}: not the same each time", policy.row);

            let mut kept = user_texts(&ready).into_iter();
            for text in user_texts(&entries) {
                prop_assert!(kept.any(|found| found == text), "{:?}: {text:?} is gone", policy.row);
            }

            let mut ids = HashSet::new();
            let mut open: VecDeque<(&str, &str)> = VecDeque::new();
            for entry in &ready {
                prop_assert!(entry.role() == Role::Tool || open.is_empty(), "{:?}: {open:?} is not answered", policy.row);
                for block in &entry.message.content {
                    if let Block::ToolResult { call_id, name, content, .. } = block {
                        prop_assert_eq!(open.pop_front(), Some((&**call_id, &**name)), "{:?}", policy.row);
                        prop_assert!(!content.is_empty());
                    }
                }
                for call in entry.message.tool_calls() {
                    prop_assert!(is_valid_id(call.id, policy.ids), "{:?}: {:?}", policy.row, call.id);
                    let is_new = ids.insert(call.id.split('|').next().unwrap().to_owned());
                    prop_assert!(is_new, "{:?}: {:?} twice", policy.row, call.id);
                    open.push_back((call.id, call.name));
                }
            }
            prop_assert!(open.is_empty());
            for entry in &ready {
                prop_assert!(!entry.message.content.is_empty());
                let is_blank = |block: &Block| is_blank_block(block) && !matches!(block, Block::Text { signature: Some(_), .. });
                prop_assert!(!entry.message.content.iter().any(is_blank), "no text is blank");
                prop_assert!(entry.about.kind != EntryKind::ForPeople);
            }
            for pair in ready.windows(2) {
                let in_a_row = pair[0].role() == pair[1].role();
                prop_assert!(!in_a_row || pair[0].role() != Role::User || !policy.merge_users);
                prop_assert!(!in_a_row || pair[0].role() != Role::Assistant || !policy.merge_answers);
            }
            let first = ready.first().map(Entry::role);
            prop_assert!(!policy.bootstrap || first.is_none_or(|role| role == Role::User));
            prop_assert!(sanitise(&entries, &target).is_ok());
        }
    }
}

#[test]
fn a_valid_conversation_is_returned_unchanged() {
    for target in generator::targets() {
        let entries = generator::clean(&target, 20);
        let ready = sanitise(&entries, &target).unwrap();
        assert_eq!(ready.applied, [], "{:?}", target.route);
        let same =
            entries.iter().zip(&ready.messages).all(|(entry, message)| Arc::ptr_eq(&entry.message, message));
        assert!(same && entries.len() == ready.messages.len(), "{:?}", target.route);
    }
}

#[test]
fn changed_messages_are_copied_and_others_shared() {
    let target = generator::targets().find(|target| target.route.provider() == "anthropic").unwrap();
    let mut entries = generator::clean(&target, 3);
    let blank = &mut Arc::make_mut(&mut entries[5].message).content;
    blank.push(Block::text(" "));
    let ready = sanitise(&entries, &target).unwrap();
    let changed: Vec<usize> =
        (0..entries.len()).filter(|at| !Arc::ptr_eq(&entries[*at].message, &ready.messages[*at])).collect();
    assert_eq!(changed, [5]);
    assert_eq!(entries[5].message.content.len(), 3, "the one that was given is as it was");
}

//! The names of topics, which Telegram tells only in passing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::place::Place;

/// Largest number of names that are kept.
const MAX: usize = 10_000;

/// The names that were seen. After a restart a topic is called by its number until its name is told again.
#[derive(Default)]
pub(super) struct Topics {
    names: Mutex<HashMap<Place, String>>,
}

impl Topics {
    /// Learns the name of a topic from a message in it.
    pub(super) fn learn(&self, place: Place, message: &Value) {
        let told = [&message["forum_topic_edited"], &message["forum_topic_created"]]
            .into_iter()
            .find_map(|service| service["name"].as_str());
        // Each message in a topic answers the one that opened it, which has the name of that time.
        let first = || message["reply_to_message"]["forum_topic_created"]["name"].as_str();
        let Some(name) = told.or_else(first) else { return };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= MAX {
            names.clear();
        }
        match told {
            Some(name) => {
                names.insert(place, name.to_owned());
            }
            None => {
                names.entry(place).or_insert_with(|| name.to_owned());
            }
        }
    }

    /// Returns the name of a topic.
    pub(super) fn name(&self, place: Place) -> String {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let number = place.topic.unwrap_or_default();
        names.get(&place).cloned().unwrap_or_else(|| format!("topic {number}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_learnt_and_a_newer_one_stays() {
        let (topics, place) = (Topics::default(), Place::new(-1, Some(5)));
        assert_eq!(topics.name(place), "topic 5");
        let in_topic = json!({"reply_to_message": {"forum_topic_created": {"name": "Lunch"}}});
        topics.learn(place, &in_topic);
        assert_eq!(topics.name(place), "Lunch");
        topics.learn(place, &json!({"forum_topic_edited": {"name": "Dinner"}}));
        topics.learn(place, &in_topic);
        topics.learn(place, &json!({"forum_topic_edited": {}}));
        assert_eq!(topics.name(place), "Dinner");
    }
}

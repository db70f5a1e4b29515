//! The names of the bot, of people and of groups.

use serde_json::Value;

/// Longest name of somebody, in characters.
pub(super) const MAX_NAME: usize = 128;

/// The facts about flock's own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bot {
    pub(super) id: i64,
    pub(super) username: String,
}

impl Bot {
    pub(super) fn is_named(&self, username: &str) -> bool {
        self.username.eq_ignore_ascii_case(username)
    }
}

/// Returns the user name of a user or a chat, or else the name that is seen.
pub(super) fn name_of(value: &Value) -> String {
    let text = |key: &str| value[key].as_str().filter(|text| !text.trim().is_empty());
    let name = match (text("username"), text("title"), text("first_name"), text("last_name")) {
        (Some(username), ..) => username.to_owned(),
        (None, Some(title), ..) => title.to_owned(),
        (None, None, first, last) => [first, last].into_iter().flatten().collect::<Vec<_>>().join(" "),
    };
    name.chars().take(MAX_NAME).collect()
}

/// Returns the title of a group, or the name of the person of a private chat.
pub(super) fn title_of(chat: &Value) -> String {
    match chat["title"].as_str() {
        Some(title) => title.chars().take(MAX_NAME).collect(),
        None => name_of(chat),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_user_names_or_what_is_seen() {
        for (user, wanted) in [
            (json!({"username": "ann", "first_name": "Ann"}), "ann"),
            (json!({"first_name": "Ann", "last_name": "B"}), "Ann B"),
            (json!({"title": "Team"}), "Team"),
            (json!({"first_name": " "}), ""),
            (json!(null), ""),
        ] {
            assert_eq!(name_of(&user), wanted);
        }
    }
}

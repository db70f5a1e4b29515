//! Slack's names of emoji.

/// The emoji that agents use for reactions. Slack takes names only, and has no list of them for programs.
const NAMES: [(&str, &str); 48] = [
    ("👀", "eyes"),
    ("✅", "white_check_mark"),
    ("✔", "heavy_check_mark"),
    ("❌", "x"),
    ("⏳", "hourglass_flowing_sand"),
    ("⌛", "hourglass"),
    ("👍", "thumbsup"),
    ("👎", "thumbsdown"),
    ("🎉", "tada"),
    ("🚀", "rocket"),
    ("❤", "heart"),
    ("😀", "grinning"),
    ("😄", "smile"),
    ("😂", "joy"),
    ("🙂", "slightly_smiling_face"),
    ("😕", "confused"),
    ("😢", "cry"),
    ("😮", "open_mouth"),
    ("🤔", "thinking_face"),
    ("🙏", "pray"),
    ("👏", "clap"),
    ("👌", "ok_hand"),
    ("👋", "wave"),
    ("💪", "muscle"),
    ("🔥", "fire"),
    ("💯", "100"),
    ("⚠", "warning"),
    ("❗", "exclamation"),
    ("❓", "question"),
    ("🛑", "octagonal_sign"),
    ("🚫", "no_entry_sign"),
    ("⛔", "no_entry"),
    ("🔒", "lock"),
    ("🔓", "unlock"),
    ("🐛", "bug"),
    ("🔧", "wrench"),
    ("🔨", "hammer"),
    ("📝", "memo"),
    ("📌", "pushpin"),
    ("📎", "paperclip"),
    ("💡", "bulb"),
    ("⏸", "double_vertical_bar"),
    ("▶", "arrow_forward"),
    ("🔁", "repeat"),
    ("🔄", "arrows_counterclockwise"),
    ("🟢", "large_green_circle"),
    ("🔴", "red_circle"),
    ("🤖", "robot_face"),
];

/// Returns the name of an emoji, which may also be given as `:name:`.
pub(super) fn name(emoji: &str) -> Option<&str> {
    if let Some(name) = emoji.strip_prefix(':').and_then(|rest| rest.strip_suffix(':')) {
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_+-'".contains(c);
        return Some(name).filter(|name| (1..=100).contains(&name.len()) && name.chars().all(is_allowed));
    }
    // The character that asks for a picture in colours changes nothing.
    let plain = emoji.trim_end_matches('\u{fe0f}');
    NAMES.iter().find(|(one, _)| *one == plain).map(|(_, name)| *name)
}

/// Returns the emoji of a name. `None` for one that flock does not use.
pub(super) fn symbol(name: &str) -> Option<&'static str> {
    // Slack calls the thumbs by two names each.
    let name = match name.split("::").next().unwrap_or_default() {
        "+1" => "thumbsup",
        "-1" => "thumbsdown",
        other => other,
    };
    NAMES.iter().find(|(_, known)| *known == name).map(|(one, _)| *one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emoji_have_names() {
        assert_eq!(name("👍"), Some("thumbsup"));
        assert_eq!(name("❤️"), Some("heart"));
        assert_eq!(name(":our_own:"), Some("our_own"));
        assert_eq!(name("🦤"), None);
        assert_eq!(symbol("+1::skin-tone-3"), Some("👍"));
        assert_eq!(symbol("party_parrot"), None);
        assert_eq!(name(":no name:"), None);
        assert_eq!(name("::"), None);
    }
}

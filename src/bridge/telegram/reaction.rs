//! The emoji with which bots may react.

/// The reactions that Telegram lets bots use, without variation selectors.
const ALLOWED: &str = "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u{200d}🔥 🌚 🌭 💯 \
    🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨\u{200d}💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 \
    🙉 🦄 😘 💊 🙊 😎 👾 🤷\u{200d}♂ 🤷 🤷\u{200d}♀ 😡";

/// Returns the allowed reaction that means the same as this emoji. `None` if there is none.
pub(super) fn allowed(emoji: &str) -> Option<String> {
    let emoji = emoji.replace('\u{fe0f}', "");
    let emoji = match emoji.as_str() {
        "✅" | "✔" | "☑" | "🆗" => "👍",
        "❌" | "✖" | "⛔" | "🚫" => "👎",
        "⏳" | "⌛" | "🕐" => "👀",
        "❓" => "🤔",
        other => other,
    };
    ALLOWED.split(' ').any(|one| one == emoji).then(|| emoji.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_the_reactions_that_there_are() {
        for (emoji, wanted) in [
            ("✅", "👍"),
            ("❌", "👎"),
            ("👀", "👀"),
            ("❤\u{fe0f}", "❤"),
            ("🤷\u{200d}♂\u{fe0f}", "🤷\u{200d}♂"),
        ] {
            assert_eq!(allowed(emoji).as_deref(), Some(wanted), "{emoji}");
        }
        for emoji in ["", " ", "🐑", "x", "👍 👎"] {
            assert_eq!(allowed(emoji), None, "{emoji}");
        }
    }
}

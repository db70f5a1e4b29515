//! The forms in which people decide: the id of a button, an emoji, and a typed answer.

use crate::bridge::message::Button;
use crate::tool::safe_text;

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Approve,
    Deny,
}

impl Verb {
    pub(super) const ALL: [Self; 2] = [Self::Approve, Self::Deny];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
        }
    }

    pub(super) const fn past(self) -> &'static str {
        match self {
            Self::Approve => "approved",
            Self::Deny => "denied",
        }
    }

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str().eq_ignore_ascii_case(word))
    }
}

/// A message that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypedAnswer {
    pub(super) verb: Verb,
    /// The code, in lower case. Without one, the message decides only as a reply to a message about a request.
    pub(super) code: Option<String>,
    /// The reason of a denial.
    pub(super) reason: Option<String>,
}

/// Maximum size of a reason in bytes.
const MAX_REASON: usize = 2000;

/// Reads `approve [CODE]` and `deny [CODE] [REASON]`, in capital letters or not. A message with more words than these is
/// none of a decision: nobody approves by a sentence that begins with "approve".
pub(super) fn typed(text: &str) -> Option<TypedAnswer> {
    let (word, rest) = split_word(text.trim());
    let verb = Verb::of(word)?;
    let (word, after) = split_word(rest);
    let code = word.to_ascii_lowercase();
    let (code, rest) = if is_code(&code) { (Some(code), after) } else { (None, rest) };
    match verb {
        Verb::Approve if !rest.is_empty() => None,
        _ => {
            let reason = (!rest.is_empty()).then(|| safe_text::start(rest, MAX_REASON).to_owned());
            Some(TypedAnswer { verb, code, reason })
        }
    }
}

fn split_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    // People copy the code together with the marks around it.
    (word.trim_matches('`'), rest.trim())
}

/// Returns the decision that an emoji stands for, in any colour.
pub(super) fn emoji(emoji: &str) -> Option<Verb> {
    let is_modifier = |c: char| c == '\u{fe0f}' || ('\u{1f3fb}'..='\u{1f3ff}').contains(&c);
    match emoji.trim_end_matches(is_modifier) {
        "👍" | "✅" => Some(Verb::Approve),
        "👎" | "❌" => Some(Verb::Deny),
        _ => None,
    }
}

/// The beginning of the ids of buttons that decide.
const BUTTON: &str = "flock";

/// Returns the buttons of a message with this code.
pub(super) fn buttons(code: &str) -> [Button; 2] {
    Verb::ALL.map(|verb| Button {
        id: format!("{BUTTON}:{}:{code}", verb.as_str()),
        label: if verb == Verb::Approve { "Approve" } else { "Deny" }.to_owned(),
        is_positive: verb == Verb::Approve,
    })
}

/// Returns the decision and the code of a button. `None` for any other button.
pub(super) fn button(id: &str) -> Option<(Verb, String)> {
    let (verb, code) = id.strip_prefix(BUTTON)?.strip_prefix(':')?.split_once(':')?;
    is_code(code).then_some((Verb::of(verb)?, code.to_owned()))
}

/// The letters and digits of a code, without those that look alike.
const DIGITS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
/// The number of characters on each side of the hyphen.
const HALF: usize = 5;

/// Returns a new random code, as in `k7m3q-9wxyz`, with 50 bits.
pub(super) fn new_code() -> String {
    let digits = rand::random::<[u8; 2 * HALF]>().map(|byte| char::from(DIGITS[usize::from(byte % 32)]));
    let (first, second) = digits.split_at(HALF);
    first.iter().chain(&['-']).chain(second).collect()
}

fn is_code(text: &str) -> bool {
    let is_half = |half: &str| half.len() == HALF && half.bytes().all(|byte| DIGITS.contains(&byte));
    text.split_once('-').is_some_and(|(first, second)| is_half(first) && is_half(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(verb: Verb, code: Option<&str>, reason: Option<&str>) -> Option<TypedAnswer> {
        Some(TypedAnswer { verb, code: code.map(str::to_owned), reason: reason.map(str::to_owned) })
    }

    #[test]
    fn an_answer_is_exactly_a_verb_a_code_and_the_reason_of_a_denial() {
        let code = Some("k7m3q-9wxyz");
        for (text, expected) in [
            ("approve k7m3q-9wxyz", answer(Verb::Approve, code, None)),
            ("  Approve\n K7M3Q-9WXYZ ", answer(Verb::Approve, code, None)),
            ("`approve` `k7m3q-9wxyz`", answer(Verb::Approve, code, None)),
            ("approve", answer(Verb::Approve, None, None)),
            ("deny", answer(Verb::Deny, None, None)),
            ("DENY too risky", answer(Verb::Deny, None, Some("too risky"))),
            ("deny k7m3q-9wxyz", answer(Verb::Deny, code, None)),
            ("deny k7m3q-9wxyz too risky", answer(Verb::Deny, code, Some("too risky"))),
            ("approve k7m3q-9wxyz please", None),
            ("approve k7m3q-9wxyz k7m3q-9wxyz", None),
            ("approve everything", None),
            ("I approve k7m3q-9wxyz", None),
            ("> approve k7m3q-9wxyz", None),
            ("approved k7m3q-9wxyz", None),
            ("", None),
            ("аpprove k7m3q-9wxyz", None),
        ] {
            assert_eq!(typed(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_reason_is_limited_between_two_characters() {
        let reason = typed(&format!("deny {}", "é".repeat(5000))).unwrap().reason.unwrap();
        assert_eq!(reason.len(), MAX_REASON);
    }

    #[test]
    fn only_four_emoji_decide_in_any_colour() {
        for (text, verb) in [
            ("👍", Some(Verb::Approve)),
            ("👍🏽", Some(Verb::Approve)),
            ("✅", Some(Verb::Approve)),
            ("👎🏿", Some(Verb::Deny)),
            ("❌", Some(Verb::Deny)),
            ("❌\u{fe0f}", Some(Verb::Deny)),
            ("👀", None),
            ("👍👎", None),
            ("", None),
            ("+1", None),
        ] {
            assert_eq!(emoji(text), verb, "{text}");
        }
    }

    #[test]
    fn buttons_come_back_as_what_they_were_and_others_do_not() {
        let code = new_code();
        assert!(is_code(&code), "{code}");
        for (made, verb) in buttons(&code).iter().zip(Verb::ALL) {
            assert!(made.id.len() <= 64, "{}", made.id);
            assert_eq!(button(&made.id), Some((verb, code.clone())));
        }
        for id in
            ["", "flock", "flock:approve", "flock:approve:", "flock:run:k7m3q-9wxyz", "x:approve:k7m3q-9wxyz"]
        {
            assert_eq!(button(id), None, "{id}");
        }
        assert_ne!(new_code(), new_code());
    }
}

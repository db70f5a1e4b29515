//! Ids of one part: letters and digits, for some routes exactly nine of them.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use crate::agent::transcript::hygiene::policy::IdFormat;
use crate::id::hex;
use crate::provider::call::{self, is_plain};

/// The most characters of a strict id, which is Azure's limit.
const LONGEST: usize = 40;

const SHORT_LENGTH: usize = 9;

/// The most characters of a strict id that stay in front of the hash digits if the id is taken.
const MAX_BASE_CHARS: usize = 32;

/// Returns the id in the form that the route accepts. `own` is `true` if the answer came over this route.
pub(super) fn form(id: &str, own: bool, ids: IdFormat) -> Cow<'_, str> {
    match ids {
        IdFormat::Own if own && (is_plain(id) || is_kimi(id)) => Cow::Borrowed(id),
        IdFormat::Own if is_plain(id) && id.len() <= LONGEST => Cow::Borrowed(id),
        IdFormat::Native if (own && is_plain(id)) || is_native(id) => Cow::Borrowed(id),
        IdFormat::Strict if own && is_kimi(id) => Cow::Borrowed(id),
        IdFormat::Nine => nine_character_id(id),
        _ => strict_id(id),
    }
}

/// Returns another id if the wanted one is taken. `seed` identifies this occurrence of the stored id.
pub(super) fn other(wanted: &str, seed: &str, round: u64, ids: IdFormat) -> String {
    if ids == IdFormat::Nine {
        return digits(&format!("{seed}:{round}"), SHORT_LENGTH);
    }
    let base: String = wanted.chars().filter(char::is_ascii_alphanumeric).take(MAX_BASE_CHARS).collect();
    let round = if round == 0 { seed.to_owned() } else { format!("{seed}/{round}") };
    base + &digits(&round, LONGEST - MAX_BASE_CHARS)
}

/// Returns `true` for an id as Anthropic makes them.
fn is_native(id: &str) -> bool {
    is_plain(id) && id.strip_prefix("toolu_").is_some_and(|rest| !rest.is_empty() && !rest.contains('-'))
}

/// Returns `true` for an id as Kimi makes them and wants them back: `functions.<name>:<n>`.
fn is_kimi(id: &str) -> bool {
    let parts = id.strip_prefix("functions.").and_then(|rest| rest.rsplit_once(':'));
    id.len() <= call::LONGEST
        && parts.is_some_and(|(name, number)| {
            is_plain(name) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

fn strict_id(id: &str) -> Cow<'_, str> {
    if (1..=LONGEST).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    if id.is_empty() {
        return Cow::Borrowed("defaulttoolid");
    }
    let kept: String = id.chars().filter(char::is_ascii_alphanumeric).take(LONGEST).collect();
    if kept.is_empty() { Cow::Borrowed("sanitizedtoolid") } else { Cow::Owned(kept) }
}

fn nine_character_id(id: &str) -> Cow<'_, str> {
    // Ids that Mistral made itself have this form and stay.
    if call::is_nine_chars(id) {
        return Cow::Borrowed(id);
    }
    if id.is_empty() {
        return Cow::Borrowed("defaultid");
    }
    let kept: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    Cow::Owned(match kept.len() {
        0 => digits("sanitized", SHORT_LENGTH),
        1..SHORT_LENGTH => digits(&kept, SHORT_LENGTH),
        _ => kept[..SHORT_LENGTH].to_owned(),
    })
}

/// Returns the first hex digits of a text's SHA-256.
pub(super) fn digits(text: &str, count: usize) -> String {
    let mut digits = hex(&Sha256::digest(text));
    digits.truncate(count);
    digits
}

//! Recognises the error messages of providers for a request that exceeds the model's context, and reads the limit from
//! them. No error code is common to all providers.

use crate::provider::ProviderError;

/// Returns `true` if the provider says that the request was too long.
pub(super) fn is_too_long(error: &ProviderError) -> bool {
    const SIGNS: [&str; 15] = [
        "context length",
        "context_length",
        "context window",
        "context size",
        "prompt is too long",
        "prompt exceeds",
        "input is too long",
        "input length and `max_tokens` exceed",
        "input length should be",
        "input token count",
        "maximum number of tokens allowed",
        "maximum prompt length",
        "model token limit",
        "too many tokens",
        "too many input tokens",
    ];
    // Only a rejection can mean this. A timeout or a server error says nothing about the request's size.
    let ProviderError::Rejected { message, .. } = error else { return false };
    let message = message.to_lowercase();
    SIGNS.iter().any(|sign| message.contains(sign))
}

/// Returns the model's context size in tokens, if the provider's message names it.
pub(super) fn limit_in(error: &ProviderError) -> Option<u64> {
    /// Phrases that come directly before the limit.
    const BEFORE_IT: [&str; 11] = [
        "maximum context length is",
        "maximum context length of",
        "maximum prompt length is",
        "maximum number of tokens allowed",
        "available context size",
        "context window of",
        "context window is",
        "context length is",
        "context length of",
        "model token limit",
        "input length should be [1,",
    ];
    /// Phrases that come directly after the limit.
    const AFTER_IT: [&str; 4] = [" maximum", " token context", " tokens of context", " tokens context"];
    let ProviderError::Rejected { message, .. } = error else { return None };
    let message = message.to_lowercase();
    let next = |words: &&str| {
        let rest = &message[message.find(*words)? + words.len()..];
        // A number further away belongs to another part of the sentence.
        let gap = rest.find(|c: char| c.is_ascii_digit()).filter(|gap| *gap <= MAX_GAP)?;
        let end = rest[gap..].find(|c: char| !is_number_char(c)).map_or(rest.len(), |end| gap + end);
        tokens(&rest[gap..end])
    };
    let before = |words: &&str| {
        let rest = &message[..message.find(*words)?];
        let digits = rest.chars().rev().take_while(|c| is_number_char(*c)).count();
        tokens(&rest[rest.len() - digits..])
    };
    // The phrases before a number come first, because the others are shorter and match more texts.
    BEFORE_IT.iter().find_map(next).or_else(|| AFTER_IT.iter().find_map(before))
}

/// Some providers write 200,000 and some 200_000.
const fn is_number_char(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, ',' | '_')
}

/// Parses a number, unless it is too small or too large for a context size, as an error code is.
fn tokens(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|tokens| (MIN_TOKENS..=MAX_TOKENS).contains(tokens))
}

/// The most characters between a phrase and its number, as in ` (`.
const MAX_GAP: usize = 12;
const MIN_TOKENS: u64 = 256;
const MAX_TOKENS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_limit_is_read_from_provider_errors() {
        for (message, limit) in [
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000",
                Some(8192),
            ),
            ("prompt is too long: 200001 tokens > 200000 maximum", Some(200_000)),
            (
                "The input token count (1195270) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            ("the request exceeds the available context size (4096 tokens), try increasing it", Some(4096)),
            (
                "This model's maximum prompt length is 131,072 but the request contains 537812 tokens.",
                Some(131_072),
            ),
            ("Your request exceeded model token limit: 262144 (requested: 300000)", Some(262_144)),
            (
                "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
                Some(32_768),
            ),
            ("Range of input length should be [1, 30720]", Some(30_720)),
            ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", None),
            ("Input is too long for requested model.", None),
            ("invalid params, context window exceeds limit (2013)", None),
            ("Prompt exceeds max length", None),
            ("context_length_exceeded", None),
        ] {
            let error = ProviderError::from_status("openai", 400, message, None);
            assert!(is_too_long(&error), "{message}");
            assert_eq!(limit_in(&error), limit, "{message}");
        }
        for other in ["max_tokens: 9000 is more than 8192, the maximum", "no such model", "invalid tool"] {
            assert!(!is_too_long(&ProviderError::from_status("openai", 400, other, None)), "{other}");
        }
    }
}

//! Recognises keys that are no secrets. A local model server often accepts any key, so its owner writes `test`,
//! `ollama` or `EMPTY`. Replacing such a word in the server's answers would change them.

/// Number of characters below which a key is no secret.
const MIN_SECRET_CHARS: usize = 16;

/// Words that placeholders consist of, in lower case and divided by spaces.
const WORDS: &str = "\
    anthropic any anything api apikey bearer change changeme cpp default demo dev dummy empty example \
    fake foo for gemini goes google here in insert is it key keys litellm llama lm lmstudio local \
    localhost me mock model models my na necessary needed nil no none nokey not notneeded null ollama \
    openai or paste placeholder proxy put replace required sample secret server set sglang sk some \
    studio test testing tests the this to token unused use used value vllm with your";

/// Returns `true` for a key that only its owner and the provider can know.
pub(super) fn is_secret(key: &str) -> bool {
    key.chars().count() >= MIN_SECRET_CHARS && !is_filler_text(key)
}

/// Returns `true` for a text that only stands for a key: known words, one repeated character, or a run.
pub(crate) fn is_filler_text(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()).all(is_filler)
}

/// Returns `true` for a part of a placeholder: known words, one repeated character, or a run like `1234567890` or
/// `abcdef`.
fn is_filler(part: &str) -> bool {
    let part = part.to_lowercase();
    is_run_of_characters(part.as_bytes()) || is_known_words(&part)
}

/// Returns `true` if all characters are equal, or if each one follows the one before it. 0 follows 9.
fn is_run_of_characters(part: &[u8]) -> bool {
    let follows = |pair: &[u8]| pair[1] == pair[0].wrapping_add(1) || (pair[0], pair[1]) == (b'9', b'0');
    part.windows(2).all(|pair| pair[0] == pair[1]) || part.windows(2).all(follows)
}

/// Returns `true` for a concatenation of [`WORDS`].
fn is_known_words(part: &str) -> bool {
    // Each position that some sequence of words can reach from the start is marked.
    let mut ends = vec![false; part.len() + 1];
    ends[0] = true;
    for at in 0..part.len() {
        if ends[at] {
            let rest = &part.as_bytes()[at..];
            let words = WORDS.split_ascii_whitespace().filter(|word| rest.starts_with(word.as_bytes()));
            words.for_each(|word| ends[at + word.len()] = true);
        }
    }
    ends[part.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_keys_of_local_servers_are_no_secrets() {
        for key in [
            "k",
            "x",
            "test",
            "ollama",
            "EMPTY",
            "none",
            "dummy",
            "lm-studio",
            "not-needed",
            "token-abc123",
            "sk-1234",
            "sk-no-key-required",
            "no-key-required",
            "YOUR_API_KEY_HERE",
            "your-openai-api-key",
            "sk-xxxxxxxxxxxxxxxxxxxxxx",
            "sk-1234567890123456",
            "0000000000000000",
            "<your_api_key_here>",
            "placeholder-api-key",
            "not-needed-for-local-models",
            "yourapikeygoeshere",
            "****************",
            "anything-goes-here-ok",
        ] {
            let is_secret = is_secret(key);
            assert_eq!(is_secret, key.ends_with("-ok"), "{key}");
        }
    }

    #[test]
    fn keys_issued_by_providers_are_secrets() {
        for key in [
            "sk-ant-api03-R2D2c3poBB8",
            "sk-proj-abcdefgh12345678",
            "AIzaSyD-planted-0123456789",
            "gsk_test_k3yOfGroq99",
            "0123456789abcdef0123456789abcdef",
            "correct-horse-battery",
            "sk-planted-and-long",
            "AKIDEXAMPLE:another-secret",
            "1234567890123457",
            "схема-ключа-пример",
        ] {
            assert!(is_secret(key), "{key}");
        }
    }
}

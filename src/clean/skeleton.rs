//! A text prepared for finding marks in it, as a reader sees it rather than as it is written. Look-alike letters count
//! as the ASCII letters they imitate.

use std::borrow::Cow;

use super::{is_ignorable, is_line_end};

/// A text without the characters that readers pass over. Each remaining letter is replaced by the lower-case ASCII
/// letter that it looks like. The text is prepared once and then searched for all marks.
pub(crate) struct Skeleton {
    letters: Vec<u8>,
    /// Pairs of a letter's index and its byte offset in the text. From that letter on, index and offset grow together
    /// until the next pair. Most texts are ASCII and have no pairs.
    steps: Vec<(usize, usize)>,
}

impl Skeleton {
    /// Prepares a text for the search.
    #[must_use]
    pub(crate) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut seen = Self { letters: Vec::with_capacity(bytes.len()), steps: Vec::new() };
        let mut at = 0;
        while at < bytes.len() {
            let plain = &bytes[at..at + plain(&bytes[at..])];
            seen.letters.extend(plain.iter().map(u8::to_ascii_lowercase));
            at += plain.len();
            let Some(c) = text[at..].chars().next() else { break };
            at += c.len_utf8();
            let before = seen.letters.len();
            seen.letters.extend(letter(c));
            // Index and offset drift apart wherever a character gives no letter, or takes more than one byte.
            if seen.letters.len() - before != c.len_utf8() {
                seen.steps.push((seen.letters.len(), at));
            }
        }
        seen
    }

    /// Returns the letters. A character that looks like no ASCII character is the byte 0xff, which is in no mark.
    #[must_use]
    pub(crate) fn letters(&self) -> &[u8] {
        &self.letters
    }

    /// Returns the byte offset of a letter in the text.
    fn place(&self, letter: usize) -> usize {
        // If several pairs stand before one letter, the last one is valid.
        let steps = self.steps.partition_point(|(from, _)| *from <= letter);
        let (from, place) = steps.checked_sub(1).map_or((0, 0), |last| self.steps[last]);
        place + (letter - from)
    }

    /// Returns the text with some letters replaced. Each change is an index into [`Skeleton::letters`] and the new
    /// character.
    #[must_use]
    pub(crate) fn changed<'t>(
        &self,
        text: impl Into<Cow<'t, str>>,
        mut changes: Vec<(usize, char)>,
    ) -> Cow<'t, str> {
        let text = text.into();
        changes.retain(|(letter, _)| *letter < self.letters.len());
        if changes.is_empty() {
            return text;
        }
        changes.sort_unstable();
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for (place, by) in changes.into_iter().map(|(letter, by)| (self.place(letter), by)) {
            // Two marks may cover the same character.
            if place >= from {
                out.push_str(&text[from..place]);
                out.push(by);
                from = place + text[place..].chars().next().map_or(0, char::len_utf8);
            }
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }
}

/// Returns the number of bytes at the beginning that stand for themselves, because they are visible ASCII.
fn plain(bytes: &[u8]) -> usize {
    let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) || *byte == b'\n';
    // A block without an early exit can be compared with vector instructions.
    let blocks =
        bytes.chunks(64).take_while(|block| block.iter().fold(true, |all, byte| all & is_plain(byte)));
    let whole = (blocks.count() * 64).min(bytes.len());
    whole + bytes[whole..].iter().take_while(|byte| is_plain(byte)).count()
}

/// Returns the letter that a character counts as in a mark, or `None` if readers pass over it.
fn letter(c: char) -> Option<u8> {
    let letter = match c {
        c if is_line_end(c) => '\n',
        c if c.is_whitespace() => ' ',
        c if is_ignorable(c) => return None,
        c => to_ascii_lookalike(c),
    };
    // A character that looks like no ASCII character cannot be part of a mark.
    Some(u8::try_from(letter).unwrap_or(u8::MAX).to_ascii_lowercase())
}

/// Returns the ASCII character that `c` looks like, or `c` itself if there is none.
fn to_ascii_lookalike(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{2010}'..='\u{2015}'
        | '\u{2043}'
        | '\u{2212}'
        | '\u{2796}'
        | '\u{2d7}'
        | '\u{58a}'
        | '\u{5be}'
        | '\u{1806}'
        | '\u{2cba}'
        | '\u{fe58}'
        | '\u{fe63}' => '-',
        '\u{fe64}' => '<',
        '\u{fe65}' => '>',
        '\u{fe4d}'..='\u{fe4f}' => '_',
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        '\u{370}'..='\u{52f}' | '\u{54d}'..='\u{585}' => alphabet_lookalike(c),
        '\u{131}' | '\u{26a}' => 'i',
        '\u{251}' => 'a',
        '\u{261}' => 'g',
        // Mathematical letters: thirteen alphabets of 52 letters, one after the other.
        '\u{1d400}'..='\u{1d6a3}' => {
            let letter = (u32::from(c) - 0x1d400) % 52 % 26;
            char::from_u32(u32::from(b'a') + letter).unwrap_or(c)
        }
        c => c,
    }
}

/// Returns the ASCII letter that a Greek, Cyrillic or Armenian letter looks like, after Unicode's `confusables.txt`
/// (UTS #39, Unicode Security Mechanisms). If only the capital looks alike, the small letter is included too. A
/// vertical bar counts as an i if its alphabet reads it so, otherwise as an l.
const fn alphabet_lookalike(c: char) -> char {
    match c {
        'Α' | 'α' | 'А' | 'а' => 'a',
        'Β' | 'В' | 'в' | 'Ь' | 'ь' => 'b',
        'ϲ' | 'Ϲ' | 'С' | 'с' => 'c',
        'ԁ' | 'Ԁ' => 'd',
        'Ε' | 'ε' | 'Е' | 'е' | 'ҽ' => 'e',
        'Ϝ' | 'ք' => 'f',
        'Ԍ' | 'ԍ' | 'ց' => 'g',
        'Η' | 'Н' | 'н' | 'һ' | 'Һ' | 'հ' => 'h',
        'Ι' | 'ι' | 'ͺ' | 'І' | 'і' => 'i',
        'ϳ' | 'Ϳ' | 'Ј' | 'ј' => 'j',
        'Κ' | 'κ' | 'К' | 'к' => 'k',
        'Ӏ' | 'ӏ' => 'l',
        'Μ' | 'Ϻ' | 'М' | 'м' => 'm',
        'Ν' | 'ո' | 'ռ' => 'n',
        'Ο' | 'ο' | 'σ' | 'О' | 'о' | 'Օ' | 'օ' => 'o',
        'Ρ' | 'ρ' | 'ϱ' | 'Р' | 'р' => 'p',
        'Ԛ' | 'ԛ' | 'գ' | 'զ' => 'q',
        'г' => 'r',
        'Ѕ' | 'ѕ' | 'Տ' => 's',
        'Τ' | 'τ' | 'Т' | 'т' => 't',
        'υ' | 'Ս' | 'ս' => 'u',
        'ν' | 'Ѵ' | 'ѵ' => 'v',
        'ѡ' | 'Ѡ' | 'Ԝ' | 'ԝ' | 'ա' => 'w',
        'Χ' | 'χ' | 'Х' | 'х' => 'x',
        'Υ' | 'γ' | 'ϒ' | 'У' | 'у' | 'Ү' | 'ү' => 'y',
        'Ζ' => 'z',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Prepares a text letter by letter, as the reference for [`Skeleton::of`].
    fn fold_each_letter(text: &str) -> (Vec<u8>, Vec<usize>) {
        text.char_indices().filter_map(|(place, c)| letter(c).map(|letter| (letter, place))).unzip()
    }

    #[test]
    fn lookalikes_and_invisible_characters_do_not_hide_a_mark() {
        let text = "é‹<\u{200d}Ｆlo\u{34f}cK‑A\n\u{2800}b";
        let seen = Skeleton::of(text);
        assert_eq!(seen.letters(), b"\xe9\xff<flock-a\nb");
        let at = seen.letters().iter().position(|c| *c == b'-').unwrap();
        assert_eq!(seen.changed(text, vec![(at, '_')]), text.replace('‑', "_"));
        assert_eq!(seen.changed(text, vec![(9_999, 'x'), (0, 'x'), (0, 'x')]), text.replacen('é', "x", 1));
        assert!(matches!(seen.changed(text, Vec::new()), Cow::Borrowed(_)));
    }

    #[test]
    fn letters_of_other_alphabets_are_what_they_look_like() {
        for (text, seen) in [
            ("ｆlоck-ϲοntеxt", "flock-context"),
            ("ІΝТЕR-ѕеѕѕіоn", "inter-session"),
            ("НІЅТОRΥ СОМРRЕЅЅЕԀ", "history compressed"),
            ("𝐟𝑙𝒐𝓬𝔨－𝖋𝗂𝚕𝚎", "flock-file"),
            ("tооӏ﹍ϲаӀӀ", "tool_call"),
        ] {
            assert_eq!(String::from_utf8_lossy(Skeleton::of(text).letters()), seen, "{text}");
        }
        for word in ["Привет, мир", "Καλημέρα κόσμε", "Բարեւ", "안녕하세요", "日本語", "ágé"]
        {
            let letters = Skeleton::of(word);
            let known = letters.letters().iter().filter(|letter| letter.is_ascii_alphabetic()).count();
            assert!(known < word.chars().count(), "{word}");
        }
    }

    proptest! {
        #[test]
        fn blocks_and_single_letters_give_the_same_skeleton(
            text in "([a-zA-Z<>\\[\\]_\\- \n]{0,70}|\\PC|\r|\t|\u{200d}|\u{2028}|é|Ｆ|к|𝐟|\u{1b}){0,12}"
        ) {
            let seen = Skeleton::of(&text);
            let (letters, places) = fold_each_letter(&text);
            prop_assert_eq!(seen.letters(), &letters[..]);
            let found: Vec<usize> = (0..letters.len()).map(|letter| seen.place(letter)).collect();
            prop_assert_eq!(found, places);
        }
    }
}

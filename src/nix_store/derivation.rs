//! Parses the outputs of a derivation from the text in which Nix stores it.

use super::path::StorePath;

/// An output of a derivation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DerivationOutput {
    /// The path of the output.
    pub path: StorePath,
    /// The hash that fixes the content in advance, or `None` if the path depends on the derivation alone.
    pub fixed: Option<FixedOutput>,
}

/// The kind of hash that fixes an output in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FixedOutput {
    /// `true` if the hash covers the archive of a tree, `false` if it covers the bytes of a file.
    pub is_recursive: bool,
    /// The algorithm, for example `sha256`.
    pub algorithm: String,
}

/// Parses the outputs of a derivation in Nix's text form, `Derive([("out","/nix/store/…","",""),…],…`. Returns `None`
/// if the text has another form, or if an output has no path yet.
#[must_use]
pub fn outputs(text: &str) -> Option<Vec<DerivationOutput>> {
    let mut rest = text.strip_prefix("Derive([")?;
    let mut outputs = Vec::new();
    loop {
        rest = rest.strip_prefix('(')?;
        let mut words: [String; 4] = Default::default();
        for (at, word) in words.iter_mut().enumerate() {
            if at > 0 {
                rest = rest.strip_prefix(',')?;
            }
            (*word, rest) = parse_string(rest)?;
        }
        rest = rest.strip_prefix(')')?;
        let [_, path, method, hash] = words;
        outputs.push(DerivationOutput { path: path.parse().ok()?, fixed: fixed(&method, &hash)? });
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return rest.starts_with(']').then_some(outputs),
        }
    }
}

/// Parses the method (such as `r:sha256`) and the hash, which are both empty or both set.
fn fixed(method: &str, hash: &str) -> Option<Option<FixedOutput>> {
    if method.is_empty() && hash.is_empty() {
        return Some(None);
    }
    let (is_recursive, algorithm) = match method.strip_prefix("r:") {
        Some(algorithm) => (true, algorithm),
        None => (false, method),
    };
    let known = ["md5", "sha1", "sha256", "sha512"].contains(&algorithm) && !hash.is_empty();
    known.then(|| Some(FixedOutput { is_recursive, algorithm: algorithm.to_owned() }))
}

/// Parses a quoted string. Returns it with the rest of the text.
fn parse_string(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let mut plain = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((plain, &text[at + 1..])),
            '\\' => plain.push(match characters.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                c => c,
            }),
            c => plain.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "/nix/store/ppc3xm1flkzr35z08qmzsf98g37yk7pl-lib";

    #[test]
    fn outputs_are_parsed_with_their_fixed_hash() {
        let text = format!(r#"Derive([("lib","{LIB}","",""),("out","{LIB}2","r:sha256","00ff")],[],[],"#);
        let found = outputs(&text).unwrap();
        assert_eq!(found[0], DerivationOutput { path: LIB.parse().unwrap(), fixed: None });
        let fixed = FixedOutput { is_recursive: true, algorithm: "sha256".to_owned() };
        assert_eq!(found[1].fixed, Some(fixed));
        let flat = format!(r#"Derive([("out","{LIB}","sha1","00")],"#);
        assert!(!outputs(&flat).unwrap()[0].fixed.as_ref().unwrap().is_recursive);
    }

    #[test]
    fn an_output_without_a_known_path_is_refused() {
        for text in [
            String::new(),
            "Derive([".to_owned(),
            r#"Derive([("out","","r:sha256","")],"#.to_owned(),
            r#"Derive([("out","/etc/passwd","","")],"#.to_owned(),
            format!(r#"Derive([("out","{LIB}","git:sha1","00")],"#),
            format!(r#"Derive([("out","{LIB}","","00")],"#),
            format!(r#"Derive([("out","{LIB}","","""#),
        ] {
            assert_eq!(outputs(&text), None, "{text}");
        }
    }
}

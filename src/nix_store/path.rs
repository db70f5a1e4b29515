//! Paths in the store, and the computation of a source's path from the hash of its content.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// Path of the store in every container.
pub(crate) const STORE_DIR: &str = "/nix/store";

/// A path directly below the store, for example `/nix/store/<32 characters>-hello-2.12`. It contains no character that
/// would end a quoted word in a shell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StorePath(String);

/// The error for a text that is not a path in the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a path of the store")]
pub(crate) struct InvalidStorePath(String);

impl StorePath {
    /// Returns the whole path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the last component, which is the hash and the name.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.0[STORE_DIR.len() + 1..]
    }

    /// Returns the hash in the path's name.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.base()[..HASH_LEN]
    }

    /// Returns the name without the hash.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.base()[HASH_LEN + 1..]
    }

    /// Returns `true` if it is the path of a derivation.
    #[must_use]
    pub(crate) fn is_derivation(&self) -> bool {
        self.0.ends_with(".drv")
    }

    /// Returns the path of a source tree whose archive has this SHA-256. Nix computes the path from the hash, so it can
    /// hold no other content.
    #[must_use]
    pub(crate) fn for_source(digest: &[u8; 32]) -> Self {
        let inner = crate::id::hex(digest);
        // Nix's scheme: hash a description of the path, and fold the digest to 160 bits by XOR.
        let outer = Sha256::digest(format!("source:sha256:{inner}:{STORE_DIR}:source"));
        let mut folded = [0; 20];
        for (at, byte) in outer.iter().enumerate() {
            folded[at % 20] ^= byte;
        }
        Self(format!("{STORE_DIR}/{}-source", base32(&folded)))
    }
}

impl FromStr for StorePath {
    type Err = InvalidStorePath;

    fn from_str(text: &str) -> Result<Self, InvalidStorePath> {
        let wrong = || InvalidStorePath(text.chars().take(120).collect());
        let base = text.strip_prefix(STORE_DIR).and_then(|rest| rest.strip_prefix('/')).ok_or_else(wrong)?;
        let (hash, name) = base.split_once('-').ok_or_else(wrong)?;
        let named = |c: char| c.is_ascii_alphanumeric() || "+-._?=".contains(c);
        let whole = hash.len() == HASH_LEN
            && hash.bytes().all(|byte| ALPHABET.contains(&byte))
            && (1..=211).contains(&name.len())
            && !name.starts_with('.')
            && name.chars().all(named);
        if whole { Ok(Self(text.to_owned())) } else { Err(wrong()) }
    }
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Encodes bytes in Nix's base 32, which begins with the last five bits.
fn base32(bytes: &[u8]) -> String {
    let length = (bytes.len() * 8).div_ceil(5);
    let digit = |place: usize| {
        let (byte, bit) = (place * 5 / 8, place * 5 % 8);
        let pair = u16::from(bytes[byte]) | u16::from(bytes.get(byte + 1).copied().unwrap_or(0)) << 8;
        char::from(ALPHABET[usize::from(pair >> bit) & 31])
    };
    (0..length).rev().map(digit).collect()
}

const HASH_LEN: usize = 32;
/// The 32 digits of Nix's base 32.
const ALPHABET: &[u8; 32] = b"0123456789abcdfghijklmnpqrsvwxyz";

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    #[test]
    fn only_paths_directly_below_the_store_are_store_paths() {
        let path: StorePath = "/nix/store/ppc3xm1flkzr35z08qmzsf98g37yk7pl-lib-1.0.drv".parse().unwrap();
        assert_eq!(path.hash(), "ppc3xm1flkzr35z08qmzsf98g37yk7pl");
        assert_eq!(path.name(), "lib-1.0.drv");
        assert!(path.is_derivation());
        for bad in [
            "",
            "/nix/store",
            "/nix/store/ppc3xm1flkzr35z08qmzsf98g37yk7pl",
            "/nix/store/ppc3xm1flkzr35z08qmzsf98g37yk7pl-",
            "/nix/store/ppc3xm1flkzr35z08qmzsf98g37yk7pl-a/b",
            "/nix/store/ppc3xm1flkzr35z08qmzsf98g37yk7pl-a'b",
            "/nix/store/ppc3xm1flkzr35z08qmzsf98g37yk7pl-a b",
            "/nix/store/ppc3xm1flkzr35z08qmzsf98g37yk7pl-..",
            "/nix/store/epc3xm1flkzr35z08qmzsf98g37yk7pl-a",
            "/nix/store/../etc/passwd",
            "/etc/passwd",
        ] {
            assert!(bad.parse::<StorePath>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_source_path_matches_nix() {
        // The result of `nix store add-path --name source` of Nix 2.8 and of `nix path-info --json`.
        let digest = base64::engine::general_purpose::STANDARD
            .decode("vvrXn+qyaZiBVFWyUqU64cjm3lFUs5I2p/ySRbxYBZg=")
            .unwrap();
        let path = StorePath::for_source(&digest.try_into().unwrap());
        assert_eq!(path.as_str(), "/nix/store/c9jdljdszhvc2n6qc23jfqwbygi3yh88-source");
    }
}

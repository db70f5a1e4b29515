//! The codes with which browsers sign in. They are kept in memory only: a code outlives no gateway.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::store::token_hash;
use crate::sync::lock;

/// Time in which a code can be used.
pub(crate) const LIFETIME: Duration = Duration::from_secs(60);

/// Most codes that can be used at once. A further one replaces the oldest.
const MAX_CODES: usize = 16;

/// The codes that were made and not used yet.
#[derive(Debug, Default)]
pub(crate) struct SignInCodes {
    codes: Mutex<Vec<SignInCode>>,
}

#[derive(Debug)]
struct SignInCode {
    hash: String,
    visitor: Visitor,
    ends: Instant,
}

/// The person whose browser signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visitor {
    /// The name, without `human:`.
    pub person: String,
    /// The name of the person's own token, with which the sign-in ends. `None` for a code of the owner.
    pub token: Option<String>,
    /// The issuer and the subject of the account of OpenID Connect, with which the sign-in ends.
    pub account: Option<(String, String)>,
}

impl SignInCodes {
    /// Creates a code with which this person's browser can sign in once.
    pub(crate) fn create(&self, visitor: Visitor) -> String {
        self.create_at(visitor, Instant::now())
    }

    fn create_at(&self, visitor: Visitor, now: Instant) -> String {
        let code = crate::id::hex(&rand::random::<[u8; 32]>());
        let mut codes = lock(&self.codes);
        codes.retain(|code| now < code.ends);
        if codes.len() == MAX_CODES {
            codes.remove(0);
        }
        codes.push(SignInCode { hash: token_hash(code.as_bytes()), visitor, ends: now + LIFETIME });
        code
    }

    /// Uses a code up and returns its person, or `None` if it is unknown, used or expired.
    pub(crate) fn take(&self, code: &str) -> Option<Visitor> {
        self.take_at(code, Instant::now())
    }

    fn take_at(&self, code: &str, now: Instant) -> Option<Visitor> {
        // The comparison of hashes reveals nothing about the codes by its timing.
        let hash = token_hash(code.as_bytes());
        let mut codes = lock(&self.codes);
        let at = codes.iter().position(|code| code.hash == hash)?;
        let code = codes.remove(at);
        (now < code.ends).then_some(code.visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Visitor {
        Visitor { person: "ann".to_owned(), token: None, account: None }
    }

    #[test]
    fn a_code_is_good_once_and_for_a_minute() {
        let codes = SignInCodes::default();
        let now = Instant::now();
        let code = codes.create_at(ann(), now);
        assert_eq!(codes.take_at("x", now), None);
        assert_eq!(codes.take_at(&code, now + LIFETIME - Duration::from_millis(1)), Some(ann()));
        assert_eq!(codes.take_at(&code, now), None);
        let late = codes.create_at(ann(), now);
        assert_eq!(codes.take_at(&late, now + LIFETIME), None);
    }

    #[test]
    fn the_oldest_code_gives_way() {
        let codes = SignInCodes::default();
        let made: Vec<String> = (0..=MAX_CODES).map(|_| codes.create(ann())).collect();
        assert_eq!(codes.take(&made[0]), None);
        assert!(made[1..].iter().all(|code| codes.take(code).is_some()));
    }
}

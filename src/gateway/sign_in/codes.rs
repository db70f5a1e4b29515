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
    /// The id of the sign-in whose browser made the code. The new sign-in ends no later than that one.
    pub made_by: Option<String>,
}

/// The answer to a browser that opens the address of a good code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeStep {
    /// A page that leads it to the same address again.
    Lead,
    /// A page that asks whether it should be signed in.
    Ask,
    /// Its cookie.
    Redeem,
}

impl Visitor {
    /// Returns what a browser gets that opens the address of this visitor's code. `is_foreign` says that a page of another
    /// site sent it there, and `present` is the person who is signed in there now.
    ///
    /// Anybody who can make a code could lead the browser of somebody else to its address. What that person then wrote
    /// would be said in the name of the visitor, and read by the visitor.
    pub(crate) fn step(&self, is_foreign: bool, present: Option<&str>) -> CodeStep {
        // With the request that another site causes, a browser does not send the cookie, so who is present is not known.
        // It sends it with a request that flock's own page causes.
        if is_foreign {
            return CodeStep::Lead;
        }
        match present {
            Some(present) if present == self.person => CodeStep::Redeem,
            // Only the owner can make such a code, so nobody else leads a browser to it.
            None if self.token.is_none() && self.made_by.is_none() => CodeStep::Redeem,
            _ => CodeStep::Ask,
        }
    }
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

    /// Returns the person of a code and leaves the code unused, or `None` if it is unknown, used or expired.
    pub(crate) fn visitor(&self, code: &str) -> Option<Visitor> {
        self.visitor_at(code, Instant::now())
    }

    fn visitor_at(&self, code: &str, now: Instant) -> Option<Visitor> {
        let hash = token_hash(code.as_bytes());
        let codes = lock(&self.codes);
        let code = codes.iter().find(|code| code.hash == hash)?;
        (now < code.ends).then(|| code.visitor.clone())
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
        Visitor { person: "ann".to_owned(), token: None, account: None, made_by: None }
    }

    #[test]
    fn a_code_is_good_once_and_for_a_minute() {
        let codes = SignInCodes::default();
        let now = Instant::now();
        let code = codes.create_at(ann(), now);
        assert_eq!((codes.visitor_at("x", now), codes.take_at("x", now)), (None, None));
        let last = now + LIFETIME - Duration::from_millis(1);
        assert_eq!(codes.visitor_at(&code, last), Some(ann()), "to look at it does not use it up");
        assert_eq!(codes.take_at(&code, last), Some(ann()));
        assert_eq!(codes.visitor_at(&code, now), None);
        assert_eq!(codes.take_at(&code, now), None);
        let late = codes.create_at(ann(), now);
        assert_eq!(codes.visitor_at(&late, now + LIFETIME), None);
        assert_eq!(codes.take_at(&late, now + LIFETIME), None);
    }

    #[test]
    fn only_a_code_of_the_owner_or_of_the_person_who_is_there_asks_nothing() {
        let of_token = Visitor { token: Some("ann.1".to_owned()), ..ann() };
        let of_browser = Visitor { made_by: Some("01020304".to_owned()), ..ann() };
        for visitor in [ann(), of_token.clone(), of_browser.clone()] {
            assert_eq!(visitor.step(false, Some("ann")), CodeStep::Redeem, "{visitor:?}");
            assert_eq!(visitor.step(false, Some("eve")), CodeStep::Ask, "{visitor:?}");
            for present in [None, Some("ann"), Some("eve")] {
                assert_eq!(visitor.step(true, present), CodeStep::Lead, "{visitor:?}");
            }
        }
        assert_eq!(ann().step(false, None), CodeStep::Redeem);
        assert_eq!(
            (of_token.step(false, None), of_browser.step(false, None)),
            (CodeStep::Ask, CodeStep::Ask)
        );
    }

    #[test]
    fn the_oldest_code_gives_way() {
        let codes = SignInCodes::default();
        let made: Vec<String> = (0..=MAX_CODES).map(|_| codes.create(ann())).collect();
        assert_eq!(codes.take(&made[0]), None);
        assert!(made[1..].iter().all(|code| codes.take(code).is_some()));
    }
}

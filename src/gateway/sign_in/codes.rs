//! The codes with which browsers sign in. A code is kept as a row with its hash, so it is good at any gateway of a group.

pub(crate) use crate::store::{CODE_LIFETIME as LIFETIME, Visitor};
use crate::store::{Store, StoreError, token_hash};

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

/// Creates a code with which this person's browser can sign in once.
///
/// # Errors
///
/// Returns the store's error if the database can't be written.
pub(crate) async fn create(store: &Store, visitor: Visitor) -> Result<String, StoreError> {
    let code = crate::id::hex(&rand::random::<[u8; 32]>());
    store.sign_ins().add_code(token_hash(code.as_bytes()), visitor).await?;
    Ok(code)
}

/// Returns the person of a code and leaves the code unused, or `None` if it is unknown, used or expired.
///
/// # Errors
///
/// Returns the store's error if the database can't be read.
pub(crate) async fn visitor(store: &Store, code: &str) -> Result<Option<Visitor>, StoreError> {
    store.sign_ins().visitor(token_hash(code.as_bytes())).await
}

/// Uses a code up and returns its person, or `None` if it is unknown, used or expired.
///
/// # Errors
///
/// Returns the store's error if the database can't be written.
pub(crate) async fn take(store: &Store, code: &str) -> Result<Option<Visitor>, StoreError> {
    // The lookup is by hash, so its timing reveals nothing about the codes.
    store.sign_ins().take_code(token_hash(code.as_bytes())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Visitor {
        Visitor { person: "ann".to_owned(), token: None, account: None, made_by: None }
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
}

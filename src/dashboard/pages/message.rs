//! The pages that say only one thing: the browser is signed out, or a page can't be shown.

use askama::Template;

use crate::dashboard::format::fill;
use crate::dashboard::layout::Layout;
use crate::dashboard::{ApiFailure, Language, Page, SignInFailure, SignInWays, Viewer};

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    layout: Layout,
    message: String,
    /// The command that helps.
    command: Option<String>,
    /// The page that the browser goes on to by itself.
    leads_to: Option<&'static str>,
    /// The ways to sign in that the page offers.
    ways: SignInWays,
}

/// Returns the page for a browser that has just signed in.
pub(crate) fn signed_in(language: Language) -> Result<Page, ApiFailure> {
    let mut layout = Layout::signed_out(language);
    layout.title = layout.texts.signed_in.to_owned();
    Page::of(&MessagePage {
        layout,
        message: String::new(),
        command: None,
        leads_to: Some("/dashboard"),
        ways: SignInWays::default(),
    })
}

/// Returns the page for a browser that is not signed in.
pub(crate) fn signed_out(
    language: Language,
    failure: Option<&SignInFailure>,
    ways: SignInWays,
) -> Result<Page, ApiFailure> {
    let layout = Layout::signed_out(language);
    let texts = layout.texts;
    let why = match failure {
        Some(SignInFailure::Code) => Some(texts.code_failed.to_owned()),
        Some(SignInFailure::Token) => Some(texts.token_failed.to_owned()),
        Some(SignInFailure::Provider) => Some(texts.provider_failed.to_owned()),
        Some(SignInFailure::Refused) => Some(texts.provider_refused.to_owned()),
        Some(SignInFailure::NoPerson(subject)) => Some(fill(texts.account_of_nobody, &[subject])),
        None => None,
    };
    let how = texts.signed_out_how;
    let message = why.map_or_else(|| how.to_owned(), |why| format!("{why} {how}"));
    let command = Some("flock dashboard".to_owned());
    Page::of(&MessagePage { layout, message, command, leads_to: None, ways })
}

/// Returns the page that says why another one can't be shown.
pub(crate) fn failed(viewer: &Viewer, failure: &ApiFailure) -> Result<Page, ApiFailure> {
    let layout = Layout::new(viewer, None, viewer.texts().failed);
    Page::of(&MessagePage {
        layout,
        message: failure.message.clone(),
        command: failure.hint.clone(),
        leads_to: None,
        ways: SignInWays::default(),
    })
}

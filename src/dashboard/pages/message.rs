//! The pages that say only one thing: the browser is signed out, or a page can't be shown.

use askama::Template;

use crate::dashboard::layout::Layout;
use crate::dashboard::{ApiFailure, Language, Page, SignInFailure, Viewer};

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    layout: Layout,
    message: String,
    /// The command that helps.
    command: Option<String>,
    /// The page that the browser goes on to by itself.
    leads_to: Option<&'static str>,
    /// `true` if the page has a form for a person's token.
    takes_token: bool,
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
        takes_token: false,
    })
}

/// Returns the page for a browser that is not signed in.
pub(crate) fn signed_out(
    language: Language,
    failure: Option<SignInFailure>,
    takes_token: bool,
) -> Result<Page, ApiFailure> {
    let layout = Layout::signed_out(language);
    let texts = layout.texts;
    let message = match failure {
        Some(SignInFailure::Code) => format!("{} {}", texts.code_failed, texts.signed_out_how),
        Some(SignInFailure::Token) => format!("{} {}", texts.token_failed, texts.signed_out_how),
        None => texts.signed_out_how.to_owned(),
    };
    let command = Some("flock dashboard".to_owned());
    Page::of(&MessagePage { layout, message, command, leads_to: None, takes_token })
}

/// Returns the page that says why another one can't be shown.
pub(crate) fn failed(viewer: &Viewer, failure: &ApiFailure) -> Result<Page, ApiFailure> {
    let layout = Layout::new(viewer, None, viewer.texts().failed);
    Page::of(&MessagePage {
        layout,
        message: failure.message.clone(),
        command: failure.hint.clone(),
        leads_to: None,
        takes_token: false,
    })
}

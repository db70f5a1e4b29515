//! The pages that say only one thing: the browser is signed out, or a page can't be shown.

use askama::Template;

use crate::dashboard::layout::Layout;
use crate::dashboard::{ApiFailure, Language, Page, Viewer};

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    layout: Layout,
    message: String,
    /// The command that helps.
    command: Option<String>,
    /// The page that the browser goes on to by itself.
    leads_to: Option<&'static str>,
}

/// Returns the page for a browser that has just signed in.
pub(crate) fn signed_in(language: Language) -> Result<Page, ApiFailure> {
    let mut layout = Layout::signed_out(language);
    layout.title = layout.texts.signed_in.to_owned();
    Page::of(&MessagePage { layout, message: String::new(), command: None, leads_to: Some("/dashboard") })
}

/// Returns the page for a browser that is not signed in.
pub(crate) fn signed_out(language: Language, code_failed: bool) -> Result<Page, ApiFailure> {
    let layout = Layout::signed_out(language);
    let texts = layout.texts;
    let message = if code_failed {
        format!("{} {}", texts.code_failed, texts.signed_out_how)
    } else {
        texts.signed_out_how.to_owned()
    };
    Page::of(&MessagePage { layout, message, command: Some("flock dashboard".to_owned()), leads_to: None })
}

/// Returns the page that says why another one can't be shown.
pub(crate) fn failed(viewer: &Viewer, failure: &ApiFailure) -> Result<Page, ApiFailure> {
    let layout = Layout::new(viewer, None, viewer.texts().failed);
    Page::of(&MessagePage {
        layout,
        message: failure.message.clone(),
        command: failure.hint.clone(),
        leads_to: None,
    })
}

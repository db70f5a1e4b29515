//! The pages that say only one thing: the browser is signed out, a code would sign it in, or a page can't be shown.

use askama::Template;

use crate::dashboard::format::fill;
use crate::dashboard::layout::Layout;
use crate::dashboard::query::encoded;
use crate::dashboard::{ApiFailure, Language, Page, SignInFailure, SignInWays, Viewer};

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    layout: Layout,
    message: String,
    /// The command that helps.
    command: Option<String>,
    /// The page that the browser goes on to by itself.
    leads_to: Option<String>,
    /// The code with which the page offers to sign in.
    form: Option<CodeForm>,
    /// The ways to sign in that the page offers.
    ways: SignInWays,
}

struct CodeForm {
    code: String,
    button: String,
}

impl MessagePage {
    fn new(layout: Layout, message: String) -> Self {
        let ways = SignInWays::default();
        Self { layout, message, command: None, leads_to: None, form: None, ways }
    }
}

/// Returns the page for a browser that has just signed in.
pub(crate) fn signed_in(language: Language) -> Result<Page, ApiFailure> {
    let mut layout = Layout::signed_out(language);
    layout.title = layout.texts.signed_in.to_owned();
    let leads_to = Some("/dashboard".to_owned());
    Page::of(&MessagePage { leads_to, ..MessagePage::new(layout, String::new()) })
}

/// Returns the page that leads a browser to the address of a code again.
pub(crate) fn leading_to_code(language: Language, code: &str) -> Result<Page, ApiFailure> {
    let mut layout = Layout::signed_out(language);
    layout.title = layout.texts.sign_in.to_owned();
    let leads_to = Some(format!("/dashboard?code={}", encoded(code)));
    Page::of(&MessagePage { leads_to, ..MessagePage::new(layout, String::new()) })
}

/// Returns the page that asks whether a code should sign the browser in.
pub(crate) fn asking_for_code(
    language: Language,
    code: &str,
    person: &str,
    present: Option<&str>,
) -> Result<Page, ApiFailure> {
    let mut layout = Layout::signed_out(language);
    let texts = layout.texts;
    layout.title = texts.sign_in.to_owned();
    let message = match present {
        Some(present) => fill(texts.code_asks_instead, &[present, person]),
        None => fill(texts.code_asks, &[person]),
    };
    let form = CodeForm { code: code.to_owned(), button: fill(texts.sign_in_as, &[person]) };
    Page::of(&MessagePage { form: Some(form), ..MessagePage::new(layout, message) })
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
    Page::of(&MessagePage { command, ways, ..MessagePage::new(layout, message) })
}

/// Returns the page that says why another one can't be shown.
pub(crate) fn failed(viewer: &Viewer, failure: &ApiFailure) -> Result<Page, ApiFailure> {
    let layout = Layout::new(viewer, None, viewer.texts().failed);
    let command = failure.hint.clone();
    Page::of(&MessagePage { command, ..MessagePage::new(layout, failure.message.clone()) })
}

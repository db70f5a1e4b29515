//! The text of messages: parts that fit, and the markup of platforms.

mod dialect;
mod incoming;
mod neutral;
mod split;
pub(crate) mod table;

pub(crate) use crate::markdown::{html, html_with_people, is_web};
pub(crate) use dialect::{Dialect, Quote as QuoteMarkup};
pub(crate) use incoming::{Quote, incoming};
pub(crate) use neutral::{mentioned, neutralise};
pub(crate) use split::split;
pub(crate) use table::tables_as_code;

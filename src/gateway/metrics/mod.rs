//! Figures for Prometheus: what is counted while the gateway runs ([`TurnMetrics`]), and the page that shows that together
//! with the state of the moment ([`Page`]).

mod page;
mod turns;

pub(crate) use page::{CONTENT_TYPE, Page};
pub(crate) use turns::{TurnMetrics, TurnStatus};

/// The labels of a figure, each with its value.
pub(crate) type Labels<const N: usize> = [(&'static str, String); N];

//! Whom a conversation is made ready for.

use std::sync::Arc;

use super::pictures::Pictures;
use crate::provider::Route;

/// The longest side of a picture, in pixels, where the configuration does not say.
pub const LONGEST_SIDE: u32 = 1200;

/// Whom a conversation is made ready for, with what is known of the model.
#[derive(Clone, Debug)]
pub struct Target {
    /// Which way it goes.
    pub route: Route,
    /// Whether the model reasons, where its entry in the configuration says so.
    pub reasoning: Option<bool>,
    /// Whether this request asks it to think.
    pub thinking: bool,
    /// Until when the provider has refused the thinking of this conversation (Unix milliseconds): none of it goes back.
    pub refused_until: Option<i64>,
    /// Whether the provider has refused a picture of this conversation: they are named instead.
    pub refused_pictures: bool,
    /// Whether it takes pictures.
    pub images: bool,
    /// The longest side of a picture, in pixels.
    pub longest_side: u32,
    /// The names of the tools it is told of, where calls of others are to go.
    pub tools: Option<Vec<String>>,
    /// Pictures that have been made smaller before.
    pub pictures: Arc<Pictures>,
}

impl Target {
    /// A target of which nothing is known but the way.
    #[must_use]
    pub fn new(route: Route) -> Self {
        Self {
            route,
            reasoning: None,
            thinking: false,
            refused_until: None,
            refused_pictures: false,
            images: true,
            longest_side: LONGEST_SIDE,
            tools: None,
            pictures: Arc::default(),
        }
    }
}

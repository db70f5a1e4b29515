//! The recipient of a conversation: the facts on which hygiene depends.

use std::sync::Arc;

use super::pictures::PictureCache;
use crate::provider::Route;

/// The default for the longest side of a picture, in pixels.
pub const LONGEST_SIDE: u32 = 1200;

/// The recipient of a conversation.
#[derive(Clone, Debug)]
pub struct Target {
    /// The model and API.
    pub route: Route,
    /// `true` if the model reasons. `None` if its configuration does not say.
    pub reasoning: Option<bool>,
    /// `true` if this request asks the model to think.
    pub thinking: bool,
    /// Unix milliseconds up to which the provider rejected this conversation's thinking. None of that thinking is sent
    /// back.
    pub refused_until: Option<i64>,
    /// Set if the provider rejected a picture of this conversation. Pictures are then replaced by texts.
    pub refused_pictures: bool,
    /// `true` if the model takes pictures.
    pub images: bool,
    /// The longest side of a picture, in pixels.
    pub longest_side: u32,
    /// The names of the offered tools. `None` keeps calls of all tools.
    pub tools: Option<Vec<String>>,
    /// The cache of pictures that were scaled down before.
    pub pictures: Arc<PictureCache>,
}

impl Target {
    /// Creates a target with default values for everything but the route.
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

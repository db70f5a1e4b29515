//! The route of a request: provider, wire format and model. All three decide which content a conversation may have
//! there, and which state of a provider can be sent back.

use super::wire_format::{self, WireFormat};
use crate::config::Api;
use crate::id::ModelRef;

/// A provider, its wire format and a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The provider and the model.
    pub model: ModelRef,
    /// The wire format.
    pub api: Api,
}

impl Route {
    /// Returns the descriptor of the wire format.
    #[must_use]
    pub fn format(&self) -> &'static WireFormat {
        wire_format::of(self.api)
    }

    /// Returns the provider's id.
    #[must_use]
    pub fn provider(&self) -> &str {
        self.model.provider()
    }

    /// Returns the provider's name for the model.
    #[must_use]
    pub fn model(&self) -> &str {
        self.model.model()
    }
}

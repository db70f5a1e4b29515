//! The way a request takes to a model. What a conversation may hold on it, and which provider state in it can be
//! given back, goes by all three: the provider, its wire format and the model.

use crate::config::Api;
use crate::id::ModelRef;

/// A provider, its wire format and a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The provider and the model.
    pub model: ModelRef,
    /// What is spoken there.
    pub api: Api,
}

impl Route {
    /// The provider's id.
    #[must_use]
    pub fn provider(&self) -> &str {
        self.model.provider()
    }

    /// The provider's name for the model.
    #[must_use]
    pub fn model(&self) -> &str {
        self.model.model()
    }
}

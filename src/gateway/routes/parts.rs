//! Parts of requests that the routes of several subjects share.

use serde::{Deserialize, Serialize};

/// A change that pauses something, or lets it go on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PauseBody {
    pub(crate) paused: bool,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// A change of a schedule. What is left out stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ScheduleChangeBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<bool>,
    /// Tokens that it may use in a day. `null` takes the limit away.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<Option<u64>>,
    /// Millionths of a dollar that it may cost in a day. `null` takes the limit away.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub(crate) cost_micros: Option<Option<u64>>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// Reads a field that is there, so that `null` differs from a field that is left out.
fn given<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The part of a history that is wanted.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    limit: Option<u32>,
}

impl HistoryQuery {
    /// Returns the number of rows that are wanted, which is 50 if the request does not say.
    #[must_use]
    pub(crate) fn limit(self) -> u32 {
        self.limit.unwrap_or(50)
    }
}

/// The name of the person who removes something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByQuery {
    pub(crate) by: Option<String>,
}

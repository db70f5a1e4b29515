//! A generation, and the state of a home that it records.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::id::AgentId;

/// The format of a generation's file. A file with another number is not read.
pub(crate) const FORMAT: u32 = 1;

/// A numbered state of the home.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Generation {
    pub format: u32,
    /// Counted from 1.
    pub number: u64,
    /// Unix milliseconds.
    pub at: i64,
    /// The party that made the change. `unknown` if it was made by hand.
    pub by: String,
    /// The command or the request that asked for it.
    pub why: String,
    /// The home's folder at that time. The configuration has paths into it.
    pub home: PathBuf,
    /// The differences from the generation before, in words.
    pub what: Vec<String>,
    /// Further changes of the same operation belong to this generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Uuid>,
    /// The old and the new id, if it renamed an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed: Option<(AgentId, AgentId)>,
    /// The generation that the home went back to, if it was a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_to: Option<u64>,
    pub state: HomeState,
}

/// The parts of a home that generations record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HomeState {
    /// The configuration, without its keys and tokens.
    pub config: Value,
    /// The version of flock's own program, as `flock --version` prints it.
    pub program: String,
    /// The folder name of the OpenClaw in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openclaw: Option<String>,
    /// The id of each image that sandboxes and the package store are made from, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, String>,
    /// The generation of each agent's package profile, as far as it is known. 0 stands for no profile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<AgentId, u32>,
    /// The version of the database's schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<u32>,
}

impl HomeState {
    /// Returns `true` if both states differ in something that a change can make. The schema follows the program, and
    /// flock notices it only later.
    #[must_use]
    pub(crate) fn differs(&self, other: &Self) -> bool {
        let without_schema = |state: &Self| Self { schema: None, ..state.clone() };
        without_schema(self) != without_schema(other)
    }
}

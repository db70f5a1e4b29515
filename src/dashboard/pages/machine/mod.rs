//! The machine that flock runs on, as pages with tabs: an overview, the checks of `flock doctor`, the logs, the audit,
//! the configuration, and the generations.

pub(in crate::dashboard) mod audit;
pub(in crate::dashboard) mod checks;
pub(in crate::dashboard) mod config;
mod gateways;
pub(in crate::dashboard) mod generations;
pub(in crate::dashboard) mod logs;
pub(in crate::dashboard) mod overview;
mod storage;
pub(in crate::dashboard) mod usage;

use crate::dashboard::texts::Texts;

/// One of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Overview,
    Checks,
    Logs,
    Audit,
    Config,
    Generations,
}

impl Tab {
    /// Returns all pages, in their order.
    const fn all(self) -> [Self; 6] {
        [Self::Overview, Self::Checks, Self::Logs, Self::Audit, Self::Config, Self::Generations]
    }

    /// Returns `true` for a page that is the owner's business.
    const fn is_owners(self) -> bool {
        matches!(self, Self::Logs | Self::Config | Self::Generations)
    }

    const fn address(self) -> &'static str {
        match self {
            Self::Overview => "/dashboard/machine",
            Self::Checks => "/dashboard/machine/checks",
            Self::Logs => "/dashboard/machine/logs",
            Self::Audit => "/dashboard/machine/audit",
            Self::Config => "/dashboard/machine/config",
            Self::Generations => "/dashboard/machine/generations",
        }
    }

    const fn name(self, texts: &Texts) -> &'static str {
        match self {
            Self::Overview => texts.overview,
            Self::Checks => texts.checks,
            Self::Logs => texts.logs,
            Self::Audit => texts.audit,
            Self::Config => texts.configuration,
            Self::Generations => texts.generations,
        }
    }
}

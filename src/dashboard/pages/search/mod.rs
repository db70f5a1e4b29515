//! The search, as pages with tabs: through everything that is written down, and through the messages of channels alone.
//! A file that was found has a page, too.

pub(in crate::dashboard) mod everything;
pub(in crate::dashboard) mod file;
pub(in crate::dashboard) mod messages;

use crate::dashboard::query;
use crate::dashboard::texts::Texts;

/// One of the pages with a field for words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Everything,
    Messages,
}

impl Tab {
    /// Returns both pages, in their order.
    const fn all(self) -> [Self; 2] {
        [Self::Everything, Self::Messages]
    }

    /// Returns `true` for a page that is the owner's business: it looks into the memories of all agents.
    const fn is_owners(self) -> bool {
        matches!(self, Self::Everything)
    }

    /// Returns the address of the page with the same words.
    fn address(self, words: &str) -> String {
        let page = match self {
            Self::Everything => "/dashboard/search",
            Self::Messages => "/dashboard/search/messages",
        };
        if words.trim().is_empty() {
            return page.to_owned();
        }
        format!("{page}?q={}", query::encoded(words))
    }

    const fn name(self, texts: &Texts) -> &'static str {
        match self {
            Self::Everything => texts.search_everything,
            Self::Messages => texts.search_messages,
        }
    }
}

/// A kind of place where something can be found, as the route names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Area {
    Memory,
    Findings,
    Sessions,
    Vaults,
    Channels,
}

impl Area {
    const ALL: [Self; 5] = [Self::Memory, Self::Findings, Self::Sessions, Self::Vaults, Self::Channels];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Findings => "findings",
            Self::Sessions => "sessions",
            Self::Vaults => "vaults",
            Self::Channels => "channels",
        }
    }

    const fn name(self, texts: &Texts) -> &'static str {
        match self {
            Self::Memory => texts.agents_memory,
            Self::Findings => texts.findings,
            Self::Sessions => texts.sessions,
            Self::Vaults => texts.vaults,
            Self::Channels => texts.channels,
        }
    }
}

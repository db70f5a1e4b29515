//! The parts that all pages share: the head, the navigation, and what their scripts need.

use super::assets::Asset;
use super::format::fill;
use super::texts::Texts;
use super::{Language, Offer, Viewer};

/// The parts of a page around its content.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub texts: &'static Texts,
    pub language: Language,
    pub title: String,
    /// The page in the navigation.
    pub item: Option<NavItem>,
    pub person: String,
    /// What the page offers to the person.
    pub offers: Vec<Offer>,
    /// The token that the page's changes carry; empty on a page for somebody who is not signed in.
    pub csrf: String,
    pub last_event: String,
    /// The number of requests that wait for a person.
    pub waiting: usize,
}

/// A page in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NavItem {
    Team,
    Channels,
    Sessions,
    Projects,
    Requests,
    Cost,
    Graph,
    Machine,
    People,
    Search,
}

impl NavItem {
    /// All pages, in their order.
    pub(super) const ALL: [Self; 10] = [
        Self::Team,
        Self::Channels,
        Self::Sessions,
        Self::Projects,
        Self::Requests,
        Self::Cost,
        Self::Graph,
        Self::Machine,
        Self::People,
        Self::Search,
    ];

    /// Returns the offer that the page belongs to, or `None` if it is for everybody.
    const fn offer(self) -> Option<Offer> {
        match self {
            Self::Team | Self::Channels | Self::Sessions | Self::Requests | Self::Search => None,
            Self::Projects | Self::Cost => Some(Offer::Survey),
            Self::Graph | Self::Machine => Some(Offer::Oversee),
            Self::People => Some(Offer::People),
        }
    }

    pub(super) const fn address(self) -> &'static str {
        match self {
            Self::Team => "/dashboard",
            Self::Channels => "/dashboard/channels",
            Self::Sessions => "/dashboard/sessions",
            Self::Projects => "/dashboard/projects",
            Self::Requests => "/dashboard/requests",
            Self::Cost => "/dashboard/cost",
            Self::Graph => "/dashboard/graph",
            Self::Machine => "/dashboard/machine",
            Self::People => "/dashboard/people",
            Self::Search => "/dashboard/search",
        }
    }

    pub(super) const fn name(self, texts: &Texts) -> &'static str {
        match self {
            Self::Team => texts.team,
            Self::Channels => texts.channels,
            Self::Sessions => texts.sessions,
            Self::Projects => texts.projects,
            Self::Requests => texts.requests,
            Self::Cost => texts.cost,
            Self::Graph => texts.graph,
            Self::Machine => texts.machine,
            Self::People => texts.people,
            Self::Search => texts.search,
        }
    }

    /// Returns the key that opens it after `g`.
    pub(super) const fn key(self) -> char {
        match self {
            Self::Team => 't',
            Self::Channels => 'c',
            Self::Sessions => 's',
            Self::Projects => 'p',
            Self::Requests => 'r',
            Self::Cost => 'o',
            Self::Graph => 'h',
            Self::Machine => 'm',
            Self::People => 'e',
            Self::Search => 'f',
        }
    }
}

impl Layout {
    /// Creates the layout of a page for a person who is signed in.
    pub(super) fn new(viewer: &Viewer, item: Option<NavItem>, title: impl Into<String>) -> Self {
        Self {
            texts: viewer.texts(),
            language: viewer.language,
            title: title.into(),
            item,
            person: viewer.person.clone(),
            offers: viewer.offers.clone(),
            csrf: viewer.csrf.clone(),
            last_event: viewer.last_event.clone(),
            waiting: 0,
        }
    }

    /// Creates the layout of a page for somebody who is not signed in.
    pub(super) fn signed_out(language: Language) -> Self {
        let texts = language.texts();
        Self {
            texts,
            language,
            title: texts.signed_out.to_owned(),
            item: None,
            person: String::new(),
            offers: Vec::new(),
            csrf: String::new(),
            last_event: String::new(),
            waiting: 0,
        }
    }

    pub(super) fn asset(&self, name: &str) -> &'static str {
        Asset::address(name)
    }

    /// Returns the addresses of the scripts that every page needs, so that a browser fetches them at once.
    pub(super) fn modules(&self) -> impl Iterator<Item = &'static str> {
        Asset::modules()
    }

    /// Returns a text with the value in its place.
    pub(super) fn with(&self, text: &str, value: impl std::fmt::Display) -> String {
        fill(text, &[&value.to_string()])
    }

    /// Returns the pages in the navigation that the person is offered, and the one that is shown.
    pub(super) fn items(&self) -> Vec<NavItem> {
        let is_offered = |item: &NavItem| item.offer().is_none_or(|offer| self.offers.contains(&offer));
        NavItem::ALL.into_iter().filter(|item| is_offered(item) || self.item == Some(*item)).collect()
    }

    /// Returns the address of a page in the navigation.
    pub(super) fn address_of(&self, item: NavItem) -> &'static str {
        match item {
            // The first page of the search looks into the memories of all agents.
            NavItem::Search if !self.offers.contains(&Offer::Administer) => "/dashboard/search/messages",
            item => item.address(),
        }
    }

    pub(super) fn talks(&self) -> bool {
        self.offers.contains(&Offer::Talk)
    }

    pub(super) fn decides(&self) -> bool {
        self.offers.contains(&Offer::Decide)
    }

    pub(super) fn surveys(&self) -> bool {
        self.offers.contains(&Offer::Survey)
    }

    pub(super) fn oversees(&self) -> bool {
        self.offers.contains(&Offer::Oversee)
    }

    pub(super) fn manages(&self) -> bool {
        self.offers.contains(&Offer::Manage)
    }

    pub(super) fn manages_team(&self) -> bool {
        self.offers.contains(&Offer::ManageTeam)
    }

    pub(super) fn administers(&self) -> bool {
        self.offers.contains(&Offer::Administer)
    }

    pub(super) fn configures(&self) -> bool {
        self.offers.contains(&Offer::Configure)
    }

    /// Returns the texts of the scripts as JSON.
    pub(super) fn script_texts(&self) -> String {
        // A `<` could end the element that holds the texts.
        serde_json::to_string(&self.texts.scripts).unwrap_or_default().replace('<', "\\u003c")
    }
}

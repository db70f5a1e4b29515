//! The parts of the pages that not every viewer is offered. The routes decide by themselves what is allowed: this only
//! leaves out what they would refuse.

/// A group of buttons and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Forms for messages.
    Talk,
    /// Decisions about requests.
    Decide,
    /// Pages that show all agents at once.
    Survey,
    /// Pages that show what everybody does, and the machine.
    Oversee,
    /// Changes of one agent, channel or session.
    Manage,
    /// Changes of the whole team.
    ManageTeam,
    /// The search in all memories, MCP servers, generations and logs.
    Administer,
    /// The way to the page of people. Where nobody was added, it is offered to nobody.
    People,
    /// Changes of the configuration, and notifications.
    Configure,
}

impl Offer {
    /// All of them.
    pub(crate) const ALL: [Self; 9] = [
        Self::Talk,
        Self::Decide,
        Self::Survey,
        Self::Oversee,
        Self::Manage,
        Self::ManageTeam,
        Self::Administer,
        Self::People,
        Self::Configure,
    ];
}

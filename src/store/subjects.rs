//! The handles of the subjects, one for each: the functions of one subject of the database.
//!
//! The functions stand in the subject's file. Those that read are there for any database, and those that write only for
//! one that is open for writing.

use std::ops::Deref;

use super::Database;

macro_rules! handles {
    ($($(#[doc = $doc:literal])+ $accessor:ident: $Handle:ident;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy)]
            pub struct $Handle<D>(pub(super) D);

            /// For the functions themselves: they read and write the database.
            impl<D> Deref for $Handle<&D> {
                type Target = D;

                fn deref(&self) -> &D {
                    self.0
                }
            }
        )+

        impl<A> Database<A> {
            $(
                $(#[doc = $doc])+
                pub fn $accessor(&self) -> $Handle<&Self> {
                    $Handle(self)
                }
            )+
        }
    };
}

handles! {
    /// The agents in the database: their scheduling states, and what is stored under their ids.
    agents: Agents;
    /// The rows of the audit.
    audit: AuditLog;
    /// The accounts of people on other platforms.
    accounts: Accounts;
    /// The agents' cards.
    cards: Cards;
    /// The channels and their members.
    channels: Channels;
    /// The paths of projects that agents work on.
    claims: Claims;
    /// The messages on other platforms that show waiting requests.
    decision_messages: DecisionMessages;
    /// The delivery positions of agents in channels.
    deliveries: Deliveries;
    /// The direct messages of people on other platforms, whose answers go back there.
    direct_messages: DirectMessages;
    /// The direct messages between pairs of agents, as outlines.
    exchanges: Exchanges;
    /// The freezes of agents and of the home.
    freezes: Freezes;
    /// The group of gateways that use the database at the same time, if there is one.
    gateway_group: GatewayGroups;
    /// The gateways that share the database.
    gateways: Gateways;
    /// The grants that requests led to.
    grants: Grants;
    /// The webhooks, and what came to them.
    hooks: Hooks;
    /// The clients' idempotency keys.
    idempotency_keys: IdempotencyKeys;
    /// The items in the inboxes of sessions.
    inbox: InboxItems;
    /// The conversations between parties, and the times of their work.
    interactions: Interactions;
    /// The leases: which gateway does what.
    leases: Leases;
    /// The links of channels with other platforms, and what both sides have of each other.
    links: Links;
    /// The tools of MCP servers that a person has seen, and who may call them.
    mcp_tools: McpTools;
    /// The messages that are still to be sent to other platforms.
    outbox: Outbox;
    /// The people of the home beside its owner.
    people: People;
    /// The engines that agents are placed on.
    placements: Placements;
    /// The messages in channels.
    posts: Posts;
    /// The sessions' conversations in agent programs.
    program_conversations: ProgramConversations;
    /// The browsers that get notifications.
    push_subscriptions: PushSubscriptions;
    /// The credentials whose quota is used up.
    quota_parks: QuotaParks;
    /// The races between copies of a team.
    races: Races;
    /// The receipts of checks.
    receipts: Receipts;
    /// The requests of agents.
    requests: Requests;
    /// The schedules, and what became of their times.
    schedules: Schedules;
    /// The answers of the Responses API.
    responses: Responses;
    /// The segments of transcripts that are in the second place.
    segments: Segments;
    /// The sessions.
    sessions: Sessions;
    /// The browsers that are signed in to the dashboard.
    sign_ins: SignIns;
    /// The branches that are to be joined with their projects, and what reviewers found in them.
    submissions: Submissions;
    /// The tasks.
    tasks: Tasks;
    /// The client tokens.
    tokens: Tokens;
    /// The turns.
    turns: Turns;
    /// The usage of models, and what it is charged to.
    usage: UsageRecords;
}

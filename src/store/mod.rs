//! The database: all SQL statements and migrations of flock.
//!
//! The subjects use the types of [`sql`] and know no driver. What only SQLite has is in [`sqlite`], and what only
//! PostgreSQL has is in [`postgres`]. [`location`] says which of them a home uses.
//!
//! One thread writes, and combines waiting changes into one transaction. Reads use a few separate connections. A change
//! is committed when its future resolves, and then survives `kill -9`. Syncing to the disk follows a few milliseconds
//! later, by [`sync`].

mod account;
mod agent_removal;
mod agent_rename;
mod agent_state;
mod audit;
mod audit_chain;
mod batch;
mod bridge_traffic;
mod budget_use;
mod card;
mod change;
mod channel;
mod channel_archive;
mod channel_fork;
mod claim;
mod database;
mod decision_message;
mod delivery;
mod direct_message;
mod error;
mod exchange;
mod finding;
mod freeze;
mod gateway;
mod gateway_group;
mod health;
mod hook;
mod idempotency;
mod inbox;
mod interaction;
mod joining;
mod lease;
mod link;
mod location;
mod lost_session;
mod mcp;
mod notice;
mod outbox;
mod pending_sign_in;
mod person;
mod placement;
mod post;
mod post_edit;
mod post_outline;
mod post_places;
mod post_search;
mod postgres;
mod program_conversation;
mod push;
mod quota_park;
mod race;
mod read_deadline;
mod read_pool;
mod receipt;
mod request;
mod response;
mod schedule;
mod segment;
mod session;
mod sign_in;
mod sql;
mod sqlite;
mod subjects;
mod submission;
pub(crate) mod sync;
mod task;
#[cfg(test)]
pub(crate) mod testing;
mod token;
pub(crate) mod transfer;
mod turn;
mod upkeep;
mod usage;
mod words;
mod writer;

pub(crate) use account::AccountBinding;
pub(crate) use account::{Account, RenameOutcome};
pub(crate) use agent_state::AgentState;
pub use audit::{AuditEntry, Level};
pub(crate) use audit::{AuditFilter, AuditRow, MAX_ROWS as MAX_AUDIT_ROWS, digest as text_digest};
pub(crate) use audit_chain::{AuditVerification, ChainRow, follow as follow_chain};
pub(crate) use bridge_traffic::BridgeTraffic;
pub(crate) use budget_use::LimitUse;
pub(crate) use card::{CardUpdate, StoredCard};
pub use channel::NewChannel;
pub(crate) use channel::{Channel, ChannelState, Member, MemberChange};
pub(crate) use channel_archive::ArchiveStep;
pub(crate) use channel_fork::{ChannelCopy, CopyOutcome};
pub use claim::Claim;
pub use database::{Database, Reader, Store};
pub(crate) use decision_message::{DecisionMessage, NewDecisionMessage};
pub use delivery::BatchLimits;
pub(crate) use delivery::{Batch, Given, MOST_COUNTED, UnseenSummary};
pub(crate) use direct_message::{DirectAnswer, DirectMessage};
pub(crate) use error::StoreError;
pub(crate) use exchange::NewExchange;
pub use finding::{Finding, NewFinding};
pub(crate) use finding::{FoundFinding, ReviewedSubmission};
pub(crate) use freeze::{Freeze, FreezeChange, FreezeState};
pub(crate) use gateway::NewGateway;
pub use gateway::{
    Beat, Epoch, Judging, LATE_MS as GATEWAY_LATE_MS, LIFETIME_MS as GATEWAY_LIFETIME_MS, LivingGateway,
    PeerAddress,
};
pub(crate) use gateway_group::GroupEnd;
pub use gateway_group::{GatewayGroup, SharedConfig};
pub(crate) use health::FaultSubscription;
#[cfg(test)]
pub(crate) use hook::MOST_DELIVERIES;
pub use hook::{DeliveryOutcome, Hook, HookDelivery, HookKind, HookState, NewDelivery, NewHook};
pub(crate) use hook::{DeliveryResult, HookAdded};
pub(crate) use idempotency::{IdempotencyKey, KeyedRequest};
pub(crate) use inbox::{InboxItem, InboxItemKind, NewInboxItem};
pub(crate) use joining::ServerPlace;
pub(crate) use lease::LeaseTable;
pub use lease::{Lease, LeaseKind, LeaseSubject};
pub(crate) use link::{EVERYONE, Link, LinkState};
pub(crate) use location::{DatabasePlace, database_file, is_made, server_address};
pub(crate) use lost_session::LostSession;
pub use mcp::{McpCapability, McpCapabilityGrant, McpGrant, PinnedTool};
pub(crate) use mcp::{McpRevocation, NewMcpGrant};
pub use notice::{Notice, NoticeKind, Notices};
pub use outbox::LinkOrigin;
pub(crate) use outbox::{OutboxContent, OutboxEntry};
pub(crate) use pending_sign_in::{CODE_LIFETIME, OIDC_SIGN_IN_LIFETIME, OidcSignIn, Visitor};
pub use person::PersonRole;
pub(crate) use person::{NewPerson, OidcAccount, OidcBinding, Person, PersonChange};
pub(crate) use post::{CommittedPost, Post, PostOutcome};
pub use post::{NewPost, Page, PostMentions, WakeUrgency};
pub(crate) use post_edit::PostEdit;
pub(crate) use post_outline::{OUTLINE_CHARS, PostOutline};
pub(crate) use post_search::{IndexedPost, KEPT_MARKS};
pub(crate) use program_conversation::{ConversationOrigin, ProgramConversation};
pub(crate) use push::{MAX_SUBSCRIPTIONS, PushAttempt, PushNotice, PushSubscription};
pub use quota_park::StoredPark;
pub use race::{CopyActivity, Race, RaceCopy, RacePlace, RaceState, Settled};
pub(crate) use race::{NewRace, RaceDecision};
pub(crate) use read_deadline::ReadDeadline;
pub use receipt::{NewReceipt, ReceiptFilter, StoredOutput, StoredReceipt};
pub(crate) use request::digest as body_digest;
pub use request::{Along, NewRequest, RequestRow, RequestState, Scope};
pub(crate) use request::{RequestStep, RequestTransition};
pub(crate) use response::StoredResponse;
pub use schedule::{
    MissedPolicy, MissedRange, MissedSlots, NewSchedule, Schedule, ScheduleBudget, ScheduleSlot,
    ScheduleState, ScheduleTarget, SlotCause, SlotDelivery, SlotOutcome, SlotRun, Timing,
};
pub(crate) use schedule::{ScheduleAdded, ScheduleTurns, SlotResult};
pub use segment::TranscriptSegment;
pub use session::{NewSession, PendingCall};
pub(crate) use session::{Session, SessionState, StoredPrompt};
pub(crate) use sign_in::{LIFETIME as SIGN_IN_LIFETIME, SignIn};
pub(crate) use sqlite::backup::{Backup, BackupKind, due_at as backup_due_at, list as backups, snapshot};
pub use sqlite::connection::BESIDE;
pub(crate) use sqlite::connection::beside;
pub(crate) use sqlite::recovery::{RestoreOutcome, restore};
pub(crate) use sqlite::schema::{is_newer, schema_version};
pub(crate) use sqlite::search_index::{
    IndexHit, IndexMeta, NewEntry, SearchIndex, SourceKey, SourceKind, SourceState,
};
pub(crate) use sqlite::{integrity, row_counts, search_index, snapshot};
pub use submission::{NewSubmission, Submission, SubmissionChange, SubmissionFilter, SubmissionState};
pub use task::TaskFilter;
pub(crate) use task::{
    NewTask, Task, TaskChange, TaskChangeResult, TaskCounts, TaskKind, TaskMessage, TaskState,
    TaskSubmission as TaskAdded,
};
pub(crate) use token::{ClientToken, TOUCH_INTERVAL, hash as token_hash};
pub use token::{NewToken, Right};
pub(crate) use turn::{NewTurn, Turn, TurnCompletion};
pub use turn::{TokenCounts, TurnState};
pub use usage::{CallSettlement, NewUsage};
pub(crate) use usage::{
    Charges, ExceededLimit, ServerUsage, UsageAmount, UsageBy, UsageCall, UsageFilter, UsageLimit,
    UsageScope, UsageSum,
};

#[cfg(test)]
mod archive_tests;
#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod channel_tests;
#[cfg(test)]
mod tests;

//! The page of people: who shares the home, with which rights and budgets, when each was last seen, and by which tokens they
//! come.

use askama::Template;
use serde::Deserialize;

use super::cost::{Budget, BudgetList, BudgetView, Sum, Usage, budget_views};
use crate::clean;
use crate::clock;
use crate::dashboard::format::{Moment, count, fill, money};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch};
use crate::store::PersonRole;

#[derive(Deserialize)]
struct PeopleList {
    people: Vec<Person>,
    accounts: Vec<Account>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Person {
    name: String,
    role: PersonRole,
    /// `None` stands for all.
    agents: Option<Vec<String>>,
    /// `None` stands for all.
    channels: Option<Vec<String>>,
    day_tokens: Option<u64>,
    day_cost_micros: Option<u64>,
    added_by: String,
    added_at: i64,
    removed_at: Option<i64>,
    oidc: Option<OidcAccount>,
}

#[derive(Deserialize)]
struct OidcAccount {
    issuer: String,
    subject: Option<String>,
    email: Option<String>,
}

/// An account on another platform.
#[derive(Deserialize)]
struct Account {
    platform: String,
    id: String,
    person: String,
    username: String,
}

#[derive(Deserialize)]
struct TokenList {
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    name: String,
    /// `None` for a client's.
    person: Option<String>,
    created_at: i64,
    last_used_at: Option<i64>,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

#[derive(Deserialize)]
struct SessionList {
    sessions: Vec<Session>,
}

/// A browser that is signed in.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    person: String,
    last_used_at: i64,
}

#[derive(Template)]
#[template(path = "people.html")]
struct PeoplePage {
    layout: Layout,
    people: Vec<PersonView>,
    removed: Vec<RemovedView>,
    /// The role that the form for a new person begins with.
    new_role: RoleChoice,
}

struct PersonView {
    name: String,
    role: RoleChoice,
    agents: LimitView,
    channels: LimitView,
    last_seen: Option<Moment>,
    /// The number of browsers that are signed in.
    browsers: usize,
    used_today: String,
    budgets: Vec<BudgetRow>,
    /// The budget as the form has it. Empty for no limit.
    day_tokens: String,
    day_dollars: String,
    accounts: Vec<String>,
    added: Moment,
    added_by: String,
    tokens: Vec<TokenView>,
}

struct RemovedView {
    name: String,
    role: &'static str,
    removed: Moment,
}

/// The role that a form has chosen.
#[derive(Clone, Copy)]
struct RoleChoice(PersonRole);

impl RoleChoice {
    const fn name(self) -> &'static str {
        self.0.as_str()
    }

    /// Returns all roles, each with `true` for the chosen one.
    fn all(self) -> [(&'static str, bool); 4] {
        PersonRole::ALL.map(|role| (role.as_str(), role == self.0))
    }
}

/// The agents or the channels of a person.
struct LimitView {
    shown: String,
    /// The value of the form's field, in the words of the command line.
    wanted: String,
}

impl LimitView {
    fn new(texts: &Texts, ids: Option<&[String]>) -> Self {
        let (shown, wanted) = match ids {
            None => (texts.person_all.to_owned(), "all".to_owned()),
            Some([]) => (texts.person_none.to_owned(), "none".to_owned()),
            Some(ids) => {
                let ids = inline(&ids.join(", "));
                (ids.clone(), ids)
            }
        };
        Self { shown, wanted }
    }
}

struct BudgetRow {
    text: String,
    is_used_up: bool,
}

struct TokenView {
    name: String,
    made: Moment,
    used: Option<Moment>,
    expires: Option<Moment>,
    is_expired: bool,
}

impl TokenView {
    fn new(token: &Token, now: i64) -> Self {
        Self {
            name: inline(&token.name),
            made: Moment::new(token.created_at),
            used: token.last_used_at.map(Moment::new),
            expires: token.expires_at.map(Moment::new),
            is_expired: token.expires_at.is_some_and(|end| end <= now),
        }
    }
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let (list, tokens, sessions, budgets, usage) = tokio::join!(
        fetch::<PeopleList>(api, "/api/people"),
        fetch::<TokenList>(api, "/api/tokens"),
        fetch::<SessionList>(api, "/api/dashboard/sessions"),
        fetch::<BudgetList>(api, "/api/usage/budgets"),
        fetch::<Usage>(api, "/api/usage?by=person"),
    );
    let list = list?;
    let texts = viewer.texts();
    let known = Known {
        texts,
        accounts: list.accounts,
        tokens: tokens?.tokens,
        sessions: sessions?.sessions,
        budgets: budgets?.budgets,
        usage: usage?.usage,
        now: clock::unix_ms(),
    };
    let people = list.people.iter().filter(|person| person.removed_at.is_none());
    let removed = list.people.iter().filter_map(|person| {
        let removed = Moment::new(person.removed_at?);
        Some(RemovedView { name: inline(&person.name), role: person.role.as_str(), removed })
    });
    Page::of(&PeoplePage {
        layout: Layout::new(viewer, Some(NavItem::People), texts.people),
        people: people.map(|person| known.view(person)).collect(),
        removed: removed.collect(),
        new_role: RoleChoice(PersonRole::Member),
    })
}

/// Everything that is known of people beside their rights.
struct Known {
    texts: &'static Texts,
    accounts: Vec<Account>,
    tokens: Vec<Token>,
    sessions: Vec<Session>,
    budgets: Vec<Budget>,
    usage: Vec<Sum>,
    now: i64,
}

impl Known {
    fn view(&self, person: &Person) -> PersonView {
        let texts = self.texts;
        // A browser may be signed in under the name in capitals.
        let is_theirs = |name: &str| name.eq_ignore_ascii_case(&person.name);
        let sessions = self.sessions.iter().filter(|session| is_theirs(&session.person));
        let browsers: Vec<i64> = sessions.map(|session| session.last_used_at).collect();
        let tokens = self.tokens.iter().filter(|token| token.person.as_deref().is_some_and(is_theirs));
        let tokens: Vec<&Token> = tokens.collect();
        let uses = tokens.iter().filter_map(|token| token.last_used_at);
        let used = self.usage.iter().find(|sum| is_theirs(&sum.name));
        let (tokens_today, cost_today) = used.map_or((0, 0), |sum| (sum.tokens, sum.cost_micros));
        let budgets =
            self.budgets.iter().filter(|budget| budget.scope == "person" && is_theirs(&budget.name));
        let budget_row = |BudgetView { used, limit, is_used_up, .. }| BudgetRow {
            text: fill(texts.used_of, &[&used, &limit]),
            is_used_up,
        };
        let in_force = tokens.iter().filter(|token| token.revoked_at.is_none());
        PersonView {
            role: RoleChoice(person.role),
            agents: LimitView::new(texts, person.agents.as_deref()),
            channels: LimitView::new(texts, person.channels.as_deref()),
            last_seen: uses.chain(browsers.iter().copied()).max().map(Moment::new),
            browsers: browsers.len(),
            used_today: format!(
                "{}, {}",
                money(cost_today),
                fill(texts.count_of_tokens, &[&count(tokens_today)])
            ),
            budgets: budgets.flat_map(|budget| budget_views(texts, budget)).map(budget_row).collect(),
            day_tokens: person.day_tokens.map(|most| most.to_string()).unwrap_or_default(),
            day_dollars: person.day_cost_micros.map(dollars).unwrap_or_default(),
            accounts: self.accounts(person),
            added: Moment::new(person.added_at),
            added_by: inline(&person.added_by),
            tokens: in_force.map(|token| TokenView::new(token, self.now)).collect(),
            name: inline(&person.name),
        }
    }

    /// Returns the accounts of a person: that of OpenID Connect, and those on other platforms.
    fn accounts(&self, person: &Person) -> Vec<String> {
        let party = format!("human:{}", person.name);
        let theirs = self.accounts.iter().filter(|account| account.person.eq_ignore_ascii_case(&party));
        let named = theirs.map(|Account { platform, id, username, .. }| match username == id {
            true => format!("{platform}:{id}"),
            false => format!("{platform}:{id} ({username})"),
        });
        let signs_in = person.oidc.as_ref().map(|OidcAccount { issuer, subject, email }| {
            let account = subject.as_ref().or(email.as_ref()).map_or("", String::as_str);
            format!("{account} ({issuer})")
        });
        signs_in.into_iter().chain(named).map(|account| inline(&account)).collect()
    }
}

/// Spells out what can't be seen in a text. The name of an account comes from elsewhere.
fn inline(text: &str) -> String {
    clean::inline(text).into_owned()
}

/// Returns millionths of a dollar as the field of a form has them.
fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
#[path = "people_tests.rs"]
mod tests;

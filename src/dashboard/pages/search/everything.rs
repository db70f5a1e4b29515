//! The search through memory, findings, sessions, vaults and channels, the best match first.

use askama::Template;
use serde::Deserialize;

use super::{Area, Tab, file};
use crate::clean;
use crate::dashboard::format::{Moment, fill};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::pages::{channels, project, sessions};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::id::{AgentId, SessionKey};

/// Number of results that a page has at first.
const FEW: usize = 20;
/// Number of results that it has at most.
const MANY: usize = 100;

#[derive(Deserialize)]
struct AgentList {
    agents: Vec<Agent>,
}

#[derive(Deserialize)]
struct Agent {
    id: String,
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Found>,
    complete: bool,
    /// The areas that the agent's tool policy closes to it.
    closed: Vec<String>,
}

#[derive(Deserialize)]
struct Found {
    snippet: String,
    #[serde(flatten)]
    place: Place,
}

#[derive(Deserialize)]
#[serde(tag = "in", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum Place {
    Memory { agent: AgentId, path: String, line: u64 },
    Findings(FindingPlace),
    Sessions { session: SessionKey, turn: String, role: String, at: i64 },
    Vaults { vault: String, path: String, line: u64 },
    Channels { channel: String, seq: u64, author: String, created_at: i64 },
}

/// A finding of a reviewer, or one that an agent wrote down for itself.
#[derive(Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum FindingPlace {
    Review { project: String, submission: i64, finding: i64, reviewer: String, created_at: i64 },
    File { agent: AgentId, path: String, line: u64 },
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    layout: Layout,
    tab: Tab,
    words: String,
    areas: Vec<AreaView>,
    agents: Vec<String>,
    /// The agent as which the person searches; empty for everything.
    agent: String,
    answer: Option<AnswerView>,
    /// The reason why nothing could be searched.
    problem: Option<String>,
}

struct AreaView {
    id: &'static str,
    name: &'static str,
    is_chosen: bool,
}

struct AnswerView {
    results: Vec<ResultView>,
    /// The address of the same search with more results, if there may be more.
    more: Option<String>,
    is_complete: bool,
    /// A notice about areas that were not searched.
    closed: Option<String>,
}

struct ResultView {
    area: &'static str,
    area_name: &'static str,
    name: String,
    address: String,
    /// The author; empty for a file.
    author: String,
    at: Option<Moment>,
    snippet: String,
}

/// The search that the page's address asks for.
struct Wanted {
    words: String,
    areas: Vec<Area>,
    agent: String,
    limit: usize,
}

impl Wanted {
    fn read(query_text: &str) -> Self {
        let named = query::values(query_text, "in");
        let mut areas: Vec<Area> =
            Area::ALL.into_iter().filter(|area| named.iter().any(|name| name == area.as_str())).collect();
        if areas.is_empty() {
            areas = Area::ALL.to_vec();
        }
        let limit = if query::value(query_text, "limit").as_deref() == Some("100") { MANY } else { FEW };
        Self {
            words: query::value(query_text, "q").unwrap_or_default(),
            areas,
            agent: query::value(query_text, "agent").unwrap_or_default(),
            limit,
        }
    }

    /// Returns the request to the route.
    fn route(&self) -> String {
        let areas: Vec<&str> = self.areas.iter().map(|area| area.as_str()).collect();
        let mut route = format!(
            "/api/search/memory?q={}&in={}&limit={}",
            query::encoded(&self.words),
            areas.join(","),
            self.limit
        );
        if !self.agent.is_empty() {
            route.push_str("&agent=");
            route.push_str(&query::encoded(&self.agent));
        }
        route
    }

    /// Returns the address of this page with all that can be shown.
    fn with_more(&self) -> String {
        let mut address = Tab::Everything.address(&self.words);
        for area in self.areas.iter().filter(|_| self.areas.len() < Area::ALL.len()) {
            address.push_str("&in=");
            address.push_str(area.as_str());
        }
        if !self.agent.is_empty() {
            address.push_str("&agent=");
            address.push_str(&query::encoded(&self.agent));
        }
        address.push_str("&limit=100");
        address
    }
}

/// Returns the page. In its query, `q` has the words, each `in` an area, and `agent` searches as that agent.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query_text: &str) -> Result<Page, ApiFailure> {
    let texts = viewer.texts();
    let wanted = Wanted::read(query_text);
    let agents: AgentList = fetch(api, "/api/agents").await?;
    let no_agent = || Some(fill(texts.search_no_agent, &[&clean::summary(&wanted.agent, 100)]));
    let mut problem = None;
    let mut answer = None;
    if !wanted.agent.is_empty() && wanted.agent.parse::<AgentId>().is_err() {
        problem = no_agent();
    } else if !wanted.words.trim().is_empty() {
        match fetch::<Answer>(api, &wanted.route()).await {
            Ok(found) => answer = Some(view(texts, &wanted, found)),
            // What can be wrong is only the words and the agent.
            Err(failure) if failure.status == 404 => problem = no_agent(),
            Err(failure) if failure.status == 400 => problem = Some(texts.search_no_words.to_owned()),
            Err(failure) => return Err(failure),
        }
    }
    let areas = Area::ALL.into_iter().map(|area| AreaView {
        id: area.as_str(),
        name: area.name(texts),
        is_chosen: wanted.areas.contains(&area),
    });
    Page::of(&SearchPage {
        layout: Layout::new(viewer, Some(NavItem::Search), texts.search),
        tab: Tab::Everything,
        words: wanted.words,
        areas: areas.collect(),
        agents: agents.agents.into_iter().map(|agent| agent.id).collect(),
        agent: wanted.agent,
        answer,
        problem,
    })
}

fn view(texts: &'static Texts, wanted: &Wanted, answer: Answer) -> AnswerView {
    let is_cut = answer.results.len() >= wanted.limit && wanted.limit < MANY;
    let closed: Vec<&str> = Area::ALL
        .into_iter()
        .filter(|area| answer.closed.iter().any(|name| name == area.as_str()))
        .map(|area| area.name(texts))
        .collect();
    AnswerView {
        results: answer.results.into_iter().map(|found| result(texts, found)).collect(),
        more: is_cut.then(|| wanted.with_more()),
        is_complete: answer.complete,
        closed: (!closed.is_empty()).then(|| fill(texts.search_closed, &[&wanted.agent, &closed.join(", ")])),
    }
}

fn result(texts: &'static Texts, found: Found) -> ResultView {
    let (area, name, address, author, at) = match found.place {
        Place::Memory { agent, path, line } => in_file(Area::Memory, &file::Owner::Agent(agent), &path, line),
        Place::Findings(FindingPlace::File { agent, path, line }) => {
            in_file(Area::Findings, &file::Owner::Agent(agent), &path, line)
        }
        Place::Findings(FindingPlace::Review { project, submission, finding, reviewer, created_at }) => {
            let address = format!("{}#submission-{submission}", project::address(&project));
            let numbers = [finding.to_string(), submission.to_string()];
            let about = fill(texts.finding_about, &[&numbers[0], &numbers[1]]);
            (Area::Findings, format!("{project}: {about}"), address, reviewer, Some(created_at))
        }
        Place::Vaults { vault, path, line } => in_file(Area::Vaults, &file::Owner::Vault(vault), &path, line),
        Place::Sessions { session, turn, role, at } => {
            let author = match role.as_str() {
                "user" => texts.to_agent.to_owned(),
                "tool" => texts.result_of_tool.to_owned(),
                _ => session.agent().to_string(),
            };
            let address = format!("{}#t{}", sessions::turn_address(&session, &turn), query::encoded(&turn));
            (Area::Sessions, session.to_string(), address, author, Some(at))
        }
        Place::Channels { channel, seq, author, created_at } => {
            let address = format!("{}?around={seq}#m{seq}", channels::address(&channel));
            (Area::Channels, format!("#{channel} {seq}"), address, author, Some(created_at))
        }
    };
    ResultView {
        area: area.as_str(),
        area_name: area.name(texts),
        name: clean::inline(&name).into_owned(),
        address,
        author: clean::inline(&author).into_owned(),
        at: at.map(Moment::new),
        snippet: clean::inline(&found.snippet).into_owned(),
    }
}

/// Returns the parts of a result that is a line of a file: area, name, address, author, time.
fn in_file(
    area: Area,
    owner: &file::Owner,
    path: &str,
    line: u64,
) -> (Area, String, String, String, Option<i64>) {
    let address = file::address(owner, path, line);
    (area, format!("{}: {path}:{line}", owner.name()), address, String::new(), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::Language;

    #[test]
    fn an_address_with_nothing_chosen_searches_everything_and_foreign_words_choose_nothing() {
        for (address, route) in [
            ("q=a+b", "/api/search/memory?q=a%20b&in=memory,findings,sessions,vaults,channels&limit=20"),
            ("q=a&in=vaults&in=memory&in=x", "/api/search/memory?q=a&in=memory,vaults&limit=20"),
            (
                "q=%26&agent=a%26b&limit=100&in=",
                "/api/search/memory?q=%26&in=memory,findings,sessions,vaults,channels&limit=100&agent=a%26b",
            ),
        ] {
            assert_eq!(Wanted::read(address).route(), route, "{address}");
        }
        let more = Wanted::read("q=a&in=vaults&agent=coder").with_more();
        assert_eq!(more, "/dashboard/search?q=a&in=vaults&agent=coder&limit=100");
        assert_eq!(Wanted::read(more.split_once('?').unwrap().1).limit, MANY);
    }

    #[test]
    fn each_result_leads_to_its_place_and_hides_no_character() {
        let place = |value: serde_json::Value| {
            let found: Found = serde_json::from_value(value).unwrap();
            let view = result(Language::English.texts(), found);
            format!("{} {} | {} | {}", view.name, view.author, view.address, view.snippet)
        };
        let mut file = serde_json::json!({"in": "memory", "agent": "coder", "path": "memory/a b\u{202e}.md", "line": 7,
            "snippet": "x\u{1b}[31m", "score": 1.5});
        assert_eq!(
            place(file.clone()),
            "coder: memory/a b\\u{202e}.md:7  | /dashboard/search/file?agent=coder&path=memory%2Fa%20b%E2%80%AE.md&line=7#l7 \
             | x\\u{1b}[31m"
        );
        file["in"] = "vaults".into();
        file["vault"] = "shared".into();
        assert!(place(file).contains("/dashboard/search/file?vault=shared&path="));
        assert_eq!(
            place(
                serde_json::json!({"in": "sessions", "session": "agent:coder:flock:main:ann", "turn": "0190",
                "record": "1", "role": "user", "at": 5, "snippet": "s", "score": 1})
            ),
            "agent:coder:flock:main:ann to the agent | \
             /dashboard/sessions/agent%3Acoder%3Aflock%3Amain%3Aann/turns/0190#t0190 | s"
        );
        assert_eq!(
            place(serde_json::json!({"in": "findings", "project": "web", "submission": 7, "finding": 3,
                "reviewer": "tester", "path": null, "line": null, "createdAt": 5, "snippet": "s", "score": 1})),
            "web: finding 3 about submission 7 tester | /dashboard/projects/web#submission-7 | s"
        );
        assert_eq!(
            place(serde_json::json!({"in": "channels", "channel": "dev", "seq": 4, "author": "human:ann",
                "createdAt": 5, "snippet": "s", "score": 1})),
            "#dev 4 human:ann | /dashboard/channels/dev?around=4#m4 | s"
        );
    }
}

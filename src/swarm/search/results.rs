//! Reads the texts at the places that the index found, and says where they are.

use std::collections::HashMap;

use serde::Serialize;
use tokio::runtime::Handle;

use super::corpus::Corpus;
use super::files::{self, FileStore};
use super::{MAX_TEXT, SearchArea, TOOL, snippet};
use crate::agent::transcript::{MessageRecord, forward, look};
use crate::agent::{Provenance, said};
use crate::id::{AgentId, ChannelId, FolderName, Party, SessionKey, TurnId};
use crate::provider::Role;
use crate::store::{Finding, FoundFinding, IndexHit, Post, Session, SourceKind, Store, StoreError};
use crate::swarm::vault::Vaults;
use crate::tool::safe_text;

/// The most bytes of a snippet.
const SNIPPET: usize = 320;

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchResult {
    #[serde(rename = "in")]
    pub area: SearchArea,
    #[serde(flatten)]
    pub place: FoundPlace,
    /// The part of the text that matches best, on one line.
    pub snippet: String,
    /// The rank by BM25. A larger number is a better match.
    pub score: f64,
}

/// The place of something that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(crate) enum FoundPlace {
    /// A line of a file in an agent's workspace.
    File { agent: AgentId, path: String, line: i64 },
    /// A message of a session.
    Message {
        session: SessionKey,
        turn: TurnId,
        /// The id of the record in the transcript.
        record: String,
        role: Role,
        /// Unix milliseconds.
        at: i64,
    },
    /// A finding of a reviewer.
    Review {
        project: String,
        submission: i64,
        finding: i64,
        reviewer: String,
        /// The file of the project that it is about.
        path: Option<String>,
        line: Option<u32>,
        created_at: i64,
    },
    /// A line of a file in a vault.
    Vault { vault: FolderName, path: String, line: i64 },
    /// A message of a channel.
    Post { channel: ChannelId, seq: u64, author: Party, created_at: i64 },
}

/// Reads what was found. It may block.
pub(super) struct Results<'a> {
    pub store: &'a Store,
    pub vaults: &'a Vaults,
    pub corpus: &'a Corpus,
    pub terms: &'a [String],
    /// The turn that searches.
    pub turn: Option<TurnId>,
}

impl Results<'_> {
    /// Returns the results of these hits that are still there and may be shown, at most `limit`.
    pub(super) fn read(&self, hits: &[IndexHit], limit: usize) -> Result<Vec<SearchResult>, StoreError> {
        let rows = |kind| -> Vec<i64> {
            hits.iter().filter(|hit| hit.source.kind == kind).map(|hit| hit.place).collect()
        };
        let runtime = Handle::current();
        let posts = runtime.block_on(self.store.posts().by_rows(&rows(SourceKind::Channel)))?;
        let searcher = self.corpus.searcher.as_ref().map(|agent| &agent.id);
        let submissions = self.store.submissions();
        let findings =
            runtime.block_on(submissions.findings_by_number(searcher, &rows(SourceKind::Review)))?;
        let sessions: HashMap<&str, &Session> =
            self.corpus.sessions.iter().map(|session| (session.file.as_str(), session)).collect();
        let mut results = Vec::new();
        // The messages of channels that the session's own records repeat.
        let mut delivered: Vec<Option<Provenance>> = Vec::new();
        for hit in hits {
            if results.len() >= limit + limit / 2 {
                break;
            }
            let mut provenance = None;
            let found = match hit.source.kind {
                SourceKind::Memory => self.file(hit, SearchArea::Memory),
                SourceKind::Findings => self.file(hit, SearchArea::Findings),
                SourceKind::Review => findings.get(&hit.place).and_then(|found| self.review(hit, found)),
                SourceKind::Vault => self.vault(hit),
                SourceKind::Channel => posts.get(&hit.place).and_then(|post| self.post(hit, post)),
                SourceKind::Session => {
                    let session = sessions.get(hit.source.path.as_str());
                    session.and_then(|session| self.message(hit, session)).map(|(found, record)| {
                        provenance = record.provenance;
                        found
                    })
                }
            };
            if let Some(found) = found {
                results.push(found);
                delivered.push(provenance);
            }
        }
        let repeats: Vec<bool> = delivered.iter().map(|origin| is_shown(origin.as_ref(), &results)).collect();
        let mut repeats = repeats.into_iter();
        results.retain(|_| repeats.next() != Some(true));
        results.truncate(limit);
        Ok(results)
    }

    fn file(&self, hit: &IndexHit, area: SearchArea) -> Option<SearchResult> {
        let agent = self.corpus.agents.iter().find(|agent| agent.id.as_str() == hit.source.owner)?;
        let (text, line) = self.part(hit, FileStore::Workspace(agent, hit.source.kind))?;
        let place = FoundPlace::File { agent: agent.id.clone(), path: hit.source.path.clone(), line };
        Some(SearchResult { area, place, snippet: text, score: hit.score })
    }

    fn review(&self, hit: &IndexHit, found: &FoundFinding) -> Option<SearchResult> {
        let finding = &found.finding;
        // The number may belong to a finding of another submission than the one that the index has.
        if finding.submission.to_string() != hit.source.path {
            return None;
        }
        let text = finding_text(finding);
        let cut = snippet::cut(safe_text::start(&text, MAX_TEXT), self.terms, SNIPPET);
        let place = FoundPlace::Review {
            project: found.project.clone(),
            submission: finding.submission,
            finding: finding.id,
            reviewer: finding.reviewer.clone(),
            path: finding.content.path.clone(),
            line: finding.content.line,
            created_at: finding.created_at,
        };
        let is_empty = cut.text.is_empty();
        let result = SearchResult { area: SearchArea::Findings, place, snippet: cut.text, score: hit.score };
        (!is_empty).then_some(result)
    }

    fn vault(&self, hit: &IndexHit) -> Option<SearchResult> {
        let vault = self.corpus.vaults.iter().find(|vault| vault.as_str() == hit.source.owner)?;
        let (text, line) = self.part(hit, FileStore::Vault(self.vaults, vault))?;
        let place = FoundPlace::Vault { vault: vault.clone(), path: hit.source.path.clone(), line };
        Some(SearchResult { area: SearchArea::Vaults, place, snippet: text, score: hit.score })
    }

    /// Returns the snippet of a part of a file, and the line where it is.
    fn part(&self, hit: &IndexHit, folder: FileStore<'_>) -> Option<(String, i64)> {
        let part = files::lines(&folder.text(&hit.source.path)?, hit.place, hit.length);
        let found = snippet::cut(&part, self.terms, SNIPPET);
        let line = hit.place.saturating_add(i64::try_from(found.line).unwrap_or(0));
        (!found.text.is_empty()).then_some((found.text, line))
    }

    fn message(&self, hit: &IndexHit, session: &Session) -> Option<(SearchResult, MessageRecord)> {
        let mut file = look(&self.corpus.transcript(session)).ok()??;
        let record = forward::message_at(&mut file, u64::try_from(hit.place).ok()?).ok()??;
        if self.turn == Some(record.turn) {
            return None;
        }
        let text = said(&record, TOOL);
        let found = snippet::cut(safe_text::start(&text, MAX_TEXT), self.terms, SNIPPET);
        let place = FoundPlace::Message {
            session: session.key.clone(),
            turn: record.turn,
            record: record.id.clone(),
            role: record.message.role,
            at: record.at,
        };
        let result =
            SearchResult { area: SearchArea::Sessions, place, snippet: found.text, score: hit.score };
        (!result.snippet.is_empty()).then_some((result, record))
    }

    fn post(&self, hit: &IndexHit, post: &Post) -> Option<SearchResult> {
        // The row may belong to another channel than the one whose id the index has.
        if post.channel.as_str() != hit.source.path {
            return None;
        }
        let found = snippet::cut(safe_text::start(&post.content, MAX_TEXT), self.terms, SNIPPET);
        let place = FoundPlace::Post {
            channel: post.channel.clone(),
            seq: post.seq,
            author: post.author.clone(),
            created_at: post.created_at,
        };
        Some(SearchResult { area: SearchArea::Channels, place, snippet: found.text, score: hit.score })
    }
}

/// Returns the text of a finding that is searched: the file that it is about, what was found, and the author's answer.
pub(super) fn finding_text(finding: &Finding) -> String {
    let answer = finding.answer.as_deref().unwrap_or_default();
    let path = finding.content.path.as_deref().unwrap_or_default();
    [path, &finding.content.text, answer]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns `true` if an input that delivered messages of a channel only repeats a message that is among the results.
fn is_shown(origin: Option<&Provenance>, results: &[SearchResult]) -> bool {
    let Some(Provenance::Channel { channel: of, from, to }) = origin else { return false };
    results.iter().any(|result| match &result.place {
        FoundPlace::Post { channel, seq, .. } => {
            channel == of && i64::try_from(*seq).is_ok_and(|seq| (*from..=*to).contains(&seq))
        }
        _ => false,
    })
}

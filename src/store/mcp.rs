//! The tools of MCP servers: the definitions that a person has seen, the agents that may call them, and what else a server
//! may ask for meanwhile.

use super::audit::{self, AuditEntry};
use super::notice::NoticeKind;
use super::session::parsed;
use super::sql::{self, Connection, Row, Transaction};
use super::subjects::McpTools;
use super::{Database, Store, StoreError};
use crate::id::{AgentId, McpServerName};

/// A tool whose definition a person has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedTool {
    pub server: McpServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The definition as canonical JSON.
    pub definition: String,
    /// The SHA-256 of the definition, in hex.
    pub sha256: String,
    /// Another definition that the server has sent since, and its digest. The tool waits for a person.
    pub changed: Option<(String, String)>,
    pub seen_by: String,
    /// Unix milliseconds.
    pub seen_at: i64,
}

/// The right of an agent to call a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpGrant {
    pub server: McpServerName,
    pub agent: AgentId,
    pub tool: String,
    /// `true` if the agent may call it although its autonomy is readonly.
    pub readonly_ok: bool,
    pub granted_by: String,
    /// Unix milliseconds.
    pub granted_at: i64,
}

/// Something that a server may ask for while an agent's call of one of its tools runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpCapability {
    /// Answers of the agent's model, charged to the agent.
    Sampling,
    /// Answers of a person to the server's questions.
    Elicitation,
}

impl McpCapability {
    /// Returns the protocol's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
        }
    }
}

/// The error of a name that is no [`McpCapability`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no capability of MCP that can be granted")]
pub struct UnknownCapability;

impl std::fmt::Display for McpCapability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for McpCapability {
    type Err = UnknownCapability;

    fn from_str(text: &str) -> Result<Self, UnknownCapability> {
        [Self::Sampling, Self::Elicitation]
            .into_iter()
            .find(|known| known.as_str() == text)
            .ok_or(UnknownCapability)
    }
}

/// The right of a server to ask for something while an agent calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpCapabilityGrant {
    pub server: McpServerName,
    pub agent: AgentId,
    pub capability: McpCapability,
    pub granted_by: String,
    /// Unix milliseconds.
    pub granted_at: i64,
}

/// The part of the grants of an agent that ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum McpRevocation {
    /// All tools and capabilities of the server.
    All,
    /// These tools, by the server's own names, and these capabilities.
    These(Vec<String>, Vec<McpCapability>),
}

/// Tools to grant to an agent, with the definitions that a person has seen.
#[derive(Clone, Debug)]
pub(crate) struct NewMcpGrant {
    pub server: McpServerName,
    pub agent: AgentId,
    /// Name, canonical definition and digest of each tool.
    pub tools: Vec<(String, String, String)>,
    pub capabilities: Vec<McpCapability>,
    pub readonly_ok: bool,
    pub by: String,
    pub now: i64,
}

const TOOL_COLUMNS: &str =
    "server, tool, definition, sha256, changed_definition, changed_sha256, seen_by, seen_at";

fn tool(row: &Row<'_>) -> sql::Result<PinnedTool> {
    let changed: (Option<String>, Option<String>) = (row.get(4)?, row.get(5)?);
    Ok(PinnedTool {
        server: parsed(row, 0)?,
        tool: row.get(1)?,
        definition: row.get(2)?,
        sha256: row.get(3)?,
        changed: changed.0.zip(changed.1),
        seen_by: row.get(6)?,
        seen_at: row.get(7)?,
    })
}

fn grant(row: &Row<'_>) -> sql::Result<McpGrant> {
    Ok(McpGrant {
        server: parsed(row, 0)?,
        agent: parsed(row, 1)?,
        tool: row.get(2)?,
        readonly_ok: row.get(3)?,
        granted_by: row.get(4)?,
        granted_at: row.get(5)?,
    })
}

fn tools(connection: &Connection<'_>) -> sql::Result<Vec<PinnedTool>> {
    connection
        .prepare_cached(&format!("SELECT {TOOL_COLUMNS} FROM mcp_tool ORDER BY server, tool"))?
        .query_map((), tool)?
        .collect()
}

fn grants(connection: &Connection<'_>) -> sql::Result<Vec<McpGrant>> {
    connection
        .prepare_cached(
            "SELECT server, agent, tool, readonly_ok, granted_by, granted_at FROM mcp_grant
             ORDER BY server, agent, tool",
        )?
        .query_map((), grant)?
        .collect()
}

fn capability(row: &Row<'_>) -> sql::Result<McpCapabilityGrant> {
    Ok(McpCapabilityGrant {
        server: parsed(row, 0)?,
        agent: parsed(row, 1)?,
        capability: parsed(row, 2)?,
        granted_by: row.get(3)?,
        granted_at: row.get(4)?,
    })
}

/// Forgets the tools that no agent may call any more. A later grant shows them again.
fn forget_ungranted(transaction: &Transaction<'_>) -> sql::Result<()> {
    transaction
        .execute(
            "DELETE FROM mcp_tool WHERE NOT EXISTS (
                SELECT 1 FROM mcp_grant WHERE mcp_grant.server = mcp_tool.server AND mcp_grant.tool = mcp_tool.tool)",
            (),
        )
        .map(drop)
}

impl<A> McpTools<&Database<A>> {
    /// Returns all tools that a person has seen, and all grants.
    pub(crate) async fn all(self) -> Result<(Vec<PinnedTool>, Vec<McpGrant>), StoreError> {
        self.read("read the tools of MCP servers", |connection| Ok((tools(connection)?, grants(connection)?)))
            .await
    }

    /// Returns one tool that a person has seen.
    pub(crate) async fn find(
        self,
        server: &McpServerName,
        name: &str,
    ) -> Result<Option<PinnedTool>, StoreError> {
        let (server, name) = (server.clone(), name.to_owned());
        self.read("look up a tool of an MCP server", move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {TOOL_COLUMNS} FROM mcp_tool WHERE server = ?1 AND tool = ?2"
            ))?;
            statement.query_map((server.as_str(), &name), tool)?.next().transpose()
        })
        .await
    }

    /// Returns everything that servers may ask for.
    pub(crate) async fn capabilities(self) -> Result<Vec<McpCapabilityGrant>, StoreError> {
        self.read("read what MCP servers may ask for", |connection| {
            connection
                .prepare_cached(
                    "SELECT server, agent, capability, granted_by, granted_at FROM mcp_capability
                     ORDER BY server, agent, capability",
                )?
                .query_map((), capability)?
                .collect()
        })
        .await
    }

    /// Returns `true` if a server may ask for this while the agent calls it.
    pub(crate) async fn may_ask(
        self,
        server: &McpServerName,
        agent: &AgentId,
        wanted: McpCapability,
    ) -> Result<bool, StoreError> {
        let (server, agent) = (server.clone(), agent.clone());
        self.read("look what an MCP server may ask for", move |connection| {
            connection
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM mcp_capability WHERE server = ?1 AND agent = ?2 AND capability = ?3)",
                )?
                .query_row((server.as_str(), agent.as_str(), wanted.as_str()), |row| row.get(0))
        })
        .await
    }

    /// Returns an agent's grant of a tool.
    pub(crate) async fn grant_of(
        self,
        agent: &AgentId,
        server: &McpServerName,
        name: &str,
    ) -> Result<Option<McpGrant>, StoreError> {
        let (agent, server, name) = (agent.clone(), server.clone(), name.to_owned());
        self.read("look up a grant of an MCP server's tool", move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT server, agent, tool, readonly_ok, granted_by, granted_at FROM mcp_grant
                 WHERE server = ?1 AND agent = ?2 AND tool = ?3",
            )?;
            statement.query_map((server.as_str(), agent.as_str(), &name), grant)?.next().transpose()
        })
        .await
    }
}

impl McpTools<&Store> {
    /// Grants tools to an agent. Their definitions become the ones that a person has seen.
    pub(crate) async fn grant(self, new: NewMcpGrant, entry: AuditEntry) -> Result<(), StoreError> {
        self.write("grant tools of an MCP server", move |transaction| {
            transaction.tell(NoticeKind::Server, "");
            let NewMcpGrant { server, agent, tools, capabilities, readonly_ok, by, now } = &new;
            for (name, definition, sha256) in tools {
                transaction
                    .prepare_cached(
                        "INSERT INTO mcp_tool (server, tool, definition, sha256, seen_by, seen_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                         ON CONFLICT (server, tool) DO UPDATE SET
                             definition = excluded.definition, sha256 = excluded.sha256,
                             changed_definition = NULL, changed_sha256 = NULL, changed_at = NULL,
                             seen_by = excluded.seen_by, seen_at = excluded.seen_at",
                    )?
                    .execute((server.as_str(), name, definition, sha256, by, now))?;
                transaction
                    .prepare_cached(
                        "INSERT INTO mcp_grant (server, agent, tool, readonly_ok, granted_by, granted_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                         ON CONFLICT (server, agent, tool) DO UPDATE SET readonly_ok = excluded.readonly_ok,
                             granted_by = excluded.granted_by, granted_at = excluded.granted_at",
                    )?
                    .execute((server.as_str(), agent.as_str(), name, readonly_ok, by, now))?;
            }
            for capability in capabilities {
                transaction
                    .prepare_cached(
                        "INSERT INTO mcp_capability (server, agent, capability, granted_by, granted_at)
                         VALUES (?1, ?2, ?3, ?4, ?5)
                         ON CONFLICT (server, agent, capability)
                         DO UPDATE SET granted_by = excluded.granted_by, granted_at = excluded.granted_at",
                    )?
                    .execute((server.as_str(), agent.as_str(), capability.as_str(), by, now))?;
            }
            audit::append(transaction, &entry, *now)
        })
        .await
    }

    /// Takes grants of a server away from an agent. Returns the number of those that ended.
    pub(crate) async fn revoke(
        self,
        server: McpServerName,
        agent: AgentId,
        revocation: McpRevocation,
        entry: AuditEntry,
        now: i64,
    ) -> Result<usize, StoreError> {
        self.write("take back grants of an MCP server", move |transaction| {
            transaction.tell(NoticeKind::Server, "");
            let whose = (server.as_str(), agent.as_str());
            let mut ended = 0;
            match &revocation {
                McpRevocation::All => {
                    for table in ["mcp_grant", "mcp_capability"] {
                        let sql = format!("DELETE FROM {table} WHERE server = ?1 AND agent = ?2");
                        ended += transaction.execute(&sql, whose)?;
                    }
                }
                McpRevocation::These(names, capabilities) => {
                    for name in names {
                        let sql = "DELETE FROM mcp_grant WHERE server = ?1 AND agent = ?2 AND tool = ?3";
                        ended += transaction.execute(sql, (whose.0, whose.1, name))?;
                    }
                    for capability in capabilities {
                        let sql =
                            "DELETE FROM mcp_capability WHERE server = ?1 AND agent = ?2 AND capability = ?3";
                        ended += transaction.execute(sql, (whose.0, whose.1, capability.as_str()))?;
                    }
                }
            }
            forget_ungranted(transaction)?;
            if ended > 0 {
                audit::append(transaction, &entry, now)?;
            }
            Ok(ended)
        })
        .await
    }

    /// Forgets everything about a server.
    pub(crate) async fn forget_server(
        self,
        server: McpServerName,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("forget an MCP server", move |transaction| {
            transaction.tell(NoticeKind::Server, "");
            transaction.execute("DELETE FROM mcp_grant WHERE server = ?1", [server.as_str()])?;
            transaction.execute("DELETE FROM mcp_tool WHERE server = ?1", [server.as_str()])?;
            transaction.execute("DELETE FROM mcp_capability WHERE server = ?1", [server.as_str()])?;
            audit::append(transaction, &entry, now)
        })
        .await
    }

    /// Records the definition that a server sends now for a tool, or that it sends the seen one again (`None`). Returns
    /// `true` if that is news.
    pub(crate) async fn note_change(
        self,
        server: McpServerName,
        name: String,
        changed: Option<(String, String)>,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("record a changed tool of an MCP server", move |transaction| {
            let (definition, sha256) = changed.clone().unzip();
            let changed = transaction
                .prepare_cached(
                    "UPDATE mcp_tool SET changed_definition = ?3, changed_sha256 = ?4, changed_at = ?5
                     WHERE server = ?1 AND tool = ?2 AND changed_sha256 IS DISTINCT FROM ?4",
                )?
                .execute((server.as_str(), &name, definition, sha256, now))?;
            Ok(changed > 0)
        })
        .await
    }

    /// Makes the changed definition of a tool the seen one, if it is still this one. Returns `false` if it is not.
    pub(crate) async fn accept_change(
        self,
        server: McpServerName,
        name: String,
        sha256: String,
        by: String,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("accept a changed tool of an MCP server", move |transaction| {
            transaction.tell(NoticeKind::Server, "");
            let accepted = transaction
                .prepare_cached(
                    "UPDATE mcp_tool SET definition = changed_definition, sha256 = changed_sha256,
                         changed_definition = NULL, changed_sha256 = NULL, changed_at = NULL, seen_by = ?4, seen_at = ?5
                     WHERE server = ?1 AND tool = ?2 AND changed_sha256 = ?3",
                )?
                .execute((server.as_str(), &name, &sha256, by, now))?;
            Ok(accepted > 0)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::Level;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let store = Store::open(&home).unwrap();
        (dir, store)
    }

    fn entry() -> AuditEntry {
        AuditEntry::new("human:ann", "mcp.grant", "files", Level::Yellow, String::new())
    }

    fn new(agent: &str, tool: &str) -> NewMcpGrant {
        NewMcpGrant {
            server: "files".parse().unwrap(),
            agent: agent.parse().unwrap(),
            tools: vec![(tool.to_owned(), "{}".to_owned(), "aa".to_owned())],
            capabilities: vec![McpCapability::Sampling],
            readonly_ok: false,
            by: "human:ann".to_owned(),
            now: 1,
        }
    }

    #[tokio::test]
    async fn a_change_is_accepted_only_as_it_was_seen() {
        let (_dir, store) = store();
        let server: McpServerName = "files".parse().unwrap();
        store.mcp_tools().grant(new("coder", "read"), entry()).await.unwrap();
        let change = |sha: &str| Some(("{\"a\":1}".to_owned(), sha.to_owned()));
        let note = async |sha: &str| {
            store.mcp_tools().note_change(server.clone(), "read".to_owned(), change(sha), 2).await.unwrap()
        };
        assert!(note("bb").await && !note("bb").await && note("cc").await);
        let accept = async |sha: &str| {
            let by = "human:ann".to_owned();
            store
                .mcp_tools()
                .accept_change(server.clone(), "read".to_owned(), sha.to_owned(), by, 3)
                .await
                .unwrap()
        };
        assert!(!accept("bb").await, "it has changed once more since");
        assert!(accept("cc").await && !accept("cc").await);
        let found = store.mcp_tools().find(&server, "read").await.unwrap().unwrap();
        assert_eq!((&*found.sha256, &*found.definition, found.changed), ("cc", "{\"a\":1}", None));
        // The server sends what a person has seen.
        assert!(!store.mcp_tools().note_change(server, "read".to_owned(), None, 4).await.unwrap());
    }

    #[tokio::test]
    async fn grants_end_with_their_agent_their_server_and_their_revocation() {
        let (_dir, store) = store();
        for (agent, tool) in [("coder", "read"), ("coder", "write"), ("tester", "read")] {
            store.mcp_tools().grant(new(agent, tool), entry()).await.unwrap();
        }
        let server: McpServerName = "files".parse().unwrap();
        let may_ask = async |agent: &str| {
            let agent = agent.parse().unwrap();
            store.mcp_tools().may_ask(&server, &agent, McpCapability::Sampling).await.unwrap()
        };
        let left = async || {
            let (tools, grants) = store.mcp_tools().all().await.unwrap();
            let grants: Vec<String> =
                grants.iter().map(|one| format!("{} {}", one.agent, one.tool)).collect();
            (tools.len(), grants)
        };
        store.agents().delete("tester".parse().unwrap()).await.unwrap();
        assert_eq!(left().await, (2, vec!["coder read".to_owned(), "coder write".to_owned()]));
        assert!(may_ask("coder").await && !may_ask("tester").await);
        let revoke = |revoked: McpRevocation| {
            store.mcp_tools().revoke(server.clone(), "coder".parse().unwrap(), revoked, entry(), 5)
        };
        let names = vec!["write".to_owned(), "other".to_owned()];
        assert_eq!(revoke(McpRevocation::These(names, Vec::new())).await.unwrap(), 1);
        assert_eq!(left().await, (1, vec!["coder read".to_owned()]), "what nobody may call is forgotten");
        let old = "coder".parse().unwrap();
        store.agents().rename(old, "writer".parse().unwrap(), entry(), 6).await.unwrap();
        assert_eq!(left().await.1, ["writer read"]);
        assert!(may_ask("writer").await && !may_ask("coder").await);
        store.mcp_tools().forget_server(server.clone(), entry(), 7).await.unwrap();
        assert_eq!(left().await, (0, Vec::new()));
        assert!(!may_ask("writer").await);
        store.mcp_tools().grant(new("tester", "read"), entry()).await.unwrap();
        let revoke = async |revoked: McpRevocation| {
            let agent = "tester".parse().unwrap();
            store.mcp_tools().revoke(server.clone(), agent, revoked, entry(), 8).await.unwrap()
        };
        let sampling = McpRevocation::These(Vec::new(), vec![McpCapability::Sampling]);
        assert_eq!(revoke(sampling).await, 1);
        assert!(!may_ask("tester").await);
        assert_eq!(left().await.1, ["tester read"]);
        store.mcp_tools().grant(new("tester", "read"), entry()).await.unwrap();
        assert_eq!(revoke(McpRevocation::All).await, 2);
        assert!(!may_ask("tester").await);
    }
}

//! Claims: the paths of a project that agents announced they work on. A claim tells others, and expires by itself.

use serde::Serialize;

use super::session::parsed;
use super::sql::{self, Row, params};
use super::subjects::Claims;
use super::{Database, Store, StoreError};
use crate::id::{AgentId, ProjectName};

/// A path that an agent works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    pub agent: AgentId,
    /// A file, or a folder with everything below it.
    pub path: String,
    /// Unix milliseconds.
    pub expires_at: i64,
}

fn claim(row: &Row<'_>) -> sql::Result<Claim> {
    Ok(Claim { agent: parsed(row, 0)?, path: row.get(1)?, expires_at: row.get(2)? })
}

impl<A> Claims<&Database<A>> {
    /// Returns the claims in a project that have not expired, by path.
    pub async fn list(self, project: &ProjectName, now: i64) -> Result<Vec<Claim>, StoreError> {
        self.read("list the claims", |connection| {
            connection
                .prepare_cached(
                    "SELECT agent, path, expires_at FROM claim WHERE project = ?1 AND expires_at > ?2
                     ORDER BY path, agent",
                )?
                .query_map((project.as_str(), now), claim)?
                .collect()
        })
        .await
    }
}

impl Claims<&Store> {
    /// Sets an agent's claims on paths until a time, and deletes what has expired.
    pub(crate) async fn set(
        self,
        project: ProjectName,
        agent: AgentId,
        paths: Vec<String>,
        until: i64,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("keep claims", move |transaction| {
            transaction.execute("DELETE FROM claim WHERE expires_at <= ?1", [now])?;
            let mut insert = transaction.prepare_cached(
                "INSERT INTO claim (project, agent, path, expires_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (project, agent, path) DO UPDATE SET expires_at = excluded.expires_at",
            )?;
            for path in &paths {
                insert.execute(params![project.as_str(), agent.as_str(), path, until])?;
            }
            Ok(())
        })
        .await
    }

    /// Ends an agent's claims on these paths, or on all paths of the project.
    pub(crate) async fn release(
        self,
        project: ProjectName,
        agent: AgentId,
        paths: Option<Vec<String>>,
    ) -> Result<(), StoreError> {
        self.write("end claims", move |transaction| match &paths {
            None => transaction
                .execute(
                    "DELETE FROM claim WHERE project = ?1 AND agent = ?2",
                    (project.as_str(), agent.as_str()),
                )
                .map(drop),
            Some(paths) => paths.iter().try_for_each(|path| {
                transaction
                    .prepare_cached("DELETE FROM claim WHERE project = ?1 AND agent = ?2 AND path = ?3")?
                    .execute((project.as_str(), agent.as_str(), path))
                    .map(drop)
            }),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;

    #[tokio::test]
    async fn claims_are_renewed_released_and_expire() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Home::new(folder.path().to_owned(), None)).unwrap();
        let project: ProjectName = "lib".parse().unwrap();
        let set = |agent: &str, paths: &[&str], until| {
            let paths = paths.iter().map(|path| (*path).to_owned()).collect();
            store.claims().set(project.clone(), agent.parse().unwrap(), paths, until, 10)
        };
        set("ann", &["src", "docs"], 20).await.unwrap();
        set("ann", &["src"], 30).await.unwrap();
        set("bob", &["src"], 25).await.unwrap();
        let shown = async |now| {
            let found = store.claims().list(&project, now).await.unwrap();
            found.iter().map(|claim| format!("{}:{}", claim.agent, claim.path)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(10).await, "ann:docs ann:src bob:src");
        assert_eq!(shown(20).await, "ann:src bob:src");
        store.claims().release(project.clone(), "bob".parse().unwrap(), None).await.unwrap();
        assert_eq!(shown(10).await, "ann:docs ann:src");
        let docs = Some(vec!["docs".to_owned()]);
        store.claims().release(project.clone(), "ann".parse().unwrap(), docs).await.unwrap();
        assert_eq!(shown(10).await, "ann:src");
        assert_eq!(shown(30).await, "");
    }
}

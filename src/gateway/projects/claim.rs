//! Agents announce which paths of a project they work on, so that others can keep away.

use super::{Projects, ProjectsError, rule};
use crate::clock::unix_ms;
use crate::id::{AgentId, ProjectName};
use crate::store::Claim;

/// The most paths of one announcement.
const MAX_PATHS: usize = 50;
/// The duration of a claim if the agent names none, and the longest one, in minutes.
const DEFAULT_MINUTES: u32 = 120;
const MAX_MINUTES: u32 = 24 * 60;

impl Projects {
    /// Announces that an agent works on these paths. Returns the claims of others that overlap with them.
    ///
    /// A claim does not keep anybody from working there: it tells.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent does not work on the project, or a path leads out of it.
    pub(crate) async fn claim(
        &self,
        agent: &AgentId,
        name: &ProjectName,
        paths: &[String],
        minutes: Option<u32>,
    ) -> Result<Vec<Claim>, ProjectsError> {
        self.of_agent(name, agent)?;
        let paths = checked(paths)?;
        let now = unix_ms();
        let minutes = minutes.unwrap_or(DEFAULT_MINUTES).clamp(1, MAX_MINUTES);
        let until = now.saturating_add(i64::from(minutes) * 60_000);
        let claims = self.swarm.store().claims();
        let all = claims.list(name, now).await?;
        let others = |claim: &Claim| {
            claim.agent != *agent && paths.iter().any(|path| rule::overlaps(path, &claim.path))
        };
        let overlapping = all.into_iter().filter(others).collect();
        claims.set(name.clone(), agent.clone(), paths, until, now).await?;
        self.publish(name, None);
        Ok(overlapping)
    }

    /// Ends an agent's claims on these paths, or all of them.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent does not work on the project.
    pub(crate) async fn release(
        &self,
        agent: &AgentId,
        name: &ProjectName,
        paths: &[String],
    ) -> Result<(), ProjectsError> {
        self.of_agent(name, agent)?;
        let paths = if paths.is_empty() { None } else { Some(checked(paths)?) };
        self.swarm.store().claims().release(name.clone(), agent.clone(), paths).await?;
        self.publish(name, None);
        Ok(())
    }
}

fn checked(paths: &[String]) -> Result<Vec<String>, ProjectsError> {
    if paths.is_empty() || paths.len() > MAX_PATHS {
        return Err(ProjectsError::Invalid(format!("name 1 to {MAX_PATHS} paths")));
    }
    let path = |path: &String| {
        let wrong = || ProjectsError::Invalid(format!("{path:?} is not a path below the project's folder"));
        rule::claim_path(path).ok_or_else(wrong)
    };
    paths.iter().map(path).collect()
}

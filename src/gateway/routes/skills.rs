//! `/api/skills`: the skills of the home.

use axum::Json;
use axum::extract::State;
use serde_json::json;

use super::{JsonResult, TeamState};
use crate::gateway::error::ApiError;
use crate::skill::installed;
use crate::skill::view::SkillView;
use crate::tool::{policy, team};

/// Lists the skills by name.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    let (home, config) = (team.swarm.home().clone(), team.swarm.config());
    // Their files are read and hashed.
    let look = tokio::task::spawn_blocking(move || {
        let readers = policy::agents_with(&config, team::READ_SKILL.name);
        let skills = installed::all(&home);
        let views: Vec<_> = skills.iter().map(|skill| SkillView::new(skill, &readers)).collect();
        json!({"skills": views})
    });
    Ok(Json(look.await.map_err(ApiError::internal)?))
}

//! The addresses and folders of a run, as the program sees them.

use super::folders;
use super::gate::TurnAccess;
use super::interface::{ConversationStart, Program, RunLocation, TurnSpec};
use super::state::StateFolder;
use super::user_folder::UserFolder;
use crate::config::Agent;
use crate::home::Home;
use crate::id::SessionKey;
use crate::runtime::RuntimeRequest;
use crate::sandbox::egress;
use crate::sandbox::program_mounts::{STATE_TARGET, TURN_TARGET};
use crate::sandbox::spec::WORKSPACE_TARGET;
use crate::tool::policy::DisabledTools;

/// The addresses and folders of a run, as the program sees them.
pub(super) struct RunPaths {
    pub(super) origin: String,
    pub(super) state: Option<String>,
    files: String,
    pub(super) workspace: String,
    /// The folder of its state, as the host sees it.
    pub(super) kept: Option<StateFolder>,
    /// The folder of its user, if its login consists of links to files there.
    pub(super) user: Option<UserFolder>,
}

impl RunPaths {
    /// Returns the paths of a turn with this access.
    pub(super) fn of(
        home: &Home,
        program: &dyn Program,
        agent: &Agent,
        session: &SessionKey,
        access: &TurnAccess,
    ) -> Self {
        let (state, name) = (StateFolder::of(home, program, session), folders::name_of(session));
        if !agent.runs_on_host() {
            return Self {
                origin: format!("http://127.0.0.1:{}", egress::PROXY_PORT),
                state: Some(format!("{STATE_TARGET}/{}", state.name())),
                files: format!("{TURN_TARGET}/{name}"),
                workspace: WORKSPACE_TARGET.to_owned(),
                kept: Some(state),
                user: None,
            };
        }
        // With its own login the program stores its conversations among those of its user, unless it cannot ignore the
        // other files there.
        let login = program.facts().login;
        let state = (access.relay.is_some() || login.is_some()).then_some(state);
        Self {
            origin: access.host_origin.clone(),
            state: state.as_ref().map(|state| state.path().display().to_string()),
            files: folders::turns(home, session.agent()).join(name).display().to_string(),
            workspace: agent.workspace.display().to_string(),
            kept: state,
            user: login.filter(|_| access.relay.is_none()).and_then(|login| UserFolder::of(&login)),
        }
    }

    /// Describes the run to the program.
    pub(super) fn spec<'a>(
        &'a self,
        order: &'a RuntimeRequest,
        agent: &Agent,
        access: &'a TurnAccess,
        conversation: ConversationStart<'a>,
        prompt: &'a str,
    ) -> TurnSpec<'a> {
        let relay = access.relay.as_ref();
        TurnSpec {
            provider: order.model.provider(),
            place: if agent.runs_on_host() { RunLocation::Host } else { RunLocation::Sandbox },
            model: order.model.model(),
            api: relay.map(|relay| relay.api),
            context_window: relay.map_or(0, |relay| relay.context_window),
            max_tokens: relay.map_or(0, |relay| relay.max_tokens),
            effort: order.effort,
            system: &order.system,
            withheld: DisabledTools::of(agent),
            prompt,
            conversation,
            origin: &self.origin,
            relay_token: relay.map(|relay| relay.token.as_str()),
            mcp_token: &access.mcp_token,
            state: self.state.as_deref(),
            user_settings: self.user.as_ref().and_then(UserFolder::settings),
            files: &self.files,
            workspace: &self.workspace,
            probe_answer: None,
        }
    }
}

//! The methods of the protocol. Each answers by itself, so that a long one holds up no other.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AvailableCommandsUpdate, CancelNotification, CloseSessionRequest,
    CloseSessionResponse, Implementation, InitializeRequest, InitializeResponse, ListSessionsRequest,
    LoadSessionRequest, LoadSessionResponse, NewSessionRequest, NewSessionResponse, PromptCapabilities,
    PromptRequest, PromptResponse, ResumeSessionRequest, ResumeSessionResponse, SessionCapabilities,
    SessionCloseCapabilities, SessionId, SessionListCapabilities, SessionResumeCapabilities, SessionUpdate,
    SetSessionModeRequest, SetSessionModeResponse, StopReason,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, JsonRpcResponse, Lines, on_receive_notification, on_receive_request,
};

use super::host::Host;
use super::open_session::{OpenSession, Place};
use super::outlet::Outlet;
use super::{agent_turn, channel_turn, modes, rpc_error, session_list, slash, transport};
use crate::cli::{Exit, Failure};

/// Time that the last lines may take to be written.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves the editor until it closes stdin.
///
/// # Errors
///
/// Returns an error if the editor can't be written to.
#[expect(clippy::too_many_lines, reason = "one handler for each method")]
pub(super) async fn serve(host: Arc<Host>) -> Result<Exit, Failure> {
    let lines = Lines::new(
        Box::pin(transport::stdout_lines(Arc::clone(&host))),
        Box::pin(transport::stdin_lines(Arc::clone(&host))),
    );
    let at = || Arc::clone(&host);
    let served = Agent
        .v1()
        .name("flock")
        .on_receive_request(
            {
                // The crate itself refuses every other request before this one.
                async move |_: InitializeRequest, responder, _| responder.respond(initialize())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let host = at();
                async move |_: NewSessionRequest, responder, editor| {
                    let (host, opened) = (Arc::clone(&host), Arc::clone(&host));
                    let work = async move {
                        let session = session_list::create(&opened).await?;
                        let modes = modes::of(&opened, &session)?;
                        Ok((session, modes))
                    };
                    open(&host, editor, responder, work, |session, modes| {
                        NewSessionResponse::new(session.id.clone()).modes(modes)
                    })
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let host = at();
                async move |request: LoadSessionRequest, responder, editor: ConnectionTo<Client>| {
                    let (host, opened, replay) = (Arc::clone(&host), Arc::clone(&host), editor.clone());
                    let work = async move {
                        let outlet = outlet(&opened, &replay, request.session_id.clone());
                        let id = request.session_id.0.as_ref();
                        let session = session_list::load(&opened, id, Some(&outlet)).await?;
                        let modes = modes::of(&opened, &session)?;
                        Ok((session, modes))
                    };
                    open(&host, editor, responder, work, |_, modes| LoadSessionResponse::new().modes(modes))
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let host = at();
                async move |request: ResumeSessionRequest, responder, editor| {
                    let (host, opened) = (Arc::clone(&host), Arc::clone(&host));
                    let work = async move {
                        let session = session_list::load(&opened, &request.session_id.0, None).await?;
                        let modes = modes::of(&opened, &session)?;
                        Ok((session, modes))
                    };
                    open(&host, editor, responder, work, |_, modes| ResumeSessionResponse::new().modes(modes))
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let host = at();
                async move |request: ListSessionsRequest, responder, _| {
                    let listed = Arc::clone(&host);
                    answer(&host, responder, async move { session_list::list(&listed, request.cwd).await })
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let host = at();
                async move |request: CloseSessionRequest, responder: Responder<CloseSessionResponse>, _| {
                    host.close(&request.session_id.0);
                    responder.respond(CloseSessionResponse::new())
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let host = at();
                async move |request: SetSessionModeRequest, responder, _| {
                    let changed = Arc::clone(&host);
                    answer(&host, responder, async move {
                        let session = changed.session(&request.session_id.0)?;
                        modes::set(&changed, &session, &request.mode_id.0).await?;
                        Ok(SetSessionModeResponse::new())
                    })
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            {
                let host = at();
                async move |request: PromptRequest, responder, editor| {
                    prompt(&host, &editor, request, responder)
                }
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            {
                let host = at();
                async move |request: CancelNotification, _| {
                    // A session that is not open has no prompt to cancel.
                    if let Ok(session) = host.session(&request.session_id.0) {
                        session.cancel();
                    }
                    Ok(())
                }
            },
            on_receive_notification!(),
        )
        .connect_with(lines, {
            let host = at();
            async move |editor: ConnectionTo<Client>| {
                editor.incoming_closed().await;
                host.end().await;
                Ok(())
            }
        })
        .await;
    drop(tokio::time::timeout(DRAIN_TIMEOUT, host.gauge.drained()).await);
    match served {
        // An editor that has closed its end of stdout wants nothing more.
        _ if host.context.printer.closed() => Ok(Exit::Done),
        Ok(()) => Ok(Exit::Done),
        Err(error) => Err(Failure::with_cause("the connection to the editor broke", &error)),
    }
}

fn initialize() -> InitializeResponse {
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .session_capabilities(sessions);
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(Implementation::new("flock", env!("CARGO_PKG_VERSION")).title("flock".to_owned()))
}

fn outlet(host: &Arc<Host>, editor: &ConnectionTo<Client>, session: SessionId) -> Outlet {
    Outlet { editor: editor.clone(), host: Arc::clone(host), session }
}

/// Answers a request with the result of `work`.
fn answer<T: JsonRpcResponse + Send + 'static>(
    host: &Arc<Host>,
    responder: Responder<T>,
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<(), agent_client_protocol::Error> {
    host.spawn(async move {
        // If the answer can't be sent, the editor is gone.
        drop(responder.respond_with_result(work.await.map_err(|failure| rpc_error::of(&failure))));
    });
    Ok(())
}

/// The modes of a session that was opened, as the protocol has them.
type Modes = Option<agent_client_protocol::v1::schema::SessionModeState>;

/// Answers a request that opens a session, and then tells which commands it has.
fn open<T: JsonRpcResponse + Send + 'static>(
    host: &Arc<Host>,
    editor: ConnectionTo<Client>,
    responder: Responder<T>,
    work: impl Future<Output = Result<(Arc<OpenSession>, Modes), Failure>> + Send + 'static,
    response: impl FnOnce(&OpenSession, Modes) -> T + Send + 'static,
) -> Result<(), agent_client_protocol::Error> {
    let telling = Arc::clone(host);
    host.spawn(async move {
        match work.await {
            Ok((session, modes)) => {
                let outlet = outlet(&telling, &editor, SessionId::new(session.id.clone()));
                // Editors know the session only from the answer on, so the commands come after it.
                if responder.respond(response(&session, modes)).is_ok() {
                    let commands = AvailableCommandsUpdate::new(slash::available(&session.place));
                    outlet.update(SessionUpdate::AvailableCommandsUpdate(commands)).await;
                }
            }
            Err(failure) => drop(responder.respond_with_error(rpc_error::of(&failure))),
        }
    });
    Ok(())
}

fn prompt(
    host: &Arc<Host>,
    editor: &ConnectionTo<Client>,
    request: PromptRequest,
    responder: Responder<PromptResponse>,
) -> Result<(), agent_client_protocol::Error> {
    // The prompt begins before the next message is read, so that a cancellation right behind it counts.
    let begun =
        host.session(&request.session_id.0).and_then(|session| Ok((session.begin(&host.over)?, session)));
    let (running, session) = match begun {
        Ok(begun) => begun,
        Err(failure) => return responder.respond_with_error(rpc_error::of(&failure)),
    };
    let outlet = outlet(host, editor, request.session_id.clone());
    let taken_back = responder.cancellation();
    host.spawn(async move {
        let cancel = Arc::clone(&running.cancel);
        let work = async {
            let mut seen = session.turn.lock().await;
            if cancel.is_cancelled() {
                return Ok(StopReason::Cancelled);
            }
            match &session.place {
                Place::Agent { key, agent } => {
                    agent_turn::run(&outlet, (key, agent), &request.prompt, &cancel, &mut seen).await
                }
                Place::Channel(channel) => {
                    channel_turn::run(&outlet, channel, &request.prompt, &cancel, &mut seen).await
                }
            }
        };
        let watch = async {
            taken_back.cancelled().await;
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = work => ended,
            () = watch => Ok(StopReason::Cancelled),
        };
        // The next prompt may come as soon as the answer is there.
        drop(running);
        let ended = ended.map(PromptResponse::new).map_err(|failure| rpc_error::of(&failure));
        drop(responder.respond_with_result(ended));
    });
    Ok(())
}

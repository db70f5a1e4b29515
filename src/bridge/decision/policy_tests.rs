use super::*;
use crate::config::DecidingBridges;
use crate::id::{AgentId, SessionKey, SessionKind};
use crate::store::{Level, Scope};

const NOW: i64 = 1_000_000_000;
const BODY: &str = r#"{"agent":"coder","request":{"kind":"egress","host":"a.example","port":443}}"#;
const COMMAND: &str = r#"{"agent":"coder","request":{"kind":"command","command":"true"}}"#;
const CODE: &str = "k7m3q-9wxyz";

/// A decision that is allowed. Each test changes one thing.
struct Case {
    attempt: Attempt<'static>,
    shown: Option<DecisionMessage>,
    request: Option<RequestRow>,
    account: Option<AccountBinding>,
    approvers: Vec<Party>,
    settings: ApprovalSettings,
}

impl Case {
    fn new() -> Self {
        let ann = Party::human("ann");
        Self {
            attempt: Attempt {
                is_bot: false,
                is_forwarded: false,
                verb: Verb::Approve,
                place: Place::Message { external: "room", message: "m1" },
                at: Some(NOW),
            },
            shown: Some(DecisionMessage {
                id: 1,
                link: "link".into(),
                bridge: "matrix".into(),
                external: "room".into(),
                link_state: LinkState::Active,
                request: "r-1".into(),
                sha256: body_digest(BODY),
                code: Some(CODE.into()),
                message: Some("m1".into()),
                is_begun: true,
                attempts: 0,
                next_at: 0,
                created_at: 1,
            }),
            request: Some(request(BODY, "egress")),
            account: Some(AccountBinding { person: ann.clone(), bound_by: Some(Party::human("owner")) }),
            approvers: vec![Party::human("ben"), ann],
            settings: ApprovalSettings::default(),
        }
    }

    fn judge(&self) -> Result<(), Refusal> {
        let facts = Facts {
            bridge: "matrix",
            shown: self.shown.as_ref(),
            request: self.request.as_ref(),
            account: self.account.as_ref(),
            approvers: &self.approvers,
            settings: &self.settings,
        };
        let may = may_decide(&self.attempt, &facts, NOW)?;
        assert_eq!((may.request, may.sha256), ("r-1", body_digest(BODY).as_str()));
        assert_eq!(may.person, &Party::human("ann"));
        Ok(())
    }

    fn shown(&mut self) -> &mut DecisionMessage {
        self.shown.as_mut().unwrap()
    }

    fn request(&mut self) -> &mut RequestRow {
        self.request.as_mut().unwrap()
    }

    fn account(&mut self) -> &mut AccountBinding {
        self.account.as_mut().unwrap()
    }
}

fn request(body: &str, kind: &str) -> RequestRow {
    let agent: AgentId = "coder".parse().unwrap();
    RequestRow {
        id: "r-1".into(),
        kind: kind.into(),
        session: SessionKey::new(&agent, SessionKind::Channel, "work"),
        agent,
        channel: Some("work".parse().unwrap()),
        body: body.into(),
        sha256: body_digest(body),
        reason: "because".into(),
        floor: Level::Red,
        level: Level::Red,
        why: Vec::new(),
        state: RequestState::Waiting,
        scope: Scope::Agent,
        created_at: 1,
        expires_at: NOW + 1,
        decided_by: None,
        decided_at: None,
        approved: None,
        used_at: None,
        ended_at: None,
        result: None,
        revoked_at: None,
        revoked_by: None,
        asks_sysadmin: false,
    }
}

type Change = fn(&mut Case);

fn id() -> String {
    "r-1".into()
}

/// Everything that alone makes a decision impossible, with its refusal, in the order of the checks.
fn faults() -> Vec<(&'static str, Change, Refusal)> {
    vec![
        ("a program", |case| case.attempt.is_bot = true, Refusal::Program),
        (
            "turned off",
            |case| case.settings.bridges = DecidingBridges::Only(vec!["slack".into()]),
            Refusal::Off,
        ),
        ("an account that flock never saw", |case| case.account = None, Refusal::NotBound),
        (
            "an approver's name that a first message got",
            |case| case.account().bound_by = None,
            Refusal::NotBound,
        ),
        (
            "bound to somebody who is no approver",
            |case| case.account().person = Party::human("eve"),
            Refusal::NotApprover(Party::human("eve")),
        ),
        ("no approvers", |case| case.approvers.clear(), Refusal::NotApprover(Party::human("ann"))),
        (
            "bound to an agent that is listed",
            |case| {
                case.account().person = "coder".parse().unwrap();
                case.approvers.push("coder".parse().unwrap());
            },
            Refusal::NotApprover("coder".parse().unwrap()),
        ),
        (
            "bound to flock itself",
            |case| {
                case.account().person = Party::System;
                case.approvers.push(Party::System);
            },
            Refusal::NotApprover(Party::System),
        ),
        ("a forwarded message", |case| case.attempt.is_forwarded = true, Refusal::Forwarded),
        ("no such code", |case| case.shown = None, Refusal::UnknownCode),
        ("a code of another bridge", |case| case.shown().bridge = "slack".into(), Refusal::UnknownCode),
        (
            "another message",
            |case| case.attempt.place = Place::Message { external: "room", message: "m2" },
            Refusal::WrongPlace(id()),
        ),
        (
            "the message's id in another channel",
            |case| case.attempt.place = Place::Message { external: "elsewhere", message: "m1" },
            Refusal::WrongPlace(id()),
        ),
        ("a message that is not recorded", |case| case.shown().message = None, Refusal::WrongPlace(id())),
        (
            "the code in another channel",
            |case| case.attempt.place = Place::Channel { external: "elsewhere", channel: "elsewhere" },
            Refusal::WrongPlace(id()),
        ),
        ("a paused link", |case| case.shown().link_state = LinkState::Paused, Refusal::LinkStopped(id())),
        (
            "an archived channel",
            |case| case.shown().link_state = LinkState::Archived,
            Refusal::LinkStopped(id()),
        ),
        ("a message that is not whole", |case| case.shown().code = None, Refusal::NotWhole(id())),
        ("a request that is gone", |case| case.request = None, Refusal::Over { id: id(), state: "removed" }),
        (
            "another request",
            |case| case.request().id = "r-2".into(),
            Refusal::Over { id: id(), state: "removed" },
        ),
        (
            "a command on the host",
            |case| {
                case.request = Some(request(COMMAND, "command"));
                case.shown().sha256 = body_digest(COMMAND);
            },
            Refusal::HostCommand(id()),
        ),
        (
            "a command on the host under another kind",
            |case| {
                case.request = Some(request(COMMAND, "egress"));
                case.shown().sha256 = body_digest(COMMAND);
            },
            Refusal::HostCommand(id()),
        ),
        (
            "a body that can't be read",
            |case| {
                case.request = Some(request("{}", "egress"));
                case.shown().sha256 = body_digest("{}");
            },
            Refusal::HostCommand(id()),
        ),
        ("another digest was shown", |case| case.shown().sha256 = body_digest("x"), Refusal::Changed(id())),
        (
            "the body was changed since",
            |case| case.request().body = BODY.replace("a.example", "b.example"),
            Refusal::Changed(id()),
        ),
        (
            "the body and its digest were changed since",
            |case| {
                case.request().body = BODY.replace("a.example", "b.example");
                case.request().sha256 = body_digest(&case.request().body);
            },
            Refusal::Changed(id()),
        ),
        (
            "an approval that comes late",
            |case| case.attempt.at = Some(NOW - MAX_APPROVAL_AGE - 1),
            Refusal::Late(id()),
        ),
    ]
}

#[test]
fn a_bound_approver_decides_what_was_shown() {
    let places = [
        Place::Message { external: "room", message: "m1" },
        Place::Channel { external: "room", channel: "room" },
        Place::Channel { external: "thread", channel: "room" },
        Place::Direct,
    ];
    for place in places {
        for verb in Verb::ALL {
            for at in [None, Some(NOW), Some(NOW + 1000), Some(NOW - MAX_APPROVAL_AGE), Some(i64::MAX)] {
                let mut case = Case::new();
                case.attempt = Attempt { place, verb, at, ..case.attempt };
                assert_eq!(case.judge(), Ok(()), "{place:?} {verb:?} {at:?}");
            }
        }
    }
}

#[test]
fn each_single_fault_is_refused_for_its_reason() {
    for (name, change, refusal) in faults() {
        let mut case = Case::new();
        change(&mut case);
        assert_eq!(case.judge(), Err(refusal), "{name}");
    }
}

#[test]
fn no_fault_is_made_good_by_another_one() {
    let faults = faults();
    for (one, change, _) in &faults {
        for (other, also, _) in &faults {
            let mut case = Case::new();
            // A fault that replaces a part comes first, so that the other one finds it.
            let has_all =
                |case: &Case| case.shown.is_some() && case.request.is_some() && case.account.is_some();
            change(&mut case);
            if has_all(&case) {
                also(&mut case);
            }
            assert!(case.judge().is_err(), "{one} and {other}");
        }
    }
}

#[test]
fn somebody_who_may_not_decide_learns_nothing_about_requests() {
    let strangers: [Change; 3] = [
        |case| case.account = None,
        |case| case.account().bound_by = None,
        |case| case.account().person = Party::human("eve"),
    ];
    for change in strangers {
        let mut known = Case::new();
        change(&mut known);
        let mut unknown = Case::new();
        change(&mut unknown);
        (unknown.shown, unknown.request) = (None, None);
        assert_eq!(known.judge(), unknown.judge());
    }
}

#[test]
fn only_a_waiting_request_is_decided() {
    for state in RequestState::ALL {
        let mut case = Case::new();
        case.request().state = state;
        let expected = match state {
            RequestState::Waiting => Ok(()),
            _ => Err(Refusal::Over { id: id(), state: state.as_str() }),
        };
        assert_eq!(case.judge(), expected, "{state:?}");
        // A grant that was revoked could be given back by a second approval on the command line.
        let mut case = Case::new();
        case.request().state = state;
        (case.request().revoked_at, case.request().revoked_by) = (Some(1), Some("human:owner".into()));
        assert_eq!(case.judge().is_ok(), state == RequestState::Waiting);
    }
}

#[test]
fn a_late_denial_still_denies() {
    let mut case = Case::new();
    case.attempt.at = Some(1);
    case.attempt.verb = Verb::Deny;
    assert_eq!(case.judge(), Ok(()));
}

#[test]
fn commands_on_the_host_are_decided_if_the_owner_turned_it_on() {
    let mut case = Case::new();
    case.settings.bridge_host_commands = true;
    case.request = Some(RequestRow { kind: "command".into(), ..request(BODY, "egress") });
    assert_eq!(case.judge(), Ok(()));
}

#[test]
fn a_list_of_bridges_leaves_only_those() {
    let mut case = Case::new();
    case.settings.bridges = DecidingBridges::Only(vec!["matrix".into()]);
    assert_eq!(case.judge(), Ok(()));
    case.settings.bridges = DecidingBridges::Only(Vec::new());
    assert_eq!(case.judge(), Err(Refusal::Off));
}

#[test]
fn answers_of_those_who_guess_are_counted_and_mistakes_of_approvers_are_not() {
    for (name, _, refusal) in faults() {
        let expected = matches!(
            refusal,
            Refusal::Off
                | Refusal::NotBound
                | Refusal::NotApprover(_)
                | Refusal::Forwarded
                | Refusal::UnknownCode
                | Refusal::WrongPlace(_)
        );
        assert_eq!(refusal.is_wrong_answer(), expected, "{name}");
    }
}

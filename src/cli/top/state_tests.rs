use super::*;

fn agent(id: &str, state: &str, cost: u64) -> Agent {
    Agent { id: id.to_owned(), state: state.to_owned(), hours: vec![cost], ..Agent::default() }
}

fn top() -> Top {
    let mut top = Top::default();
    let agents = vec![agent("a", "idle", 5), agent("b", "frozen", 9), agent("c", "asking", 1)];
    top.take(Snapshot { agents, ..Snapshot::default() });
    top
}

fn press(top: &mut Top, key: char) -> Option<Effect> {
    top.on_key(KeyCode::Char(key).into(), 5)
}

fn order(top: &Top) -> String {
    top.agents().iter().map(|agent| agent.id.as_str()).collect()
}

#[test]
fn the_sorting_changes_and_the_selection_stays() {
    let mut top = top();
    assert_eq!((order(&top).as_str(), top.selected.as_deref()), ("cba", Some("c")));
    press(&mut top, 's');
    assert_eq!((order(&top).as_str(), top.place()), ("abc", Some(2)));
    press(&mut top, 's');
    assert_eq!(order(&top), "bac");
    press(&mut top, 'S');
    assert_eq!(order(&top), "cab");
    press(&mut top, 'j');
    assert_eq!(top.selected.as_deref(), Some("a"));
    // An agent that is gone is not selected any more.
    top.take(Snapshot { agents: vec![agent("b", "idle", 0)], ..Snapshot::default() });
    assert_eq!(top.selected.as_deref(), Some("b"));
}

#[test]
fn the_mouse_selects_and_scrolls() {
    let mut top = top();
    top.on_click(Some(2));
    assert_eq!(top.selected.as_deref(), Some("a"));
    for line in [Some(3), None] {
        top.on_click(line);
        assert_eq!(top.selected.as_deref(), Some("a"), "nobody is at {line:?}");
    }
    top.on_wheel(true);
    assert_eq!(top.place(), Some(2), "the last one stays");
    top.on_wheel(false);
    assert_eq!(top.selected.as_deref(), Some("b"));
    let channels = ["one", "two"].map(|id| (id.to_owned(), String::new())).to_vec();
    top.view = View::Channels { channels, at: 0 };
    top.on_wheel(true);
    top.on_wheel(true);
    assert_eq!(press(&mut top, '\n'), None);
    assert!(matches!(top.view, View::Channels { at: 1, .. }), "{top:?}");
    top.on_click(Some(0));
    assert!(matches!(top.view, View::Channels { at: 0, .. }), "{top:?}");
}

#[test]
fn all_agents_are_frozen_only_after_a_yes() {
    let mut top = top();
    assert_eq!(press(&mut top, 'F'), None);
    assert_eq!(press(&mut top, 'n'), None);
    assert_eq!(top.view, View::Team);
    press(&mut top, 'F');
    assert_eq!(press(&mut top, 'y'), Some(Effect::FreezeAll { freeze: true }));
    press(&mut top, 'j');
    assert_eq!(press(&mut top, 'f'), Some(Effect::Freeze { agent: "b".to_owned(), freeze: false }));
}

#[test]
fn a_request_is_approved_only_after_its_last_line_was_shown_and_with_its_digest() {
    let mut top = top();
    let rows = (0..20).map(|at| PagerRow { name: "what      ".to_owned(), text: at.to_string() }).collect();
    top.view = View::Request(RequestView {
        id: "r-1".to_owned(),
        sha256: "digest".to_owned(),
        rows,
        can_be_approved: true,
        top: 0,
        is_read: false,
        asks: false,
    });
    let settle = |top: &mut Top| {
        let View::Request(request) = &mut top.view else { panic!("{top:?}") };
        request.settle(40, 5);
        (request.top, request.is_read)
    };
    assert_eq!(settle(&mut top), (0, false));
    assert_eq!((press(&mut top, 'a'), press(&mut top, 'y')), (None, None));
    for _ in 0..9 {
        press(&mut top, ' ');
        settle(&mut top);
    }
    assert_eq!(settle(&mut top), (15, true));
    // Without a yes nothing happens, and any other key is a no.
    assert_eq!((press(&mut top, 'y'), press(&mut top, 'a'), press(&mut top, 'x')), (None, None, None));
    assert_eq!((press(&mut top, 'y'), press(&mut top, 'a')), (None, None));
    let approved = Effect::Approve { id: "r-1".to_owned(), sha256: "digest".to_owned() };
    assert_eq!(press(&mut top, 'y'), Some(approved));
}

#[test]
fn nothing_selected_has_no_effect() {
    let mut top = Top::default();
    for key in ['f', 'F', 'c', 'a', 'j', 'k', 's', 'S'] {
        assert_eq!(press(&mut top, key), None, "{key}");
    }
    assert_eq!(press(&mut top, 'q'), Some(Effect::Quit));
}

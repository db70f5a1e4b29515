//! A bridge of two gateways: one of them is connected, and the other one connects when that one is gone.

use super::{LIMIT, Pair, quiet_home};
use crate::support::home::TempHome;
use crate::support::matrix_server::{ALIAS, MatrixServer, TOKEN};
use crate::support::wait_until;
use crate::team::stage::said;

/// The texts that were said here and that the room shows, in its order.
fn shown(server: &MatrixServer) -> Vec<String> {
    let sent = server.sent();
    let bodies = sent.iter().filter_map(|content| content["body"].as_str());
    bodies.filter_map(|body| Some(body.split_once("] out ")?.1.to_owned())).collect()
}

/// The texts that were said in the room and that the channel has, in its order.
fn taken(home: &TempHome) -> Vec<String> {
    let texts = said(home, "open").into_iter();
    texts.filter_map(|(_, text)| Some(text.strip_prefix("in ")?.to_owned())).collect()
}

#[test]
fn one_gateway_is_connected_and_after_its_death_another_one_shows_and_takes_each_message_once() {
    let Some(first) = quiet_home() else { return };
    let server = MatrixServer::start();
    let args = ["bridge", "add", "matrix", "--homeserver", server.url(), "--token-file", "-"];
    first.flock_with_input(args, TOKEN).ok();
    first.flock(["bridge", "link", "open", &format!("matrix:{ALIAS}")]).ok();
    // The homeserver knows a repeated message only by the same token.
    let token = first.file("secrets/bridge-matrix");
    let pair = Pair::of(first, |second| {
        std::fs::copy(token, second.file("secrets/bridge-matrix")).unwrap();
    });
    let (first, _second) = pair.start_with("bridge", "matrix");
    let post = |text: &str| {
        pair.second.flock(["channel", "post", "open", &format!("out {text}")]).ok();
    };
    let say = |text: &str| server.say(&format!("in {text}"));
    let until_shown = |text: &str| {
        wait_until(&format!("the room shows {text:?}"), LIMIT, || {
            let all = shown(&server);
            let is_there = all.iter().any(|one| one == text);
            is_there.then_some(()).ok_or_else(|| format!("{all:?}\n{}", pair.logs()))
        });
    };
    let until_taken = |text: &str| {
        wait_until(&format!("the channel has {text:?}"), LIMIT, || {
            let all = taken(&pair.second);
            let is_there = all.iter().any(|one| one == text);
            is_there.then_some(()).ok_or_else(|| format!("{all:?}\n{}", pair.logs()))
        });
    };
    // What is posted at the other gateway is shown by the one that is connected.
    post("before");
    until_shown("before");
    say("before");
    until_taken("before");

    // The room shows this one, and the gateway dies before it hears of that. It may have taken what was said there.
    server.be_silent(true);
    post("begun");
    until_shown("begun");
    say("begun");
    first.kill();
    server.be_silent(false);
    post("meanwhile");
    say("meanwhile");
    pair.until_holds(&pair.second, "bridge", "matrix");
    until_shown("meanwhile");
    until_taken("meanwhile");
    post("after");
    until_shown("after");
    say("after");
    until_taken("after");

    let all = ["before", "begun", "meanwhile", "after"];
    assert_eq!(shown(&server), all, "{}", pair.logs());
    assert_eq!(taken(&pair.second), all, "{}", pair.logs());
    let attempts = all.map(|text| server.attempts(&format!("out {text}")));
    assert_eq!(attempts, [1, 2, 1, 1], "{}", pair.logs());
    assert_eq!(server.most_followers(), 1, "{}", pair.logs());
}

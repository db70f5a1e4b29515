//! A gateway that is ended while a frozen agent's answer waits for its thaw.

use super::provider::{is_at_rest, with_agents};
use crate::support::model_server::{ModelServer, Reply};
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, log_text, said, transcripts, until_said};

const WORDS: &str = "the long awaited words";

#[test]
fn an_answer_that_waits_for_a_thaw_survives_a_restart_and_is_posted_once() {
    let model = ModelServer::start();
    model.always(Reply::text("understood"));
    let home = with_agents(&model, &["ada"]);
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "ada"]).ok();
    let served = Served::start(&home);
    wait_until("it has seen the channel", LIMIT, || {
        let count = model.requests().len();
        if count > 0 { Ok(()) } else { Err(log_text(&home)) }
    });
    is_at_rest(&home);
    let asked = model.requests().len();
    let answer = model.reply_held(WORDS);
    home.flock(["channel", "post", "work", "please speak"]).ok();
    wait_until("its model is asked", LIMIT, || {
        if model.requests().len() > asked { Ok(()) } else { Err(log_text(&home)) }
    });
    home.flock(["freeze", "ada"]);
    answer.notify_one();
    wait_until("it has answered", LIMIT, || {
        let texts = transcripts(&home, "ada").join("\n");
        if texts.contains(WORDS) { Ok(()) } else { Err(texts + &log_text(&home)) }
    });
    let is_said = || said(&home, "work").iter().filter(|(author, _)| author == "ada").count();
    assert_eq!(is_said(), 0, "it is frozen");
    served.stop();
    let served = Served::start(&home);
    assert_eq!(is_said(), 0, "it is frozen still");
    home.flock(["thaw", "ada"]);
    until_said(&home, "work", "ada", WORDS);
    is_at_rest(&home);
    served.stop();
    let _served = Served::start(&home);
    is_at_rest(&home);
    assert_eq!(is_said(), 1);
}

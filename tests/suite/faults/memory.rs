//! Memory that a load has taken and that is free again.

use crate::support::model_server::{ModelServer, Reply};
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served};

use super::provider::{is_at_rest, with_agents};

/// Bytes of a model's text that no answer may have.
const GIANT: usize = 40 << 20;

/// KiB that a gateway may have more after it than before: lists, caches and statements that were not needed until then.
const ROOM: u64 = 6 << 10;

/// KiB that are the gateway's own, without the pages of the program that it has looked at.
fn own(gateway: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn what_a_giant_answer_took_is_given_back() {
    let model = ModelServer::start();
    model.always(Reply::text("understood"));
    let home = with_agents(&model, &["ada"]);
    let gateway = Served::start(&home);
    home.flock(["chat", "ada", "hello"]).ok();
    is_at_rest(&home);
    let before = own(&gateway);
    let text = "word ".repeat(GIANT / 5);
    let pieces: Vec<&str> =
        text.as_bytes().chunks(32 << 10).map(|part| str::from_utf8(part).unwrap()).collect();
    for answer in [Reply::pieces(&[&text]), Reply::pieces(&pieces)] {
        model.always(answer);
        let refused = home.flock(["chat", "ada", "tell me all"]);
        assert_ne!(refused.code, 0, "{refused:?}");
        is_at_rest(&home);
        wait_until("the memory is given back", LIMIT, || {
            let after = own(&gateway);
            (after <= before + ROOM)
                .then_some(())
                .ok_or_else(|| format!("{before} KiB before, {after} after"))
        });
    }
}

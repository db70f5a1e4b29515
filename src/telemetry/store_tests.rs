use serde_json::json;

use super::*;
use crate::config::starter;
use crate::home::{Home, atomic};
use crate::telemetry::{self, Cause, Resource, SpanKind, bounded};

/// A telemetry whose home sends to a collector, unless it is off.
fn telemetry(dir: &tempfile::TempDir, is_on: bool) -> Arc<Telemetry> {
    let home = Home::new(dir.path().to_owned(), None);
    home.make_folders().unwrap();
    let mut document = starter::document(&home, Some(&"script/demo".parse().unwrap()), "token", 4000);
    if is_on {
        let otlp = json!({"otlp": {"endpoint": "http://127.0.0.1:9"}});
        document["plugins"]["entries"]["flock"]["config"]["telemetry"] = otlp;
    }
    atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
    Telemetry::new(Arc::new(Live::open(home).unwrap()))
}

#[test]
fn spans_that_find_no_room_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let telemetry = telemetry(&dir, true);
    let above = telemetry.enter(None).unwrap();
    for _ in 0..10_000 {
        above.begin(SpanKind::Internal, || "turn".to_owned()).end();
    }
    let statistics = telemetry.statistics();
    assert_eq!((statistics.waiting, statistics.lost.full), (8_192, 10_000 - 8_192));
    assert_eq!(telemetry.take(512, usize::MAX).len(), 512);
    above.begin(SpanKind::Internal, || "turn".to_owned()).end();
    assert_eq!(telemetry.statistics().waiting, 8_192 - 512 + 1);
}

#[tokio::test]
async fn work_inside_of_a_span_is_below_it_and_nothing_is_recorded_while_it_is_off() {
    let dir = tempfile::tempdir().unwrap();
    let off = telemetry(&dir, false);
    assert!(off.enter(None).is_none() && telemetry::current().is_none());
    assert!(telemetry::begin(SpanKind::Internal, || panic!("no name is made")).is_none());

    let telemetry = telemetry(&dir, true);
    let above = telemetry.enter(None).unwrap();
    let outer = above.begin(SpanKind::Internal, || "outer".to_owned());
    let inside = async {
        let mut inner = telemetry::begin(SpanKind::Client, || "inner".to_owned()).unwrap();
        inner.content("text", || bounded("not asked for"));
        inner.fail("bad", || "not asked for".to_owned());
        inner.end();
        let headers = telemetry::current().unwrap().propagated();
        assert_eq!(headers[0].0, "traceparent");
    };
    telemetry::scoped(Some(outer.current()), inside).await;
    drop(outer);
    let spans = telemetry.take(10, usize::MAX);
    assert_eq!(spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["inner", "outer"]);
    assert_eq!(spans[0].parent.as_ref().unwrap().span_id(), spans[1].context.span_id());
    assert!(spans[0].attributes.is_empty() && spans[0].failure.as_ref().unwrap().message.is_none());
    // A span that is given up says so.
    assert_eq!(spans[1].failure.as_ref().unwrap().code, "cancelled");
    let resource = Resource { service: "flock".into(), instance: "i".into() };
    let body = telemetry::traces_request(&resource, spans, &telemetry::Redactor::default());
    assert!(!String::from_utf8_lossy(&body).contains("not asked for"));
}

#[test]
fn an_unsampled_trace_is_not_recorded_and_passed_on_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let telemetry = telemetry(&dir, true);
    let caller =
        TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", None).unwrap();
    let above = telemetry.enter(Some(caller)).unwrap();
    let span = above.begin(SpanKind::Server, || "turn".to_owned());
    assert!(span.current().context().unwrap().traceparent().ends_with("-00"));
    span.end();
    assert_eq!(telemetry.waiting(), 0);
}

#[test]
fn causes_are_found_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let telemetry = telemetry(&dir, true);
    let post = |seq| Cause::Post("build".parse().unwrap(), seq);
    let (one, two) = (TraceContext::root(), TraceContext::root());
    telemetry.note_cause(post(2), two.clone());
    telemetry.note_cause(post(1), one.clone());
    let found: Vec<TraceContext> =
        telemetry.causes((1..=3).map(post)).into_iter().map(|(context, _)| context).collect();
    assert_eq!(found, [one, two]);
}

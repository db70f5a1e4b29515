//! The task that sends spans and metrics. It is the only one that waits for a collector.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client::{CollectorClient, Delivery, Signal};
use super::retry;
use crate::config::{Live, OtlpSettings};
use crate::home::Home;
use crate::provider::key;
use crate::sync::lock;
use crate::telemetry::{Loss, Redactor, Resource, Span, Telemetry, metrics_request, traces_request};

/// Time for which spans are collected before they are sent.
const COLLECT: Duration = Duration::from_secs(1);
/// Number of spans that are sent without waiting for more, and at most in one request.
const BATCH: usize = 512;
/// Most bytes of spans in one request, as they are counted in memory.
const BATCH_BYTES: usize = 4 << 20;
/// Time that sending what is left may take at the end of the gateway.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends what is recorded until the gateway stops.
pub(crate) struct Exporter {
    live: Arc<Live>,
    telemetry: Arc<Telemetry>,
    client: CollectorClient,
    instance: String,
    /// The endpoint that has no place for metrics.
    without_metrics: Mutex<Option<String>>,
}

impl Exporter {
    /// Makes an exporter for the gateway of the home with this instance id.
    #[must_use]
    pub(crate) fn new(live: Arc<Live>, telemetry: Arc<Telemetry>, instance: String) -> Self {
        Self { live, telemetry, client: CollectorClient::new(), instance, without_metrics: Mutex::default() }
    }

    /// Sends until `stop` is cancelled. While nothing is recorded, it waits without a timer.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let mut metrics_at = Instant::now();
        while stop.run_until_cancelled(self.wait(metrics_at)).await.is_some() {
            let Some(settings) = self.telemetry.settings() else {
                // It was switched off.
                self.telemetry.forget();
                continue;
            };
            let spans = self.telemetry.take(BATCH, BATCH_BYTES);
            if !spans.is_empty() && self.send_spans(&settings, spans, stop).await.is_none() {
                return;
            }
            if Instant::now() >= metrics_at {
                self.send_metrics(&settings).await;
                metrics_at = Instant::now() + settings.metrics_interval;
            }
        }
    }

    /// Sends what is left once the turns have ended, after the task of [`Self::run`]. Both together take at most
    /// [`FLUSH_TIMEOUT`], whatever the collector does; what it has not taken then is lost.
    pub(crate) async fn finish(&self, run: JoinHandle<()>) {
        let work = async {
            // It ends with the request that it is sending.
            drop(run.await);
            let Some(settings) = self.telemetry.settings() else { return };
            while self.telemetry.waiting() > 0 {
                let spans = self.telemetry.take(BATCH, BATCH_BYTES);
                let count = spans.len();
                let body = self.encode(&settings, spans).await;
                let delivery = self.client.send(self.home(), &settings, Signal::Traces, body).await;
                if !self.note(delivery, count) {
                    return;
                }
            }
            self.send_metrics(&settings).await;
        };
        let is_done = tokio::time::timeout(FLUSH_TIMEOUT, work).await.is_ok();
        let left = self.telemetry.waiting();
        if !is_done || left > 0 {
            tracing::warn!(left, "the collector did not take the last spans before the gateway's end");
        }
    }

    /// Waits until there is something to send.
    async fn wait(&self, metrics_at: Instant) {
        loop {
            if self.telemetry.waiting() > 0 {
                // A moment for more of the same turn, unless much waits already.
                let more = async {
                    while self.telemetry.waiting() < BATCH {
                        self.telemetry.recorded().await;
                    }
                };
                drop(tokio::time::timeout(COLLECT, more).await);
                return;
            }
            if self.telemetry.has_new_metrics() {
                // A span that comes meanwhile goes first.
                if tokio::time::timeout_at(metrics_at, self.telemetry.recorded()).await.is_err() {
                    return;
                }
            } else {
                self.telemetry.recorded().await;
            }
        }
    }

    /// Sends spans until the collector takes or refuses them, or the deadline is over. Returns `None` if the gateway
    /// stops meanwhile.
    async fn send_spans(
        &self,
        settings: &Arc<OtlpSettings>,
        spans: Vec<Span>,
        stop: &CancellationToken,
    ) -> Option<()> {
        let count = spans.len();
        let body = self.encode(settings, spans).await;
        let began = Instant::now();
        let mut failures = 0;
        loop {
            // The newest settings: a person may just have corrected them.
            let Some(settings) = self.telemetry.settings() else { return Some(()) };
            let delivery = self.client.send(self.home(), &settings, Signal::Traces, body.clone()).await;
            // A stop lets the request in progress end, within the time that `finish` has, and makes no further one.
            if stop.is_cancelled() {
                self.note(delivery, count);
                return None;
            }
            let Delivery::Later { problem, after } = delivery else {
                self.note(delivery, count);
                return Some(());
            };
            failures += 1;
            let Some(wait) = retry::next(failures, after, began.elapsed(), rand::random()) else {
                self.give_up(&problem, count);
                return Some(());
            };
            self.note_error(&problem);
            // Cut short by a stop, the wait is followed by the last attempt.
            stop.run_until_cancelled(tokio::time::sleep(wait)).await;
        }
    }

    async fn send_metrics(&self, settings: &OtlpSettings) {
        let Some((metrics, times)) = self.telemetry.changed_metrics() else { return };
        if lock(&self.without_metrics).as_ref() == Some(&settings.endpoint) {
            return;
        }
        let body = metrics_request(&self.resource(settings), &metrics, times);
        match self.client.send(self.home(), settings, Signal::Metrics, body).await {
            Delivery::Taken { .. } => self.telemetry.note_metrics_sent(),
            // The next request holds the same values and newer ones, so nothing is lost.
            Delivery::Later { problem, .. } => {
                self.telemetry.keep_metrics();
                self.note_error(&problem);
            }
            // Many take traces alone, which is no fault.
            Delivery::Refused { problem, status: 404 | 405 | 501 } => {
                tracing::debug!(problem, "the collector takes no metrics");
                *lock(&self.without_metrics) = Some(settings.endpoint.clone());
            }
            Delivery::Refused { problem, .. } => self.note_error(&format!("metrics: {problem}")),
        }
    }

    /// Encodes spans on a blocking thread, because contents may be long and keys are searched for in them.
    async fn encode(&self, settings: &Arc<OtlpSettings>, spans: Vec<Span>) -> Vec<u8> {
        let (resource, live, wanted) = (self.resource(settings), self.live.clone(), settings.contents);
        let encoded = tokio::task::spawn_blocking(move || {
            let redactor = if wanted { redactor(&live) } else { Redactor::default() };
            traces_request(&resource, spans, &redactor)
        });
        encoded.await.unwrap_or_default()
    }

    /// Counts what a collector made of spans. Returns `true` if it took the request.
    fn note(&self, delivery: Delivery, spans: usize) -> bool {
        let spans_count = u64::try_from(spans).unwrap_or(u64::MAX);
        match delivery {
            Delivery::Taken { rejected, message } => {
                let rejected = rejected.min(spans_count);
                self.telemetry.note_sent(spans_count - rejected);
                if rejected > 0 {
                    self.telemetry.lose(Loss::Rejected, rejected);
                    tracing::warn!(rejected, message, "the collector rejected spans");
                }
                true
            }
            Delivery::Later { problem, .. } | Delivery::Refused { problem, .. } => {
                self.give_up(&problem, spans);
                false
            }
        }
    }

    fn give_up(&self, problem: &str, spans: usize) {
        self.telemetry.lose(Loss::Undelivered, u64::try_from(spans).unwrap_or(u64::MAX));
        self.note_error(problem);
    }

    /// Notes a problem. It is logged once until the collector takes something again.
    fn note_error(&self, problem: &str) {
        if self.telemetry.note_error(problem.to_owned()) {
            tracing::warn!(problem, "the collector does not take spans");
        }
    }

    fn resource(&self, settings: &OtlpSettings) -> Resource {
        Resource { service: settings.service.clone(), instance: self.instance.clone() }
    }

    fn home(&self) -> &Home {
        self.live.home()
    }
}

/// Returns what removes the secrets of the home. They are read now, so that a new one is known.
fn redactor(live: &Live) -> Redactor {
    let config = live.current();
    let mut secrets = vec![config.token.clone()];
    let references = config.providers.values().filter_map(|provider| provider.api_key.as_deref());
    let headers = config.otlp.iter().flat_map(|otlp| &otlp.headers).map(|(_, reference)| reference.as_str());
    for reference in references.chain(headers) {
        secrets.extend(key::named(live.home(), reference).ok().map(|key| key.expose().to_owned()));
    }
    secrets.extend(key::in_environment());
    secrets.extend(crate::config::secret::all(live.home()));
    Redactor::new(secrets.iter().map(String::as_str))
}

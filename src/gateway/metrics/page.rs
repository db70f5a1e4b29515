//! A page of figures in the OpenMetrics format.

use std::fmt;
use std::hash::Hash;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Labels;

/// The media type of a page.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A page of figures. The name of each begins with `flock_`.
pub(crate) struct Page(Registry);

impl Default for Page {
    fn default() -> Self {
        Self(Registry::with_prefix("flock"))
    }
}

impl Page {
    /// Adds figures of the moment, each with its labels.
    pub(crate) fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        figures: impl IntoIterator<Item = (Labels<N>, i64)>,
    ) {
        self.fill(name, help, figures, |gauge: &Gauge, value| {
            gauge.set(value);
        });
    }

    /// Adds one figure of the moment.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: i64) {
        self.gauges(name, help, [([], value)]);
    }

    /// Adds figures that only grow until they begin anew. The format adds `_total` to the name.
    pub(crate) fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        figures: impl IntoIterator<Item = (Labels<N>, u64)>,
    ) {
        self.fill(name, help, figures, |counter: &Counter, value| {
            counter.inc_by(value);
        });
    }

    /// Adds amounts that only grow until they begin anew. The format adds `_total` to the name.
    pub(crate) fn amounts<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        figures: impl IntoIterator<Item = (Labels<N>, f64)>,
    ) {
        self.fill(name, help, figures, |counter: &Counter<f64, AtomicU64>, value| {
            counter.inc_by(value);
        });
    }

    fn fill<const N: usize, M, V>(
        &mut self,
        name: &str,
        help: &str,
        figures: impl IntoIterator<Item = (Labels<N>, V)>,
        put: impl Fn(&M, V),
    ) where
        M: EncodeMetric + TypedMetric + fmt::Debug + Default + Send + Sync + 'static,
    {
        let family = Family::<Labels<N>, M>::default();
        for (labels, value) in figures {
            put(&family.get_or_create(&labels), value);
        }
        self.family(name, help, &family);
    }

    /// Adds figures that are counted elsewhere.
    pub(super) fn family<S, M, C>(&mut self, name: &str, help: &str, family: &Family<S, M, C>)
    where
        S: EncodeLabelSet + Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static,
        M: EncodeMetric + TypedMetric + fmt::Debug + Send + Sync + 'static,
        C: MetricConstructor<M> + Clone + fmt::Debug + Send + Sync + 'static,
    {
        self.0.register(name, help, family.clone());
    }

    /// Returns the page.
    ///
    /// # Errors
    ///
    /// Returns an error if the library can't write a figure, which is a defect.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.0)?;
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_name_a_type_and_labels_whose_values_can_not_end_early() {
        let mut page = Page::default();
        page.gauge("agents", "Agents", 3);
        page.counters("model_calls", "Calls", [([("model", "a\"} 1\nflock_agents 9".to_owned())], 5)]);
        assert_eq!(
            page.text().unwrap(),
            "# HELP flock_agents Agents.\n# TYPE flock_agents gauge\nflock_agents 3\n\
             # HELP flock_model_calls Calls.\n# TYPE flock_model_calls counter\n\
             flock_model_calls_total{model=\"a\\\"} 1\\nflock_agents 9\"} 5\n# EOF\n"
        );
    }
}

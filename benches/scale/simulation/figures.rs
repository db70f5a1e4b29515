//! The figures of a run.

use std::time::Duration;

/// Figures by name. The unit is the last word of a name.
#[derive(Clone, Debug, Default)]
pub struct Figures(Vec<(String, f64)>);

impl Figures {
    pub fn set(&mut self, name: &str, value: f64) {
        self.0.push((name.to_owned(), value));
    }

    /// Adds the median, the 99th percentile and the maximum of durations in milliseconds.
    pub fn set_sample(&mut self, name: &str, mut durations: Vec<Duration>) {
        durations.sort_unstable();
        let at = |share: f64| {
            let place = (durations.len().saturating_sub(1) as f64 * share).round() as usize;
            durations.get(place).map_or(f64::NAN, |duration| duration.as_secs_f64() * 1000.0)
        };
        for (part, share) in [("median", 0.5), ("p99", 0.99), ("max", 1.0)] {
            self.set(&format!("{name}_{part}_ms"), at(share));
        }
        self.set(&format!("{name}_count"), durations.len() as f64);
    }

    pub fn all(&self) -> &[(String, f64)] {
        &self.0
    }
}

/// Returns the resident memory of this process in bytes.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

//! Metrics of the table of statistics: those of workers with the worker's number.

use std::fmt::Display;

use super::super::exposition::Exposition;
use crate::telemetry::table::{self, Statistic, View};

pub(super) fn write(view: &View<'_>, to: &mut Exposition) {
    for (family, parts) in table::families() {
        to.family(&family);
        parts.into_iter().for_each(|part| samples(part, view, to));
    }
}

fn samples(statistic: &Statistic, view: &View<'_>, to: &mut Exposition) {
    let labels = statistic.metric_labels().iter();
    let labels: Vec<(&str, &dyn Display)> = labels.map(|(name, value)| (*name, value as _)).collect();
    if !statistic.is_of_workers() {
        return to.sample(&labels, statistic.of_server(view));
    }
    for (worker, counters) in view.server.shared.counters.iter().enumerate() {
        let mut all: Vec<(&str, &dyn Display)> = vec![("worker", &worker)];
        for label in &labels {
            all.push(*label);
        }
        to.sample(&all, statistic.of_worker(counters));
    }
}

//! Prometheus' text exposition format, version 0.0.4.
//!
//! It is lines of text, and all label values are ours: a library for it would bring registries
//! and handles for counters that exist already.

use std::fmt::{Display, Write};

use crate::telemetry::table::Family;

/// Labels of a sample.
pub(super) type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

/// Writes families of metrics, one after the other.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
    family: &'static str,
    labels: &'static [&'static str],
}

impl Exposition {
    /// Begins a family. What follows belongs to it.
    pub fn family(&mut self, family: &Family) {
        let Family { name, kind, help, labels } = *family;
        (self.family, self.labels) = (name, labels);
        let kind = kind.name();
        // Writing to a String cannot fail, here and below.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A sample of the family.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, value);
    }

    /// A family of one sample without labels.
    pub fn one(&mut self, family: &Family, value: impl Display) {
        self.family(family);
        self.sample(&[], value);
    }

    /// A sample of a family of histograms: counts by bound, in order of the bounds, and the count
    /// of what is above all of them.
    pub fn histogram<B: Display>(
        &mut self,
        labels: Labels<'_>,
        bounds: impl Iterator<Item = (B, u64)>,
        above: u64,
        sum: impl Display,
    ) {
        let mut count = 0;
        for (bound, more) in bounds {
            count += more;
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            self.line("_bucket", &labels, count);
        }
        count += above;
        let mut with_bound = labels.to_vec();
        with_bound.push(("le", &"+Inf"));
        self.line("_bucket", &with_bound, count);
        self.line("_sum", labels, sum);
        self.line("_count", labels, count);
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) {
        let names = labels.iter().map(|(name, _)| *name).filter(|name| *name != "le");
        debug_assert!(names.eq(self.labels.iter().copied()), "{} has other labels", self.family);
        self.text.push_str(self.family);
        self.text.push_str(suffix);
        for (number, (name, label)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"{}\"", escaped(label));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

fn escaped(label: &dyn Display) -> String {
    let text = label.to_string();
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::table::Kind;

    #[test]
    fn text_is_as_prometheus_reads_it() {
        let mut exposition = Exposition::default();
        let family = |name, kind, labels, help| Family { name, kind, labels, help };
        exposition.one(&family("a_total", Kind::Counter, &[], "Help."), 3);
        exposition.family(&family("b", Kind::Gauge, &["x", "y"], "More help."));
        exposition.sample(&[("x", &1), ("y", &"a\"\\\n")], 0.5);
        exposition.family(&family("c_seconds", Kind::Histogram, &["x"], "Times."));
        let bounds = [(0.25, 2), (0.5, 1)].into_iter();
        exposition.histogram(&[("x", &1)], bounds, 4, 7.5);
        let expected = r#"# HELP a_total Help.
# TYPE a_total counter
a_total 3
# HELP b More help.
# TYPE b gauge
b{x="1",y="a\"\\\n"} 0.5
# HELP c_seconds Times.
# TYPE c_seconds histogram
c_seconds_bucket{x="1",le="0.25"} 2
c_seconds_bucket{x="1",le="0.5"} 3
c_seconds_bucket{x="1",le="+Inf"} 7
c_seconds_sum{x="1"} 7.5
c_seconds_count{x="1"} 7
"#;
        assert_eq!(exposition.finish(), expected);
    }
}

//! Prometheus' text format 0.0.4: families of samples, in the order in which they are added.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

/// What a family counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until it begins anew.
    Counter,
    Gauge,
    /// Buckets by their upper bound, with a sum and a count.
    Histogram,
}

/// A name, what it is, and its samples.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
}

/// Declares families, one a line.
macro_rules! families {
    ($($name:ident: $kind:ident $text:literal, $help:literal;)*) => {$(
        const $name: $crate::cli::output::format::prometheus::Family = {
            use $crate::cli::output::format::prometheus::{Family, Kind};
            Family { name: $text, help: $help, kind: Kind::$kind }
        };
    )*};
}

pub(crate) use families;

/// A label and its value.
pub type Label<'a> = (&'a str, &'a str);

/// A text for Prometheus. Every sample has the common labels first.
#[derive(Debug, Default)]
pub struct Exposition {
    common: Vec<(&'static str, String)>,
    text: String,
}

/// One family being written. Without a sample it leaves nothing.
pub struct Samples<'a> {
    exposition: &'a mut Exposition,
    family: Family,
    has_begun: bool,
}

impl Exposition {
    pub fn new(common: Vec<(&'static str, String)>) -> Self {
        Self { common, text: String::new() }
    }

    /// Begins a family. A name must not come twice.
    pub fn family(&mut self, family: Family) -> Samples<'_> {
        Samples { exposition: self, family, has_begun: false }
    }

    /// Adds a family with a sample for each of some things.
    pub fn each<'a, T, V: Display, const N: usize>(
        &mut self,
        family: Family,
        all: impl IntoIterator<Item = T>,
        sample: impl FnMut(T) -> ([(&'a str, Cow<'a, str>); N], Option<V>),
    ) {
        let mut samples = self.family(family);
        for (labels, value) in all.into_iter().map(sample) {
            samples.add(&labels.each_ref().map(|(name, label)| (*name, label.as_ref())), value);
        }
    }

    /// Adds another one behind this.
    pub fn append(&mut self, other: &Self) {
        self.text.push_str(&other.text);
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Samples<'_> {
    /// Adds a sample; one that is not known is left out.
    pub fn add(&mut self, labels: &[Label<'_>], value: Option<impl Display>) -> &mut Self {
        self.add_part("", labels, value)
    }

    /// Adds a part of a histogram: `_bucket`, `_sum` or `_count`.
    pub fn add_part(&mut self, part: &str, labels: &[Label<'_>], value: Option<impl Display>) -> &mut Self {
        let Some(value) = value else { return self };
        let Family { name, help, kind } = self.family;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let Exposition { common, text } = &mut *self.exposition;
        // Writing to a String cannot fail.
        if !self.has_begun {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            self.has_begun = true;
        }
        let _ = write!(text, "{name}{part}");
        let own = labels.iter().copied();
        let mut separator = '{';
        for (label, of_label) in common.iter().map(|(label, of_label)| (*label, of_label.as_str())).chain(own) {
            let _ = write!(text, "{separator}{label}=\"{}\"", escaped(of_label));
            separator = ',';
        }
        let end = if separator == ',' { "}" } else { "" };
        let _ = writeln!(text, "{end} {value}");
        self
    }
}

/// A label's value, as the format has it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Family = Family { name: "left_units", help: "Units left.", kind: Kind::Gauge };

    #[test]
    fn a_family_is_named_once_and_only_if_something_is_known() {
        let mut metrics = Exposition::new(vec![("layout", "sku".to_owned())]);
        metrics.family(LEFT).add(&[("activity", "1")], Some(5)).add(&[("activity", "2")], None::<u64>);
        metrics.family(Family { name: "other", ..LEFT }).add(&[], None::<u64>);
        let expected =
            "# HELP left_units Units left.\n# TYPE left_units gauge\nleft_units{layout=\"sku\",activity=\"1\"} 5\n";
        assert_eq!(metrics.text(), expected);
    }

    #[test]
    fn labels_are_escaped() {
        let mut metrics = Exposition::default();
        metrics.family(LEFT).add(&[("activity", "a\"b\\c\nd手")], Some(0)).add(&[], Some(-1));
        assert!(
            metrics.text().ends_with("left_units{activity=\"a\\\"b\\\\c\\nd手\"} 0\nleft_units -1\n"),
            "{}",
            metrics.text()
        );
    }
}

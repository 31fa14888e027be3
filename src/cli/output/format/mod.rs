//! The forms in which a result can be printed.

pub mod archive;
pub mod prometheus;
pub mod svg;
pub(in crate::cli::output) mod yaml;

use crate::names;

names! {
    /// How results are printed. Field names and order are the same in all but `table`.
    #[derive(Default, clap::ValueEnum)]
    pub enum Format {
        /// For people: aligned, cut to the terminal's width
        #[default]
        Table = "table",
        /// One JSON value, an object or an array
        Json = "json",
        /// One JSON object a line
        Jsonl = "jsonl",
        /// Comma separated, with a header
        Csv = "csv",
        /// Tab separated, with a header
        Tsv = "tsv",
        /// One YAML document
        Yaml = "yaml",
        /// Names or ids alone, one a line
        Name = "name",
        /// Metrics of inspect and reconcile, in Prometheus' text format
        Prometheus = "prometheus",
    }
}

impl Format {
    /// Whether a value may hold other values, so that errors can be objects too.
    pub fn is_nested(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl | Self::Yaml)
    }
}

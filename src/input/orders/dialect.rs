//! In what form rows stand in an input.

use std::path::Path;

/// The form of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// Comma separated, with a header
    Csv,
    /// Tab separated, with a header
    Tsv,
    /// One JSON object a line
    Jsonl,
    /// What `mysql --batch` prints: tabs, backslash escapes, NULL
    Mysql,
}

impl Dialect {
    /// What the name says, and where it says nothing, what the first line looks like.
    pub fn of(name: &str, first_line: &[u8]) -> Self {
        let extension = Path::new(name).extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("csv") => Self::Csv,
            Some("tsv" | "tab") => Self::Tsv,
            Some("jsonl" | "ndjson") => Self::Jsonl,
            _ if first_line.trim_ascii_start().starts_with(b"{") => Self::Jsonl,
            _ if first_line.contains(&b'\t') && !first_line.contains(&b',') => Self::Tsv,
            _ => Self::Csv,
        }
    }
}

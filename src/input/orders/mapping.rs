//! What an input calls our columns.

use std::str::FromStr;

use super::row::Column;

/// The input's names of columns, where they are not ours: `user=buyer_id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping(Vec<(Column, String)>);

impl Mapping {
    /// Several mappings as one.
    ///
    /// # Errors
    /// A column is mapped twice.
    pub fn joined<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Result<Self, String> {
        let mut all = Self::default();
        for (column, name) in parts.into_iter().flat_map(|part| &part.0) {
            if all.0.iter().any(|(known, _)| known == column) {
                return Err(format!("`{}` is mapped twice", column.name()));
            }
            all.0.push((*column, name.clone()));
        }
        Ok(all)
    }

    /// What the input calls a column.
    pub fn name(&self, column: Column) -> &str {
        self.0.iter().find(|(mapped, _)| *mapped == column).map_or(column.name(), |(_, name)| name)
    }

    /// The columns that were mapped.
    pub fn columns(&self) -> impl Iterator<Item = Column> {
        self.0.iter().map(|(column, _)| *column)
    }

    /// As one text, alike for mappings that are alike.
    pub fn text(&self) -> String {
        let renamed = self.0.iter().filter(|(column, name)| column.name() != name);
        let mut pairs: Vec<String> = renamed.map(|(column, name)| format!("{}={name}", column.name())).collect();
        pairs.sort();
        pairs.join(",")
    }
}

impl FromStr for Mapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = Vec::new();
        for pair in text.split(',') {
            let (ours, theirs) = pair.split_once('=').ok_or("expected OURS=THEIRS, as in `user=buyer_id`")?;
            let column = Column::named(ours).ok_or_else(|| {
                let known: Vec<&str> = Column::ALL.iter().map(|column| column.name()).collect();
                format!("`{ours}` is no column of ours: expected one of {}", known.join(", "))
            })?;
            if theirs.is_empty() {
                return Err(format!("`{pair}` names no column of the file"));
            }
            parts.push(Self(vec![(column, theirs.to_owned())]));
        }
        Self::joined(&parts)
    }
}

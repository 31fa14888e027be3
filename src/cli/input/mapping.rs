//! `--map`: what an input calls our columns.

use std::str::FromStr;

use crate::cli::input::column_names::is_same;

/// What an input calls our columns, if it is not our name: `user=buyer_id`. `quantity=` says that there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping(pub(crate) Vec<(String, String)>);

impl Mapping {
    /// Several mappings as one.
    ///
    /// # Errors
    /// A column is mapped twice.
    pub fn joined<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Result<Self, String> {
        let mut all = Self::default();
        for (ours, theirs) in parts.into_iter().flat_map(|part| &part.0) {
            if all.theirs(ours).is_some() {
                return Err(format!("`{ours}` is mapped twice"));
            }
            all.0.push((ours.clone(), theirs.clone()));
        }
        Ok(all)
    }

    /// As one text, equal for mappings that read the same rows. It is part of a job's stored digest.
    pub fn text(&self) -> String {
        let renamed = self.0.iter().filter(|(ours, theirs)| !theirs.is_empty() && !is_same(ours, theirs));
        let mut pairs: Vec<String> =
            renamed.map(|(ours, theirs)| format!("{ours}={}", theirs.to_lowercase())).collect();
        pairs.sort();
        pairs.join(",")
    }

    /// What the input calls a column, if that is mapped; empty if it has none.
    pub(crate) fn theirs(&self, ours: &str) -> Option<&str> {
        self.0.iter().find(|(mapped, _)| mapped == ours).map(|(_, theirs)| theirs.as_str())
    }
}

impl FromStr for Mapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = Vec::new();
        for pair in text.split(',') {
            let (ours, theirs) = pair.split_once('=').ok_or("expected OURS=THEIRS, as in `user=buyer_id`")?;
            parts.push(Self(vec![(ours.trim().to_owned(), theirs.trim().to_owned())]));
        }
        Self::joined(&parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_read_the_same_rows_have_one_text() {
        let text = |map: &str| map.parse::<Mapping>().unwrap().text();
        assert_eq!(text("user=Buyer,activity=SKU"), "activity=sku,user=buyer");
        assert_eq!(text("activity=sku,user=BUYER"), text("user=Buyer,activity=SKU"));
        assert_eq!(text("user=User,quantity="), "");
    }
}

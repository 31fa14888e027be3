//! Other names for the fields of rows, as the consumers of a feed know them. Tables keep their headings.

use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_yaml::{Mapping, Value};

/// Ours and theirs, in pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renaming(Vec<(String, String)>);

impl FromStr for Renaming {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pair = |pair: &str| {
            let (ours, theirs) = pair.split_once('=').ok_or("expected OURS=THEIRS, as in `user=userId`")?;
            let (ours, theirs) = (ours.trim(), theirs.trim());
            match ours.is_empty() || theirs.is_empty() || theirs.contains(char::is_control) {
                true => Err(format!("`{}` names no field: expected OURS=THEIRS", pair.escape_debug())),
                false => Ok((ours.to_owned(), theirs.to_owned())),
            }
        };
        text.split(',').map(pair).collect::<Result<_, String>>().map(Self)
    }
}

impl Renaming {
    /// Several as one, for rows of these fields.
    ///
    /// # Errors
    /// A field that no row has, or that is renamed twice, or two fields of one name.
    pub fn joined(parts: &[Self], fields: &[&str]) -> Result<Self, String> {
        let all = Self(parts.iter().flat_map(|part| part.0.iter().cloned()).collect());
        for (index, (ours, _)) in all.0.iter().enumerate() {
            if !fields.contains(&ours.as_str()) {
                return Err(format!("there is no field `{}`; there are {}", ours.escape_debug(), fields.join(", ")));
            }
            if all.0[..index].iter().any(|(other, _)| other == ours) {
                return Err(format!("`{ours}` is renamed twice"));
            }
        }
        let mut names: Vec<&str> = fields.iter().map(|field| all.name(field)).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("two fields would be called `{}`", pair[0].escape_debug())),
            None => Ok(all),
        }
    }

    /// What a field is called.
    pub fn name<'a>(&'a self, field: &'a str) -> &'a str {
        self.0.iter().find(|(ours, _)| ours == field).map_or(field, |(_, theirs)| theirs)
    }
}

/// A row as it is printed: with other names, and in a dry run with `dry_run: true`, so that nobody who keeps it takes it for a
/// change.
pub(crate) struct Printed<'a, T> {
    pub row: &'a T,
    pub renaming: Option<&'a Renaming>,
    pub is_dry: bool,
}

impl<T: Serialize> Serialize for Printed<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.renaming.is_none() && !self.is_dry {
            return self.row.serialize(serializer);
        }
        // A mapping of YAML keeps the order of its fields.
        let value = serde_yaml::to_value(self.row).map_err(serde::ser::Error::custom)?;
        let Value::Mapping(fields) = value else { return value.serialize(serializer) };
        let rename = |(name, value): (Value, Value)| match (name.as_str(), self.renaming) {
            (Some(text), Some(renaming)) => (renaming.name(text).into(), value),
            _ => (name, value),
        };
        let dry_run = self.is_dry.then(|| ("dry_run".into(), true.into()));
        fields.into_iter().map(rename).chain(dry_run).collect::<Mapping>().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[&str] = &["activity", "user", "quantity"];

    fn joined(parts: &[&str]) -> Result<Renaming, String> {
        let parts: Vec<Renaming> = parts.iter().map(|part| part.parse().unwrap()).collect();
        Renaming::joined(&parts, FIELDS)
    }

    #[test]
    fn fields_swap_their_names_but_never_share_one() {
        let swapped = joined(&["user=activity, activity=user", "quantity=数量"]).unwrap();
        assert_eq!(FIELDS.iter().map(|field| swapped.name(field)).collect::<Vec<_>>(), ["user", "activity", "数量"]);
        for wrong in ["user", "user=", "=x", "", "user=a,", "user=a\u{1b}b"] {
            assert!(wrong.parse::<Renaming>().is_err(), "{wrong}");
        }
    }
}

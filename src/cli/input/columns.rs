//! Names of columns: ours in any case, the input's own (`--map`), and names that are nearly ours, which are refused:
//! a `qty` that is ignored would count 1 a row.

use crate::cli::input::column_names::{is_near, is_same};
use crate::cli::input::error::InputError;
use crate::cli::input::mapping::Mapping;
use crate::cli::input::names::{did_you_mean, listed, quoted};

/// Ignored columns that are named; of more only the number.
const MOST_NAMED: usize = 10;

/// The columns that a reader looks for, by what the input calls them.
#[derive(Debug, Clone)]
pub struct Columns {
    wanted: Vec<WantedColumn>,
    /// Whether the command has `--map`.
    has_map: bool,
}

#[derive(Debug, Clone)]
struct WantedColumn {
    ours: &'static str,
    /// `None`: the input has no such column.
    theirs: Option<String>,
    is_required: bool,
    is_mapped: bool,
}

/// What a name of the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// The column of ours with that number.
    Ours(usize),
    /// Not quite the column with that number.
    Nearly(usize),
    Other,
}

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub struct FoundColumns {
    /// The index of each column of ours, if it is there.
    pub indexes: Vec<Option<usize>>,
    /// The names of all others.
    pub ignored: Vec<String>,
}

/// What is wrong with the names of an input, and a hint.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    pub hint: Option<String>,
}

impl Columns {
    /// Columns that must be there and columns that may be, numbered in this order.
    ///
    /// # Errors
    /// Usage: the mapping names a column that is none of these, or says that a required one is not there.
    pub fn new(required: &[&'static str], optional: &[&'static str], mapping: &Mapping) -> Result<Self, InputError> {
        let known: Vec<&str> = required.iter().chain(optional).copied().collect();
        for (ours, theirs) in &mapping.0 {
            if !known.contains(&ours.as_str()) {
                let error = InputError::invalid(format!("`--map`: no column {} is read here", quoted(ours)));
                let hint = did_you_mean(ours, &known).unwrap_or_else(|| format!("expected one of {}", listed(&known)));
                return Err(error.with_hint(hint));
            }
            if theirs.is_empty() && required.contains(&ours.as_str()) {
                let message = format!("`--map {ours}=` names no column of the file, and `{ours}` is required");
                return Err(
                    InputError::invalid(message).with_hint(format!("give its name, as in `--map {ours}=ITS_NAME`"))
                );
            }
        }
        let wanted = known.into_iter().enumerate().map(|(nth, ours)| {
            let theirs = mapping.theirs(ours);
            WantedColumn {
                ours,
                theirs: Some(theirs.unwrap_or(ours)).filter(|name| !name.is_empty()).map(str::to_owned),
                is_required: nth < required.len(),
                is_mapped: theirs.is_some_and(|theirs| !theirs.is_empty()),
            }
        });
        Ok(Self { wanted: wanted.collect(), has_map: true })
    }

    /// For a command without `--map`: names must be ours.
    #[must_use]
    pub fn without_map(self) -> Self {
        Self { has_map: false, ..self }
    }

    /// What the input calls a column; our own name if it has none.
    pub fn name(&self, nth: usize) -> &str {
        self.wanted[nth].theirs.as_deref().unwrap_or(self.wanted[nth].ours)
    }

    /// Whether a column must be in every row, because it was asked for by name.
    pub fn is_mapped(&self, nth: usize) -> bool {
        self.wanted[nth].is_mapped
    }

    pub fn classify(&self, name: &str) -> Named {
        let ours =
            self.wanted.iter().position(|wanted| wanted.theirs.as_deref().is_some_and(|theirs| is_same(theirs, name)));
        match ours {
            Some(nth) => Named::Ours(nth),
            None => {
                let nearly =
                    |wanted: &WantedColumn| !wanted.is_mapped && wanted.theirs.is_some() && is_near(wanted.ours, name);
                self.wanted.iter().position(nearly).map_or(Named::Other, Named::Nearly)
            }
        }
    }

    /// Finds the columns in a header.
    ///
    /// # Errors
    /// A required or mapped column is missing, one is named twice, or a name is nearly that of a column that is missing.
    pub fn find(&self, header: &[String]) -> Result<FoundColumns, Refusal> {
        let mut found = FoundColumns { indexes: vec![None; self.wanted.len()], ignored: Vec::new() };
        let mut near: Vec<Option<&str>> = vec![None; self.wanted.len()];
        for (at, name) in header.iter().enumerate() {
            match self.classify(name) {
                Named::Ours(nth) if found.indexes[nth].is_some() => {
                    let message = format!("the header names `{}` twice", self.name(nth));
                    return Err(Refusal { message, hint: None });
                }
                Named::Ours(nth) => found.indexes[nth] = Some(at),
                Named::Nearly(nth) => {
                    near[nth] = near[nth].or(Some(name));
                    found.ignored.push(name.clone());
                }
                Named::Other => found.ignored.push(name.clone()),
            }
        }
        let missing = |nth: &usize| {
            let wanted = &self.wanted[*nth];
            found.indexes[*nth].is_none() && (wanted.is_required || wanted.is_mapped || near[*nth].is_some())
        };
        let missing: Vec<usize> = (0..self.wanted.len()).filter(missing).collect();
        if missing.is_empty() { Ok(found) } else { Err(self.refusal(header, &missing, &near)) }
    }

    /// What is said of names that are nearly ours, in a header or in an object.
    pub fn refusal_of(&self, nth: usize, name: &str) -> Refusal {
        let ours = self.wanted[nth].ours;
        let hint = if self.has_map {
            self.hint(&[format!("{ours}={name}")], Some(ours).filter(|_| !self.wanted[nth].is_required))
        } else {
            format!("call it `{ours}`")
        };
        Refusal { message: format!("{} is no column of ours, and `{ours}` is missing", quoted(name)), hint: Some(hint) }
    }

    fn refusal(&self, header: &[String], missing: &[usize], near: &[Option<&str>]) -> Refusal {
        let names: Vec<&str> = header.iter().map(String::as_str).collect();
        let wanted: Vec<&str> = missing.iter().map(|nth| self.name(*nth)).collect();
        let plural = if wanted.len() == 1 { "" } else { "s" };
        let message = format!("no column{plural} {}: the header has {}", listed(&wanted), listed(&names));
        if let [only] = names.as_slice()
            && let Some(delimiter) = [';', '|', '\t', ','].into_iter().find(|delimiter| only.contains(*delimiter))
        {
            let shown = if delimiter == '\t' { "\\t".to_owned() } else { delimiter.to_string() };
            return Refusal {
                message,
                hint: Some(format!("is the file separated by `{shown}`? give `--delimiter '{shown}'`")),
            };
        }
        let mapped = missing.iter().find(|nth| self.wanted[**nth].is_mapped);
        if let Some(nth) = mapped {
            return Refusal { message, hint: did_you_mean(self.name(*nth), &names) };
        }
        let pairs: Vec<String> = missing
            .iter()
            .map(|nth| format!("{}={}", self.wanted[*nth].ours, near[*nth].unwrap_or("ITS_NAME")))
            .collect();
        let optional = missing.iter().find(|nth| !self.wanted[**nth].is_required).map(|nth| self.wanted[*nth].ours);
        Refusal { message, hint: Some(self.hint(&pairs, optional)) }
    }

    fn hint(&self, pairs: &[String], optional: Option<&str>) -> String {
        let pairs = pairs.join(",");
        let map =
            if pairs.contains(char::is_whitespace) { format!("`--map '{pairs}'`") } else { format!("`--map {pairs}`") };
        match optional {
            Some(ours) => format!("use it by {map}; if it is something else, `--map {ours}=` ignores it"),
            None => format!("name the file's own column with {map}"),
        }
    }
}

/// Says which columns are ignored; `None` if none are.
pub fn ignored(names: &[String]) -> Option<String> {
    let shown: Vec<String> = names.iter().take(MOST_NAMED).map(|name| quoted(name)).collect();
    let more = names.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match names.len() {
        0 => None,
        1 => Some(format!("the column {} is ignored", shown.join(", "))),
        _ => Some(format!("the columns {}{more} are ignored", shown.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(header: &[&str], map: &str) -> Result<FoundColumns, Refusal> {
        let mapping = if map.is_empty() { Mapping::default() } else { map.parse().unwrap() };
        let columns = Columns::new(&["activity", "user"], &["quantity", "request"], &mapping).unwrap();
        columns.find(&header.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_known_in_any_case_and_others_are_ignored() {
        let found = find(&["Note", "USER", "Activity", "userName"], "").unwrap();
        assert_eq!(found.indexes, [Some(2), Some(1), None, None]);
        assert_eq!(ignored(&found.ignored).unwrap(), "the columns `Note`, `userName` are ignored");
        assert_eq!(ignored(&["x".to_owned()]).unwrap(), "the column `x` is ignored");
        assert_eq!(ignored(&[]), None);
        let found = find(&["Buyer", "sku", "qty", "quantity", "user"], "user=buyer,activity=SKU").unwrap();
        assert_eq!(
            (found.indexes, found.ignored),
            (vec![Some(1), Some(0), Some(3), None], vec!["qty".into(), "user".into()])
        );
        assert_eq!(find(&["activity", "user", "User"], "").unwrap_err().message, "the header names `user` twice");
    }

    #[test]
    fn a_name_that_is_nearly_ours_is_refused_with_the_map_to_use() {
        for (name, map) in [
            ("qty", "quantity=qty"),
            ("Quantitty", "quantity=Quantitty"),
            ("数量", "quantity=数量"),
            ("request_id", "request=request_id"),
            ("Request-ID", "request=Request-ID"),
            ("Item Count", "'quantity=Item Count'"),
        ] {
            let refusal = find(&["activity", "user", name], "").unwrap_err();
            let ours = map.trim_matches('\'').split_once('=').unwrap().0;
            assert_eq!(refusal.message, format!("no column `{ours}`: the header has `activity`, `user`, `{name}`"));
            let hint = format!("use it by `--map {map}`; if it is something else, `--map {ours}=` ignores it");
            assert_eq!(refusal.hint.as_deref(), Some(hint.as_str()));
            assert!(find(&["activity", "user", name], map.trim_matches('\'')).is_ok());
            assert_eq!(find(&["activity", "user", name], &format!("{ours}=")).unwrap().ignored, [name]);
        }
        let refusal = find(&["sku", "user_id", "n"], "").unwrap_err();
        assert_eq!(refusal.hint.as_deref(), Some("name the file's own column with `--map activity=sku,user=user_id`"));
        let refusal = find(&["a", "user"], "").unwrap_err();
        assert_eq!(refusal.hint.as_deref(), Some("name the file's own column with `--map activity=ITS_NAME`"));
        for other in ["order_id", "season", "username2", "requested_at", "price"] {
            assert_eq!(find(&["activity", "user", other], "").unwrap().ignored, [other]);
        }
    }

    #[test]
    fn another_delimiter_is_recognised() {
        let hint = |name: &str| find(&[name], "").unwrap_err().hint.unwrap();
        assert_eq!(hint("activity;user"), "is the file separated by `;`? give `--delimiter ';'`");
        assert_eq!(hint("activity\tuser"), "is the file separated by `\\t`? give `--delimiter '\\t'`");
    }

    #[test]
    fn a_mapping_is_of_columns_that_are_read() {
        let new = |map: &str| Columns::new(&["user"], &["quantity"], &map.parse().unwrap()).unwrap_err().to_string();
        assert_eq!(new("ledger=x"), "`--map`: no column `ledger` is read here");
        assert_eq!(new("user="), "`--map user=` names no column of the file, and `user` is required");
        assert!("user".parse::<Mapping>().is_err() && "user=a,user=b".parse::<Mapping>().is_err());
        let refusal = find(&["activity", "user", "buyer"], "request=byer").unwrap_err();
        assert_eq!(refusal.hint.as_deref(), Some("did you mean `buyer`?"));
    }
}

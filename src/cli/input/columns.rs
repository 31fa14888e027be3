//! Names of columns: ours in any case, the input's own (`--map`), and names that are nearly ours, which are refused:
//! a `qty` that is ignored would count 1 a row.

use std::fmt::Display;
use std::str::FromStr;

use crate::cli::failure::{Failure, Result};
use crate::cli::input::error::{Location, Problem, did_you_mean, listed, quoted};
use crate::model::shell_quoted;

/// Ignored columns that are named; of more only the number.
const MAX_NAMED: usize = 10;

/// The columns that a reader looks for, by what the input calls them. `C` is a column of ours.
#[derive(Debug, Clone)]
pub struct Columns<C>(Vec<WantedColumn<C>>);

#[derive(Debug, Clone)]
pub struct WantedColumn<C> {
    pub column: C,
    ours: String,
    /// `None`: the input has no such column.
    pub theirs: Option<String>,
    pub is_required: bool,
    /// Whether it must be there, because it was asked for by name.
    pub is_mapped: bool,
}

/// What a name of the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<C> {
    /// A column of ours.
    Ours(C),
    /// Not quite a column of ours.
    Nearly(C),
    Other,
}

/// What a header says.
#[derive(Debug)]
pub struct FoundColumns<C> {
    /// The columns of ours that are there, each with its index.
    pub columns: Vec<(C, usize)>,
    /// The names of all others.
    pub ignored: Vec<String>,
}

impl<C: Copy + PartialEq + Display> Columns<C> {
    /// Columns that must be there and columns that may be.
    ///
    /// # Errors
    /// Usage: the mapping names a column that is none of these, says that a required one is not there, or has one name for two.
    pub fn new(required: &[C], optional: &[C], mapping: &Mapping) -> Result<Self> {
        let wanted = required.iter().chain(optional).enumerate().map(|(index, column)| {
            let ours = column.to_string();
            let theirs = mapping.theirs(&ours);
            WantedColumn {
                column: *column,
                theirs: Some(theirs.unwrap_or(&ours)).filter(|name| !name.is_empty()).map(str::to_owned),
                is_required: index < required.len(),
                is_mapped: theirs.is_some_and(|theirs| !theirs.is_empty()),
                ours,
            }
        });
        let wanted: Vec<WantedColumn<C>> = wanted.collect();
        for (ours, theirs) in &mapping.0 {
            let Some(column) = wanted.iter().find(|wanted| wanted.ours == *ours) else {
                let known: Vec<&str> = wanted.iter().map(|wanted| wanted.ours.as_str()).collect();
                let error = Failure::usage(format!("`--map`: no column {} is read here", quoted(ours)));
                let hint = did_you_mean(ours, &known).unwrap_or_else(|| format!("expected one of {}", listed(&known)));
                return Err(error.hint(hint));
            };
            if theirs.is_empty() && column.is_required {
                let message = format!("`--map {ours}=` names no column of the file, and `{ours}` is required");
                return Err(Failure::usage(message).hint(format!("give its name, as in `--map {ours}=ITS_NAME`")));
            }
        }
        for (index, one) in wanted.iter().enumerate() {
            let Some(theirs) = &one.theirs else { continue };
            if let Some(other) = wanted[..index].iter().find(|other| other.is_called(theirs)) {
                let may_lack = [one, other].into_iter().find(|column| !column.is_required && !column.is_mapped);
                let none =
                    may_lack.map(|column| format!("; `--map {}=` if there is none", column.ours)).unwrap_or_default();
                let message =
                    format!("`--map`: `{}` and `{}` are both the column {}", other.ours, one.ours, quoted(theirs));
                return Err(Failure::usage(message).hint(format!("give each a column of its own{none}")));
            }
        }
        Ok(Self(wanted))
    }

    pub fn iter(&self) -> impl Iterator<Item = &WantedColumn<C>> {
        self.0.iter()
    }

    /// A column, if it is looked for.
    pub fn get(&self, column: C) -> Option<&WantedColumn<C>> {
        self.iter().find(|wanted| wanted.column == column)
    }

    /// What the input calls a column.
    pub fn name(&self, column: C) -> &str {
        self.get(column).map_or("", WantedColumn::name)
    }

    /// What is said of an input without a header.
    pub fn no_header(&self) -> Problem {
        let wanted: Vec<&str> = self.iter().map(WantedColumn::name).collect();
        Problem::new(Location::START, format!("nothing here, expected a header with {}", listed(&wanted)))
    }

    pub fn classify(&self, name: &str) -> Named<C> {
        let nearly =
            |wanted: &&WantedColumn<C>| !wanted.is_mapped && wanted.theirs.is_some() && is_near(&wanted.ours, name);
        match self.iter().find(|wanted| wanted.is_called(name)) {
            Some(wanted) => Named::Ours(wanted.column),
            None => self.iter().find(nearly).map_or(Named::Other, |wanted| Named::Nearly(wanted.column)),
        }
    }

    /// Finds the columns in a header.
    ///
    /// # Errors
    /// A required or mapped column is missing, one is named twice, or a name is nearly that of a column that is missing.
    pub fn find(&self, header: &[String]) -> Result<FoundColumns<C>, Problem> {
        let mut found = FoundColumns { columns: Vec::new(), ignored: Vec::new() };
        // The column that each is nearly, how nearly, and the name.
        let mut near: Vec<(C, usize, &str)> = Vec::new();
        for (at, name) in header.iter().enumerate() {
            match self.classify(name) {
                Named::Ours(column) if found.columns.iter().any(|(known, _)| *known == column) => {
                    let message = format!("the header names `{}` twice", self.name(column));
                    return Err(Problem::new(Location::START, message));
                }
                Named::Ours(column) => found.columns.push((column, at)),
                Named::Nearly(column) => {
                    let distance = self.get(column).and_then(|wanted| distance(&wanted.ours, name)).unwrap_or_default();
                    // The nearest, but none of several that are as near.
                    match near.iter_mut().find(|(known, ..)| *known == column) {
                        Some((_, best, _)) if *best < distance => {}
                        Some((_, best, name)) if *best == distance => *name = "ITS_NAME",
                        Some(known) => *known = (column, distance, name),
                        None => near.push((column, distance, name)),
                    }
                    found.ignored.push(name.clone());
                }
                Named::Other => found.ignored.push(name.clone()),
            }
        }
        let is_missing = |wanted: &&WantedColumn<C>| {
            let is_near = || near.iter().any(|(column, ..)| *column == wanted.column);
            found.columns.iter().all(|(column, _)| *column != wanted.column)
                && (wanted.is_required || wanted.is_mapped || is_near())
        };
        let mut missing: Vec<&WantedColumn<C>> = self.iter().filter(is_missing).collect();
        if found.columns.is_empty() && missing.is_empty() {
            // Where no column must be there, a line with none of ours may be no header.
            missing.extend(self.iter().find(|wanted| wanted.ours == "quantity" && wanted.theirs.is_some()));
        }
        let names: Vec<&str> = header.iter().map(String::as_str).collect();
        if missing.is_empty() { Ok(found) } else { Err(self.refusal(&names, &missing, &near)) }
    }

    fn refusal(&self, names: &[&str], missing: &[&WantedColumn<C>], near: &[(C, usize, &str)]) -> Problem {
        let wanted: Vec<&str> = missing.iter().map(|wanted| wanted.name()).collect();
        let plural = if wanted.len() == 1 { "" } else { "s" };
        let message = format!("no column{plural} {}: the header has {}", listed(&wanted), listed(names));
        let refusal = Problem::new(Location::START, message);
        if names.iter().any(|name| name.to_lowercase().starts_with("sep=")) {
            return refusal.hint("remove the first line, which is for spreadsheets alone".to_owned());
        }
        if let [only] = names
            && let Some(delimiter) = [';', '|', '\t', ','].into_iter().find(|delimiter| only.contains(*delimiter))
        {
            return refusal.hint(separated_by(delimiter));
        }
        if names.iter().all(|name| self.classify(name) == Named::Other) && has_values(names) {
            return refusal.hint(WANTS_HEADER.to_owned());
        }
        if let Some(mapped) = missing.iter().find(|wanted| wanted.is_mapped) {
            return refusal.hint(did_you_mean(mapped.name(), names));
        }
        let name_of = |column| near.iter().find(|(known, ..)| *known == column).map_or("ITS_NAME", |(.., name)| name);
        let pairs: Vec<String> =
            missing.iter().map(|wanted| format!("{}={}", wanted.ours, name_of(wanted.column))).collect();
        let optional = missing.iter().find(|wanted| !wanted.is_required).map(|wanted| wanted.ours.as_str());
        refusal.hint(map_hint(&pairs, optional))
    }
}

impl<C> WantedColumn<C> {
    /// What the input calls it; our own name if it has none.
    pub fn name(&self) -> &str {
        self.theirs.as_deref().unwrap_or(&self.ours)
    }

    fn is_called(&self, name: &str) -> bool {
        self.theirs.as_deref().is_some_and(|theirs| is_same(theirs, name))
    }

    /// What is said of a name in an object that is nearly ours. Without `--map`, names must be ours.
    pub fn refusal_of(&self, name: &str, has_map: bool) -> (String, String) {
        let ours = self.ours.as_str();
        let hint = match has_map {
            true => map_hint(&[format!("{ours}={name}")], Some(ours).filter(|_| !self.is_required)),
            false => format!("call it `{ours}`"),
        };
        (format!("{} is no column of ours, and `{ours}` is missing", quoted(name)), hint)
    }
}

/// The next step if columns have other names.
fn map_hint(pairs: &[String], optional: Option<&str>) -> String {
    if let Some(pair) = pairs.iter().find(|pair| pair.contains(',')) {
        let name = pair.split_once('=').map_or("", |(_, name)| name);
        return format!("give the column {} a name without a comma, which `--map` can name", quoted(name));
    }
    let map = format!("`--map {}`", shell_quoted(&pairs.join(",")));
    match optional {
        Some(ours) => format!("use it by {map}; if it is something else, `--map {ours}=` ignores it"),
        None => format!("name the file's own column with {map}"),
    }
}

/// The next step if the first line has no names.
const WANTS_HEADER: &str = "is there no header? the first line must name the columns";

/// Whether a first line has values where names are expected.
fn has_values(names: &[&str]) -> bool {
    names.iter().any(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The next step if another delimiter was expected.
pub(super) fn separated_by(delimiter: char) -> String {
    let shown = if delimiter == '\t' { "\\t".to_owned() } else { delimiter.to_string() };
    format!("is the file separated by `{shown}`? give `--delimiter '{shown}'`")
}

/// Says which columns are ignored; `None` if none are.
pub fn ignored(names: &[String]) -> Option<String> {
    let shown: Vec<String> = names.iter().take(MAX_NAMED).map(|name| quoted(name)).collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match names.len() {
        0 => None,
        1 => Some(format!("the column {} is ignored", shown.join(", "))),
        _ => Some(format!("the columns {}{more} are ignored", shown.join(", "))),
    }
}

/// Names that people give to a column of ours, lower case and without punctuation.
const ALIASES: [(&str, &str); 11] = [
    (
        "activity",
        "activityid activitycode activityno activities actid campaignid eventid seckillid couponid sku \
         skuid skucode skuno item itemid product productid goods goodsid 活动 活动id 活动编号 商品 商品id 商品编号",
    ),
    (
        "user",
        "userid userno username users usr uid buyer buyerid customer customerid member memberid \
         account accountid openid 用户 用户id 用户编号 买家 买家id 会员id",
    ),
    (
        "quantity",
        "qty quant quantities count cnt num number units amount bought pieces pcs buynum buycount itemcount \
         goodsnum 数量 件数 购买数量",
    ),
    ("request", "requestid requestno req reqid idempotencykey idempotencyid 请求id"),
    ("ledger", "ledgerid ledgerentry entry entryid"),
    ("items", "item products skus activities goods"),
    ("id", "activity activityid sku skuid itemid productid goodsid 活动id 商品id"),
    ("stock", "total units quantity qty inventory 库存"),
    ("per_user_limit", "limit userlimit perlimit maxperuser buylimit 限购 限购数量"),
    (
        "starts_at",
        "start startat starttime startdate starts begin beginat begintime begindate validfrom 开始 开始时间 开始日期",
    ),
    ("ends_at", "end endat endtime enddate ends validto validuntil 结束 结束时间 结束日期"),
];

/// Whether two names are equal but for their case.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

/// Whether a name is probably meant to be one of ours.
pub(crate) fn is_near(ours: &str, name: &str) -> bool {
    distance(ours, name).is_some()
}

/// How near a name is to one of ours, the nearest first; `None` if it is something else.
fn distance(ours: &str, name: &str) -> Option<usize> {
    let plain = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let (plain_ours, plain_name) = (plain(ours), plain(name));
    let aliases = ALIASES.iter().find(|(known, _)| *known == ours).map_or("", |(_, aliases)| aliases);
    // Short names are near to too many others, and a reason that is ignored does no harm.
    let may_be_misspelt = plain_ours.len() >= 5 && ours != "reason";
    let is_alias = plain_ours == plain_name
        || aliases.split_whitespace().any(|alias| alias == plain_name)
        || (may_be_misspelt && strsim::damerau_levenshtein(&plain_ours, &plain_name) == 1);
    // Part of a name: `sum(quantity)`, `order_qty`, 商品数量; `count(id)` says less.
    let words = || name.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let is_of_units =
        |word: String| matches!(&word[..], "quantity" | "qty") || word.contains("数量") || word.contains("件数");
    match ours {
        _ if is_alias => Some(0),
        "quantity" if words().any(is_of_units) => Some(1),
        "quantity" if words().any(|word| word == "count") || plain_name == "sum" => Some(2),
        _ => None,
    }
}

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

    /// The columns that have another name, as one text. It is part of a job's name.
    pub fn text(&self) -> String {
        let renamed = self.0.iter().filter(|(ours, theirs)| !theirs.is_empty() && !is_same(ours, theirs));
        let mut pairs: Vec<String> =
            renamed.map(|(ours, theirs)| format!("{ours}={}", theirs.to_lowercase())).collect();
        pairs.sort();
        pairs.join(",")
    }

    /// Which of the columns that are there are ignored, as one text. It is part of a job's stored digest, and not of its name:
    /// orders that were read with such a column are not applied again without it.
    pub fn ignored(&self, is_there: impl Fn(&str) -> bool) -> String {
        let ignored = self.0.iter().filter(|(ours, theirs)| theirs.is_empty() && is_there(ours));
        let mut ignored: Vec<String> = ignored.map(|(ours, _)| format!(" {ours}=")).collect();
        ignored.sort();
        ignored.concat()
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

    fn find(header: &[&str], map: &str) -> Result<FoundColumns<&'static str>, Problem> {
        let mapping = if map.is_empty() { Mapping::default() } else { map.parse().unwrap() };
        let columns = Columns::new(&["activity", "user"], &["quantity", "request"], &mapping).unwrap();
        columns.find(&header.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_name_that_is_nearly_ours_is_refused_with_the_map_to_use() {
        for (name, map) in [
            ("Quantitty", "quantity=Quantitty"),
            ("Request-ID", "request=Request-ID"),
            ("Item Count", "'quantity=Item Count'"),
            ("sum(quantity)", "'quantity=sum(quantity)'"),
            ("order_qty", "quantity=order_qty"),
            ("商品数量", "quantity=商品数量"),
        ] {
            let refusal = find(&["activity", "user", name], "").unwrap_err();
            let ours = map.trim_matches('\'').split_once('=').unwrap().0;
            assert_eq!(refusal.message, format!("no column `{ours}`: the header has `activity`, `user`, `{name}`"));
            let hint = format!("use it by `--map {map}`; if it is something else, `--map {ours}=` ignores it");
            assert_eq!(refusal.hint.as_deref(), Some(hint.as_str()));
            assert!(find(&["activity", "user", name], map.trim_matches('\'')).is_ok());
            assert_eq!(find(&["activity", "user", name], &format!("{ours}=")).unwrap().ignored, [name]);
        }
        for other in ["order_id", "season", "username2", "requested_at", "price"] {
            assert_eq!(find(&["activity", "user", other], "").unwrap().ignored, [other]);
        }
    }

    #[test]
    fn values_are_no_names_of_columns() {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let columns = |map: &str| {
            let mapping = if map.is_empty() { Mapping::default() } else { map.parse().unwrap() };
            Columns::new(&[], &["activity", "quantity"], &mapping).unwrap()
        };
        let refusal = columns("").find(&of(&["42", "1"])).unwrap_err();
        let message = "no column `quantity`: the header has `42`, `1`";
        assert_eq!((&refusal.message[..], refusal.hint.as_deref()), (message, Some(WANTS_HEADER)));
        assert!(columns("").find(&of(&["id", "at"])).is_err() && columns("").find(&of(&["quantity", "2026"])).is_ok());
        assert_eq!(columns("").find(&of(&["a;b"])).unwrap_err().hint, Some(separated_by(';')));
        assert!(columns("quantity=").find(&of(&["id", "at"])).is_ok());
        assert_eq!(find(&["1001", "7"], "").unwrap_err().hint.as_deref(), Some(WANTS_HEADER));
        assert_ne!(find(&["activity", "user_id", "2026"], "").unwrap_err().hint.as_deref(), Some(WANTS_HEADER));
        let hint = find(&["activity", "user", "count,all"], "").unwrap_err().hint;
        assert_eq!(hint.as_deref(), Some("give the column `count,all` a name without a comma, which `--map` can name"));
        assert!(find(&["sep=;"], "").unwrap_err().hint.unwrap().starts_with("remove the first line"));
    }

    #[test]
    fn the_nearest_of_several_names_is_proposed_and_none_of_those_that_are_as_near() {
        for (names, map) in [
            (["order_count", "qty"], "quantity=qty"),
            (["sum(price)", "sum(quantity)"], "'quantity=sum(quantity)'"),
            (["order_qty", "total_qty"], "quantity=ITS_NAME"),
            (["count(id)", "at"], "'quantity=count(id)'"),
        ] {
            let hint = find(&["activity", "user", names[0], names[1]], "").unwrap_err().hint.unwrap();
            assert!(hint.starts_with(&format!("use it by `--map {map}`;")), "{hint}");
        }
        assert!(find(&["activity", "user", "sum(price)"], "").is_ok());
    }

    #[test]
    fn another_delimiter_is_recognised() {
        let hint = |name: &str| find(&[name], "").unwrap_err().hint.unwrap();
        assert_eq!(hint("activity;user"), "is the file separated by `;`? give `--delimiter ';'`");
        assert_eq!(hint("activity\tuser"), "is the file separated by `\\t`? give `--delimiter '\\t'`");
    }

    #[test]
    fn a_mapping_is_of_columns_that_are_there() {
        assert!("user".parse::<Mapping>().is_err());
        let refusal = find(&["activity", "user", "buyer"], "request=byer").unwrap_err();
        assert_eq!(refusal.hint.as_deref(), Some("did you mean `buyer`?"));
        for (map, hint) in [
            ("user=Buyer,activity=buyer", "give each a column of its own"),
            ("user=quantity", "give each a column of its own; `--map quantity=` if there is none"),
        ] {
            let refusal = Columns::new(&["activity", "user"], &["quantity"], &map.parse().unwrap()).unwrap_err();
            assert_eq!(refusal.hint.as_deref(), Some(hint));
        }
        assert!(Columns::new(&["user"], &["quantity"], &"user=quantity,quantity=".parse().unwrap()).is_ok());
    }

    #[test]
    fn mappings_that_read_the_same_rows_have_one_text() {
        let text = |map: &str| map.parse::<Mapping>().unwrap().text();
        assert_eq!(text("user=Buyer,activity=SKU"), "activity=sku,user=buyer");
        assert_eq!(text("activity=sku,user=BUYER"), text("user=Buyer,activity=SKU"));
        assert_eq!(text("user=User,quantity="), "");
    }
}

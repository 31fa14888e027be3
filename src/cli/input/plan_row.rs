//! A repair in a plan file: a line of JSON.

use serde::{Deserialize, Serialize};

use crate::audit::class::Class;
use crate::audit::plan::repair::{Audited, Repair};
use crate::model::id::{RequestId, StoredUser};
use crate::model::layout::Layout;
use crate::model::ledger::EntryId;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRow {
    id: String,
    layout: Layout,
    activity: String,
    class: Class,
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_hex: Option<String>,
    from: Option<u64>,
    to: u64,
    stock_change: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reversed: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audited_stock: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audited_entry: Option<String>,
    epoch: Option<u64>,
    repairs: Option<u64>,
}

impl From<&Repair> for PlanRow {
    fn from(repair: &Repair) -> Self {
        let user = repair.user.as_ref();
        Self {
            user: user.and_then(StoredUser::text).map(str::to_owned),
            user_hex: user.and_then(StoredUser::user_hex),
            id: repair.id.clone(),
            layout: repair.layout,
            activity: repair.activity.clone(),
            class: repair.class,
            from: repair.from,
            to: repair.to,
            stock_change: repair.stock_change,
            reversed: repair.takes_units().then(|| repair.reversed.clone()),
            after: repair.after.clone(),
            audited_stock: repair.audited.map(|audited| audited.stock),
            audited_entry: repair.audited.and_then(|audited| audited.last).map(|last| last.to_string()),
            epoch: repair.epoch,
            repairs: repair.repairs,
        }
    }
}

impl TryFrom<PlanRow> for Repair {
    type Error = String;

    fn try_from(row: PlanRow) -> Result<Self, Self::Error> {
        let user = match (row.user, row.user_hex) {
            (Some(_), Some(_)) => return Err("user and user_hex: give one of them".to_owned()),
            (user, None) => user.map(StoredUser::new),
            (None, Some(hex)) => match StoredUser::of_hex(&hex) {
                None => {
                    return Err(format!("user_hex: `{}` is not hexadecimal digits, two a byte", hex.escape_debug()));
                }
                user => user,
            },
        };
        let last = row.audited_entry.map(|entry| entry.parse::<EntryId>()).transpose();
        let last = last.map_err(|why| format!("audited_entry: {why}"))?;
        let audited = row.audited_stock.map(|stock| Audited { stock, last });
        if audited.is_none() && user.is_none() && row.stock_change > 0 && row.from.is_some() {
            return Err(
                "audited_stock is missing: a repair that raises the stock needs the stock as it was audited".to_owned()
            );
        }
        let is_missing = row.reversed.is_none();
        let repair = Self {
            user,
            audited,
            id: row.id,
            layout: row.layout,
            activity: row.activity,
            class: row.class,
            from: row.from,
            to: row.to,
            stock_change: row.stock_change,
            reversed: row.reversed.unwrap_or_default(),
            after: row.after,
            epoch: row.epoch,
            repairs: row.repairs,
        };
        if is_missing && repair.takes_units() {
            return Err("reversed is missing: a repair that takes units from a user ends the request ids behind them; write the \
                        plan again with `seckill reconcile --plan FILE`"
                .to_owned());
        }
        if let Some(request) = repair.reversed.iter().find(|request| !RequestId::fits(request)) {
            return Err(format!("reversed: `{}` is not {}", request.escape_debug(), RequestId::EXPECTED));
        }
        Ok(repair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(repair: &Repair) -> String {
        serde_json::to_string(&PlanRow::from(repair)).unwrap()
    }

    fn decoded(row: &str) -> Result<Repair, String> {
        serde_json::from_str::<PlanRow>(row).map_err(|error| error.to_string())?.try_into()
    }

    fn repair() -> Repair {
        Repair {
            id: String::new(),
            layout: Layout::Sku,
            activity: "1001".to_owned(),
            class: Class::QuantityMismatch,
            user: Some(StoredUser::new(&b"\xc4\xe3"[..])),
            from: Some(2),
            to: 1,
            stock_change: 1,
            reversed: vec!["order-1".to_owned()],
            after: None,
            audited: None,
            epoch: Some(3),
            repairs: None,
        }
    }

    #[test]
    fn a_plan_row_holds_a_user_that_is_not_utf_8_as_hex() {
        let row = encoded(&repair().named(7));
        assert!(row.contains(r#""user":null,"user_hex":"c4e3""#), "{row}");
        assert_eq!(decoded(&row).unwrap(), repair().named(7));
        let mut plain = repair().named(7);
        plain.user = Some(StoredUser::new("a"));
        (plain.from, plain.after) = (None, Some("x".to_owned()));
        let row = encoded(&plain);
        assert!(row.contains(r#""user":"a","from":null,"to":1"#), "{row}");
        assert_eq!(decoded(&row).unwrap(), plain);
        for (from, to) in [
            ("\"user\":\"a\"", "\"user\":\"a\",\"user_hex\":\"61\""),
            ("\"user\":\"a\"", "\"user\":null,\"user_hex\":\"6\""),
        ] {
            assert!(decoded(&row.replace(from, to)).is_err(), "{to}");
        }
    }
}

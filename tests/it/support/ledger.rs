//! The orders of a ledger entry, put together from its columns.

use std::collections::BTreeMap;

/// Of each order user, quantity, request and, if there are any, reason; of each repair user, from and to.
#[track_caller]
pub fn orders(entry: &BTreeMap<String, String>) -> Vec<Vec<String>> {
    let column = |name: &str| entry.get(name).map(|text| text.split('\t').map(str::to_owned).collect::<Vec<String>>());
    let Some(users) = column("users") else { return Vec::new() };
    let quantities = entry.get("quantity").map(|text| match text.contains('\t') {
        true => column("quantity").unwrap(),
        false => vec![text.clone(); users.len()],
    });
    let is_repair = quantities.is_none();
    let requests = column("requests").or_else(|| (!is_repair).then(|| vec![String::new(); users.len()]));
    let columns = [Some(users), quantities, column("from"), column("to"), requests, column("reasons")];
    let columns: Vec<Vec<String>> = columns.into_iter().flatten().collect();
    assert!(columns.iter().all(|column| column.len() == columns[0].len()), "{entry:?}");
    (0..columns[0].len()).map(|index| columns.iter().map(|column| column[index].clone()).collect()).collect()
}

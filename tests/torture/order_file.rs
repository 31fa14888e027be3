//! Files of orders, as a round writes them.

use std::fmt::Write as _;

use crate::schedule::{Activity, Operation, Order};

/// A file of orders.
#[derive(Debug)]
pub struct OrderFile {
    pub operation: Operation,
    pub name: String,
    /// `None`: the tool names the job by the content.
    pub job: Option<String>,
    /// The line of each row is the key in the reply.
    pub rows: Vec<(u64, Order)>,
    pub text: String,
}

impl OrderFile {
    /// The file as the tool reads it.
    pub fn write(&mut self, activities: &[Activity], has_users: bool) {
        let mut text = String::new();
        if self.operation.ends() {
            self.text = self.ends(activities);
            return;
        }
        if self.name.ends_with(".csv") {
            text += if has_users { "request,activity,quantity,user\n" } else { "request,activity,quantity\n" };
            for (_, order) in &self.rows {
                let (activity, quantity) = order.items[0];
                write!(text, "{},{},{quantity}", quoted(&order.request), activities[activity].id).unwrap();
                text += &if has_users { format!(",{}\n", quoted(&order.user)) } else { "\n".to_owned() };
            }
        } else {
            for (_, order) in &self.rows {
                let mut row = serde_json::Map::new();
                if has_users {
                    row.insert("user".into(), order.user.clone().into());
                }
                if !order.request.is_empty() {
                    row.insert("request".into(), order.request.clone().into());
                }
                let (activity, quantity) = order.items[0];
                if self.operation == Operation::Multi {
                    let items =
                        order.items.iter().map(|(index, units)| (activities[*index].id.clone(), (*units).into()));
                    row.insert("items".into(), serde_json::Value::Object(items.collect()));
                } else {
                    row.insert("activity".into(), activities[activity].id.clone().into());
                    row.insert("quantity".into(), quantity.into());
                }
                writeln!(text, "{}", serde_json::Value::Object(row)).unwrap();
            }
        }
        self.text = text;
    }

    /// Rows that end holds have nothing but their ids.
    fn ends(&self, activities: &[Activity]) -> String {
        let is_csv = self.name.ends_with(".csv");
        let rows = self.rows.iter().map(|(_, order)| (&order.request, &activities[order.items[0].0].id));
        let row = |(request, activity): (&String, &String)| match is_csv {
            true => format!("{},{activity}\n", quoted(request)),
            false => format!("{}\n", serde_json::json!({ "activity": activity, "request": request })),
        };
        let heading = if is_csv { "request,activity\n" } else { "" };
        heading.to_owned() + &rows.map(row).collect::<String>()
    }
}

fn quoted(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}

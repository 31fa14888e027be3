//! What valid calls have: activities, users, request ids.

/// What an activity is preheated with.
#[derive(Clone, Debug)]
pub struct Shape {
    pub total: u64,
    pub limit: Option<u64>,
    /// Begin and end, as preheat takes them.
    pub window: [&'static str; 2],
    pub ledger: bool,
    pub paused: bool,
}

const ODD_USERS: [&str; 5] = ["用户", "a b", "q\"uote", "back\\slash", " 7"];
const ODD_REQUESTS: [&str; 4] = ["with space", "q\"uote", "a,b", "\u{e9}"];

/// From 1 on; the last ones are unusual.
pub fn user(number: usize) -> String {
    match number {
        1..=30 => (number + 6).to_string(),
        _ => ODD_USERS[number - 31].to_owned(),
    }
}

pub fn request(number: usize) -> String {
    match number {
        0 => String::new(),
        1..=60 => format!("r{number}"),
        _ => ODD_REQUESTS[number - 61].to_owned(),
    }
}

/// Fields that a call may look up, to be damaged.
pub fn fields(key: usize) -> Vec<&'static str> {
    match key {
        3 => ["\tj:deduct:j", "\tj:refund:j", "\tj:multi_deduct:j", "r1", "r2", "r3", "r20"].to_vec(),
        _ => ["7", "8", "9", "10", "11", "20"].to_vec(),
    }
}

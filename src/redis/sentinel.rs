//! Connects to a target. If its URL names sentinels, they are asked anew each time which server is the primary: after a
//! failover it is another one.

use std::collections::BTreeMap;

use redis::Value;

use crate::error::{Result, SentinelFault, ServerKind, StoreError};
use crate::redis::connect::{Place, Target};
use crate::redis::connection::Connection;

/// Opens a connection to the server, or to the primary that the sentinels name.
///
/// # Errors
/// The server cannot be reached or refuses the login. With sentinels also a [`SentinelFault`], of which a failover under
/// way passes.
pub(crate) fn connect(target: &Target) -> Result<Connection> {
    let Some(primary) = target.primary_name() else { return Connection::open(target) };
    let mut search =
        Search { primary, tried: Vec::new(), known: None, places: Vec::new(), failover: None, refused: None };
    // Any may be out of date, or be cut off from the others: the next one may know better.
    for sentinel in target.each_sentinel() {
        let Some((host, port)) = search.ask(target, &sentinel) else { continue };
        match open_primary(&target.node(&host, port)) {
            Ok(connection) => return Ok(connection),
            // It may be replaced any moment.
            Err(error) if error.is_outage() => _ = search.failover.get_or_insert_with(|| error.to_string()),
            Err(error) => return Err(error),
        }
        search.places.push((host, port));
    }
    Err(search.failed())
}

/// What the sentinels said.
struct Search<'t> {
    primary: &'t str,
    /// Those that did not answer, and why.
    tried: Vec<String>,
    /// The names that a sentinel knows which does not know this one.
    known: Option<Vec<String>>,
    places: Vec<Place>,
    /// Why the server that was named cannot be used now.
    failover: Option<String>,
    refused: Option<StoreError>,
}

impl Search<'_> {
    /// Asks one of them; a server that was tried already is none.
    fn ask(&mut self, target: &Target, sentinel: &Target) -> Option<Place> {
        let ask = |sentinel: &Target| Connection::open(sentinel).and_then(|mut it| primary_of(&mut it, self.primary));
        let answer = match (ask(sentinel), target.with_login(sentinel)) {
            // Only now: a sentinel without a password refuses any.
            (Err(StoreError::Login { .. }), Some(sentinel)) => ask(&sentinel),
            (answer, _) => answer,
        };
        match answer {
            Ok(Ok(place)) => Some(place).filter(|place| !self.places.contains(place)),
            Ok(Err(known)) => {
                self.known.get_or_insert_default().extend(known);
                None
            }
            Err(StoreError::Login { why, .. }) => {
                let sentinel = sentinel.shown.clone();
                self.refused.get_or_insert(SentinelFault::Login { sentinel, why }.into());
                None
            }
            Err(error @ (StoreError::Permission { .. } | StoreError::Tls { .. })) => {
                self.refused.get_or_insert(error);
                None
            }
            Err(error) => {
                self.tried.push(format!("`{}`: {}", sentinel.shown, error.why()));
                None
            }
        }
    }

    /// What comes first: somebody knows the primary, or knows others, or refuses to say, or nobody answers.
    fn failed(self) -> StoreError {
        let primary = self.primary.to_owned();
        let fault = match (self.failover, self.known) {
            (Some(why), _) => SentinelFault::Failover { primary, why },
            (None, Some(mut known)) => {
                known.sort();
                known.dedup();
                SentinelFault::UnknownPrimary { primary, known }
            }
            (None, None) => match self.refused {
                Some(refused) => return refused,
                None => SentinelFault::Unreachable { primary, tried: self.tried.join("; ") },
            },
        };
        fault.into()
    }
}

/// The primary of that name; if the sentinel does not know it, the names that it knows.
fn primary_of(connection: &mut Connection, name: &str) -> Result<Result<Place, Vec<String>>> {
    let place = connection.request(redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name))?;
    if let Ok(place) = redis::from_redis_value(place) {
        return Ok(Ok(place));
    }
    let known = connection.request(redis::cmd("SENTINEL").arg("MASTERS")).unwrap_or(Value::Nil);
    Ok(Err(names(known)))
}

/// The names in a reply to `SENTINEL MASTERS`: a list of fields and values each.
fn names(masters: Value) -> Vec<String> {
    let masters: Vec<BTreeMap<String, String>> = redis::from_redis_value(masters).unwrap_or_default();
    masters.into_iter().filter_map(|mut fields| fields.remove("name")).collect()
}

/// Connects to what a sentinel named, and verifies that it is a primary: a sentinel may be late.
fn open_primary(target: &Target) -> Result<Connection> {
    let mut connection = Connection::open(target)?;
    let role = match connection.request(&redis::cmd("ROLE")) {
        Ok(Value::Array(role)) => role.into_iter().next(),
        Ok(_) => None,
        // Without the right to ask, the first write will tell.
        Err(StoreError::Permission { .. } | StoreError::Server { kind: ServerKind::Other, .. }) => None,
        Err(error) => return Err(error),
    };
    match role {
        Some(Value::BulkString(role)) if role != b"master" => {
            let why = format!(
                "it is a {} now",
                if role == b"slave" { "replica".into() } else { String::from_utf8_lossy(&role) }
            );
            Err(StoreError::Unreachable { server: target.shown.clone(), why })
        }
        _ => Ok(connection),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_wherever_they_stand() {
        let text = |text: &str| Value::BulkString(text.into());
        let master = |fields: &[&str]| Value::Array(fields.iter().map(|field| text(field)).collect());
        let masters = Value::Array(vec![master(&["name", "a", "ip", "name"]), master(&["ip", "name", "name", "b"])]);
        assert_eq!(names(masters), ["a", "b"]);
        assert!(names(Value::Nil).is_empty());
    }
}

//! Who takes orders, and who has a copy.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use crate::cli::commands::doctor::row::Finding;
use crate::cli::commands::doctor::storage::{refused, setting};
use crate::cli::output::{bytes, counted, duration};
use crate::cli::shared::fix::Fixes;
use crate::read::health::{Info, NodeName, Reading, ReplicaInfo, Role, Slots};
use crate::redis::connect::Place;

/// Servers in commands that cannot know them: another one, and this one as the other calls it.
const OTHER_HOST: &str = "OTHER-HOST";
const OTHER_IP: &str = "OTHER-IP";
const OWN_ADDRESS: &str = "ADDRESS-OF-THIS-SERVER";

/// Seconds without a word from a replica, after which the server itself no longer counts it.
const SILENT: u64 = 10;

/// Whether it is the server that orders should go to.
pub(super) fn role(reading: &Reading, name: &str, is_cluster: bool, scheme: &str, fixes: &Fixes) -> Finding {
    let Ok(info) = &reading.info else { return Finding::unread(&reading.info) };
    let Some(role) = info.role() else { return Finding::skip("INFO does not say") };
    let up = info.count("uptime_in_seconds").map(|seconds| duration(Duration::from_secs(seconds.max(1))));
    let server = format!("{}, up {}", info.product().unwrap_or_default(), up.unwrap_or_else(|| "?".to_owned()));
    if info.count("loading") == Some(1) {
        return Finding::fail(format!("still loading its data; {server}"), fixes.command(&["INFO", "persistence"]));
    }
    if role == Role::Primary {
        return Finding::ok(format!("primary, {server}"));
    }
    let field = |name| info.text(name).unwrap_or("?");
    let primary = format!("{}:{}", field("master_host"), field("master_port"));
    if !is_cluster {
        let orders = match info.count("slave_read_only") {
            Some(0) => "it takes orders, and forgets them when it synchronizes again",
            _ => "it refuses orders",
        };
        let found = format!("replica of {primary}: {orders}; {server}");
        // What the replica calls its own machine is this one only if it was reached so.
        let host = match (place_of(name), field("master_host")) {
            (Some((own, _)), host) if is_loopback(host) && !is_loopback(own) => own.to_owned(),
            (_, host) if host.contains(':') => format!("[{host}]"),
            (_, host) => host.to_owned(),
        };
        return Finding::fail(found, fixes.doctor_at(scheme, &format!("{host}:{}", field("master_port"))));
    }
    match info.text("master_link_status") {
        Some("up") => Finding::ok(format!("replica of {primary}, {server}")),
        _ => Finding::fail(
            format!("replica of {primary}, which it cannot reach: it would lose orders if it took over"),
            fixes.command(&["INFO", "replication"]),
        ),
    }
}

/// The host and the port of a server; `None` of a socket.
fn place_of(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once(':').filter(|(host, _)| !host.contains('/'))
}

/// Whether a host is whichever machine asks.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Makes another server a replica of this one. What only this machine calls the server is of no use to another.
fn copy_by_another(info: &Info, name: &str, fixes: &Fixes) -> Finding {
    let of_info = info.text("tcp_port").filter(|port| *port != "0");
    let port = place_of(name).map(|(_, port)| port).or(of_info).unwrap_or("PORT");
    let host = place_of(name).map(|(host, _)| host).filter(|host| !is_loopback(host));
    let mut found = "no replica".to_owned();
    if host.is_none() {
        found += &format!("; {OWN_ADDRESS} is one that {OTHER_HOST} can reach, not a loopback or a socket");
    }
    if fixes.has_password() {
        found += &format!("; {OTHER_HOST} needs masteruser and masterauth to log in here");
    }
    let words = ["REPLICAOF", host.unwrap_or(OWN_ADDRESS), port];
    Finding::warn(found, fixes.elsewhere(OTHER_HOST, "6379", &words))
}

/// Makes a node of the cluster that serves nothing a replica of this one, or a server that is no node yet.
fn replicate(slots: &Slots, name: &str, fixes: &Fixes) -> Finding {
    let place = |node: &NodeName| format!("{}:{}", node.host, node.port);
    let own = slots.names.iter().find(|node| place(node) == name);
    if own.is_some_and(NodeName::is_idle) {
        return Finding::skip("it serves no slots");
    }
    let words = ["CLUSTER", "REPLICATE", own.map_or("NODE-ID", |own| &own.id)];
    if let Some(idle) = own.and_then(|own| slots.idle_for(own)) {
        let found = format!("no replica; {} serves no slots and could be one", place(idle));
        return Finding::warn(found, fixes.elsewhere(&idle.host, &idle.port.to_string(), &words));
    }
    // A node that was just met does not know its primary at once.
    let meet = fixes.administer(&["CLUSTER", "MEET", OTHER_IP, "6379"]);
    let replicate = fixes.elsewhere(OTHER_IP, "6379", &words);
    Finding::warn("no replica", format!("{meet} && sleep 3 && {replicate}"))
}

/// Whether anybody has a copy.
pub(super) fn replicas(reading: &Reading, name: &str, slots: Option<&Slots>, fixes: &Fixes) -> Finding {
    let Ok(info) = &reading.info else { return Finding::unread(&reading.info) };
    if info.role() == Some(Role::Replica) {
        return Finding::skip("it is a replica itself");
    }
    let replicas = info.replicas();
    if replicas.is_empty() {
        return match slots {
            Some(slots) => replicate(slots, name, fixes),
            None => copy_by_another(info, name, fixes),
        };
    }
    let is_troubled =
        |replica: &&ReplicaInfo| replica.state != "online" || replica.lag.is_some_and(|seconds| seconds > SILENT);
    if let Some(replica) = replicas.iter().find(is_troubled) {
        let why = match replica.state.as_str() {
            "online" => format!("has not answered for {} s", replica.lag.unwrap_or_default()),
            state => format!("is not in step yet ({state})"),
        };
        return Finding::warn(format!("replica {} {why}", replica.address), fixes.command(&["INFO", "replication"]));
    }
    let behind: Vec<String> = replicas.iter().filter_map(|replica| info.lag_bytes(replica)).map(bytes).collect();
    Finding::ok(match behind.is_empty() {
        true => counted(replicas.len(), "replica"),
        false => format!("{}, behind by {}", counted(replicas.len(), "replica"), behind.join(", ")),
    })
}

/// Whether a primary stops when nobody copies what it sells.
pub(super) fn min_replicas(reading: &Reading, fixes: &Fixes) -> Finding {
    let Some(least) = setting(reading, "min-replicas-to-write") else { return Finding::skip(refused(reading)) };
    let Ok(least) = least.parse::<u64>() else { return Finding::skip(format!("cannot read `{least}`")) };
    let Ok(info) = &reading.info else { return Finding::unread(&reading.info) };
    if info.role() == Some(Role::Replica) {
        return Finding::skip("it is a replica itself");
    }
    let count = info.replicas().len();
    let set = |number: u64| fixes.set("min-replicas-to-write", &number.to_string());
    if least == 0 {
        return match count {
            0 => Finding::skip("there is no replica"),
            _ => Finding::warn(format!("0, though there {}", are(count)), set(1)),
        };
    }
    if setting(reading, "min-replicas-max-lag") == Some("0") {
        let found = format!("{least}, but min-replicas-max-lag 0 turns it off");
        return Finding::warn(found, fixes.set("min-replicas-max-lag", "10"));
    }
    let good = info.count("min_slaves_good_slaves").unwrap_or_default();
    if good < least {
        let found = format!("orders are refused (NOREPLICAS): {least} wanted, {good} in step");
        return Finding::fail(found, set(good));
    }
    Finding::ok(format!("{least} wanted, {good} in step"))
}

fn are(count: usize) -> String {
    if count == 1 { "is 1 replica".to_owned() } else { format!("are {count} replicas") }
}

/// Whether anything is missing, down or open.
pub(super) fn slots(slots: &Slots, first: &str, fixes: &Fixes) -> Finding {
    let check = || fixes.administer(&["--cluster", "fix", first]);
    if slots.uncovered > 0 {
        return Finding::fail(format!("nobody serves {} of 16384 slots", slots.uncovered), check());
    }
    if slots.state.as_deref().is_some_and(|state| state != "ok") {
        return Finding::fail("the cluster refuses calls (cluster_state:fail)", check());
    }
    if !slots.failed.is_empty() {
        let found = format!("all served, but down: {}", slots.failed.join(", "));
        return Finding::fail(found, fixes.command(&["CLUSTER", "NODES"]));
    }
    if !slots.open.is_empty() {
        let found = format!("all served; left open in a move: {}", slots.open.join(", "));
        return Finding::warn(found, check());
    }
    let primaries: BTreeSet<&Place> = slots.first_slots.iter().map(|(primary, _)| primary).collect();
    Finding::ok(format!("all 16384 served by {}", counted(primaries.len(), "node")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::shared::fix::Options;

    fn fixes() -> Fixes {
        Fixes::new("redis", &[], None, true, &Options { seckill: " -l sku".to_owned(), ..Options::default() })
    }

    #[test]
    fn an_address_is_one_that_works_from_where_it_is_used() {
        let info = Info::parse("role:master\r\ntcp_port:7777\r\n");
        for (name, address) in [
            ("10.0.0.5:6379", "10.0.0.5 6379"),
            ("sale.example.com:6379", "sale.example.com 6379"),
            ("127.0.0.1:6379", "ADDRESS-OF-THIS-SERVER 6379"),
            ("::1:6379", "ADDRESS-OF-THIS-SERVER 6379"),
            ("localhost:6379", "ADDRESS-OF-THIS-SERVER 6379"),
            ("/run/a:b.sock", "ADDRESS-OF-THIS-SERVER 7777"),
        ] {
            let fix = copy_by_another(&info, name, &fixes()).fix.unwrap();
            assert_eq!(fix, format!("redis-cli -h OTHER-HOST -p 6379 REPLICAOF {address}"), "{name}");
        }
    }

    #[test]
    fn the_primary_of_a_replica_is_looked_for_on_the_machine_of_the_replica() {
        let text = "role:slave\r\nmaster_host:HOST\r\nmaster_port:6379\r\nmaster_link_status:up\r\n";
        for (name, host, expected) in [
            ("10.0.0.5:7000", "127.0.0.1", "10.0.0.5"),
            ("10.0.0.5:7000", "10.0.0.6", "10.0.0.6"),
            ("127.0.0.1:7000", "127.0.0.1", "127.0.0.1"),
            ("/run/r.sock", "127.0.0.1", "127.0.0.1"),
            ("[2001:db8::2]:7000", "2001:db8::1", "[2001:db8::1]"),
            ("[2001:db8::2]:7000", "::1", "[2001:db8::2]"),
        ] {
            let info = Ok(Info::parse(&text.replace("HOST", host)));
            let reading = Reading { info, ..Reading::unread() };
            let fix = role(&reading, name, false, "redis", &fixes()).fix.unwrap();
            let url = crate::model::id::shell_quoted(&format!("redis://{expected}:6379"));
            assert_eq!(fix, format!("seckill doctor --url {url}"), "{name} {host}");
        }
    }
}

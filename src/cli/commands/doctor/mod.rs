//! `seckill doctor`: what is wrong with server and sale, why it matters, and how to correct it. Changes nothing.

mod replication;
mod rights;
mod row;
mod sale;
mod scripts;
mod storage;

use crate::admin::activities;
use crate::cli::commands::doctor::row::{Check, CheckRow, CheckStatus, Finding};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::Format;
use crate::cli::shared::fix::{Fixes, Options};
use crate::cli::shared::selection;
use crate::cli::shared::session::Session;
use crate::error::StoreError;
use crate::model::{ActivityId, Snapshot};
use crate::read::health::{Health, Node};
use crate::read::{health, snapshot, whole};
use crate::script::SNAPSHOT;
use crate::store::Store;

/// Check server and sale, with a fix for what is wrong
///
/// Each check is `ok`, `warn`, `fail` or `skip`, with what was found, why it matters, and a command that corrects it or
/// shows more. A `fail` is exit code 3. Of a cluster every node is checked. The last line says what a power cut and a failover may
/// lose.
///
/// Nothing is changed: scripts, and each command that they call, are tried on keys that nobody has, and what that creates is gone
/// with the same call.
///
/// Commands can be pasted, once N and names such as OTHER-HOST are replaced: they log in as this one did, and ask for a password
/// that no file or variable has, or for that of the default user if this user may not change settings.
///
/// What a managed server does not show, or this user may not ask, is `skip`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
# The server and all preheated activities
seckill doctor
# Before the sale of two of them
seckill doctor 1001 1002
# For cron: exit code 3 if anything fails
seckill doctor -q -o jsonl
")]
pub struct DoctorArgs {
    /// Activities to check, or patterns [default: all preheated]
    #[arg(value_name = "ACTIVITY")]
    activities: Vec<ActivityId>,
}

/// Checks everything, and shows it.
pub fn run(args: &DoctorArgs, session: &mut Session) -> Result<Exit> {
    let layout = session.layout(None)?;
    let mut store = session.store(layout)?.without_waiting_for_failover();
    let mut rights = rights::all(layout);
    rights.extend(rights::OF_ADMINISTRATORS.map(str::to_owned));
    let health = health::health(&mut store, &rights)?;
    let options = session.options()?;
    let fixes: Vec<Fixes> = health.nodes.iter().map(|node| fixes_for(node, &rights, &options)).collect();
    let nodes: Vec<(&Node, &Fixes)> = health.nodes.iter().zip(&fixes).collect();
    let mut rows = Vec::new();
    let scheme = if store.servers.target().has_tls() { "rediss" } else { "redis" };
    for (node, fixes) in &nodes {
        check_server(node, fixes, &health, scheme, &mut rows);
    }
    if let (Some(slots), Some((node, fixes))) = (&health.slots, nodes.first()) {
        rows.push(replication::slots(slots, &node.name, fixes).row(Check::Slots, "cluster"));
    }
    rows.extend(rights::rows(&nodes, &rights, layout, health.slots.is_some()));
    if let Some(fixes) = fixes.first() {
        // A key of a cluster may be on any node.
        let fixes = if health.slots.is_some() { fixes.following_slots() } else { fixes.clone() };
        check_sale(args, &mut store, &fixes, &mut rows)?;
    }
    // The nodes of a cluster beside each other, check by check.
    rows.sort_by_key(|row| row.check);
    match session.out.format() {
        Format::Table => row::tables(&rows, storage::loss(health.nodes.iter()).as_deref(), &mut session.out)?,
        _ => session.out.array(&rows)?,
    }
    if options.hides_password(&session.global) && rows.iter().any(CheckRow::is_fixed_by_seckill) {
        session
            .out
            .note("commands of seckill do not show the password of `--url`: set SECKILL_PASSWORD before you paste one");
    }
    Ok(Exit::done_if(rows.iter().all(|row| row.status != CheckStatus::Fail)))
}

fn fixes_for(node: &Node, asked: &[String], options: &Options) -> Fixes {
    let info = node.reading.as_ref().ok().and_then(|reading| reading.info.as_ref().ok());
    let is_valkey = info.and_then(|info| info.product()).is_some_and(|product| product.starts_with("Valkey"));
    let family = if is_valkey { "valkey" } else { "redis" };
    let name = options.login_name(node.username.as_deref());
    let granted = node.reading.as_ref().ok().and_then(|reading| reading.rights.as_ref().ok());
    let is_administrator = granted.map_or(name.is_none(), |granted| rights::administers(asked, granted));
    Fixes::new(family, &node.redis_cli, name, is_administrator, options)
}

/// The checks of one server.
fn check_server(node: &Node, fixes: &Fixes, health: &Health, scheme: &str, rows: &mut Vec<CheckRow>) {
    let is_cluster = health.slots.is_some();
    let reading = match &node.reading {
        Ok(reading) => reading,
        Err(why) => {
            let finding = Finding::fail(format!("cannot be reached: {why}"), fixes.command(&["PING"]));
            rows.push(finding.row(Check::Role, &node.name));
            return;
        }
    };
    let findings = [
        (Check::Role, replication::role(reading, &node.name, is_cluster, scheme, fixes)),
        (Check::Persistence, storage::persistence(reading, fixes)),
        (Check::Fsync, storage::fsync(reading, fixes)),
        (Check::Eviction, storage::eviction(reading, fixes)),
        (Check::Replicas, replication::replicas(reading, &node.name, health.slots.as_ref(), fixes)),
        (Check::MinReplicas, replication::min_replicas(reading, fixes)),
        (Check::Memory, storage::memory(reading, fixes)),
        (Check::OutputBuffers, storage::output_buffers(reading, fixes)),
        (Check::BusyReply, scripts::busy_reply(reading, fixes)),
        (Check::SlowScripts, scripts::slow(reading, fixes)),
        (Check::Clock, scripts::clock(reading)),
        (Check::Scripts, scripts::scripts(reading, fixes)),
        (Check::LuaFlaws, scripts::flaws(reading, fixes)),
    ];
    rows.extend(findings.into_iter().map(|(check, finding)| finding.row(check, &node.name)));
    rows.extend(sale::expiring_fields(reading, fixes).map(|finding| finding.row(Check::Expiry, &node.name)));
}

/// The checks of the activities.
fn check_sale(args: &DoctorArgs, store: &mut Store, fixes: &Fixes, rows: &mut Vec<CheckRow>) -> Result<()> {
    let mut activities = match selection::resolve(&args.activities, store) {
        Err(failure) if args.activities.is_empty() => return skip_sale(failure, store, fixes, rows),
        found => found?,
    };
    let preheated = match &args.activities[..] {
        [] => activities.clone(),
        // Without the index they count as never preheated.
        _ => activities::preheated(store).unwrap_or_default(),
    };
    let mut snapshots = match whole::wholes(store, &activities) {
        Ok(snapshots) => snapshots,
        Err(error) => return skip_sale(error.into(), store, fixes, rows),
    };
    let layout = store.layout().name();
    rows.push(sale::windows(&snapshots, fixes).row(Check::Window, layout));
    // The keys of a sharded activity are those of its shards, and its parent's.
    let shards: Vec<ActivityId> =
        snapshots.iter().map(Snapshot::parts).filter(|parts| parts.len() > 1).flatten().collect();
    snapshots.extend(snapshot::snapshots(store, &shards)?.into_iter().map(Snapshot::for_purchases));
    activities.extend(shards);
    let preheated = preheated.into_iter().collect();
    let orphaned = sale::orphaned(&snapshots, &preheated, store)?;
    let checked = [
        (Check::Keys, sale::keys(&snapshots, &preheated, &orphaned, store, fixes)),
        (Check::Expiry, sale::expiry(&activities, &snapshots, store, fixes)?),
        (Check::ForeignWrites, sale::foreign_writes(&snapshots, store, fixes)?),
        (Check::Feeds, sale::feeds(&activities, store, fixes)?),
    ];
    for (check, (troubles, sound)) in checked {
        let sound = troubles.is_empty().then(|| sound.row(check, layout));
        rows.extend(troubles.into_iter().map(|(target, finding)| finding.row(check, target)).chain(sound));
    }
    Ok(())
}

/// A user who may not look at the sale, or does not reach a node of it, still learns about the servers.
fn skip_sale(failure: Failure, store: &Store, fixes: &Fixes, rows: &mut Vec<CheckRow>) -> Result<()> {
    // A node that is not reached, or refuses the login, has a row of its own that says so.
    let is_of_node = |error: &StoreError| error.is_connection() || matches!(error, StoreError::Login { .. });
    let is_known = |error: &&StoreError| {
        let is_refused = error.is_refusal() || error.is_unknown_command();
        is_refused || error.is_transient() || store.servers.is_cluster() && is_of_node(error)
    };
    let Some(error) = failure.store().filter(is_known) else { return Err(failure) };
    let checks = [Check::Keys, Check::Expiry, Check::Window, Check::ForeignWrites, Check::Feeds];
    let finding = |check| match check {
        // COMMAND INFO replies nil for what the server lacks.
        Check::Keys if error.is_unknown_command() => {
            let ask = ["COMMAND", "INFO", "EVALSHA", "SSCAN"].into_iter().chain(SNAPSHOT.commands());
            Finding::fail(error.to_string(), fixes.command(&ask.collect::<Vec<_>>()))
        }
        _ => Finding::skip(error.to_string()),
    };
    rows.extend(checks.map(|check| finding(check).row(check, store.layout().name())));
    Ok(())
}

//! placeholder; its owner overwrites it
use crate::inventory::failure::Exit;
/// x
#[derive(Debug, clap::Args)]
pub struct ReconcileArgs {}
/// x
pub fn run(_: &ReconcileArgs, _: &mut super::session::Session) -> anyhow::Result<Exit> { Ok(Exit::Done) }
/// x
pub fn audit(_: &mut crate::store::Store, _: &crate::inventory::id::ActivityId, _: Option<crate::inventory::number::Units>) -> anyhow::Result<crate::inventory::drift::Verdict> { Ok(crate::inventory::drift::Verdict::Match) }

//! What the ledger of an activity says of one user: sums, the newest orders, who paused it; and `inspect --user U --why` without an
//! activity, which lists all that a user did, activity by activity.

use std::collections::VecDeque;

use crate::admin::activities;
use crate::cli::commands::ledger::{LedgerRow, rows_of};
use crate::cli::failure::{Exit, Result};
use crate::cli::output::{Output, counted, named, row};
use crate::cli::shared::hints;
use crate::model::ledger::column;
use crate::model::{ActivityId, Entry, EntryId, Millis, Op, Snapshot, UserId};
use crate::read::history::TrimmedUnits;
use crate::read::{history, ledger, snapshot};
use crate::store::Store;

/// Activities that a message names; of more only the number is.
pub(super) const MAX_NAMED: usize = 5;

/// Where the orders of archived activities are.
pub(super) const IN_FILES: &str =
    "what is archived has its orders in files, and `seckill preheat --restore DIR` brings them back";

/// Streams a row of the ledger for each order of the user.
pub(super) fn run(user: &UserId, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let activities = activities::preheated(store)?;
    hints::none_preheated(&activities, store, out);
    let mut snapshots = snapshot::snapshots(store, &activities)?;
    for snapshot in &mut snapshots {
        // Of a sharded activity the home has all that the user did.
        let home = snapshot.home(user.as_str().as_bytes());
        if home != snapshot.activity {
            *snapshot = snapshot::snapshot(store, &home)?;
        }
    }
    hints::warn_of_replica(store, out);
    let terminal = out.terminal();
    let (mut without, mut archived, mut is_sound) = (Vec::<&ActivityId>::new(), Vec::<&ActivityId>::new(), true);
    let mut warnings = out.warnings();
    let mut rows = out.stream::<LedgerRow>()?;
    for (activity, snapshot) in activities.iter().zip(&snapshots) {
        let home = &snapshot.activity;
        let corrupt = hints::corrupt(snapshot);
        is_sound &= corrupt.is_none();
        corrupt.iter().for_each(|corrupt| warnings.warn(corrupt));
        let Some(last) = ledger::last_to_read(store, snapshot) else {
            match corrupt {
                Some(_) => {}
                None if snapshot.is_archived() => archived.push(activity),
                None => without.push(activity),
            }
            continue;
        };
        let checkpoint = snapshot.meta.as_ref().and_then(|meta| meta.checkpoint.as_ref());
        if let Some(checkpoint) = checkpoint {
            let held = match history::carried(store, home, checkpoint, user.as_str().as_bytes())? {
                TrimmedUnits::Units(0) if checkpoint.removed == 0 => None,
                TrimmedUnits::Units(held) => {
                    Some(format!("`{user}` held {} by then", counted(u64::try_from(held).unwrap_or_default(), "unit")))
                }
                TrimmedUnits::Unknown => Some(format!("`{user}` held units whose number nobody recorded")),
                TrimmedUnits::Damaged => Some(format!("what they say of `{user}` is gone")),
            };
            if let Some(held) = held {
                let what = if checkpoint.removed == 0 { "begins at" } else { "is trimmed up to" };
                terminal
                    .note(format!("the ledger of `{activity}` {what} {}: {held}", checkpoint.upto.at().to_second()));
            }
        }
        let after = checkpoint.map_or(EntryId::ZERO, |checkpoint| checkpoint.upto);
        let mut pushed = Ok(());
        ledger::each_entry(store, home, after, last, |entry| {
            if names(entry.users.as_deref(), user.as_str()) {
                pushed = rows_of(activity, entry, Some(user)).try_for_each(|(row, _)| rows.push(&row));
            }
            pushed.is_ok() && !rows.is_lost()
        })?;
        pushed?;
    }
    rows.finish()?;
    warnings.end();
    for (activities, why) in [(archived, IN_FILES), (without, "no ledger, so what was bought there is not listed")] {
        if !activities.is_empty() {
            out.note(format!("{why}: {}", named(&activities, MAX_NAMED)));
        }
    }
    Ok(Exit::done_if(is_sound))
}

/// Orders that are kept, the newest: a bot may have thousands.
const KEPT: usize = 1000;

row! {
    /// One order of the user, or one repair.
    pub(super) struct EntryRow as _row from (row: LedgerRow, holds: Option<i64>) {
        pub id: EntryId as "entry" = row.id;
        data pub n: usize = row.n;
        pub time: Millis = row.time;
        pub op: String = row.op;
        /// Units bought or returned; the change by a repair.
        pub quantity: Option<i64> = row.quantity;
        /// Units that the user holds from here on; `None` if nobody knows.
        pub holds: Option<i64> = holds;
        data pub stock: Option<u64> = row.stock;
        pub request: Option<String> = row.request, flexible;
        pub by: Option<String> = given(row.by), flexible;
        pub reason: Option<String> = given(row.reason), flexible;
    }
    where {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    }
}

/// What the ledger says of a user, up to one instant.
#[derive(Debug, Default)]
pub(super) struct UserEntries {
    /// The newest, oldest first.
    pub entries: VecDeque<EntryRow>,
    /// How many came before them.
    pub more: u64,
    pub bought: i64,
    pub refunded: i64,
    /// Units that the user holds by the ledger; `None` if nobody knows.
    pub holds: Option<i64>,
    /// What the user held by the entries that were trimmed.
    pub carried: Option<TrimmedUnits>,
    /// The entry of a pause that was not ended.
    pub paused: Option<Entry>,
}

impl UserEntries {
    /// Reads the ledger up to the instant of the snapshot, in constant memory.
    pub(super) fn read(snapshot: &Snapshot, user: &UserId, store: &mut Store) -> Result<Self> {
        let mut found = Self { holds: Some(0), ..Self::default() };
        let checkpoint = snapshot.meta.as_ref().and_then(|meta| meta.checkpoint.as_ref());
        if let Some(checkpoint) = checkpoint {
            let carried = history::carried(store, &snapshot.activity, checkpoint, user.as_str().as_bytes())?;
            found.holds = match carried {
                TrimmedUnits::Units(units) => Some(units),
                TrimmedUnits::Unknown | TrimmedUnits::Damaged => None,
            };
            found.carried = Some(carried);
        }
        let after = checkpoint.map_or(EntryId::ZERO, |checkpoint| checkpoint.upto);
        let Some(last) = snapshot.ledger_last else { return Ok(found) };
        ledger::each_entry(store, &snapshot.activity, after, last, |entry| {
            found.add(&snapshot.activity, entry, user);
            true
        })?;
        Ok(found)
    }

    fn add(&mut self, activity: &ActivityId, entry: &Entry, user: &UserId) {
        let op = entry.known_op();
        match op {
            Some(Op::Pause) => self.paused = Some(entry.clone()),
            Some(Op::Resume) => self.paused = None,
            _ => {}
        }
        if !names(entry.users.as_deref(), user.as_str()) {
            return;
        }
        for (row, order) in rows_of(activity, entry, Some(user)) {
            match (op, row.quantity) {
                (Some(Op::Deduct | Op::Hold), Some(units)) => {
                    self.bought += units;
                    self.holds = self.holds.map(|holds| holds + units);
                }
                // A refund of units that nobody knew was of all of them.
                (Some(Op::Refund | Op::Release | Op::Expire), Some(units)) => {
                    self.refunded += units;
                    self.holds = Some(self.holds.map_or(0, |holds| holds - units));
                }
                (Some(Op::Repair), Some(_)) => self.holds = order.to(),
                _ => {}
            }
            if self.entries.len() == KEPT {
                self.entries.pop_front();
                self.more += 1;
            }
            self.entries.push_back(EntryRow::new(row, self.holds));
        }
    }
}

/// Whether a column has a text: most entries are not worth decoding.
pub(super) fn names(texts: Option<&[u8]>, text: &str) -> bool {
    texts.is_some_and(|texts| column(texts).any(|other| other == text.as_bytes()))
}

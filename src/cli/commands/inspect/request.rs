//! `inspect --request R`: finds an order by its request id, or by the `<job>:<line>` of a file.

use crate::audit::evidence::purchases::RequestRecord;
use crate::cli::commands::inspect::history::{IN_FILES, MAX_NAMED, names};
use crate::cli::commands::ledger::{LedgerRow, rows_of};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::{Cell, Output, named, row};
use crate::cli::shared::{hints, selection};
use crate::error::StoreError;
use crate::model::id::StoredUser;
use crate::model::ledger::OrderTexts;
use crate::model::{ActivityId, EntryId, HoldState, Millis, Op, RequestId, Snapshot, Status, UserId};
use crate::read::history::{self, StoredRequest};
use crate::read::{ledger, snapshot};
use crate::store::Store;

row! {
    /// How an order was decided in one activity.
    pub(super) struct RequestRow as row from (id: &RequestId, name: &ActivityId) {
        data request: String = id.to_string();
        activity: String = name.to_string();
        status: Status = Status::Ok => row.state.map_or_else(|| Cell::status(row.status), |state| Cell::text(state.name()));
        /// `multi_deduct` of an order of several activities, if that is known.
        op: Option<String> = None, flexible;
        user: Option<String> = None => Cell::user(row.user.as_deref(), row.user_hex.as_ref()), flexible;
        quantity: Option<i64> = None;
        data stock: Option<u64> = None;
        id: Option<EntryId> as "entry" = None => row.id.map_or_else(Cell::unknown, Cell::number);
        data n: Option<usize> = None;
        time: Option<Millis> = None;
        by: Option<String> = None, flexible;
        reason: Option<String> = None, flexible;
        /// Of a hold: how it is now, and when and by whom it ended.
        sparse state: Option<HoldState> = None;
        sparse ended_at: Option<Millis> = None;
        sparse ended_by: Option<String> = None;
        sparse user_hex: Option<String> = None;
    }
}

impl RequestRow {
    /// As an entry has it.
    fn of_ledger(row: LedgerRow, request: &RequestId, activity: &ActivityId) -> Self {
        let LedgerRow { id, n, time, op, user, quantity, stock, by, reason, user_hex, .. } = row;
        let (id, n, time, op) = (Some(id), Some(n), Some(time), Some(op));
        Self { op, user, quantity, stock, id, n, time, by, reason, user_hex, ..Self::new(request, activity) }
    }

    /// As it is stored under its request id.
    fn of_record(record: &RequestRecord, request: &RequestId, activity: &ActivityId) -> Self {
        let RequestRecord { status, op, quantity, user, .. } = record;
        let (op, user_hex) = (Some(op.clone()), user.user_hex());
        let user = user.text().filter(|user| !user.is_empty()).map(str::to_owned);
        Self { status: *status, op, user, quantity: *quantity, user_hex, ..Self::new(request, activity) }
    }

    /// ``the hold `h1` was released in `1001` at 2026-11-21T10:00:00Z by ann@desk``; nothing of an open one.
    fn end_in_words(&self) -> Option<String> {
        let what = match self.state? {
            HoldState::Held => return None,
            HoldState::Confirmed => "was confirmed",
            HoldState::Released => "was released",
            HoldState::Expired => "expired",
            HoldState::Void => "ended and can never be confirmed",
        };
        let at = self.ended_at.map(|at| format!(" at {}", at.to_second())).unwrap_or_default();
        let by = self.ended_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        Some(format!("the hold `{}` {what} in `{}`{at}{by}", self.request, self.activity))
    }

    fn is_of(&self, user: &StoredUser) -> bool {
        self.user.as_deref() == user.text().filter(|user| !user.is_empty()) && self.user_hex == user.user_hex()
    }
}

/// Finds it in the activities that were named, else in all that were preheated; that of the user, if one is given.
pub(super) fn run(
    request: &RequestId,
    users: &[UserId],
    activities: &[ActivityId],
    store: &mut Store,
    out: &mut Output,
) -> Result<Exit> {
    let user = match users {
        [] => None,
        [user] => Some(user.as_str()),
        _ => return Err(Failure::usage("`--request` is of one user").hint("give one `--user`")),
    };
    let sharded = selection::find(activities, store)?;
    // Without its user nobody knows where an order is in shards; the other activities are asked all the same.
    let (activities, unasked): (Vec<&ActivityId>, Vec<&ActivityId>) =
        activities.iter().partition(|activity| user.is_some() || !sharded.contains_key(*activity));
    let home = |activity: &&ActivityId| match (sharded.get(*activity), user) {
        (Some(shards), Some(user)) => shards.home_of(activity, user.as_bytes()),
        _ => (*activity).clone(),
    };
    let homes: Vec<ActivityId> = activities.iter().map(home).collect();
    let known = history::known_requests(store, &homes, request.as_str())?;
    hints::warn_of_replica(store, out);
    let mut rows = Vec::new();
    let (mut decided, mut is_sound) = (0, true);
    for ((name, activity), known) in activities.iter().zip(&homes).zip(known) {
        if known.record.is_none() && !known.is_decided && !known.is_unreadable {
            continue;
        }
        let record = known.record.as_deref().and_then(RequestRecord::read);
        let snapshot = snapshot::snapshot(store, activity)?;
        if let Some(corrupt) = hints::corrupt(&snapshot) {
            out.warn(corrupt);
            is_sound = false;
        }
        let mut found = find(request, &snapshot, &known, record.as_ref(), store)?;
        match record {
            Some(record) if !found.iter().any(|row| row.is_of(&record.user)) => {
                let state = known.hold.map(|hold| hold.state);
                out.note(why_no_entry(&snapshot, &record, store));
                found.push(RequestRow { state, ..RequestRow::of_record(&record, request, activity) });
            }
            None if found.is_empty() => decided += usize::from(known.is_decided),
            _ => {}
        }
        rows.extend(found.into_iter().map(|row| RequestRow { activity: name.to_string(), ..row }));
    }
    rows.retain(|row| user.is_none_or(|user| row.user.as_deref() == Some(user)));
    if let (true, Some(activity)) = (rows.is_empty(), unasked.first()) {
        return Err(StoreError::NoUser { activity: activity.to_string(), line: None }.into());
    }
    if rows.is_empty() {
        return Err(not_found((request, user), &activities, &homes, decided > 0, store, out)?);
    }
    if !unasked.is_empty() {
        out.note(format!(
            "not asked, because a request id belongs to its user in shards: {}",
            named(&unasked, MAX_NAMED)
        ));
    }
    rows.iter().filter_map(RequestRow::end_in_words).for_each(|end| out.note(end));
    out.array(&rows)?;
    Ok(Exit::done_if(is_sound))
}

/// The error for a request id that no order has: what else may have it.
fn not_found(
    (request, user): (&RequestId, Option<&str>),
    activities: &[&ActivityId],
    homes: &[ActivityId],
    is_decided: bool,
    store: &mut Store,
    out: &Output,
) -> Result<Failure> {
    let mut warnings = out.warnings();
    let mut archived = Vec::new();
    for (activity, snapshot) in activities.iter().zip(snapshot::snapshots(store, homes)?) {
        hints::corrupt(&snapshot).into_iter().for_each(|corrupt| warnings.warn(corrupt));
        archived.extend(snapshot.is_archived().then_some(*activity));
    }
    warnings.end();
    if !archived.is_empty() {
        let failure = Failure::new(Exit::Refused, format!("no order on the server has the request id `{request}`"));
        return Ok(failure.hint(format!("{IN_FILES}: {}", named(&archived, MAX_NAMED))));
    }
    let of = user.map(|user| format!(" of `{user}`")).unwrap_or_default();
    let failure = Failure::new(Exit::Refused, format!("no order{of} has the request id `{request}`"));
    Ok(failure.hint(match is_decided {
        false => "an order that was refused leaves no trace; `--layout` names other keys",
        true => {
            "the job is known and has decided that line: it has an id of its own, was refused, is of another activity, or its entry was \
             trimmed"
        }
    }))
}

/// The order as the ledger has it; a hold with the last entry that names it; of one that a repair took back, that repair. Files of
/// several operations may have the line of one job, each for another user.
fn find(
    request: &RequestId,
    snapshot: &Snapshot,
    known: &StoredRequest,
    record: Option<&RequestRecord>,
    store: &mut Store,
) -> Result<Vec<RequestRow>> {
    let activity = &snapshot.activity;
    let Some(last) = ledger::last_to_read(store, snapshot) else { return Ok(Vec::new()) };
    let id = Some(request.as_str());
    let job = request.as_str().rsplit_once(':').map(|(job, _)| job.as_bytes());
    let reversed = record.filter(|record| record.status == Status::Reversed);
    // The entry of an order of several activities is a `deduct`.
    let multi = record.filter(|record| record.status == Status::Ok && record.op == "multi_deduct");
    let mut found: Vec<RequestRow> = Vec::new();
    ledger::each_entry(store, activity, EntryId::ZERO, last, |entry| {
        let is_of_job = job.is_some() && entry.job.as_deref() == job;
        if let Some(record) = reversed
            && entry.reversed_ids().iter().any(|id| id == request.as_str())
        {
            let place = found.iter().position(|row| row.is_of(&record.user));
            let of_record = || RequestRow::of_record(record, request, activity);
            let RequestRow { user, quantity, user_hex, .. } = place.map_or_else(of_record, |place| found.remove(place));
            // The entry says when, by whom and why, but not of how many units.
            let without_order = LedgerRow::new(activity, entry, 0, &OrderTexts([None; 4]), None);
            let repair = RequestRow::of_ledger(without_order, request, activity);
            found.push(RequestRow { status: Status::Reversed, user, quantity, n: None, user_hex, ..repair });
        } else if (is_of_job || names(entry.requests.as_deref(), request.as_str()))
            && let Some((row, _)) = rows_of(activity, entry, None).find(|(row, _)| row.request.as_deref() == id)
        {
            let row = RequestRow::of_ledger(row, request, activity);
            let hold = known.hold.as_ref().filter(|hold| row.is_of(&hold.user));
            match found.iter_mut().find(|it| it.user == row.user && it.user_hex == row.user_hex) {
                None => {
                    let op = multi.filter(|record| row.is_of(&record.user)).map(|record| record.op.clone());
                    found.push(RequestRow { state: hold.map(|hold| hold.state), op: op.or(row.op), ..row });
                }
                Some(first) if hold.is_some() && entry.known_op() != Some(Op::Hold) => {
                    (first.ended_at, first.ended_by) = (row.time, row.by);
                }
                Some(_) => {}
            }
        }
        let has_ended = || known.hold.as_ref().is_some_and(|hold| hold.state != HoldState::Held);
        reversed.is_some() || found.is_empty() || known.is_decided || has_ended()
    })?;
    found.retain(|row| reversed.is_none_or(|record| row.status == Status::Reversed || !row.is_of(&record.user)));
    Ok(found)
}

/// Why only the record of its request id knows an order.
fn why_no_entry(snapshot: &Snapshot, record: &RequestRecord, store: &Store) -> String {
    let activity = &snapshot.activity;
    let meta = snapshot.meta.as_ref();
    let checkpoint = meta.and_then(|meta| meta.checkpoint.as_ref()).filter(|checkpoint| checkpoint.removed > 0);
    match (record.status, checkpoint) {
        (Status::Ok, Some(checkpoint)) => {
            format!("its entry in `{activity}` was trimmed: it is from {} or before", checkpoint.upto.at().to_second())
        }
        (Status::Ok, None) if snapshot.corrupt.is_some() && ledger::last_to_read(store, snapshot).is_none() => {
            format!("the ledger of `{activity}` cannot be read: when and by whom is not known")
        }
        (Status::Ok, None) => format!("`{activity}` has no ledger entry of it: when and by whom is not recorded"),
        (Status::Reversed, _) => {
            format!("a repair took it back in `{activity}`: no ledger entry says when and by whom")
        }
        _ => format!("it was refused in `{activity}`: refusals have no ledger entry"),
    }
}

//! Everything that is known of a sale.

use crate::cli::commands::inspect::detail::TopBuyers;
use crate::cli::commands::inspect::rows::ParticipantRow;
use crate::cli::commands::report::row::{Figures, MarkRow, RangeRow, ReportRow};
use crate::cli::commands::report::series::Series;
use crate::cli::error::{Error, Result};
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::Output;
use crate::cli::shared::hints;
use crate::model::activity::rules::StoredState;
use crate::model::activity::{Meta, Snapshot, State};
use crate::model::id::{ActivityId, StoredUser};
use crate::model::ledger::EntryId;
use crate::model::number::signed;
use crate::model::order::Bought;
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::read::history;
use crate::read::ledger;
use crate::read::participants;
use crate::read::snapshot;
use crate::report::Sales;
use crate::report::units_a_user::UnitsAUser;
use crate::report::{Balance, Objection};
use crate::store::Store;

/// A sale, read.
pub(super) struct Report {
    pub snapshot: Snapshot,
    pub meta: Meta,
    pub sales: Sales,
    pub balance: Balance,
    pub series: Option<Series>,
    /// The first entry that was read.
    pub first_entry: Option<Millis>,
    /// What users hold; `None` if the layout records none.
    pub users: Option<UnitsAUser>,
    /// The largest buyers; of some nobody recorded the units.
    pub buyers: Vec<(StoredUser, Option<u64>)>,
}

pub(super) fn read(snapshot: Snapshot, top: usize, store: &mut Store, out: &Output) -> Result<Report> {
    let activity = &snapshot.activity.clone();
    hints::warn_of_replica(store, out);
    let (meta, last) = with_ledger(&snapshot, store, out)?;
    let checkpoint = meta.checkpoint.as_ref();
    let mut sales = Sales::new(checkpoint);
    let mut first_entry = None;
    history::set_background(store, snapshot.state() == State::Live);
    let after = checkpoint.map_or(EntryId::ZERO, |checkpoint| checkpoint.upto);
    let progress = out.progress("reading the ledger", 0);
    ledger::each_entry(store, activity, after, last, |entry| {
        first_entry.get_or_insert(entry.id.at());
        sales.add(entry);
        progress.inc(1);
        true
    })?;
    progress.finish();
    let (users, buyers) = buyers(std::slice::from_ref(activity), top, store, out)?;
    // Only what nobody changed meanwhile can be compared.
    let is_same = match &users {
        Some(_) => self::snapshot(activity, store)?.ledger_last == snapshot.ledger_last,
        None => false,
    };
    let counters = users.as_ref().filter(|users| is_same && users.unknown == 0).map(|users| users.units);
    let balance = Balance::new(&sales, meta.epoch, meta.total, snapshot.stock, counters);
    if balance.objection == Some(Objection::NoBeginning)
        && let Some(stock) = snapshot.stock
    {
        sales.set_sold(signed(meta.total) - signed(stock));
    }
    let series = Series::new(&sales, meta.starts_at);
    Ok(Report { snapshot, meta, sales, balance, series, first_entry, users, buyers })
}

pub(super) fn snapshot(activity: &ActivityId, store: &mut Store) -> Result<Snapshot> {
    let snapshots = snapshot::snapshots(store, std::slice::from_ref(activity))?;
    let missing = || Failure::failed(format!("the server did not answer for `{activity}`"));
    Ok(snapshots.into_iter().next().ok_or_else(missing)?)
}

/// What the activity was preheated with, and the last entry of its ledger.
///
/// # Errors
/// It has none.
pub(super) fn with_ledger(snapshot: &Snapshot, store: &mut Store, out: &Output) -> Result<(Meta, EntryId)> {
    let activity = &snapshot.activity;
    let refused = |why: String| Failure::new(Exit::Refused, why);
    if let Some(corrupt) = &snapshot.corrupt {
        return Err(refused(format!("`{activity}` is corrupt: key `{}` {}", corrupt.key, corrupt.what))
            .hint("`seckill doctor` and `seckill reconcile` say what is left")
            .into());
    }
    let last = snapshot.ledger_last.as_ref().and_then(|last| last.parse().ok());
    match (&snapshot.meta, last) {
        (Some(meta), Some(last)) => Ok((meta.clone(), last)),
        (Some(meta), None) if meta.stored_state == StoredState::Archived => {
            Err(refused(format!("`{activity}` is archived: its ledger is in the files of the archive"))
                .hint("`seckill preheat --restore DIR` brings it back")
                .into())
        }
        (Some(meta), None) if meta.ledger => Err(refused(format!("the ledger of `{activity}` is gone"))
            .hint(format!(
                "`seckill inspect {activity}` shows stock and buyers; `seckill doctor` looks for what else is gone"
            ))
            .into()),
        (Some(_), None) => Err(refused(format!("`{activity}` has no ledger, and a report is made from it"))
            .hint(format!(
                "it was preheated with `ledger: false`; `seckill inspect {activity}` shows stock and buyers, \
                 `seckill reconcile {activity} --orders FILE` audits them"
            ))
            .into()),
        (None, _) if snapshot.status == Status::NotPreheated => {
            hints::other_layouts([activity], store, out);
            Err(refused(format!("`{activity}` is not_preheated: it has no ledger")).into())
        }
        (None, _) => Err(refused(format!("`{activity}` has no ledger: another system created it"))
            .hint(format!("`seckill inspect {activity}` shows stock and buyers"))
            .into()),
    }
}

type Buyers = Vec<(StoredUser, Option<u64>)>;

/// All participants of some activities in one pass, in constant memory.
pub(super) fn buyers(
    activities: &[ActivityId],
    top: usize,
    store: &mut Store,
    out: &Output,
) -> Result<(Option<UnitsAUser>, Buyers)> {
    if !store.layout().kind().has_users() {
        return Ok((None, Vec::new()));
    }
    let mut users = UnitsAUser::default();
    let mut tally = TopBuyers::new(top);
    let mut warnings = out.warnings();
    for activity in activities {
        participants::each(store, activity, |user, units| {
            if let Ok(bought) = &units {
                users.count(bought.units());
            }
            tally.count(user, units);
            Ok::<_, Error>(())
        })?;
        std::mem::take(&mut tally.invalid).warn(&mut warnings, activity);
    }
    warnings.end();
    let buyers = tally.most.into_iter().map(|(units, user)| (StoredUser::new(user), units.0));
    Ok((Some(users), buyers.collect()))
}

impl Report {
    /// When units could be bought first, if that is known to be before the first order.
    pub(super) fn opened_at(&self) -> Option<Millis> {
        self.meta.starts_at.filter(|start| self.sales.first_order.is_some_and(|first| *start <= first))
    }

    /// When a time is counted from: the window's begin, else the first order.
    pub(super) fn begin(&self) -> Option<Millis> {
        self.opened_at().or(self.sales.first_order)
    }

    /// When the ledger begins, if orders before that are not known one by one.
    pub(super) fn since(&self) -> Option<Millis> {
        let is_part = self.meta.checkpoint.is_some() || self.balance.objection == Some(Objection::NoBeginning);
        self.first_entry.filter(|_| is_part)
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn figures(&self) -> Figures {
        let Self { meta, sales, balance, snapshot, .. } = self;
        let seconds = |millis: u64| millis as f64 / 1000.0;
        Figures {
            activity: snapshot.activity.to_string(),
            title: Some(meta.title.clone()).filter(|title| !title.is_empty()),
            state: snapshot.state().name(),
            total: meta.total,
            stock: snapshot.stock,
            sold: sales.sold,
            buyers: snapshot.buyers,
            per_user_limit: meta.per_user_limit,
            starts_at: meta.starts_at,
            ends_at: meta.ends_at,
            since: self.since(),
            sold_before: sales.sold_at_begin,
            first_order: sales.first_order,
            last_order: sales.last_order,
            last_refund: sales.last_refund,
            sold_out_at: sales.sold_out_at,
            sold_out_in: sales.sold_out_at.zip(self.begin()).map(|(end, begin)| seconds(end.get() - begin.get())),
            orders: sales.orders,
            bought: sales.bought,
            refunds: sales.refunds,
            returned: sales.returned,
            holds: sales.holds,
            confirmed: sales.confirmed,
            released: sales.released,
            half_bought_at: sales.timeline.bought_by(50),
            rate: sales.rate().map(|rate| (rate * 1e4).round() / 1e4),
            peak_rate: sales.peak.map(|peak| peak.units),
            peak_at: sales.peak.map(|peak| peak.at),
            verdict: balance.verdict(),
            proof: "sums",
            objection: balance.objection,
            held: self.meta.holds,
            counters: balance.counters,
            period: self.series.as_ref().map(|series| seconds(series.width)),
        }
    }

    pub(super) fn row(&self) -> ReportRow {
        ReportRow {
            figures: self.figures(),
            timeline: self.series.as_ref().map(Series::moving).unwrap_or_default(),
            marks: self.marks(),
            more_marks: self.sales.more_marks,
            units_a_user: self.ranges(),
            unknown_users: self.users.as_ref().map_or(0, |users| users.unknown),
            top_buyers: self.participants(),
        }
    }

    pub(super) fn marks(&self) -> Vec<MarkRow> {
        self.sales.marks.iter().map(MarkRow::new).collect()
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn ranges(&self) -> Vec<RangeRow> {
        let Some(users) = &self.users else { return Vec::new() };
        let all = users.users().max(1) as f64;
        let row = |range: crate::report::units_a_user::UnitRange| RangeRow {
            from: range.from,
            to: range.to,
            users: range.users,
            share: range.users as f64 / all,
        };
        users.ranges().into_iter().map(row).collect()
    }

    pub(super) fn participants(&self) -> Vec<ParticipantRow> {
        let limit = self.meta.per_user_limit;
        let row = |(user, units): &(StoredUser, Option<u64>)| {
            ParticipantRow::new(user.as_bytes(), units.map_or(Bought::Unknown, Bought::Units), limit)
        };
        self.buyers.iter().map(row).collect()
    }
}

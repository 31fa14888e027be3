//! `inspect ID --user U --why`: whether a user can buy now, and if not, why, with the entries that prove it.

use crate::cli::commands::inspect::history::{EntryRow, UserEntries};
use crate::cli::commands::inspect::{detail, missing, without_buyers};
use crate::cli::failure::{Exit, Result};
use crate::cli::output::{Format, Output, counted, hanging, row};
use crate::cli::shared::hints;
use crate::model::number::MAX_QUANTITY;
use crate::model::{ActivityId, Bought, Entry, Kind, Meta, Millis, Snapshot, Status, StoredState, UserId, option};
use crate::read::history::TrimmedUnits;
use crate::read::{snapshot, whole};
use crate::store::Store;

row! {
    /// The answer with its reasons. `status` is what a purchase of one unit would get.
    struct WhyRow as row from (question: &Question<'_>, who: &UserId, answer: Status) {
        activity: String = snapshot.activity.to_string();
        user: String = who.to_string(), flexible;
        status: Status = answer;
        /// Units that the user can buy now.
        can_buy: u64 = if answer == Status::Ok { question.most() } else { 0 };
        state: &'static str = snapshot.state_name();
        stock: Option<u64> = snapshot.stock;
        bought: Option<Bought> = question.held;
        per_user_limit: Option<u64> as "limit" = meta.and_then(|meta| meta.per_user_limit);
        data starts_at: Option<Millis> = meta.and_then(|meta| meta.starts_at);
        data ends_at: Option<Millis> = meta.and_then(|meta| meta.ends_at);
        /// What the ledger has of the user.
        data ledger_bought: Option<i64> = has_ledger.then_some(entries.bought);
        data ledger_refunded: Option<i64> = has_ledger.then_some(entries.refunded);
        data ledger_holds: Option<i64> = entries.holds.filter(|_| has_ledger);
        /// Entries up to here were trimmed.
        data trimmed_until: Option<Millis> = trimmed.map(|checkpoint| checkpoint.upto.at());
        /// Sentences, the reasons of the status first.
        document because: Vec<String> = Vec::new();
        /// The newest orders of the user, oldest first.
        document entries: Vec<EntryRow> = Vec::new();
        /// How many came before them.
        document more: u64 = entries.more;
    }
    where {
        let Question { snapshot, entries, .. } = question;
        let (meta, has_ledger) = (snapshot.meta.as_ref(), snapshot.ledger_last.is_some());
        let trimmed = meta.and_then(|meta| meta.checkpoint.as_ref()).filter(|checkpoint| checkpoint.removed > 0);
    }
}

/// Explains.
pub(super) fn run(activity: &ActivityId, user: &UserId, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let (mut snapshot, mut held) = snapshot::bought(store, activity, std::slice::from_ref(user))?;
    let mut recorded = snapshot.clone();
    snapshot = snapshot.for_purchases();
    if snapshot.parts().len() > 1 {
        // Units are those of all shards; what the user did is at the home.
        (recorded, held) =
            snapshot::bought(store, &snapshot.home(user.as_str().as_bytes()), std::slice::from_ref(user))?;
        snapshot = whole::wholes(store, std::slice::from_ref(activity))?.pop().unwrap_or(snapshot);
        snapshot.ledger_last = recorded.ledger_last;
        if let (Some(meta), Some(at_home)) = (&mut snapshot.meta, &recorded.meta) {
            meta.checkpoint.clone_from(&at_home.checkpoint);
            meta.stored_state = at_home.stored_state;
        }
    }
    let mut warnings = out.warnings();
    detail::warn(&mut warnings, &snapshot);
    detail::note_archived(&mut warnings, &snapshot);
    warnings.end();
    hints::warn_of_replica(store, out);
    hints::other_layouts(missing(std::slice::from_ref(&snapshot)), store, out);
    hints::order_sets(without_buyers(std::slice::from_ref(&snapshot)), store, out);
    let entries = UserEntries::read(&recorded, user, store)?;
    let is_known = snapshot.status.is_done() && !snapshot.is_archived();
    let held = held.first().copied().flatten().or(is_known.then_some(Bought::Units(0)));
    let kind = store.layout().kind();
    let question = Question { snapshot: &snapshot, user: user.as_str(), held, kind, entries: &entries };
    let (refusals, facts) = (question.refusals(), question.facts());
    let status = refusals.first().map_or(Status::Ok, |(status, _)| *status);
    let row = WhyRow::new(&question, user, status);
    let because = refusals.into_iter().map(|(_, sentence)| sentence).chain(facts).collect();
    let why = WhyRow { because, entries: entries.entries.into(), ..row };
    match out.format() {
        Format::Table => show_in_words(&why, activity, user, out)?,
        _ => out.object(&why)?,
    }
    Ok(Exit::done_if(snapshot.status.is_done()))
}

fn show_in_words(why: &WhyRow, activity: &ActivityId, user: &UserId, out: &mut Output) -> Result<()> {
    let answer = match (why.status, why.can_buy) {
        (Status::Ok, 1) => format!("`{user}` can buy 1 unit of `{activity}` now."),
        (Status::Ok, units) => format!("`{user}` can buy up to {} of `{activity}` now.", counted(units, "unit")),
        (status, _) => format!("`{user}` cannot buy `{activity}`: {status}."),
    };
    out.line(&hanging(&answer, out.terminal().width));
    for sentence in &why.because {
        out.line(&hanging(&format!("- {sentence}"), out.terminal().width));
    }
    if !why.entries.is_empty() {
        out.table(Some(&format!("Orders of {user}")), &why.entries)?;
    }
    if why.more > 0 {
        let of_user = option("--user", user);
        out.note(format!("{} older orders: `seckill ledger {activity:#} {of_user}` shows all", why.more));
    }
    Ok(())
}

/// What is asked, and all that is known.
struct Question<'a> {
    snapshot: &'a Snapshot,
    user: &'a str,
    held: Option<Bought>,
    kind: Kind,
    entries: &'a UserEntries,
}

impl Question<'_> {
    /// What refuses a purchase of one unit, as the script decides it: the first is what it would answer.
    fn refusals(&self) -> Vec<(Status, String)> {
        let Self { snapshot, user, .. } = self;
        let id = &snapshot.activity;
        if let Some(corrupt) = &snapshot.corrupt {
            return vec![(Status::Corrupt, format!("Key `{}` {}.", corrupt.key, corrupt.what))];
        }
        if snapshot.is_archived() {
            let why = format!("`{id}` is archived: `seckill preheat --restore DIR` brings it back.");
            return vec![(Status::Ended, why)];
        }
        if snapshot.stock.is_none() {
            let gone = "is gone (evicted? expired?)";
            let why = match &snapshot.meta {
                Some(_) => format!("The stock key of `{id}` {gone}: `seckill reconcile {id:#} --fix`."),
                None => format!("`{id}` does not exist in this layout."),
            };
            return vec![(Status::NotPreheated, why)];
        }
        let meta = snapshot.meta.as_ref();
        let mut refusals = meta.map(|meta| self.closed(meta)).unwrap_or_default();
        let limit = meta.and_then(|meta| meta.per_user_limit).filter(|_| !self.kind.records_once());
        if let (Some(limit), Some(Bought::Units(held))) = (limit, self.held)
            && held >= limit
        {
            let why = format!("The limit is {} for a user, and `{user}` holds {held}.", counted(limit, "unit"));
            refusals.push((Status::LimitExceeded, why));
        }
        let holds = !matches!(self.held, None | Some(Bought::Units(0)));
        if self.kind.records_once() && holds {
            let what = if self.kind == Kind::Coupon { "has a coupon" } else { "bought" };
            refusals.push((Status::LimitExceeded, format!("A user buys once in this layout, and `{user}` {what}.")));
        }
        let in_transit = snapshot.sums.as_ref().and_then(|sums| sums.in_transit).unwrap_or_default();
        if self.for_sale() == 0 && in_transit <= 0 {
            let total = self.total().map(|total| format!(" of {total}")).unwrap_or_default();
            let why = match snapshot.stock {
                Some(1..) => format!("What is left{total} is withdrawn."),
                _ => format!("No units are left{total}."),
            };
            refusals.push((Status::OutOfStock, why));
        }
        refusals
    }

    /// What the activity had, which nobody knows until its adoption is at its end.
    fn total(&self) -> Option<u64> {
        self.snapshot.meta.as_ref().filter(|meta| !meta.is_adopting).map(|meta| meta.total)
    }

    /// Why the activity as a whole sells nothing.
    fn closed(&self, meta: &Meta) -> Vec<(Status, String)> {
        let (id, now) = (&self.snapshot.activity, self.snapshot.at);
        let mut closed = Vec::new();
        if meta.stored_state == StoredState::Paused {
            let by = self.entries.paused.as_ref().map(|paused| {
                let by = Entry::text(paused.by.as_deref()).map(|by| format!(" by {by}")).unwrap_or_default();
                let reason = Entry::text(paused.reason.as_deref()).map(|why| format!(": {why}")).unwrap_or_default();
                format!(" at {}{by}{reason} (entry {})", paused.id.at().to_second(), paused.id)
            });
            let why = match meta.is_adopting {
                true => format!("Its adoption is unfinished: {} resumes it.", hints::preheat(id, "--adopt")),
                false => {
                    format!("The activity was paused{}; `seckill resume {id:#}` ends that.", by.unwrap_or_default())
                }
            };
            closed.push((Status::Paused, why));
        }
        if let Some(start) = meta.starts_at.filter(|start| now < *start) {
            closed.push((Status::NotStarted, format!("It starts at {start}; the server's clock says {now}.")));
        }
        if let Some(end) = meta.ends_at.filter(|end| now >= *end) {
            closed.push((Status::Ended, format!("It ended at {end}; the server's clock says {now}.")));
        }
        closed
    }

    /// What is worth knowing besides.
    fn facts(&self) -> Vec<String> {
        let Self { snapshot, user, entries, .. } = self;
        let id = &snapshot.activity;
        let mut facts = Vec::new();
        if !snapshot.status.is_done() || snapshot.is_archived() {
            return facts;
        }
        if let Some(stock @ 1..) = snapshot.stock {
            let verb = if stock == 1 { "is" } else { "are" };
            let of = self.total().map(|total| format!(" of {total}")).unwrap_or_default();
            facts.push(format!("{}{of} {verb} left.", counted(stock, "unit")));
        }
        let limit = snapshot.meta.as_ref().and_then(|meta| meta.per_user_limit);
        match (self.held, limit, self.kind.records_once()) {
            (Some(Bought::Units(held)), Some(limit), false) if held < limit => {
                facts.push(format!("`{user}` holds {}; the limit is {limit}.", counted(held, "unit")));
            }
            (Some(Bought::Units(held)), None, false) => {
                let whose =
                    if snapshot.meta.is_some() { "there is no limit" } else { "another system knows the limit" };
                facts.push(format!("`{user}` holds {}; {whose}.", counted(held, "unit")));
            }
            (Some(Bought::Units(0)), _, true) => facts.push(format!("`{user}` bought nothing; one order is allowed.")),
            _ => {}
        }
        if let Some(meta) = &snapshot.meta {
            if let Some(moving @ 1..) = snapshot.sums.as_ref().and_then(|sums| sums.in_transit) {
                facts.push(format!("{} more in transit between shards.", counted(moving.unsigned_abs(), "unit")));
            }
            if let Some(withdrawn @ 1..) = meta.withdrawn.filter(|_| !meta.is_adopting) {
                let (units, are) = (counted(withdrawn, "unit"), if withdrawn == 1 { "is" } else { "are" });
                facts.push(format!("{units} of the stock {are} withdrawn: `seckill resume {id:#}` ends that."));
            }
            if let (Some(checkpoint), Some(carried)) = (&meta.checkpoint, entries.carried) {
                let upto = checkpoint.upto.at().to_second();
                let held = match carried {
                    TrimmedUnits::Units(held) => {
                        format!("held {} by then", counted(u64::try_from(held).unwrap_or_default(), "unit"))
                    }
                    TrimmedUnits::Unknown => "held units whose number nobody recorded".to_owned(),
                    TrimmedUnits::Damaged => "is not found in what they left".to_owned(),
                };
                facts.push(match checkpoint.removed {
                    0 => format!("The ledger begins with what users held at {upto}: `{user}` {held}."),
                    _ => format!("Ledger entries up to {upto} were trimmed: `{user}` {held}."),
                });
            }
        }
        if snapshot.ledger_last.is_none() {
            facts.push(match &snapshot.meta {
                Some(meta) if meta.ledger => "The ledger is empty or gone: nothing proves this.".to_owned(),
                _ => "The activity has no ledger: when and by which request is not recorded.".to_owned(),
            });
            return facts;
        }
        let Some(holds) = entries.holds else { return facts };
        let returned = match entries.refunded {
            0 => String::new(),
            refunded => format!(", returned {refunded}"),
        };
        if entries.bought > 0 || entries.refunded > 0 || holds != 0 {
            facts.push(format!("By the ledger `{user}` bought {}{returned}, and holds {holds}.", entries.bought));
        }
        if let Some(Bought::Units(held)) = self.held
            && i64::try_from(held) != Ok(holds)
        {
            facts.push(format!("The ledger says {holds} and the counter {held}: `seckill reconcile {id:#}`."));
        }
        facts
    }

    /// Units that a purchase finds: those withdrawn from a live activity, by an unfinished adoption, are not.
    fn for_sale(&self) -> u64 {
        let withdrawn = self.snapshot.meta.as_ref().and_then(|meta| meta.withdrawn).unwrap_or_default();
        self.snapshot.stock.unwrap_or_default().saturating_sub(withdrawn)
    }

    /// Units that one order may take, if nothing refuses it.
    fn most(&self) -> u64 {
        let stock = self.for_sale().min(MAX_QUANTITY);
        let limit = self.snapshot.meta.as_ref().and_then(|meta| meta.per_user_limit);
        match (self.kind, self.held, limit) {
            (Kind::Coupon, ..) => stock.min(1),
            (Kind::Set, ..) => stock,
            (_, Some(Bought::Units(held)), Some(limit)) => stock.min(limit.saturating_sub(held)),
            _ => stock,
        }
    }
}

//! `preheat --adopt`: take over an activity that another system created, or that lost what preheat wrote.

use crate::admin::adopt::{Adoptable, Adopted, Finished, Found, Stage, Unadoptable};
use crate::admin::{adopt, preheat};
use crate::cli::commands::preheat::explain::PreheatRow;
use crate::cli::commands::preheat::{PreheatArgs, explain};
use crate::cli::failure::{Exit, Failure, Result, shell_quoted};
use crate::cli::interrupt;
use crate::cli::output::{Output, counted};
use crate::cli::shared::session::{Consent, Session};
use crate::cli::shared::{hints, target};
use crate::model::{Action, ActivityId, Corrupt, FieldDifference, Limit, Plan, Preheat, Preheated, Status, Units};
use crate::read::holders::Holders;
use crate::read::{holders, snapshot};
use crate::store::Store;

/// How often participants are scanned before a backend that still writes is a reason to give up.
const TRIES: usize = 5;

/// One adoption: what was asked for, and what is done with it.
struct Adoption<'a> {
    args: &'a PreheatArgs,
    plan: Plan,
    store: Store,
    out: &'a mut Output,
    /// Of a command for the same server and layout.
    options: String,
    /// Names the checkpoint. Of a retry it is the same, of another adoption not.
    name: String,
}

/// Takes an activity over.
pub(super) fn run(args: &PreheatArgs, activity: &ActivityId, session: &mut Session) -> Result<Exit> {
    let layout = session.layout(None)?;
    let plan = crate::cli::commands::preheat::plan_of_flags(activity, args)?.fitted(layout).map_err(Failure::usage)?;
    let mut store = session.store_to_change(layout, Consent::of(&args.mutating), [activity])?;
    let what = "another system cannot have made them, so there is nothing to take over";
    if let Some(failure) = hints::sharded(&snapshot::snapshot(&mut store, activity)?, what) {
        return Err(failure);
    }
    let out = &mut session.out;
    let options = target::options(&session.global);
    let name = uuid::Uuid::now_v7().to_string();
    Adoption { args, plan, store, out, options, name }.run()
}

impl Adoption<'_> {
    fn run(&mut self) -> Result<Exit> {
        let found = adopt::plan_adoption(&mut self.store, &self.plan.id)?;
        if found.status != Status::Ok {
            return self.refuse(&found, found.status, found.corrupt.clone(), Vec::new());
        }
        if found.stage == Stage::Whole {
            return self.nothing_to_do(&found);
        }
        if found.stage == Stage::Ledger
            && let Some(ledger) = adopt::fold_ledger(&mut self.store, &self.plan.id, &found)?
            && let (Some(total), Ok(held)) = (ledger.total, u64::try_from(ledger.sum))
        {
            if self.args.total.is_some_and(|given| given.get() != total) {
                return self.refused(&found, Unadoptable::OtherTotal(total));
            }
            let adopted = Adopted { total, held, units: found.units.unwrap_or_default() };
            return self.by_ledger(&found, adopted, ledger.is_paused);
        }
        let holders = self.scan()?;
        if holders.corrupt.is_some() {
            return self.refuse(&found, Status::Corrupt, holders.corrupt, Vec::new());
        }
        let planned = match self.sum(&found, &holders) {
            Ok(adopted) => adopted,
            Err(why) => return self.refused(&found, why),
        };
        if self.args.mutating.dry_run {
            return self.done(&found, planned, Status::Ok);
        }
        let (buyers, units) = (counted(holders.holders(), "buyer"), counted(planned.held, "unit"));
        let hold = if holders.holders() == 1 { "holds" } else { "hold" };
        self.ask(&found, planned, &format!("{buyers} {hold} {units}"))?;
        // From here on a Ctrl-C must not leave the activity without its stock.
        interrupt::stop_gracefully();
        let ended = self.take_over(&found, planned);
        if ended.as_ref().is_err_and(|failure| failure.store().is_some()) {
            let id = &self.plan.id;
            self.out.warn(format!("sales of `{id}` may be stopped: `seckill preheat --id {id} --adopt` resumes"));
        }
        ended
    }

    /// Restores the meta of an activity whose ledger says what it was. Nothing else is written.
    fn by_ledger(&mut self, found: &Adoptable, adopted: Adopted, is_paused: bool) -> Result<Exit> {
        if self.args.mutating.dry_run {
            return self.done(found, adopted, Status::Ok);
        }
        self.ask(found, adopted, &format!("its ledger is whole, sold: {}", counted(adopted.held, "unit")))?;
        let reason = self.args.mutating.reason.as_deref();
        match adopt::finish_adoption(&mut self.store, &self.plan, found, adopted, &self.name, None, is_paused, reason)?
        {
            Finished::Done(_) => self.done(found, adopted, Status::Ok),
            Finished::Replayed(_) => self.done(found, adopted, Status::Replayed),
            Finished::Stale => Err(self.moving()),
        }
    }

    /// Withdraws the stock, scans until two scans agree, writes what they found and returns the stock.
    fn take_over(&mut self, before: &Adoptable, planned: Adopted) -> Result<Exit> {
        for _ in 0..TRIES {
            let Some(found) = adopt::withdraw(&mut self.store, &self.plan.id, &self.name, planned.total)? else {
                return Err(Failure::failed(format!("`{}` was taken over by somebody else meanwhile", self.plan.id))
                    .hint(format!("`seckill inspect {}` shows it", self.plan.id)));
            };
            if found.status != Status::Ok {
                return self.refuse(&found, found.status, found.corrupt.clone(), Vec::new());
            }
            let (first, mut second) = (self.scan()?, self.scan()?);
            if interrupt::requested() {
                adopt::undo_adoption(&mut self.store, &self.plan.id, &found, &self.name)?;
                self.out.warn("interrupted; all is as it was");
                return Ok(Exit::Interrupted);
            }
            if second.corrupt.is_some() {
                adopt::undo_adoption(&mut self.store, &self.plan.id, &found, &self.name)?;
                return self.refuse(before, Status::Corrupt, second.corrupt, Vec::new());
            }
            if !second.equal(&first) {
                continue;
            }
            let adopted = match self.sum(&found, &second) {
                Ok(adopted) => adopted,
                Err(why) => {
                    adopt::undo_adoption(&mut self.store, &self.plan.id, &found, &self.name)?;
                    return self.refused(before, why);
                }
            };
            let Some(pages) =
                adopt::write_holders(&mut self.store, &self.plan.id, &found, &self.name, &second, adopted.held)?
            else {
                continue;
            };
            let reason = self.args.mutating.reason.as_deref();
            let plan = &self.plan;
            let pages = Some(pages);
            match adopt::finish_adoption(&mut self.store, plan, &found, adopted, &self.name, pages, false, reason)? {
                Finished::Done(_) => {
                    self.say_what_changed(before, &second);
                    return self.done(before, adopted, Status::Ok);
                }
                Finished::Replayed(_) => return self.done(before, adopted, Status::Replayed),
                Finished::Stale => {}
            }
        }
        let found = adopt::plan_adoption(&mut self.store, &self.plan.id)?;
        adopt::undo_adoption(&mut self.store, &self.plan.id, &found, &self.name)?;
        Err(self.moving())
    }

    fn scan(&mut self) -> Result<Holders> {
        let progress = self.out.progress("participants", 0);
        let holders = holders::holders(&mut self.store, &self.plan.id, |count| progress.inc(count))?;
        progress.finish();
        Ok(holders)
    }

    fn sum(&self, found: &Adoptable, holders: &Holders) -> Result<Adopted, Unadoptable> {
        let found = Found {
            kind: self.store.layout().kind(),
            units: found.units,
            total: self.args.total.map(Units::get).or(found.total),
            held: holders.held(),
            holders: holders.holders(),
            unknown: holders.unknown(),
        };
        found.adopted()
    }

    fn ask(&self, found: &Adoptable, adopted: Adopted, what: &str) -> Result<()> {
        let left = match found.units {
            Some(units) => format!("{units} are left"),
            None => format!("its stock key is gone, so {} are left", adopted.units),
        };
        let id = &self.plan.id;
        let verb = if found.stage == Stage::Unfinished { "Resume the adoption of" } else { "Adopt" };
        let question = format!(
            "{verb} `{id}` on `{}`? {what}, {left}, so its total is {}; sales stop meanwhile",
            self.store.server_name(),
            adopted.total
        );
        self.out.confirm(&question, self.args.mutating.yes)
    }

    fn say_what_changed(&self, before: &Adoptable, holders: &Holders) {
        if before.expires {
            self.out.note("its keys had an expiry, which is removed: keys that vanish one by one cannot be audited");
        }
        let limit = self.plan.per_user_limit.map(Limit::get).over(before.per_user_limit);
        if !self.store.layout().kind().has_users() || self.store.layout().kind().records_once() {
            return;
        }
        match limit.map(|limit| (limit, holders.above(limit))) {
            None => {
                let (id, options) = (shell_quoted(self.plan.id.as_str()), &self.options);
                self.out.note("it has no limit per user");
                self.out.hint(format!("`seckill preheat --id {id} --update{options} --per-user-limit N` sets one"));
            }
            Some((_, 0)) => {}
            Some((limit, above)) => self.out.warn(format!(
                "{above} users hold more than the limit of {limit}: `reconcile` lists them as over_limit"
            )),
        }
    }

    /// It is whole: equal to what was asked for, or not.
    fn nothing_to_do(&mut self, found: &Adoptable) -> Result<Exit> {
        let total = found.total.unwrap_or_default();
        let sold = found.units.is_some_and(|units| units < total);
        if self.store.layout().kind().has_users() && found.participants == 0 && sold {
            return self.refused(found, Unadoptable::Evicted);
        }
        let plan = Plan { total: self.args.total.or(Units::new(total)), ..self.plan.clone() };
        let mut planned = Vec::new();
        preheat::preheat_all(&mut self.store, &[&plan], Preheat::Update, true, None, |_, result| planned.push(result))?;
        let Some(result) = planned.pop() else { return Err(self.moving()) };
        if result.action != Action::Unchanged {
            match result.status {
                Status::Exists => self.out.hint(explain::of_existing(&result, Preheat::Update)),
                _ => self.out.hint("it is preheated already: `--update` instead of `--adopt` changes it"),
            }
            return self.refuse(found, Status::Exists, None, result.differences);
        }
        preheat::restore_index(&mut self.store, &[&plan.id])?;
        self.print(&result)
    }

    fn refused(&mut self, found: &Adoptable, why: Unadoptable) -> Result<Exit> {
        let id = self.plan.id.clone();
        let layout = self.store.layout().name();
        match why {
            Unadoptable::TotalNeeded => Err(Failure::usage(match found.units {
                Some(_) => format!("how much of `{id}` is sold is not recorded in the layout `{layout}`"),
                None => format!("the stock key of `{id}` is gone, and no meta says its total"),
            })
            .hint("give `--total N`, the units that it had at the beginning")),
            Unadoptable::Evicted => {
                let key = self.store.keys(&id).participants.unwrap_or_default();
                let corrupt = Corrupt { key, what: "holds nothing, though units were sold".to_owned() };
                self.out.hint(format!(
                    "`seckill reconcile {id} --fix` restores participants from a whole ledger, and with `--orders FILE` \
                     from complete order records; without both, `--reset` starts over"
                ));
                self.refuse(found, Status::Corrupt, Some(corrupt), Vec::new())
            }
            Unadoptable::OtherTotal(known) => {
                let wanted = self.args.total.map(Units::get).or(found.total).unwrap_or_default();
                let (before, after) = (known.to_string(), wanted.to_string());
                let difference = FieldDifference { field: "total".to_owned(), before, after, is_given: true };
                self.out.hint(format!(
                    "stock and participants come to {known}: `--total {known}` takes over what is there"
                ));
                self.refuse(found, Status::Exists, None, vec![difference])
            }
            Unadoptable::StockLost => {
                let field = "stock key".to_owned();
                let difference = FieldDifference { field, before: String::new(), after: String::new(), is_given: true };
                self.out.hint("nobody recorded what is sold, so what was left cannot be known: `--reset` starts over");
                self.refuse(found, Status::Exists, None, vec![difference])
            }
        }
    }

    fn refuse(
        &mut self,
        found: &Adoptable,
        status: Status,
        corrupt: Option<Corrupt>,
        differences: Vec<FieldDifference>,
    ) -> Result<Exit> {
        let refused = Preheated {
            action: Action::Refused,
            status,
            total: found.total,
            stock: found.units,
            differences,
            corrupt,
            ..self.row(found)
        };
        explain::differences(std::slice::from_ref(&refused), self.out);
        self.print(&refused)
    }

    fn done(&mut self, found: &Adoptable, adopted: Adopted, status: Status) -> Result<Exit> {
        let limit = self.plan.per_user_limit.map(Limit::get).over(found.per_user_limit);
        if found.stage == Stage::Ledger && found.units != adopted.total.checked_sub(adopted.held) {
            let id = &self.plan.id;
            self.out
                .hint(format!("its stock is not what its ledger says: `seckill reconcile {id}` shows and repairs it"));
        }
        let row = Preheated {
            status,
            total: Some(adopted.total),
            stock: if found.stage == Stage::Ledger { found.units } else { Some(adopted.units) },
            per_user_limit: limit,
            ..self.row(found)
        };
        self.print(&row)
    }

    fn row(&self, found: &Adoptable) -> Preheated {
        Preheated {
            action: Action::Adopt,
            total_before: found.total,
            stock_before: found.units,
            per_user_limit: found.per_user_limit,
            ..Preheated::refused(&self.plan.id, Status::Ok)
        }
    }

    fn print(&mut self, row: &Preheated) -> Result<Exit> {
        self.out.array(&[PreheatRow::new(row, false)])?;
        Ok(if row.status.is_done() { Exit::Done } else { Exit::Refused })
    }

    fn moving(&self) -> Failure {
        Failure::failed(format!("`{}` is still being written: no two scans agreed, so all is as it was", self.plan.id))
            .hint("stop the backend that writes it, or try again when nobody buys")
    }
}

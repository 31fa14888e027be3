//! `preheat --adopt`: take over an activity that another system created, or that lost what preheat wrote.

use crate::admin::adopt::{Adoptable, Adopted, Adoption, AdoptionEnd, Prospect, Stage, Unadoptable};
use crate::admin::{adopt, preheat};
use crate::cli::commands::preheat::{PreheatArgs, explain};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::interrupt;
use crate::cli::output::{Output, counted};
use crate::cli::shared::hints;
use crate::cli::shared::session::Session;
use crate::error::{Result as StoreResult, ServerKind, StoreError};
use crate::model::number::MAX_UNITS;
use crate::model::{
    Action, ActivityId, Corrupt, FieldDifference, Kind, Limit, Plan, PreheatMode, Preheated, Status, StoredState,
    Units, shell_quoted,
};
use crate::read::holders::Holders;
use crate::read::{holders, snapshot};
use crate::store::Store;

/// One call of the command: what it asks for, and where it prints.
struct AdoptCommand<'a> {
    args: &'a PreheatArgs,
    plan: Plan,
    store: Store,
    out: &'a mut Output,
    /// Whether its ledger says that it is paused, and no meta does.
    is_paused: bool,
}

/// Takes an activity over.
pub(super) fn run(args: &PreheatArgs, activity: &ActivityId, session: &mut Session) -> Result<Exit> {
    let layout = session.layout(None)?;
    let plan = crate::cli::commands::preheat::plan_of_flags(activity, args)?.fitted(layout).map_err(Failure::usage)?;
    let plan = Plan { total: args.total, ..plan };
    let mut store = session.store_to_change(layout, &args.mutating, [activity])?;
    let what = "another system cannot have made them, so there is nothing to take over";
    if let Some(failure) = hints::sharded(&snapshot::snapshot(&mut store, activity)?, what) {
        return Err(failure);
    }
    let out = &mut session.out;
    AdoptCommand { args, plan, store, out, is_paused: false }.run()
}

impl AdoptCommand<'_> {
    fn run(&mut self) -> Result<Exit> {
        let found = adopt::plan_adoption(&mut self.store, &self.plan.id)?;
        hints::order_sets([&self.plan.id], &mut self.store, self.out);
        if found.stage == Stage::Stock && found.total.is_none() {
            let (id, key) = (&self.plan.id, self.store.keys(&self.plan.id).stock);
            self.out.hint(format!(
                "neither `{key}` nor a meta of `{id}` is there: unless both were lost, the script that sells has its \
                 stock under another name than `stock` of the layout, and an adoption makes a second stock"
            ));
        }
        let prospect = self.adoption(|adoption| adoption.prospect(&found))?;
        self.is_paused =
            matches!(prospect, Prospect::Ledger { is_paused: true, .. } | Prospect::Scanned { is_paused: true, .. });
        match prospect {
            Prospect::Whole => self.nothing_to_do(&found),
            Prospect::Refused(why) => self.refused(&found, why),
            Prospect::Ledger { adopted, .. } | Prospect::Scanned { adopted, .. } if self.args.mutating.dry_run => {
                self.done(&found, adopted, Status::Ok)
            }
            Prospect::Ledger { adopted, is_paused } => {
                self.ask(&found, adopted, &format!("its ledger is whole, sold: {}", counted(adopted.held, "unit")))?;
                let ended = self.adoption(|adoption| adoption.restore_meta(&found, adopted, is_paused))?;
                self.ended(&found, ended)
            }
            Prospect::Scanned { adopted, holders, is_paused } => {
                let (buyers, units) = (counted(holders.holders(), "buyer"), counted(adopted.held, "unit"));
                let hold = if holders.holders() == 1 { "holds" } else { "hold" };
                self.ask(&found, adopted, &format!("{buyers} {hold} {units}"))?;
                // From here on a Ctrl-C must not leave the activity without its stock.
                interrupt::stop_gracefully();
                let ended = self.adoption(|adoption| adoption.take_over(is_paused)).map_err(Failure::from);
                let ended = ended.and_then(|ended| self.ended(&found, ended));
                // What does not fit was undone.
                let is_undone =
                    |error: &&StoreError| matches!(error, StoreError::Server { kind: ServerKind::Usage, .. });
                if let Some(error) = ended.as_ref().err().and_then(Failure::store).filter(|error| !is_undone(error)) {
                    let is_cut = matches!(error, StoreError::Permission { may_be_cut: true, .. });
                    self.warn_of_rest(&found, is_cut);
                }
                // The stock may be withdrawn already.
                ended.map_err(Failure::in_part)
            }
        }
    }

    /// Does a part of it, with a bar while participants are scanned.
    fn adoption<T>(&mut self, part: impl FnOnce(&mut Adoption<'_>) -> StoreResult<T>) -> StoreResult<T> {
        let (id, out) = (&self.plan.id, &mut *self.out);
        let mut scan = |store: &mut Store| {
            let progress = out.progress("participants", 0);
            let holders = holders::holders(store, id, |count| progress.inc(count))?;
            progress.finish();
            Ok(Some(holders).filter(|_| !interrupt::requested()))
        };
        part(&mut Adoption::new(&mut self.store, &self.plan, self.args.mutating.reason.as_deref(), &mut scan))
    }

    fn ended(&mut self, found: &Adoptable, ended: AdoptionEnd) -> Result<Exit> {
        match ended {
            AdoptionEnd::Done(adopted, holders) => {
                if let Some(holders) = holders {
                    self.say_what_changed(found, &holders);
                }
                self.done(found, adopted, Status::Ok)
            }
            AdoptionEnd::Replayed(adopted) => self.done(found, adopted, Status::Replayed),
            AdoptionEnd::Refused(why) => self.refused(found, why),
            AdoptionEnd::Interrupted => {
                self.out.warn("interrupted; all is as it was");
                Ok(Exit::Interrupted)
            }
            AdoptionEnd::Moving => Err(self.moving()),
            AdoptionEnd::Overtaken => {
                Err(Failure::failed(format!("`{}` was taken over by somebody else meanwhile", self.plan.id))
                    .hint(format!("`seckill inspect {:#}` shows it", self.plan.id)))
            }
        }
    }

    /// Warns of what an adoption that failed midway leaves behind.
    fn warn_of_rest(&mut self, before: &Adoptable, is_cut: bool) {
        let id = self.plan.id.clone();
        // A script that is cut right behind the stock has written nowhere how much it took.
        let now = is_cut.then(|| adopt::plan_adoption(&mut self.store, &id)).and_then(Result::ok);
        let is_lost = now.is_some_and(|now| now.stage != Stage::Unfinished && now.units == Some(0));
        self.out.warn(match before.units {
            Some(1..) if is_lost => format!(
                "the stock of `{id}` was taken, and nothing says how much: stop its sale, `SET {}` to its total without what users hold, \
                 then the same command again",
                self.store.keys(&id).stock
            ),
            _ => {
                let total = self.args.total.map(|total| format!(" --total {total}")).unwrap_or_default();
                let resume = hints::preheat(&id, &format!("--adopt{total}"));
                format!("sales of `{id}` may be stopped: {resume} resumes, with the other options that were given")
            }
        });
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
                self.out.note("it has no limit per user");
                let update = hints::preheat(&self.plan.id, "--update --per-user-limit N");
                self.out.hint(format!("{update} sets one"));
            }
            Some((_, 0)) => {}
            Some((limit, above)) => self.out.warn(format!(
                "{} {} more than the limit of {limit}: `reconcile` lists them as over_limit",
                counted(above, "user"),
                if above == 1 { "holds" } else { "hold" }
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
        let plan = Plan { total: self.plan.total.or(Units::new(total)), ..self.plan.clone() };
        let mut planned = Vec::new();
        preheat::preheat_all(&mut self.store, &[&plan], PreheatMode::Update, true, None, |_, result| {
            planned.push(result)
        })?;
        let Some(result) = planned.pop() else { return Err(self.moving()) };
        if result.action != Action::Unchanged {
            match result.status {
                Status::Exists => self.out.hint(explain::of_existing(&result, PreheatMode::Update)),
                _ if self.plan.total.is_some_and(|total| total.get() != found.total.unwrap_or_default()) => self.out.hint(
                    "it is preheated already: `--update --stock N` changes its total, and the stock by the difference",
                ),
                _ => self.out.hint("it is preheated already: `--update` instead of `--adopt` changes it"),
            }
            return self.refuse(found, Status::Exists, None, result.differences);
        }
        preheat::restore_index(&mut self.store, &[&plan.id])?;
        if snapshot::snapshot(&mut self.store, &plan.id)?.meta.is_some_and(|meta| !meta.ledger) {
            self.out.note("it was preheated with `ledger: false`, and stays without a ledger");
        }
        explain::show(&[result], None, self.out)
    }

    fn refused(&mut self, found: &Adoptable, why: Unadoptable) -> Result<Exit> {
        let id = self.plan.id.clone();
        let layout = self.store.layout().name();
        match why {
            Unadoptable::Unfit(Status::NotPreheated, _) if snapshot::snapshot(&mut self.store, &id)?.is_archived() => {
                self.archived(found)
            }
            Unadoptable::Unfit(status, corrupt) => self.refuse(found, status, corrupt, Vec::new()),
            Unadoptable::TotalNeeded => Err(Failure::usage(match found.units {
                Some(_) => format!("how much of `{id}` is sold is not recorded in the layout `{layout}`"),
                None => format!("the stock key of `{id}` is gone, and no meta says its total"),
            })
            .hint("give `--total N`, the units that it had at the beginning")),
            Unadoptable::Evicted => {
                let key = self.store.keys(&id).participants.unwrap_or_default();
                let hint = self.without_users(found, &key)?;
                self.out.hint(hint);
                let corrupt = Corrupt { key, what: "holds nothing, though units were sold".to_owned() };
                self.refuse(found, Status::Corrupt, Some(corrupt), Vec::new())
            }
            Unadoptable::OtherTotal(known) => {
                let wanted = self.plan.total.map(Units::get).or(found.total).unwrap_or_default();
                let (before, after) = (known.to_string(), wanted.to_string());
                let difference = FieldDifference { field: "total".to_owned(), before, after, is_given: true };
                self.out.hint(match self.store.layout().kind() {
                    _ if known > MAX_UNITS => format!(
                        "stock and participants come to {known}, more than the {MAX_UNITS} that an activity can have: \
                         correct the counters first"
                    ),
                    Kind::Hash | Kind::Coupon => {
                        format!("stock and participants come to {known}: `--total {known}` takes over what is there")
                    }
                    Kind::Set | Kind::Counter => format!(
                        "stock and participants come to {known}, without purchases that nobody recorded: give `--total N`, the units \
                         that it had at the beginning"
                    ),
                });
                let differences = if known > MAX_UNITS { Vec::new() } else { vec![difference] };
                self.refuse(found, Status::Exists, None, differences)
            }
            Unadoptable::Withdrawn(left) => {
                let (before, after) = (found.units.unwrap_or_default().to_string(), left.to_string());
                let difference = FieldDifference { field: "stock".to_owned(), before, after, is_given: true };
                let key = self.store.keys(&id).stock;
                self.out.hint(format!(
                    "a pause had withdrawn its stock, and the meta that had it is lost: `SET {} {left}` brings back what its ledger says \
                     was left, then the same command again; it stays paused",
                    shell_quoted(&key)
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

    /// What can be done about a sale whose users are not there. No window stops a plain script.
    fn without_users(&mut self, found: &Adoptable, key: &str) -> Result<String> {
        let id = &self.plan.id;
        let meta = snapshot::snapshot(&mut self.store, id)?.meta;
        Ok(match meta {
            Some(meta) if !meta.ledger => format!(
                "stop the backend's script first, which sells with limits that start over: then `seckill reconcile \
                 {id:#} --orders FILE --fix` restores participants from complete order records; else `seckill preheat \
                 FIXTURE --reset`, with `ledger: false` in the fixture, starts over, and the same `reconcile` records \
                 its known orders"
            ),
            None if found.stage == Stage::Foreign => format!(
                "no meta of `{id}` is there: unless `{key}` was lost, the script that sells records users under \
                 another name than `participants` of the layout; if it was lost, stop the script: then `seckill \
                 reconcile {id:#} --total N --orders FILE --fix` restores it from complete order records"
            ),
            _ => format!(
                "`seckill reconcile {id:#} --fix` restores participants from a whole ledger; else {} starts over, and \
                 `seckill reconcile {id:#} --orders FILE --fix` records its orders before anybody buys",
                hints::preheat(id, "--stock TOTAL --reset --starts-at +1h")
            ),
        })
    }

    /// It is in files: there is nothing to take over.
    fn archived(&mut self, found: &Adoptable) -> Result<Exit> {
        let (before, after) = (StoredState::Archived.name().to_owned(), StoredState::Live.name().to_owned());
        let difference = FieldDifference { field: "state".to_owned(), before, after, is_given: true };
        let refused = Preheated { differences: vec![difference.clone()], ..self.row(found) };
        self.out.hint(explain::of_existing(&refused, PreheatMode::Update));
        self.refuse(found, Status::Exists, None, vec![difference])
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
        explain::show(&[refused], None, self.out)
    }

    fn done(&mut self, found: &Adoptable, adopted: Adopted, status: Status) -> Result<Exit> {
        let limit = self.plan.per_user_limit.map(Limit::get).over(found.per_user_limit);
        if found.stage == Stage::Ledger && found.units != adopted.total.checked_sub(adopted.held) {
            let id = &self.plan.id;
            self.out.hint(format!(
                "its stock is not what its ledger says: `seckill reconcile {id:#}` shows and repairs it"
            ));
        }
        if matches!(found.stage, Stage::Ledger | Stage::Lost) {
            self.out.note(format!(
                "limit, title and window were lost with its meta: {} with `--per-user-limit N` and the like sets those that are not given",
                hints::preheat(&self.plan.id, "--update")
            ));
        }
        if self.is_paused {
            let id = &self.plan.id;
            self.out.note(format!("it is paused, as its ledger says: `seckill resume {id:#}` ends that"));
        }
        let row = Preheated {
            status,
            total: Some(adopted.total),
            stock: if found.stage == Stage::Ledger { found.units } else { Some(adopted.units) },
            per_user_limit: limit,
            ..self.row(found)
        };
        explain::show(&[row], None, self.out)
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

    fn moving(&self) -> Failure {
        Failure::failed(format!("`{}` is still being written: no two scans agreed, so all is as it was", self.plan.id))
            .hint("stop the backend that writes it, or try again when nobody buys")
    }
}

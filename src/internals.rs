//! What the binary and the tests of this repository use beside what backends do: it may change at any time.

pub use crate::audit::apply::repair;
pub use crate::audit::apply::repair_transfer;
pub use crate::audit::judgement::sharded::judge_shards;
pub use crate::audit::ledger_state::Compared;
pub use crate::audit::ledger_state::order_sums::{OrderRows, OrderSums};
pub use crate::audit::plan::RepairPlan;
pub use crate::audit::plan::repair::Repair;
pub use crate::audit::read::shards::audit_shards;
pub use crate::cli::start;
pub use crate::model::id::interner::Interner;
pub use crate::model::ledger::{EntryId, Op};
pub use crate::model::number::ShardCount;
pub use crate::model::shards::Shards;
pub use crate::model::slot::slot;
pub use crate::model::status::call_code;
pub use crate::redis::system::{Endpoint, RealSystem, Socket, System};
pub use crate::script::keys::Keys;
pub use crate::script::{DEDUCT, DROP_INS, HOLD, MULTI_DEDUCT, REFUND, SETTLE, Script};
pub use crate::sell::orders::finish_transfers;
pub use crate::store::REWRITE;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::admin::adopt::{Adoption, AdoptionEnd, Prospect, Unadoptable, plan_adoption};
use crate::admin::archive::{self, Archivable, ArchiveFiles, Unarchivable};
use crate::admin::pause::{Pause, Pausing, set_paused};
use crate::admin::restore::{self, Pages};
use crate::admin::trim;
use crate::error::{Result, StoreError};
use crate::model::archive::{Bytes, Digest, FileSum, Manifest, Part, Sealed};
use crate::model::{ActivityId, HoldFor, Kind, Millis, MultiOrder, Plan, Quantity, RequestId, Status, UserId};
use crate::read::holders::holders;
use crate::read::ledger;
use crate::sell::bulk::{Advance, Job, Limits, Operation, OrderOptions, Run};
use crate::sell::{holds, multi_orders};
use crate::store::Store;

/// Returns the units of a page of overdue holds, and decides orders over several slots whose items are overdue.
///
/// # Errors
/// Any of `StoreError`.
pub fn expire(store: &mut Store, activity: &ActivityId) -> Result<Status> {
    let (expired, unreached) = holds::expire(store, activity, None, false)?;
    expired.left.iter().try_for_each(|left| multi_orders::expire_item(store, left).map(drop))?;
    unreached.map_or(Ok(expired.status), Err)
}

/// Takes an activity over that another system created: `exists` if nothing is lacking, `refused` if that cannot be done now.
///
/// # Errors
/// Any of `StoreError`.
pub fn adopt(store: &mut Store, plan: &Plan) -> Result<Status> {
    let found = plan_adoption(store, &plan.id)?;
    let mut scan = |store: &mut Store| holders(store, &plan.id, drop).map(Some);
    let mut adoption = Adoption::new(store, plan, None, &mut scan);
    let ended = match adoption.prospect(&found)? {
        Prospect::Whole => return Ok(Status::Exists),
        Prospect::Refused(why) => AdoptionEnd::Refused(why),
        Prospect::Ledger { adopted, is_paused } => adoption.restore_meta(&found, adopted, is_paused)?,
        Prospect::Scanned { is_paused, .. } => adoption.take_over(is_paused)?,
    };
    Ok(match ended {
        AdoptionEnd::Done(..) => Status::Ok,
        AdoptionEnd::Replayed(_) => Status::Replayed,
        AdoptionEnd::Refused(Unadoptable::Unfit(status, _)) => status,
        AdoptionEnd::Refused(_) | AdoptionEnd::Interrupted | AdoptionEnd::Moving | AdoptionEnd::Overtaken => {
            Status::Refused
        }
    })
}

/// Pauses an activity, with its stock withdrawn if wanted, or, with `None`, resumes it.
///
/// # Errors
/// Any of `StoreError`.
pub fn pause(store: &mut Store, activity: &ActivityId, withdraw_stock: Option<bool>) -> Result<Status> {
    let to = withdraw_stock.map_or(Pause::Resume, |withdraw_stock| Pause::Pause { withdraw_stock });
    set_paused(store, activity, Pausing { to, reason: None, dry_run: false }).map(|paused| paused.status)
}

/// Takes units of several activities for a user, all or nothing: how each item ended.
///
/// # Errors
/// Any of `StoreError`.
pub fn multi_deduct(
    store: &mut Store,
    user: &UserId,
    items: Vec<(ActivityId, Quantity)>,
    request: &RequestId,
) -> Result<Vec<Status>> {
    let order = MultiOrder { user: Some(user.clone()), items: items.into(), request: request.clone(), reason: None };
    let done = multi_orders::multi_deduct(store, &order, false)?;
    Ok(done.items.iter().map(|item| item.status).collect())
}

/// Removes the entries of a ledger that are older than a time: `refused` if that cannot be done now.
///
/// # Errors
/// Any of `StoreError`.
pub fn trim_ledger(store: &mut Store, activity: &ActivityId, before: Millis) -> Result<Status> {
    let found = trim::plan_trim(store, activity, before)?;
    if found.status != Status::Ok {
        return Ok(found.status);
    }
    if found.needs_checkpoint() {
        let Ok(sums) = trim::sum_up(store, activity, &found)? else { return Ok(Status::Refused) };
        if trim::switch(store, activity, &found, &sums, None)?.is_err() {
            return Ok(Status::Refused);
        }
    } else if !found.is_unfinished() {
        return Ok(Status::Ok);
    }
    trim::cut(store, activity, &found).map(|_| Status::Ok)
}

/// Gives `each` all that a ledger has for a group, oldest first: its id, and whether it is there. Page by page it is acknowledged then.
///
/// # Errors
/// Any of `StoreError`.
pub fn feed(store: &mut Store, activity: &ActivityId, group: &str, mut each: impl FnMut(EntryId, bool)) -> Result<()> {
    if !ledger::make_group(store, activity, group)? {
        return Ok(());
    }
    let mut after = EntryId::ZERO;
    loop {
        let page = ledger::entries_of_group(store, activity, group, after)?;
        page.iter().for_each(|(id, entry)| each(*id, entry.is_some()));
        let ids: Vec<EntryId> = page.into_iter().map(|(id, _)| id).collect();
        let Some(last) = ids.last() else { return Ok(()) };
        after = *last;
        ledger::acknowledge(store, activity, group, &ids)?;
    }
}

/// Archives in memory, each as if it were in a directory of its own.
#[derive(Debug, Default)]
pub struct Archives(Mutex<Vec<(Sealed, Lines)>>);

/// Lines of an archive, those of one part one after the other.
type Lines = Vec<(Part, Vec<Bytes>)>;

/// One that is being made.
struct Draft<'a> {
    archives: &'a Archives,
    kind: Kind,
    lines: Lines,
    name: String,
}

impl Archives {
    fn replace(&self, name: &str, new: Option<(Sealed, Lines)>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(sealed, _)| sealed.manifest.name != name);
        all.extend(new);
    }
}

impl ArchiveFiles for Draft<'_> {
    type Failure = StoreError;

    fn begin(&mut self, _: &Archivable) -> Result<()> {
        self.lines.clear();
        Ok(())
    }

    fn line(&mut self, part: Part, texts: &[&[u8]]) -> Result<()> {
        self.lines.push((part, texts.iter().map(|text| Bytes(text.to_vec())).collect()));
        Ok(())
    }

    fn end(&mut self) -> Result<Vec<FileSum>> {
        let of = |part: Part| self.lines.iter().filter(move |(of, _)| *of == part).count() as u64;
        let sum = |part: &Part| FileSum {
            part: *part,
            file: part.file_name(),
            key: String::new(),
            key_type: part.key_type(self.kind).to_owned(),
            columns: Vec::new(),
            lines: of(*part),
            bytes: 0,
            sha256: String::new(),
        };
        Ok(Part::of(self.kind).iter().map(sum).collect())
    }

    fn publish(&mut self, manifest: Manifest) -> Result<Sealed> {
        self.name.clone_from(&manifest.name);
        let sealed = Sealed { sha256: Digest::of(format!("{manifest:?}").as_bytes()), manifest };
        self.archives.replace(&self.name, Some((sealed.clone(), std::mem::take(&mut self.lines))));
        Ok(sealed)
    }

    fn withdraw(&mut self) -> Result<()> {
        self.archives.replace(&self.name, None);
        Ok(())
    }
}

/// Moves an activity into files: `ended` if it is there already, `refused` if that cannot be done now.
///
/// # Errors
/// Any of `StoreError`.
pub fn archive(store: &mut Store, activity: &ActivityId, archives: &Archives) -> Result<Status> {
    let mut draft = Draft { archives, kind: store.layout().kind(), lines: Vec::new(), name: String::new() };
    Ok(match archive::archive(store, activity, None, &mut draft)? {
        Ok(_) => Status::Ok,
        Err(Unarchivable::Archived(found)) => {
            archive::remove_rest(store, activity, &found)?;
            Status::Ended
        }
        Err(Unarchivable::Status(status, _)) => status,
        Err(_) => Status::Refused,
    })
}

/// Brings an activity back from whichever of these archives it was moved to last: `exists` if it was to none.
///
/// # Errors
/// Any of `StoreError`.
pub fn restore(store: &mut Store, activity: &ActivityId, archives: &Archives) -> Result<Status> {
    let all = archives.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let of_activity = |(sealed, _): &&(Sealed, Lines)| sealed.manifest.activity == activity.as_str();
    for (sealed, lines) in all.iter().filter(of_activity) {
        let mut lines = lines.iter();
        let write = |pages: &mut Pages<'_>| lines.try_for_each(|(part, line)| pages.add(*part, line.clone()).map(drop));
        match restore::restore(store, activity, sealed, None, false, write)? {
            Ok(found) if found.status == Status::Exists => {}
            Ok(found) => return Ok(found.status),
            Err(_) => return Ok(Status::Refused),
        }
    }
    Ok(Status::Exists)
}

/// A line of a file of orders. That of a file that ends holds needs a user only if the activity is sharded.
#[derive(Debug, Clone)]
pub struct FileLine {
    /// Who buys.
    pub user: String,
    /// How many units, of one activity, or of several in a file of multi-orders.
    pub items: Vec<(ActivityId, Quantity)>,
    /// Its request id.
    pub request: String,
}

/// A file of orders, and how to apply it.
#[derive(Debug, Clone)]
pub struct OrderFile {
    /// What is done with its lines: `deduct`, `multi_deduct`, `refund`, `hold`, `confirm` or `release`.
    pub operation: &'static str,
    /// The name of the job.
    pub job: String,
    /// How long its holds last.
    pub hold_for: Duration,
    /// All lines, numbered from 1.
    pub lines: Vec<FileLine>,
    /// Whether the units after each line are wanted.
    pub has_rows: bool,
    /// The most lines of one call.
    pub at_once: usize,
}

/// Gets a line that was decided, how each of its items was, and the deadline of a hold that it made.
type Heard<'a> = dyn FnMut(u64, &[Status], Option<Millis>) + 'a;

/// Applies a file, as `--from` does. `heard` gets each line that was decided.
///
/// # Errors
/// Any of `StoreError`. What was decided before it was heard.
pub fn apply_file(store: &mut Store, file: &OrderFile, heard: &mut Heard<'_>) -> Result<()> {
    let operation = Operation::named(file.operation).unwrap_or(Operation::Deduct);
    let options = OrderOptions {
        operation,
        job: Job { name: file.job.clone(), digest: file.job.clone() },
        reason: None,
        limit: None,
        hold_for: HoldFor::new(file.hold_for).filter(|_| operation == Operation::Hold),
        has_rows: file.has_rows,
        limits: Limits::shared().with_orders(file.at_once),
        retry_for: Duration::from_secs(30),
    };
    let mut names = Interner::default();
    for (activity, _) in file.lines.iter().flat_map(|line| &line.items) {
        names.number(activity.as_str().as_bytes());
    }
    let run = Run::new(store, options, names)?;
    let mut apply = Applying { run, file, next: 0, refused: BTreeSet::new(), heard };
    let applied = apply.all();
    let drained = apply.run.drain();
    while apply.run.skip_undecided() {
        apply.report();
    }
    applied.and(drained)
}

/// A file that is applied.
struct Applying<'a> {
    run: Run,
    file: &'a OrderFile,
    /// The next line that is pushed, from 0.
    next: usize,
    /// Lines that were reported as refused. They are not tried again when the file is read again.
    refused: BTreeSet<u64>,
    heard: &'a mut Heard<'a>,
}

impl Applying<'_> {
    /// Pushes, sends and reports until all is decided.
    fn all(&mut self) -> Result<()> {
        while self.run.load_watermarks()? {}
        loop {
            self.push()?;
            let has_ended = self.next == self.file.lines.len();
            let mut step = self.run.advance(has_ended || self.run.is_full())?;
            if matches!(step, Advance::Idle) && has_ended && self.run.is_empty() {
                step = self.run.check()?;
                if matches!(step, Advance::Idle) {
                    return Ok(());
                }
            }
            self.report();
            if matches!(step, Advance::Rewind { .. }) {
                self.run.drain()?;
                self.run.restart();
                self.next = 0;
            }
        }
    }

    fn push(&mut self) -> Result<()> {
        while self.run.accepts_more()
            && let Some(FileLine { user, items, request }) = self.file.lines.get(self.next)
        {
            self.next += 1;
            let line = self.next as u64;
            if !self.refused.contains(&line) {
                let items = items.iter().map(|(activity, quantity)| (activity.as_str(), quantity.get()));
                self.run.push(line, items, [user, request, ""])?;
            }
        }
        Ok(())
    }

    /// Reports the first lines, as far as they are decided.
    fn report(&mut self) {
        while let Some(decided) = self.run.front() {
            let (line, deadline) = (decided.line, decided.deadline);
            let items: Vec<Status> = self.run.front_items().map(|item| item.status).collect();
            if items.iter().any(|status| status.code() < 0) {
                self.refused.insert(line);
            }
            (self.heard)(line, &items, deadline);
            self.run.pop();
        }
    }
}

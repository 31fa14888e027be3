//! Reads all that an audit needs, exactly, while the sale goes on.
//!
//! A scan of a hash that is being written sees a blur. So each page of participants comes with the ledger's last
//! entry at that very instant; the ledger is folded up to exactly there, and then each counter of the page must
//! be what the ledger says. Without a ledger, scans are repeated until two are alike.

use std::hash::BuildHasher;

use redis::Value;

use super::call::Again;
use super::keys::Keys;
use super::reply::Reply;
use super::scan::number;
use super::scripts::AUDIT;
use super::{Store, StoreError};
use crate::inventory::audit::{Facts, Instant, Rules, limit, signed};
use crate::inventory::book::{Book, Compared};
use crate::inventory::id::ActivityId;
use crate::inventory::order::Corrupt;
use crate::inventory::status::Status;
use crate::inventory::time::Millis;

/// Participants a page: about half a millisecond of the server's time.
const PAGE: usize = 500;
/// Users that are looked up at one instant.
const MOST_USERS: usize = 1000;
/// How often an audit begins again where the activity was reset meanwhile, and how many scans may differ.
const TRIES: usize = 3;

/// What a call asks for.
enum Ask<'a> {
    /// A page of participants from a cursor on.
    Page(&'a str),
    /// These users.
    Users(&'a [String]),
}

/// What a call found.
struct Look {
    status: Status,
    corrupt: Option<Corrupt>,
    instant: Instant,
    cursor: String,
    held: HeldBy,
}

/// Who holds what, as the script tells it.
enum HeldBy {
    /// Users and units in turn, joined by zero bytes.
    Joined(Vec<u8>),
    /// Users and units in turn; or units alone, of users that were asked for.
    List(Vec<Value>),
}

impl Store {
    /// All facts about an activity. `total` is what the caller says it has; `compared` is what its users are compared
    /// with besides.
    ///
    /// # Errors
    /// Any of [`StoreError`]; what is missing or corrupt is among the facts.
    pub fn audit(
        &mut self,
        activity: &ActivityId,
        total: Option<u64>,
        compared: Option<Compared>,
    ) -> Result<Facts, StoreError> {
        let keys = self.keys(activity);
        let mut facts = self.no_facts(activity, total, compared);
        for _ in 0..TRIES {
            facts.begin_again();
            let Some(first) = self.first_look(&keys, &mut facts)? else { return Ok(facts) };
            let whole = match first.instant.last {
                Some(last) if first.instant.rules.is_some_and(|rules| rules.ledger) => {
                    self.fold(&keys.ledger, &mut facts.book, last)?;
                    facts.book.epoch.is_some() && facts.book.epoch == first.instant.rules.map(|rules| rules.epoch)
                }
                _ => false,
            };
            let done = if whole {
                self.by_ledger(&keys, &mut facts, first)?
            } else {
                self.by_rounds(&keys, &mut facts, first)?
            };
            if done {
                return Ok(facts);
            }
        }
        facts.begin_again();
        if self.first_look(&keys, &mut facts)?.is_some() {
            facts.notes.push(format!("its ledger was trimmed or reset {TRIES} times while it was read"));
        }
        Ok(facts)
    }

    fn no_facts(&self, activity: &ActivityId, total: Option<u64>, compared: Option<Compared>) -> Facts {
        let kind = self.layout.kind();
        let newest_named = compared.as_ref().and_then(|compared| compared.records.newest);
        Facts {
            activity: activity.clone(),
            layout: self.layout,
            kind,
            total,
            end: None,
            corrupt: None,
            book: Book::new(kind, compared),
            newest_named,
            held: None,
            by_ledger: false,
            settled: false,
            findings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The first page; `None` where there is nothing to audit.
    fn first_look(&mut self, keys: &Keys, facts: &mut Facts) -> Result<Option<Look>, StoreError> {
        let look = self.look(keys, &Ask::Page("0"))?;
        Ok(facts.take(&look).then_some(look))
    }

    /// Compares each counter with the ledger at one instant. False where the ledger began anew meanwhile.
    fn by_ledger(&mut self, keys: &Keys, facts: &mut Facts, first: Look) -> Result<bool, StoreError> {
        facts.by_ledger = true;
        facts.settled = true;
        let epoch = facts.book.epoch;
        let mut look = first;
        loop {
            if !self.catch_up(keys, facts, &look.instant, epoch)? {
                return Ok(false);
            }
            let asked = self.ask_ahead(keys, &look.cursor);
            let limit = limit(facts.kind, look.instant.rules);
            for (name, holds) in look.held.pairs() {
                let user = facts.book.user(name);
                if facts.book.see(user) {
                    facts.findings.extend(facts.book.finding(user, holds, limit, true));
                }
            }
            if look.cursor == "0" {
                break;
            }
            look = self.answer(keys, &look.cursor, asked)?;
            if !facts.take(&look) {
                return Ok(facts.corrupt.is_some());
            }
        }
        // Those whom only the ledger knows; and then, at one last instant, those who differed.
        for users in facts.book.unseen().chunks(MOST_USERS) {
            if !self.look_up(keys, facts, users, epoch)? {
                return Ok(facts.corrupt.is_some());
            }
        }
        let differ: Vec<u32> = facts.findings.iter().map(|finding| finding.user).collect();
        let again = if differ.len() <= MOST_USERS { &differ[..] } else { &[] };
        if !again.is_empty() {
            facts.findings.clear();
        }
        Ok(self.look_up(keys, facts, again, epoch)? || facts.corrupt.is_some())
    }

    /// Looks at users at one instant. False where the ledger began anew meanwhile, or a key is corrupt now.
    fn look_up(
        &mut self,
        keys: &Keys,
        facts: &mut Facts,
        users: &[u32],
        epoch: Option<u64>,
    ) -> Result<bool, StoreError> {
        // Ids are UTF-8. One that is not is in no ledger, and cannot be asked for; what was seen of it stands.
        let names: Vec<String> =
            users.iter().map(|user| String::from_utf8_lossy(facts.book.users.name(*user)).into_owned()).collect();
        let look = self.look(keys, &Ask::Users(&names))?;
        if !facts.take(&look) || !self.catch_up(keys, facts, &look.instant, epoch)? {
            return Ok(false);
        }
        let limit = limit(facts.kind, look.instant.rules);
        for (user, value) in users.iter().zip(look.held.units()) {
            let holds = match value {
                Value::BulkString(units) => number(units),
                _ => Ok(0),
            };
            facts.book.see(*user);
            facts.findings.extend(facts.book.finding(*user, holds, limit, true));
        }
        facts.end = Some(look.instant);
        Ok(true)
    }

    /// Folds the ledger up to an instant. False where it is not the ledger that the book began with.
    fn catch_up(
        &mut self,
        keys: &Keys,
        facts: &mut Facts,
        instant: &Instant,
        epoch: Option<u64>,
    ) -> Result<bool, StoreError> {
        if let Some(last) = instant.last {
            self.fold(&keys.ledger, &mut facts.book, last)?;
        }
        let same = instant.rules.map(|rules| rules.epoch) == epoch;
        Ok(same && facts.book.entries == instant.length && instant.last == Some(facts.book.end))
    }

    /// Scans until two scans are alike in stock, sum and digest.
    fn by_rounds(&mut self, keys: &Keys, facts: &mut Facts, first: Look) -> Result<bool, StoreError> {
        let hasher = hashbrown::DefaultHashBuilder::default();
        let lost_beginning = first.instant.rules.is_some_and(|rules| rules.ledger);
        let mut look = Some(first);
        let mut before = None;
        for _ in 0..TRIES {
            let (mut sum, mut digest) = (0i64, 0u64);
            facts.book.begin_again();
            facts.findings.clear();
            let mut page = match look.take() {
                Some(look) => look,
                None => self.look(keys, &Ask::Page("0"))?,
            };
            let stock = page.instant.stock;
            loop {
                if !facts.take(&page) {
                    return Ok(facts.corrupt.is_some());
                }
                let asked = self.ask_ahead(keys, &page.cursor);
                let limit = limit(facts.kind, page.instant.rules);
                for (name, holds) in page.held.pairs() {
                    let user = facts.book.user(name);
                    if facts.book.see(user) {
                        digest = digest.wrapping_add(hasher.hash_one((name, &holds)));
                        sum = sum.saturating_add(holds.as_ref().map_or(0, |units| signed(*units)));
                        facts.findings.extend(facts.book.finding(user, holds, limit, false));
                    }
                }
                if page.cursor == "0" {
                    break;
                }
                page = self.answer(keys, &page.cursor, asked)?;
            }
            let seen = (stock, page.instant.stock, sum, digest);
            facts.held = facts.kind.has_users().then_some(sum);
            facts.end = Some(page.instant);
            facts.settled = seen.0 == seen.1 && before == Some(seen);
            if facts.settled {
                break;
            }
            before = Some(seen);
        }
        // A bare counter has nobody to be seen.
        for user in facts.book.unseen().into_iter().filter(|_| facts.kind.has_users()).collect::<Vec<_>>() {
            facts.findings.extend(facts.book.finding(user, Ok(0), None, false));
        }
        if !facts.settled {
            facts.notes.push(
                "it is being written and has no ledger, so no two scans were alike: audit it when nobody buys"
                    .to_owned(),
            );
        } else if lost_beginning {
            facts.settled = false;
            facts.notes.push(
                "its ledger does not begin with this sale's preheat, so no counter could be compared with it"
                    .to_owned(),
            );
        }
        Ok(true)
    }

    /// Asks for the next page before this one is looked at, so that server and client work side by side. False where
    /// nothing was asked.
    fn ask_ahead(&mut self, keys: &Keys, cursor: &str) -> bool {
        if cursor == "0" {
            return false;
        }
        let names: Vec<&str> = keys.in_order().collect();
        let mut command = redis::cmd("EVALSHA");
        command.arg(&AUDIT.sha1).arg(names.len()).arg(names).arg(self.kind()).arg(cursor).arg(PAGE);
        self.server.send(&command).is_ok()
    }

    /// The page that was asked for. Where the connection broke or the server lost the script, it is asked for anew.
    fn answer(&mut self, keys: &Keys, cursor: &str, asked: bool) -> Result<Look, StoreError> {
        if asked
            && let Ok(value) = self.server.receive()
            && let Some(look) = read(value, keys)?
        {
            return Ok(look);
        }
        self.look(keys, &Ask::Page(cursor))
    }

    /// What the script says.
    fn look(&mut self, keys: &Keys, ask: &Ask<'_>) -> Result<Look, StoreError> {
        match self.call(keys, ask, false)? {
            Some(look) => Ok(look),
            // A user with a zero byte, which only a backend can have made.
            None => self.call(keys, ask, true)?.ok_or_else(|| Reply::of(&AUDIT).unfit("no list")),
        }
    }

    /// One call of the script.
    fn call(&mut self, keys: &Keys, ask: &Ask<'_>, as_list: bool) -> Result<Option<Look>, StoreError> {
        let names: Vec<&str> = keys.in_order().collect();
        let kind = self.kind();
        let value = self.server.run(&AUDIT, &names, Again::Reads, None, |_| {
            let mut arguments = vec![kind.clone()];
            match ask {
                Ask::Page(cursor) => {
                    arguments.extend([(*cursor).to_owned(), PAGE.to_string()]);
                    arguments.extend(as_list.then(|| "list".to_owned()));
                }
                Ask::Users(users) => {
                    arguments.extend([String::new(), PAGE.to_string()]);
                    arguments.extend_from_slice(users);
                }
            }
            arguments
        })?;
        read(value, keys)
    }
}

impl Facts {
    /// Forgets all that was found.
    fn begin_again(&mut self) {
        self.book.begin_again();
        self.findings.clear();
        self.notes.clear();
        (self.end, self.corrupt, self.held, self.by_ledger, self.settled) = (None, None, None, false, false);
    }

    /// Takes over what a look says of the activity as a whole. False where there is nothing to go on with.
    fn take(&mut self, look: &Look) -> bool {
        self.corrupt.clone_from(&look.corrupt);
        if look.status == Status::Ok {
            self.end = Some(look.instant.clone());
        }
        look.status == Status::Ok
    }
}

/// A user, and the units held or the text that is no number.
type Holding<'a> = (&'a [u8], Result<u64, String>);

impl HeldBy {
    /// Users and what each holds.
    fn pairs(&self) -> Box<dyn Iterator<Item = Holding<'_>> + '_> {
        match self {
            Self::Joined(bytes) => {
                let mut parts = bytes.split(|byte| *byte == 0);
                Box::new(std::iter::from_fn(move || Some((parts.next()?, number(parts.next()?)))))
            }
            Self::List(values) => Box::new(values.chunks(2).filter_map(|pair| match pair {
                [Value::BulkString(user), Value::BulkString(units)] => Some((&user[..], number(units))),
                _ => None,
            })),
        }
    }

    /// The units of users that were asked for.
    fn units(&self) -> &[Value] {
        match self {
            Self::Joined(_) => &[],
            Self::List(values) => values,
        }
    }

    /// Takes a joined reply apart; `None` where a user has a zero byte.
    fn joined(mut bytes: Vec<u8>) -> Option<Self> {
        let space = bytes.iter().position(|byte| *byte == b' ')?;
        let count: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
        bytes.drain(..=space);
        if count == 0 {
            return Some(Self::List(Vec::new()));
        }
        let parts = bytes.iter().filter(|byte| **byte == 0).count() + 1;
        (parts == count).then_some(Self::Joined(bytes))
    }
}

/// Reads the script's reply; `None` where users and units cannot be told apart in it.
fn read(value: Value, keys: &Keys) -> Result<Option<Look>, StoreError> {
    let reply = Reply::of(&AUDIT);
    let mut values = reply.array(value)?;
    let status = reply.status(values.first())?;
    let mut look = Look {
        status,
        corrupt: None,
        instant: Instant { at: Millis::new(0), stock: None, rules: None, last: None, length: 0 },
        cursor: "0".to_owned(),
        held: HeldBy::List(Vec::new()),
    };
    if status == Status::Corrupt {
        look.corrupt = Some(reply.corrupt(&values, keys)?);
        return Ok(Some(look));
    }
    look.held = match values.pop() {
        Some(Value::Array(values)) => HeldBy::List(values),
        Some(Value::BulkString(bytes)) => match HeldBy::joined(bytes) {
            Some(held) => held,
            None => return Ok(None),
        },
        other => return Err(reply.unfit(other)),
    };
    let [_, at, stock, Value::Array(rules), last, length, cursor] = &values[..] else {
        return Err(reply.unfit(&values));
    };
    look.cursor = reply.text(Some(cursor))?.unwrap_or_default();
    look.instant = Instant {
        at: Millis::new(reply.count(Some(at))?.unwrap_or_default()),
        stock: reply.count(Some(stock))?,
        rules: match reply.count(rules.first())? {
            None => None,
            Some(total) => Some(Rules {
                total,
                per_user_limit: reply.count(rules.get(1))?,
                epoch: reply.count(rules.get(2))?.unwrap_or_default(),
                repairs: reply.count(rules.get(3))?.unwrap_or_default(),
                ledger: reply.text(rules.get(4))?.as_deref() == Some("1"),
            }),
        },
        last: match reply.text(Some(last))? {
            None => None,
            Some(id) => Some(id.parse().map_err(|why: String| reply.unfit(why))?),
        },
        length: reply.count(Some(length))?.unwrap_or_default(),
    };
    Ok(Some(look))
}

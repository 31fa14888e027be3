//! Pages of participants, the next one asked for before this one is looked at, so that server and client work side by
//! side.
//!
//! Each page comes with a look at that same instant: from the script, or, which takes a third of the server's time,
//! from the scan itself in one transaction with the script, on a connection of its own. Where that cannot be (TLS, a
//! proxy or a user without MULTI, a set with units beside it) or goes wrong, the script gives the page.

use super::keys::Keys;
use super::look::{Ask, HeldBy, Look, PAGE, read};
use super::reply::Reply;
use super::scan::number;
use super::scripts::AUDIT;
use super::wire::Wire;
use super::{Store, StoreError};
use crate::inventory::layout::Kind;
use crate::inventory::status::Status;

/// Where pages come from.
pub struct Pages {
    /// `None` where they come from the script.
    wire: Option<Wire>,
    /// Whether the next page was asked for.
    asked: bool,
}

/// A page as the scan itself gave it.
pub struct Scanned {
    texts: Vec<u8>,
    /// Where each text ends.
    ends: Vec<usize>,
    /// Whether units stand behind each user; else each holds one.
    has_units: bool,
}

impl Scanned {
    /// Users and what each holds.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], Result<u64, String>)> {
        let text = |at: usize| &self.texts[if at == 0 { 0 } else { self.ends[at - 1] }..self.ends[at]];
        let width = if self.has_units { 2 } else { 1 };
        (0..self.ends.len() / width)
            .map(move |nth| (text(nth * width), if width == 2 { number(text(nth * 2 + 1)) } else { Ok(1) }))
    }
}

impl Store {
    /// Nothing is asked for yet.
    pub(super) fn begin_pages(&self) -> Pages {
        let scans = matches!(self.layout.kind(), Kind::Hash | Kind::Coupon);
        // Where there is no second connection, one does.
        let wire = if scans { Wire::connect(&self.server.target).ok().flatten() } else { None };
        Pages { wire, asked: false }
    }

    /// Asks for the page of a cursor.
    pub(super) fn ask_ahead(&mut self, keys: &Keys, pages: &mut Pages, cursor: &str) {
        if cursor == "0" {
            return;
        }
        self.pace.wait();
        let names: Vec<&str> = keys.in_order().collect();
        let mut look = redis::cmd("EVALSHA");
        look.arg(&AUDIT.sha1).arg(names.len()).arg(names).arg(self.kind());
        let Some(wire) = &mut pages.wire else {
            pages.asked = self.server.send(look.arg(cursor).arg(PAGE)).is_ok();
            return;
        };
        let has_units = self.layout.kind() == Kind::Hash;
        let mut scan = redis::cmd(if has_units { "HSCAN" } else { "SSCAN" });
        scan.arg(keys.participants.as_deref().unwrap_or_default()).arg(cursor).arg("COUNT").arg(PAGE);
        let commands = [&redis::cmd("MULTI"), look.arg("").arg(PAGE), &scan, &redis::cmd("EXEC")];
        let packed: Vec<u8> = commands.iter().flat_map(|command| command.get_packed_command()).collect();
        pages.asked = wire.send(&packed).is_ok();
    }

    /// The page that was asked for. Where that went wrong, whatever it was, the script is asked, which says what it is.
    pub(super) fn answer(&mut self, keys: &Keys, pages: &mut Pages, cursor: &str) -> Result<Look, StoreError> {
        if std::mem::take(&mut pages.asked) {
            let found = match &mut pages.wire {
                Some(wire) => receive(wire, keys, self.layout.kind() == Kind::Hash).ok(),
                None => match self.server.receive() {
                    Ok(value) => read(value, keys)?,
                    Err(_) => None,
                },
            };
            self.pace.took();
            if let Some(look) = found {
                return Ok(look);
            }
        }
        pages.wire = None;
        self.look(keys, &Ask::Page(cursor))
    }
}

/// Reads a look and the page of the same transaction.
fn receive(wire: &mut Wire, keys: &Keys, has_units: bool) -> Result<Look, StoreError> {
    let unfit = || Reply::of_command("EXEC").unfit("no look and page");
    for _ in ["MULTI", "EVALSHA", "SCAN"] {
        wire.status()?;
    }
    if wire.array()? != 2 {
        return Err(unfit());
    }
    let mut look = read(wire.value()?, keys)?.ok_or_else(unfit)?;
    if wire.array()? != 2 {
        return Err(unfit());
    }
    let cursor = wire.texts(1)?.concat();
    let count = wire.array()?;
    let mut page = Scanned { texts: Vec::new(), ends: Vec::with_capacity(count), has_units };
    for text in wire.texts(count)? {
        page.texts.extend_from_slice(text);
        page.ends.push(page.texts.len());
    }
    if look.status == Status::Ok {
        look.cursor = String::from_utf8_lossy(&cursor).into_owned();
        look.held = HeldBy::Scanned(page);
    }
    Ok(look)
}

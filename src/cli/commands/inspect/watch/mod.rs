//! `seckill inspect --watch`: the sale as it runs, redrawn on a terminal, or as rows for a program.

mod board;
mod forecast;
mod reader;
mod row;
mod servers;
mod show;

use std::time::{Duration, Instant};

use crate::cli::args::duration_in;
use crate::cli::commands::inspect::InspectArgs;
use crate::cli::commands::inspect::selection::Selection;
use crate::cli::commands::inspect::watch::board::Board;
use crate::cli::commands::inspect::watch::reader::{Reader, Update};
use crate::cli::commands::inspect::watch::row::WatchRow;
use crate::cli::commands::inspect::watch::show::{Scroll, Title};
use crate::cli::failure::{Exit, Result};
use crate::cli::interrupt;
use crate::cli::output::{Format, Key, Output, Screen, restore_screen};
use crate::cli::shared::hints;
use crate::cli::shared::selection::ActivitySelector;
use crate::model::number::between;
use crate::store::Store;

/// How soon a key, a signal or another size of the terminal is noticed.
const TICK: Duration = Duration::from_millis(100);

/// How often, and how many times.
#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    /// Show it again and again [default: every 2s]
    ///
    /// On a terminal the screen is redrawn; arrows, PgUp, PgDn, Home and End scroll, `q` or Ctrl-C ends it. Anywhere else, and with another `-o` than table, a row
    /// per activity and interval is printed (jsonl, unless `-o` says otherwise), with these fields more: `time`; `rate`,
    /// units a second on average of ten seconds, refunds counted against it; `sold_out_in`, a forecast in seconds, if the
    /// rate is steady; `lag`, entries that the slowest consumer group has not acknowledged; `alarms`; and `server_calls`,
    /// `server_errors` (a second), `server_success` (from 0 to 1), `server_p50`, `server_p99` and `server_p99_9` (in ms,
    /// since the server's start): script calls of all callers, by its INFO. What is not known is null. A server that is
    /// lost is reached again.
    #[arg(long, value_name = "INTERVAL", group = "watching", num_args = 0..=1, require_equals = true, default_missing_value = "2s", value_parser = interval, conflicts_with_all = ["user", "all", "top", "scan", "request", "holds"])]
    pub(super) watch: Option<Duration>,
    /// End after N readings; with --watch
    #[arg(long, value_name = "N", requires = "watching", allow_hyphen_values = true, value_parser = between::<u64>(1, 1_000_000_000))]
    count: Option<u64>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(100)..=Duration::from_secs(3600);
    duration_in(range, text, "expected a duration from 100ms to 1h, such as 2s")
}

/// Watches until Ctrl-C, `q`, the last reading, or until nobody reads.
///
/// # Errors
/// The first reading failed, or the last one of those that were asked for.
pub(super) fn run(args: &InspectArgs, every: Duration, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let wanted = ActivitySelector::new(&args.activities)?;
    let layout = store.layout();
    let title =
        Title { server: store.server_name().to_owned(), layout: layout.name(), every, explains: out.terminal().notes };
    let mut watching =
        Watching { board: Board::new(layout.kind()), selection: &args.selection, left: args.watch.count, title };
    let mut reader = Reader::new(store.unconnected_copy(), wanted)?;
    let redraws = out.format() == Format::Table && out.terminal().redraws;
    if !redraws {
        hints::warn_of_replica(store, out);
    }
    let first = reader.read();
    // A server that was never reached has a wrong address: no screen is shown.
    if first.views.is_empty() {
        first.reading.clone()?;
    }
    interrupt::stop_gracefully();
    match redraws {
        true => watching.on_screen(first, reader, out)?,
        false => watching.as_rows(first, reader, out)?,
    }
    watching.exit()
}

struct Watching<'a> {
    board: Board,
    selection: &'a Selection,
    /// Readings that are still wanted.
    left: Option<u64>,
    title: Title,
}

impl Watching<'_> {
    /// Takes a reading; returns whether it was the last.
    fn take(&mut self, update: Update) -> bool {
        self.board.take(update, self.selection);
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.left == Some(0)
    }

    fn on_screen(&mut self, first: Update, reader: Reader, out: &Output) -> Result<()> {
        interrupt::at_exit(restore_screen);
        let mut screen = Screen::enter(out.terminal())?;
        let mut is_last = self.take(first);
        let updates = reader.start(self.title.every);
        let mut scroll = Scroll::default();
        let mut drawn = Instant::now();
        let mut is_due = true;
        loop {
            // How long a server has been lost is counted.
            let is_counting = self.board.lost.is_some() || self.board.overdue(self.title.every).is_some();
            if is_due || screen.is_stale() || is_counting && drawn.elapsed() >= Duration::from_secs(1) {
                let mut frame = screen.frame();
                show::draw(&self.board, &self.title, &mut scroll, &mut frame);
                screen.draw(frame)?;
                drawn = Instant::now();
            }
            if interrupt::requested() || is_last {
                return Ok(());
            }
            is_due = false;
            for key in screen.wait(TICK)? {
                if matches!(key, Key::Letter(b'q' | b'Q')) {
                    return Ok(());
                }
                is_due |= scroll.press(key);
            }
            if let Ok(update) = updates.try_recv() {
                is_last = self.take(update);
                is_due = true;
            }
        }
    }

    fn as_rows(&mut self, first: Update, reader: Reader, out: &mut Output) -> Result<()> {
        let terminal = out.terminal();
        let mut rows = out.stream_of_data::<WatchRow>()?;
        let mut update = Some(first);
        let updates = reader.start(self.title.every);
        let mut was_lost = false;
        loop {
            if let Some(update) = update.take() {
                let is_last = self.take(update);
                match (&self.board.lost, was_lost) {
                    (Some((error, _)), false) => terminal.warn(format!("{error}; connecting again")),
                    (None, true) => terminal.note(format!("`{}` answers again", self.title.server)),
                    _ => {}
                }
                was_lost = self.board.lost.is_some();
                for row in self.board.rows.iter().filter(|row| !row.is_old) {
                    rows.push(row)?;
                }
                rows.flush()?;
                if is_last {
                    break;
                }
            }
            if interrupt::requested() || rows.reader_left() {
                break;
            }
            update = updates.recv_timeout(TICK).ok();
        }
        rows.finish()
    }

    fn exit(self) -> Result<Exit> {
        match self.board.lost {
            _ if interrupt::requested() => Ok(Exit::Interrupted),
            Some((error, _)) if self.left == Some(0) => Err(error.into()),
            _ => Ok(Exit::done_if(self.left != Some(0) || self.board.is_sound)),
        }
    }
}

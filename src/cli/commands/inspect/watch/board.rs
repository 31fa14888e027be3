//! All that is known of the sale: the rows of the last reading, rates, servers, and since when a server is lost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::cli::commands::inspect::selection::{AlertBelow, Selection};
use crate::cli::commands::inspect::watch::forecast::History;
use crate::cli::commands::inspect::watch::reader::Update;
use crate::cli::commands::inspect::watch::row::WatchRow;
use crate::cli::commands::inspect::watch::servers::Servers;
use crate::error::StoreError;
use crate::model::number::signed;
use crate::model::{ActivityId, Kind, Millis};
use crate::read::watch::{NewestOrder, View};

/// A server that takes longer to answer than this is worth a line.
const LATE: Duration = Duration::from_secs(1);

pub(super) struct Board {
    kind: Kind,
    pub rows: Vec<WatchRow>,
    /// What each row was made of.
    pub views: HashMap<String, View>,
    pub newest: Vec<NewestOrder>,
    histories: HashMap<ActivityId, History>,
    pub servers: Servers,
    /// The server's clock when all were read last.
    pub at: Millis,
    /// When the last reading came, whatever it found.
    heard: Instant,
    /// Why not all could be read, and since when.
    pub lost: Option<(StoreError, Instant)>,
    /// Whether every activity that was read is there and can be read.
    pub is_sound: bool,
}

impl Board {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            rows: Vec::new(),
            views: HashMap::new(),
            newest: Vec::new(),
            histories: HashMap::new(),
            servers: Servers::default(),
            at: Millis::new(0),
            heard: Instant::now(),
            lost: None,
            is_sound: true,
        }
    }

    /// Since when a reading should have come, if it is late: the server takes its time.
    pub(super) fn overdue(&self, every: Duration) -> Option<Instant> {
        (self.heard.elapsed() > every + LATE).then_some(self.heard)
    }

    /// Takes what was read. Rows come in the order that is asked for.
    pub(super) fn take(&mut self, update: Update, selection: &Selection) {
        self.heard = Instant::now();
        let error = update.reading.map(|at| self.at = at).err();
        let since = self.lost.take().map(|(_, since)| since);
        self.lost = error.map(|error| (error, since.unwrap_or_else(Instant::now)));
        if self.lost.is_some() {
            // What is not counted is not known.
            let figures = &mut self.servers.figures;
            (figures.calls, figures.errors, figures.success) = (None, None, None);
        } else if self.servers.take(update.servers, update.counted, update.own_calls) {
            // It may have lost what it sold last.
            self.histories.clear();
        }
        let now = Instant::now();
        let mut rows: Vec<WatchRow> =
            update.views.iter().map(|view| self.row(view, selection.alert_below, now)).collect();
        self.is_sound = rows.iter().all(|row| row.activity.is_sound());
        selection.apply(&mut rows, |row| &row.activity, |row| row.rate);
        self.rows = rows;
        self.newest = update.newest;
        self.views = update.views.into_iter().map(|view| (view.snapshot.activity.to_string(), view)).collect();
    }

    fn row(&mut self, view: &View, below: Option<AlertBelow>, now: Instant) -> WatchRow {
        let snapshot = &view.snapshot;
        let history = self.histories.entry(snapshot.activity.clone()).or_default();
        if let Some(stock) = snapshot.stock.map(signed).filter(|_| !view.is_old && snapshot.status.is_done()) {
            // Without a total, what is left falls as what is sold grows.
            let of_shards = snapshot.sums.as_ref().map(|sums| sums.total);
            let total = of_shards.or(snapshot.meta.as_ref().map(|meta| meta.total)).map_or(0, signed);
            history.add(view.read, total.saturating_sub(stock), snapshot.meta.as_ref().map(|meta| meta.epoch));
        }
        WatchRow::new(view, self.kind, history, below, now, &self.servers.figures)
    }
}

//! Compares every answer, the keys and what the feed delivered with the model.

use std::collections::HashSet;
use std::rc::Rc;

use serde_json::Value;

use crate::history::{Event, Moment};
use crate::model::{Decided, Model, Names};
use crate::names::request_of;
use crate::rules::{Answer, Sale, decide};
use crate::said::{answer_of, json};
use crate::schedule::{Operation, Order, What};
use crate::servers::Servers;
use crate::timeline::{Bundle, Segment};
use crate::{adoption, live};

/// The model's states over all segments, and what to ask of them.
pub struct Timeline<'a> {
    pub names: &'a Names<'a>,
    parts: Vec<Part<'a>>,
}

/// Activities that are decided in one order, beside the others.
struct Part<'a> {
    activities: &'a [usize],
    segments: &'a [Segment],
    models: Vec<Model<'a>>,
}

/// All that is wrong.
pub fn all(names: &Names<'_>, events: &[Event], bundles: &[(Bundle, Vec<Segment>)], servers: &Servers) -> Vec<String> {
    let mut refused = Vec::new();
    for (bundle, segments) in bundles {
        match all_refused(names, events, segments) {
            Ok(rows) => refused.push(rows),
            Err(problem) => return vec![format!("activities {:?}: {problem}", bundle.activities)],
        }
    }
    let parts = bundles.iter().zip(&refused).map(|((bundle, segments), refused)| {
        let models = segments.iter().zip(refused).map(|(segment, refused)| follow(names, segment, refused).unwrap());
        Part { activities: &bundle.activities, segments, models: models.collect() }
    });
    let timeline = Timeline { names, parts: parts.collect() };
    let mut problems = Vec::new();
    for event in events {
        if let Err(problem) = timeline.event(event) {
            let Event { number, actor, call, .. } = event;
            let (out, err) = (event.stdout.trim_end(), event.stderr.trim_end());
            let shown = |text: &str| text.chars().take(1_500).collect::<String>();
            problems.push(format!(
                "e{number} {actor} $ {call}\n  exit {:?}: {problem}\n  {}\n  {}",
                event.code,
                shown(out),
                shown(err)
            ));
        }
    }
    problems.extend(timeline.justified(events));
    problems.extend(timeline.complete());
    problems.extend(timeline.delivered(events));
    let schedule = names.schedule;
    for (index, activity) in schedule.activities.iter().enumerate() {
        problems.extend(live::differences(&timeline.last(index).keys, &schedule.layout, activity, servers));
    }
    let activity = schedule.rng.clone().below(schedule.activities.len());
    let sale = &timeline.last(activity).sales[activity];
    // A user over the limit, or a damaged counter, is no match whoever adopts it.
    if let (true, None, Servers::One(redis)) = (problems.is_empty(), &sale.truth, servers) {
        problems.extend(adoption::adopt(schedule, sale.total, activity, redis));
    }
    problems
}

/// For each segment, the rows that those before it refused. Each is followed from the beginning.
fn all_refused(
    names: &Names<'_>,
    events: &[Event],
    segments: &[Segment],
) -> Result<Vec<HashSet<(usize, u64)>>, String> {
    let mut refused: Vec<HashSet<(usize, u64)>> = vec![HashSet::new()];
    for (index, segment) in segments.iter().enumerate() {
        let mut known = refused[index].clone();
        let model = follow(names, segment, &known).map_err(|problem| format!("segment {index}: {problem}"))?;
        let decided = model.rows.iter().filter(|(_, all)| all.iter().any(|it| it.answer.status != "ok"));
        let decided: Vec<_> = decided.map(|(row, _)| *row).collect();
        known.extend(decided);
        known.extend(events.iter().filter(|event| !segment.is_before(&event.from)).flat_map(reported_refused));
        refused.push(known);
    }
    Ok(refused)
}

/// Lines of a file of multi-orders that a call reported refused: they stay so, also if a paused activity kept no line.
fn reported_refused(event: &Event) -> Vec<(usize, u64)> {
    let What::File { file, .. } = event.what else { return Vec::new() };
    let rows = event.stdout.lines().filter_map(|line| json(line).ok());
    let refused = rows.filter(|row| row["items"].is_array() && row["status"] == "refused");
    refused.filter_map(|row| Some((file, row["line"].as_u64()?))).collect()
}

fn follow<'a>(
    names: &'a Names<'a>,
    segment: &Segment,
    refused: &'a HashSet<(usize, u64)>,
) -> Result<Model<'a>, String> {
    let mut model = Model::new(names, refused);
    segment.groups.iter().try_for_each(|group| model.step(group))?;
    Ok(model)
}

impl Timeline<'_> {
    fn part(&self, activity: usize) -> &Part<'_> {
        self.parts.iter().find(|part| part.activities.contains(&activity)).expect("each is somewhere")
    }

    /// What became of an activity in the end.
    pub fn last(&self, activity: usize) -> &Model<'_> {
        self.part(activity).models.last().unwrap()
    }

    /// An activity in all segments.
    pub fn models(&self, activity: usize) -> impl Iterator<Item = &Model<'_>> {
        self.part(activity).models.iter()
    }

    /// Whether data of an activity were lost between two moments.
    pub fn lost_data(&self, activity: usize, from: &Moment, to: &Moment) -> bool {
        let segments = self.part(activity).segments;
        let mut alive = segments.iter().filter(|segment| segment.was_alive(from, to));
        alive.next_back();
        alive.any(|segment| segment.lost)
    }

    /// All states of these activities between two moments.
    pub fn states(&self, of: &[usize], from: &Moment, to: &Moment) -> Vec<Vec<Rc<Sale>>> {
        let mut states = Vec::new();
        for (model, low, high) in self.part(of[0]).window(from, to) {
            let mut moments = vec![low];
            for activity in of {
                let changes = model.states[*activity].iter().map(|(at, _)| *at);
                moments.extend(changes.filter(|at| *at > low && *at <= high));
            }
            moments.sort_unstable();
            moments.dedup();
            let count = model.states.len();
            states
                .extend(moments.into_iter().map(|at| (0..count).map(|index| model.at(index, at)).collect::<Vec<_>>()));
        }
        states
    }

    fn event(&self, event: &Event) -> Result<(), String> {
        let bad = ["panicked", "os error", "RUST_BACKTRACE", "stack overflow"];
        if let Some(word) = bad.iter().find(|word| event.stderr.contains(*word)) {
            return Err(format!("says `{word}`"));
        }
        let is_feed = matches!(event.what, What::Feed { .. });
        match event.code {
            Some(0 | 3 | 7) => {}
            Some(1 | 5 | 6) if event.actor != "settle" && !event.stderr.trim().is_empty() => {}
            None if event.actor != "settle" => {}
            Some(130) if is_feed => return Ok(()),
            other => return Err(format!("an exit code nobody expects: {other:?}")),
        }
        let is_answered = matches!(event.code, Some(0 | 3 | 7));
        match &event.what {
            What::Order(order) if is_answered => self.order(event, order),
            What::File { file, .. } => self.file(event, *file),
            What::Pause { activity, on, .. } if is_answered => self.pause(event, *activity, *on),
            What::Update { activity, .. } | What::Reset { activity, .. } if is_answered => {
                self.preheat(event, *activity)
            }
            What::Reconcile { fix: false } if is_answered => self.reconcile(event),
            What::Inspect { activity } if is_answered => self.inspect(event, *activity),
            What::Expire { activity } if is_answered => self.expire(event, *activity),
            _ => Ok(()),
        }
    }

    fn order(&self, event: &Event, order: &Order) -> Result<(), String> {
        let row = json(&event.stdout)?;
        let request = request_of(event, order).ok_or("no request id")?;
        let order = Order { request, ..order.clone() };
        let answer = answer_of(&row, &order, &self.names.schedule.activities);
        let status = answer.status.clone();
        let is_done = matches!(status.as_str(), "ok" | "replayed");
        if row["request"] != *order.request || event.code != Some(if is_done { 0 } else { 3 }) {
            return Err("another request id, or a code that does not fit the status".to_owned());
        }
        let part = self.part(order.items[0].0);
        if is_done && event.waits && !part.keeps(&order, event) {
            return Err("a replica had it, and a failover lost it".to_owned());
        }
        if status == "ok" {
            let applied = part.window(&event.from, &event.to).any(|(model, low, high)| {
                let applied = model.applied.get(&order.request).into_iter().flatten();
                applied.filter(|it| it.at > low && it.at <= high).any(|it| *it.order == order && answer.is(&it.answer))
            });
            return applied.then_some(()).ok_or_else(|| "answered `ok`, but was not applied so".to_owned());
        }
        let of: Vec<usize> = order.items.iter().map(|(activity, _)| *activity).collect();
        let mut possible: Vec<Answer> = Vec::new();
        for sales in self.states(&of, &event.from, &event.to) {
            let expected = decide(self.names.schedule.layout, &sales, &order);
            if answer.is(&expected) {
                return Ok(());
            }
            if !possible.contains(&expected) {
                possible.push(expected);
            }
        }
        // Units are missing and nobody holds any: limits would start over.
        let is_bare = |sale: &Sale| sale.truth.is_some() && sale.held.is_empty() && sale.total > sale.stock;
        let states = self.states(&of, &event.from, &event.to);
        // A counter that something else lowered is less than what is held of it.
        let is_damaged = |sale: &Sale| is_bare(sale) || order.operation.ends() && sale.truth.is_some();
        let corrupt = answer.items.iter().any(|(status, ..)| status == "corrupt");
        if corrupt && states.iter().any(|sales| of.iter().any(|activity| is_damaged(&sales[*activity]))) {
            return Ok(());
        }
        Err(format!("answered {answer:?}; by the rules it could be {possible:?}"))
    }

    fn file(&self, event: &Event, file: usize) -> Result<(), String> {
        let (rows, layout) = (&self.names.rows[file], self.names.schedule.layout);
        let whole = event.stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let printed: Vec<Value> = whole.map(json).collect::<Result<_, _>>()?;
        let mut last = 0;
        for row in &printed {
            let line = row["line"].as_u64().ok_or("a row without a line")?;
            let Some((_, order)) = rows.iter().find(|(known, _)| *known == line) else {
                return Err(format!("a row of line {line}, which the file does not have"));
            };
            if line <= last {
                return Err(format!("line {line} comes after line {last}"));
            }
            last = line;
            let answer = answer_of(row, order, &self.names.schedule.activities);
            let of: Vec<usize> = order.items.iter().map(|(activity, _)| *activity).collect();
            let paused = answer.items.iter().any(|(status, ..)| status == "paused");
            if paused {
                let is_so = |sales: &Vec<Rc<Sale>>| of.iter().any(|activity| sales[*activity].paused);
                if self.states(&of, &event.from, &event.to).iter().any(is_so) {
                    continue;
                }
            }
            let (part, start) = (self.part(of[0]), Moment::default());
            let since = if answer.status == "replayed" { &start } else { &event.from };
            let decided = part.window(since, &event.to).any(|(model, low, high)| {
                let all = model.rows.get(&(file, line)).into_iter().flatten();
                let fits = |it: &&Decided| answer.status == "replayed" || answer.is(&it.answer);
                all.filter(|it| it.at > low && it.at <= high).any(|it| fits(&it))
            });
            // A multi-order that was refused before is sent again, in the midst of others, and may be refused again.
            let again = || {
                let mut before =
                    part.window(&start, &event.to).map(|(model, _, high)| (model.rows.get(&(file, line)), high));
                order.operation == Operation::Multi
                    && answer.status == "refused"
                    && before.any(|(rows, high)| rows.is_some_and(|rows| rows.iter().any(|it| it.at <= high)))
            };
            if !decided && !again() {
                let model = part.models.iter().map(|model| model.rows.get(&(file, line)));
                return Err(format!(
                    "line {line} is reported as {answer:?}; decided was {:?}",
                    model.collect::<Vec<_>>()
                ));
            }
        }
        let is_done = |row: &Value| matches!(row["status"].as_str(), Some("ok" | "replayed"));
        match event.code {
            Some(0 | 3) if printed.len() != rows.len() => {
                Err(format!("{} rows for {} lines of {}", printed.len(), rows.len(), layout.name))
            }
            Some(0) if !printed.iter().all(is_done) => Err("exit 0 with refused rows".to_owned()),
            _ => Ok(()),
        }
    }

    fn pause(&self, event: &Event, activity: usize, on: bool) -> Result<(), String> {
        let rows = json(&event.stdout)?;
        let status = rows[0]["status"].as_str().unwrap_or_default().to_owned();
        let states = self.states(&[activity], &event.from, &event.to);
        let has = |paused: bool| states.iter().any(|sales| sales[activity].paused == paused);
        let fits = match status.as_str() {
            "ok" => has(on) && (has(!on) || states.len() > 1),
            "replayed" => has(on),
            "paused_here_only" => on && has(true) && states.iter().any(|sales| !sales[activity].ledger),
            _ => false,
        };
        fits.then_some(()).ok_or_else(|| "the state does not fit".to_owned())
    }

    fn preheat(&self, event: &Event, activity: usize) -> Result<(), String> {
        let rows = json(&event.stdout)?;
        let row = &rows[0];
        let states = self.states(&[activity], &event.from, &event.to);
        let number = |name: &str| row[name].as_u64();
        let is_so = |sales: &Vec<Rc<Sale>>| {
            let sale = &sales[activity];
            number("total") == Some(sale.total) && number("stock") == Some(sale.stock)
        };
        if states.iter().any(is_so) {
            return Ok(());
        }
        Err("total and stock were never so".to_owned())
    }

    /// Everything that was applied was asked for by a call that did not deny it.
    fn justified(&self, events: &[Event]) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.justified(events)).collect()
    }

    /// Every row of every file is decided in the end.
    fn complete(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (index, rows) in self.names.rows.iter().enumerate() {
            for (line, order) in rows {
                let lines = |activity: usize| &self.last(activity).sales[activity].lines;
                let decided = |activity: usize| lines(activity).get(&index).is_some_and(|it| it >= line);
                if !order.items.iter().all(|(activity, _)| decided(*activity)) {
                    let name = &self.names.schedule.files[index].name;
                    problems.push(format!("{name}: line {line} was never decided"));
                }
            }
        }
        problems.truncate(3);
        problems
    }
}

impl<'a> Part<'a> {
    /// The parts of the segments between two moments: the model, and from where to where.
    fn window(&self, from: &Moment, to: &Moment) -> impl Iterator<Item = (&Model<'a>, u64, u64)> {
        let both = self.segments.iter().zip(&self.models);
        let alive = both.filter(|(segment, _)| segment.was_alive(from, to));
        alive.map(|(segment, model)| (model, segment.position(from), segment.position(to)))
    }

    /// Everything that was applied was asked for by a call that did not deny it.
    fn justified(&self, events: &[Event]) -> Vec<String> {
        let mut problems = Vec::new();
        for (index, (model, segment)) in self.models.iter().zip(self.segments).enumerate() {
            for it in model.applied.values().flatten().filter(|it| it.at > segment.start) {
                let asked = events.iter().any(|event| {
                    let until = if matches!(event.code, Some(0)) { &event.to } else { &event.rest };
                    let is_late = it.at > segment.late;
                    let fits = match (&event.what, it.file) {
                        (What::File { file, .. }, Some(of)) => *file == of,
                        (What::Order(order), None) => {
                            let request = request_of(event, order).unwrap_or_default();
                            // A late first try ends a hold that its retry did not find yet; or what it held is over when its
                            // retry comes.
                            let is_early = order.operation.ends() && event.stdout.contains("not_held")
                                || order.operation == Operation::Hold && event.stdout.contains("expired");
                            let may_say_so = matches!(event.code, Some(0 | 6) | None)
                                || is_early
                                || event.code == Some(3) && self.is_forgotten(&it.order, (index, it.at), &event.to);
                            (may_say_so || is_late) && Order { request, ..order.clone() } == *it.order
                        }
                        _ => false,
                    };
                    let begun = segment.position(&event.from) < it.at;
                    fits && (is_late || begun && it.at <= segment.position(until))
                });
                if !asked {
                    let place = format!("call {} of segment {index}", it.at);
                    problems.push(format!("{:?} was applied by {place}, though no call then says so", it.order));
                }
            }
        }
        problems
    }

    /// Whether a reset or a loss of data made the server forget the request, so that its retry is a new order.
    fn is_forgotten(&self, order: &Order, (index, at): (usize, u64), to: &Moment) -> bool {
        let (segment, model) = (&self.segments[index], &self.models[index]);
        let high = segment.position(to);
        let is_reset = |activity: usize| model.at(activity, at).epoch != model.at(activity, high).epoch;
        let is_over = self.segments.get(index + 1).is_some_and(|next| next.was_alive(to, to));
        is_over || segment.is_before(to) || at <= high && order.items.iter().any(|(activity, _)| is_reset(*activity))
    }

    /// Whether all segments that were born after an order was applied have it.
    fn keeps(&self, order: &Order, event: &Event) -> bool {
        let applied = self.segments.iter().zip(&self.models).enumerate().filter_map(|(index, (segment, model))| {
            let high = segment.position(&event.to);
            let all = model.applied.get(&order.request).into_iter().flatten();
            Some((index, all.map(|it| it.at).filter(|at| *at <= high).max()?))
        });
        // It is in all that began with it.
        applied
            .max_by_key(|(index, _)| *index)
            .is_none_or(|(index, at)| self.segments[index + 1..].iter().all(|it| it.start >= at))
    }
}

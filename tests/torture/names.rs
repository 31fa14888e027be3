//! Which order a request id names, and which file a job.

use std::collections::HashMap;
use std::rc::Rc;

use crate::history::Event;
use crate::model::Names;
use crate::schedule::{Operation, Order, Schedule, What};
use crate::timeline::{Bundle, Segment};

/// The request id of a call, also if the tool made it: then it is in what it printed.
pub fn request_of(event: &Event, order: &Order) -> Option<String> {
    if !order.request.is_empty() {
        return Some(order.request.clone());
    }
    let printed = serde_json::from_str::<serde_json::Value>(&event.stdout).ok();
    let printed = printed.and_then(|row| row["request"].as_str().map(str::to_owned));
    printed.or_else(|| {
        let rest = event.stderr.split("--request ").nth(1)?;
        Some(rest.chars().take_while(|c| c.is_ascii_hexdigit() || *c == '-').collect())
    })
}

pub fn names<'a>(schedule: &'a Schedule, events: &[Event], bundles: &[(Bundle, Vec<Segment>)]) -> Names<'a> {
    let mut requests: HashMap<String, Vec<Rc<Order>>> = HashMap::new();
    let mut add = |order: Order| {
        let known = requests.entry(order.request.clone()).or_default();
        if !known.iter().any(|it| **it == order) {
            known.push(Rc::new(order));
        }
    };
    for event in events {
        if let What::Order(order) = &event.what
            && let Some(request) = request_of(event, order)
        {
            add(Order { request, ..order.clone() });
        }
    }
    let jobs = jobs(schedule, events, bundles);
    let rows = schedule
        .files
        .iter()
        .map(|file| file.rows.iter().map(|(line, order)| (*line, Rc::new(order.clone()))).collect::<Vec<_>>());
    let rows: Vec<_> = rows.collect();
    let ids = rows.iter().enumerate().flat_map(|(index, rows)| rows.iter().map(move |(_, order)| (index, order)));
    let multi = ids.filter(|(_, order)| order.operation == Operation::Multi && !order.request.is_empty());
    let multi_rows = multi.map(|(index, order)| (order.request.clone(), index)).collect();
    Names { schedule, requests, jobs, rows, multi_rows }
}

/// A job that the tool named by the content is known by the calls that wrote to a ledger for it.
fn jobs(schedule: &Schedule, events: &[Event], bundles: &[(Bundle, Vec<Segment>)]) -> HashMap<String, usize> {
    let named = schedule
        .files
        .iter()
        .enumerate()
        .filter_map(|(index, file)| Some((format!("{}:{}", file.operation.stored(), file.job.as_ref()?), index)));
    let mut jobs: HashMap<String, usize> = named.collect();
    let mut unknown = Vec::new();
    for group in bundles.iter().flat_map(|(_, segments)| segments).flat_map(|segment| &segment.groups) {
        let fields = group.commands.iter().filter(|command| command[0] == "HSET").flat_map(|command| &command[2..]);
        let Some(job) = fields.filter_map(|field| field.strip_prefix("\tj:")).next() else {
            continue;
        };
        if jobs.contains_key(job) {
            continue;
        }
        let entries = group.commands.iter().filter(|command| command[0] == "XADD");
        let by = entries.filter_map(|entry| {
            let at = entry.iter().position(|word| word == "by")?;
            entry[at + 1].strip_prefix('e')?.parse::<usize>().ok()
        });
        let file = by.filter_map(|by| events.iter().find(|event| event.number == by)).find_map(file_of);
        match file {
            Some(file) => drop(jobs.insert(job.to_owned(), file)),
            None => unknown.push(job.to_owned()),
        }
    }
    // None of its orders was applied: it can only be the one that is left.
    for job in unknown {
        let is_left = |index: &usize| {
            job.starts_with(&format!("{}:", schedule.files[*index].operation.stored()))
                && !jobs.values().any(|it| it == index)
        };
        if !jobs.contains_key(&job)
            && let Some(file) = (0..schedule.files.len()).find(is_left)
        {
            jobs.insert(job, file);
        }
    }
    jobs
}

fn file_of(event: &Event) -> Option<usize> {
    if let What::File { file, .. } = event.what { Some(file) } else { None }
}

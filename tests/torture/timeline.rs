//! The writes of the servers as segments: one for each way in which the data of some activities went on.
//!
//! What the activities of a slot are is in one file of writes at a time. A slot that moves continues in another primary's
//! file. A failover continues in the replica's file, which has what it got from its primary until then: so the writes that
//! both files begin with were before it, and what only the primary's has was lost.

use crate::aof::{self, Group};
use crate::history::{Failover, Moment, Turn};

/// A place in a file of writes: the file, and its length once a group is in it.
type Place = (usize, u64);

/// What ties activities together: they are decided by the same scripts in one order.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub activities: Vec<usize>,
    /// All their keys.
    pub keys: Vec<String>,
    /// Their slot, on a cluster.
    pub slot: Option<u16>,
    /// The file that has them at first.
    pub file: usize,
}

/// One way in which the data of some activities went on, from the beginning.
pub struct Segment {
    /// Each has its place among them for an end: 1, 2, 3, ….
    pub groups: Vec<Group>,
    /// Where each is, also in the file of the replica that took over later.
    places: Vec<Vec<Place>>,
    /// So many groups are those of the segment before.
    pub start: u64,
    /// From which tick on it may have been asked, and from which on no more.
    born: u64,
    dead: u64,
    /// Whether groups at its end were lost.
    pub lost: bool,
    /// What is behind this group was sent long before, to a primary that had stopped answering.
    pub late: u64,
}

impl Segment {
    /// How many of its groups there were at a moment.
    pub fn position(&self, moment: &Moment) -> u64 {
        let is_there = |(file, end): &Place| moment.at.get(*file).is_some_and(|length| length >= end);
        self.places.iter().take_while(|places| places.iter().any(is_there)).count() as u64
    }

    /// Where a group is, by its number.
    pub fn place(&self, number: u64) -> &[Place] {
        &self.places[usize::try_from(number).unwrap() - 1]
    }

    /// Whether nobody asked it any more at a moment.
    pub fn is_before(&self, moment: &Moment) -> bool {
        self.dead < moment.tick
    }

    /// Whether it may have been asked between two moments.
    pub fn was_alive(&self, from: &Moment, to: &Moment) -> bool {
        self.born <= to.tick && from.tick <= self.dead
    }
}

/// All segments of some activities, in the order in which they were born; or why there is none.
pub fn segments(bundle: &Bundle, files: &[Vec<u8>], turns: &[Turn]) -> Result<Vec<Segment>, String> {
    let lanes: Vec<Vec<Group>> = files.iter().map(|bytes| lane(bytes, bundle)).collect();
    let until = |file: usize, end: u64| lanes[file].partition_point(|group| group.end <= end);
    let mut chain = Chain::default();
    let mut segments = Vec::new();
    // Where it continues: a file, and the number of the first group there.
    let (mut file, mut next) = (bundle.file, 0);
    for turn in turns {
        let (to, kept_there, found) = match turn {
            Turn::Move { slot, from, to, before, after } => {
                if bundle.slot == Some(*slot) && file == *from {
                    chain.extend(&lanes[file][next..until(file, after.at[file])], file);
                    (file, next) = (*to, until(*to, before.at[*to]));
                }
                continue;
            }
            Turn::Cut { from, .. } | Turn::Failover(Failover { from, .. }) if file != *from => continue,
            Turn::Cut { from, to, start, .. } => (*to, until(*from, *start), None),
            Turn::Failover(it) => (it.to, common(&lanes[it.from], &lanes[it.to]), Some(it)),
        };
        let before = chain.groups.len();
        chain.extend(&lanes[file][next..], file);
        let kept = (before + kept_there)
            .checked_sub(next)
            .ok_or_else(|| format!("the failover {found:?} lost what was there before a slot moved"))?;
        let lost = chain.groups.len() > kept;
        let mut ended = chain.clone();
        chain.groups.truncate(kept);
        chain.places.truncate(kept);
        for (index, group) in lanes[to].iter().enumerate().take(kept_there).skip(next) {
            let place = (to, group.end);
            chain.places[before + index - next].push(place);
            ended.places[before + index - next].push(place);
        }
        let born = match turn {
            Turn::Cut { tick, lost, .. } => {
                ended.dead = *tick;
                segments.push(ended.segment(*lost));
                *tick
            }
            _ => {
                let it = found.ok_or("no failover")?;
                if it.in_step && lost {
                    return Err(format!("the failover {it:?} lost {:?}", ended.groups[kept]));
                }
                ended.dead = it.dead;
                let stopped = it.stopped_at.map(|end| (before + until(file, end) - next).max(kept));
                ended.late = stopped.unwrap_or(usize::MAX);
                segments.push(ended.segment(lost));
                it.born
            }
        };
        (chain.start, chain.born) = (kept, born);
        (file, next) = (to, kept_there);
    }
    chain.extend(&lanes[file][next..], file);
    segments.push(chain.segment(false));
    Ok(segments)
}

/// The groups of a file that concern some activities.
fn lane(bytes: &[u8], bundle: &Bundle) -> Vec<Group> {
    let has_key = |command: &Vec<String>| command.get(1).is_some_and(|key| bundle.keys.contains(key));
    // What moves a slot changes nothing of what it has. A script that removes keys writes others.
    let moves = ["DEL", "UNLINK", "RESTORE", "RESTORE-ASKING"];
    let is_move = |group: &Group| {
        bundle.slot.is_some() && group.commands.iter().all(|command| moves.contains(&command[0].as_str()))
    };
    let mut groups = aof::groups(bytes);
    let mut is_importing = false;
    groups.retain(|group| {
        // Between these, what another primary sends of a slot that it hands over at once. Nobody else is served.
        let words: Vec<&str> = group.commands[0].iter().map(String::as_str).collect();
        match (&words[..], bundle.slot) {
            (["CLUSTER", "SYNCSLOTS", "ESTABLISH", .., first, _], Some(slot)) => {
                is_importing |= *first == slot.to_string();
            }
            (["CLUSTER", "SYNCSLOTS", "FINISH", ..], _) => is_importing = false,
            _ => {}
        }
        !is_importing && group.commands.iter().any(has_key) && !is_move(group)
    });
    groups
}

/// With how many equal groups two files begin.
fn common(one: &[Group], other: &[Group]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one.commands == other.commands).count()
}

/// Groups one after the other, from the beginning.
#[derive(Clone)]
struct Chain {
    groups: Vec<Group>,
    places: Vec<Vec<Place>>,
    start: usize,
    born: u64,
    dead: u64,
    late: usize,
}

impl Default for Chain {
    fn default() -> Self {
        Self { groups: Vec::new(), places: Vec::new(), start: 0, born: 0, dead: u64::MAX, late: usize::MAX }
    }
}

impl Chain {
    fn extend(&mut self, groups: &[Group], file: usize) {
        for group in groups {
            self.places.push(vec![(file, group.end)]);
            self.groups.push(Group { end: self.places.len() as u64, commands: group.commands.clone() });
        }
    }

    fn segment(self, lost: bool) -> Segment {
        let Self { groups, places, start, born, dead, late } = self;
        Segment { groups, places, start: start as u64, born, dead, lost, late: late as u64 }
    }
}

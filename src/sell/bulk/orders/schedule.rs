//! Which activity's orders are sent next, on each lane.

use std::collections::{HashSet, VecDeque};

use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::orders::window::{State, Window};

/// What waits, by lane; at least one.
#[derive(Debug)]
pub(crate) struct Schedule {
    lanes: Vec<Waiting>,
}

/// What waits for one lane.
#[derive(Debug, Clone, Default)]
struct Waiting {
    /// Activities that have a full batch.
    ready: VecDeque<u32>,
    /// All rows of the lane before this one are sent or decided.
    oldest: u64,
    /// Whether any activity is on the lane.
    is_used: bool,
}

impl Schedule {
    pub(crate) fn new() -> Self {
        Self { lanes: vec![Waiting { is_used: true, ..Waiting::default() }] }
    }

    /// Forgets all, for so many lanes.
    pub(crate) fn clear(&mut self, lanes: usize) {
        self.lanes = vec![Waiting::default(); lanes];
        self.lanes[0].is_used = lanes == 1;
    }

    /// How many lanes there are.
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// An activity is on a lane.
    pub(crate) fn use_lane(&mut self, lane: usize) {
        self.lane(lane).is_used = true;
    }

    /// An activity has a full batch.
    pub(crate) fn push(&mut self, lane: usize, activity: u32) {
        self.lane(lane).ready.push_back(activity);
    }

    /// The next activity that has a full batch.
    pub(crate) fn pop(&mut self, lane: usize) -> Option<u32> {
        self.lane(lane).ready.pop_front()
    }

    pub(crate) fn has_ready(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| !lane.ready.is_empty())
    }

    /// Whether a lane has no full batch to send next.
    pub(crate) fn is_hungry(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_used && lane.ready.is_empty())
    }

    /// A row of a lane waits again.
    pub(crate) fn put_back(&mut self, lane: usize, number: u64) {
        let lane = self.lane(lane);
        lane.oldest = lane.oldest.min(number);
    }

    /// The activity of the oldest row that waits for a lane, other than those that are held up.
    pub(crate) fn find_oldest(
        &mut self,
        lane: usize,
        states: &JobStates,
        window: &Window,
        held_up: &HashSet<u32>,
    ) -> Option<u32> {
        let is_only = self.lanes.len() == 1;
        let (first, end) = window.span();
        let oldest = &mut self.lane(lane).oldest;
        *oldest = (*oldest).max(first);
        while *oldest < end {
            let row = window.row(*oldest);
            let is_here = row.state == State::Waiting && (is_only || states.lane(row.activity) == lane);
            if is_here && (held_up.is_empty() || !held_up.contains(&row.activity)) {
                return Some(row.activity);
            }
            *oldest += 1;
        }
        None
    }

    fn lane(&mut self, lane: usize) -> &mut Waiting {
        if lane >= self.lanes.len() {
            self.lanes.resize(lane + 1, Waiting::default());
        }
        &mut self.lanes[lane]
    }
}

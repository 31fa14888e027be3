//! What transfers between shards, and the proof that a sale is sold out, promise: looked at in every interleaving of a few clients,
//! with crashes after any write, messages that come twice or late, WAITs that time out, failovers, and a reset.
//!
//! `transfers.rs` has the transfers of three shards; its invariant is that of the design: units in stock and bought, and units
//! of ids that were lent and have not arrived, are all units of the sale, and each such id is in its donor's list. `proof.rs` has what
//! an order that is refused relies on. Each rule that is broken on purpose must be noticed.

mod proof;
mod transfers;

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A quick hash: tests are not optimized.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let number = part.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            self.write_u64(number);
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

/// All states that can be reached, breadth first, each checked. Gives how many there are, or the shortest history that
/// breaks a rule.
fn explore<S: Clone + Eq + Hash, E: Copy + std::fmt::Debug>(
    first: S,
    events: impl Fn(&S) -> Vec<E>,
    after: impl Fn(&S, E) -> Option<S>,
    check: impl Fn(&S) -> Result<(), String>,
) -> Result<usize, String> {
    let mut known: HashSet<S, BuildHasherDefault<Mix>> = HashSet::default();
    known.insert(first.clone());
    let mut states: Vec<(S, usize, Option<E>)> = vec![(first, 0, None)];
    let mut index = 0;
    while index < states.len() {
        let state = states[index].0.clone();
        if let Err(rule) = check(&state) {
            let mut history = Vec::new();
            let mut at = index;
            while let (_, before, Some(event)) = &states[at] {
                history.push(format!("{event:?}"));
                at = *before;
            }
            history.reverse();
            return Err(format!("{rule}, after {}", history.join(", ")));
        }
        for event in events(&state) {
            if let Some(next) = after(&state, event)
                && known.insert(next.clone())
            {
                states.push((next, index, Some(event)));
            }
        }
        index += 1;
    }
    Ok(states.len())
}

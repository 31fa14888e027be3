//! Random numbers that depend on the seed alone.

#[path = "../sim/random.rs"]
mod random;

/// A source of random decisions.
#[derive(Debug, Clone)]
pub struct Rng(random::Random);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(random::Random::of_step(seed, 0))
    }

    /// A source of its own, so that one actor's decisions do not depend on how many another one makes.
    pub fn fork(&mut self) -> Self {
        Self::new(self.0.below(u64::MAX))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).unwrap()
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    pub fn percent(&mut self, chance: usize) -> bool {
        self.0.percent(chance as u64)
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        self.0.pick(of)
    }
}

//! `preheat`: what is shown is what is applied, and nothing of an old sale survives a reset.

mod index;
mod plan;
mod reset;

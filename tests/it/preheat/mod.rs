//! `preheat`: what is shown is what is applied, and nothing of an old sale survives a reset.

mod adopt;
mod cut;
mod index;
mod plan;
mod reset;

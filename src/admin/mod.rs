//! What an operator does to an activity: preheat, adopt, pause, archive, restore, trim.

pub mod activities;
#[doc(hidden)]
pub mod adopt;
#[doc(hidden)]
pub mod adoption;
#[doc(hidden)]
pub mod archive;
pub(crate) mod parent;
pub(crate) mod pause_sharded;
pub(crate) mod preheat;
pub(crate) mod preheat_sharded;
#[doc(hidden)]
pub mod restore;
pub mod trim;

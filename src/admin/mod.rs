//! What an operator does to an activity: preheat, adopt, pause, archive, restore, trim.

pub(crate) mod activities;
#[doc(hidden)]
pub(crate) mod adopt;
#[doc(hidden)]
pub(crate) mod adoption;
#[doc(hidden)]
pub(crate) mod archive;
pub(crate) mod parent;
pub(crate) mod pause_sharded;
pub(crate) mod preheat;
pub(crate) mod preheat_sharded;
#[doc(hidden)]
pub(crate) mod restore;
pub(crate) mod trim;

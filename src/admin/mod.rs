//! What an operator does to an activity: preheat, adopt, pause, archive, restore, trim.

pub(crate) mod activities;
pub(crate) mod adopt;
pub(crate) mod archive;
pub(crate) mod parent;
pub(crate) mod pause;
pub(crate) mod preheat;
pub(crate) mod restore;
pub(crate) mod trim;

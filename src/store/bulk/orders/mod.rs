//! Orders of one activity each: their rows, and how a batch of them is encoded and its reply decoded.

pub(super) mod decode;
pub(super) mod encode;
pub(super) mod queue;
pub(super) mod window;

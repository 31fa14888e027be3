//! How an operation ended: the one place where the scripts' codes get their names.

use crate::model::names::names;

names! {
    /// The outcome of one operation on one activity.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Status {
        /// Applied now.
        Ok = "ok",
        /// Applied before under this request id, or decided before in this job; nothing changed now.
        Replayed = "replayed",
        /// Of an order of several activities, and of an item of it that alone would have been fine.
        Refused = "refused",
        /// The user would hold more than the limit.
        LimitExceeded = "limit_exceeded",
        /// Fewer units are left than were asked for.
        OutOfStock = "out_of_stock",
        /// The activity has no stock key.
        NotPreheated = "not_preheated",
        /// Before the window.
        NotStarted = "not_started",
        /// After the window.
        Ended = "ended",
        /// The operator paused it.
        Paused = "paused",
        /// A refund of more than the user holds.
        ExceedsBought = "exceeds_bought",
        /// The request id was used for something else.
        RequestConflict = "request_conflict",
        /// Preheat: the activity is there and differs.
        Exists = "exists",
        /// A key holds what it must not.
        Corrupt = "corrupt",
        /// No open hold has this request id: there never was one, or it was released.
        NotHeld = "not_held",
        /// The units of the hold are gone: the payment is to be refunded.
        Expired = "expired",
        /// The hold was confirmed: a refund returns its units.
        Confirmed = "confirmed",
        /// The units are in shards, activities of their own. Commands find them.
        Sharded = "sharded",
        /// A repair took the units of this request id back, for good.
        Reversed = "reversed",
        /// Pause: purchases are refused here, but a backend still sells with a script of its own.
        PausedHereOnly = "paused_here_only",
    }
}

impl Status {
    /// The code that scripts reply.
    pub fn code(self) -> i64 {
        match self {
            Self::Ok => 1,
            Self::Replayed => 2,
            Self::Refused => -1,
            Self::LimitExceeded => -2,
            Self::OutOfStock => -3,
            Self::NotPreheated => -4,
            Self::NotStarted => -5,
            Self::Ended => -6,
            Self::Paused => -7,
            Self::ExceedsBought => -8,
            Self::RequestConflict => -9,
            Self::Exists => -10,
            Self::Corrupt => -11,
            Self::NotHeld => -12,
            Self::Expired => -13,
            Self::Confirmed => -14,
            Self::Sharded => -15,
            Self::Reversed => -16,
            Self::PausedHereOnly => -17,
        }
    }

    /// The status of a script's code; `None` for a code that no header names.
    pub fn of_code(code: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| status.code() == code)
    }

    /// Whether an activity refuses every order with it, so that it decides none of them.
    pub fn refuses_all(self) -> bool {
        matches!(self, Self::NotPreheated | Self::NotStarted | Self::Ended | Self::Paused | Self::Corrupt)
    }

    /// Whether nothing was refused: done now or before.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Ok | Self::Replayed)
    }
}

/// Codes that refuse a whole call of a script. With [`Status::ALL`], all that `lua/lib/codes.lua` defines.
pub mod call_code {
    /// A line before those of the call is not decided yet.
    pub const GAP: i64 = -20;
    /// The activity was reset since the job began.
    pub const OTHER_EPOCH: i64 = -21;
    /// The job's name was used with another digest.
    pub const OTHER_JOB: i64 = -22;
    /// Something changed since the caller read it.
    pub const STALE: i64 = -23;
    /// A consumer group has not acknowledged what would go.
    pub const UNREAD: i64 = -24;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_each_used_once_and_only_success_is_positive() {
        for status in Status::ALL.iter().copied() {
            assert_eq!(Status::of_code(status.code()), Some(status));
            assert_eq!(Status::named(status.name()), Some(status));
            assert_eq!(status.code() > 0, status.is_done());
        }
        assert_eq!(Status::of_code(0), None);
        let call = [call_code::GAP, call_code::OTHER_EPOCH, call_code::OTHER_JOB, call_code::STALE, call_code::UNREAD];
        assert!(call.iter().all(|code| *code < 0), "{call:?}");
    }
}

//! How an operation ended: the one place where the scripts' codes get their names.

use serde::{Serialize, Serializer};

/// The outcome of one operation on one activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Applied now.
    Ok,
    /// Applied before under this request id, or decided before in this job; nothing changed now.
    Replayed,
    /// Of an order of several activities, and of an item of it that alone would have been fine.
    Refused,
    /// The user would hold more than the limit.
    LimitExceeded,
    /// Fewer units are left than were asked for.
    OutOfStock,
    /// The activity has no stock key.
    NotPreheated,
    /// Before the window.
    NotStarted,
    /// After the window.
    Ended,
    /// The operator paused it.
    Paused,
    /// A refund of more than the user holds.
    ExceedsBought,
    /// The request id was used for something else.
    RequestConflict,
    /// Preheat: the activity is there and differs.
    Exists,
    /// A key holds what it must not.
    Corrupt,
    /// Pause: purchases are refused here, but a backend goes on selling with a script of its own.
    PausedHereOnly,
}

impl Status {
    /// Every status with the code the scripts reply and its name: the table that all else is derived from.
    pub const ALL: [(Self, i64, &'static str); 14] = [
        (Self::Ok, 1, "ok"),
        (Self::Replayed, 2, "replayed"),
        (Self::Refused, -1, "refused"),
        (Self::LimitExceeded, -2, "limit_exceeded"),
        (Self::OutOfStock, -3, "out_of_stock"),
        (Self::NotPreheated, -4, "not_preheated"),
        (Self::NotStarted, -5, "not_started"),
        (Self::Ended, -6, "ended"),
        (Self::Paused, -7, "paused"),
        (Self::ExceedsBought, -8, "exceeds_bought"),
        (Self::RequestConflict, -9, "request_conflict"),
        (Self::Exists, -10, "exists"),
        (Self::Corrupt, -11, "corrupt"),
        (Self::PausedHereOnly, -16, "paused_here_only"),
    ];

    /// The status of a script's code; `None` for a code that no header names.
    pub fn of_code(code: i64) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == code).map(|(status, _, _)| *status)
    }

    /// The status of that name, as fixtures write it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, _, known)| *known == name).map(|(status, _, _)| *status)
    }

    /// Its name in every output.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(status, _, _)| *status == self).map_or("", |(_, _, name)| name)
    }

    /// Whether nothing was refused: done now or before.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Ok | Self::Replayed)
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
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
        for (status, code, name) in Status::ALL {
            assert_eq!(Status::of_code(code), Some(status));
            assert_eq!(Status::named(name), Some(status));
            assert_eq!(code > 0, status.is_done());
        }
        assert_eq!(Status::of_code(0), None);
    }
}

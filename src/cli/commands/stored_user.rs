//! The fields `user` and `user_hex` of rows about users as the server has them.

use crate::cli::output::{Cell, Format};
use crate::model::id::StoredUser;

/// The last field of a row: the bytes of an id that is not UTF-8. The outer `None` leaves the field out.
pub type UserHex = Option<Option<String>>;

/// The field `user_hex` of a user. In csv and tsv it is a column, which every row has.
pub fn user_hex(user: Option<&StoredUser>, format: Format) -> UserHex {
    let hex = user.and_then(StoredUser::user_hex);
    if matches!(format, Format::Csv | Format::Tsv) { Some(hex) } else { hex.map(Some) }
}

/// The user of a row for people; a dash for an activity as a whole.
pub fn cell(user: Option<&StoredUser>) -> Cell {
    user.map_or_else(Cell::unknown, |user| Cell::text(user.to_string()).flexible())
}

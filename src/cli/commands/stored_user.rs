//! The fields `user` and `user_hex` of rows about users as the server has them.

use serde::ser::SerializeStruct;

use crate::cli::output::{Cell, Format};
use seckill::inventory::id::StoredUser;

/// Whether all rows of a format have the same columns, so that `user_hex` is one of them even if all users are text.
pub fn has_hex_column(format: Format) -> bool {
    matches!(format, Format::Csv | Format::Tsv)
}

/// Writes `user_hex`, the last field of a row: the bytes of an id that is not UTF-8.
///
/// # Errors
/// The serializer's.
pub fn serialize_hex<S: SerializeStruct>(
    row: &mut S,
    user: Option<&StoredUser>,
    has_hex_column: bool,
) -> Result<(), S::Error> {
    let hex = user.and_then(StoredUser::user_hex);
    if hex.is_some() || has_hex_column { row.serialize_field("user_hex", &hex) } else { row.skip_field("user_hex") }
}

/// The user of a row for people; a dash for an activity as a whole.
pub fn cell(user: Option<&StoredUser>) -> Cell {
    user.map_or_else(Cell::unknown, |user| Cell::text(user.to_string()).flexible())
}

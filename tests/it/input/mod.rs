//! Input that is not valid is refused by the client, and by the scripts if another client sends it.

mod client;
mod command_line;
mod scripts;

/// What a number of units may look like, and must not: only `[1-9][0-9]*` is a quantity.
const BAD_QUANTITIES: [&str; 22] = [
    "-5",
    "1e3",
    "0x10",
    " 5 ",
    "5 ",
    "\t5",
    "5\n",
    "1.5",
    "5.0",
    "nan",
    "inf",
    "-inf",
    "",
    "0",
    "007",
    "+5",
    "1_000",
    "1,000",
    "٣",
    "12345678901234567890",
    "1000000001",
    "9007199254740993",
];

/// What a user id must not look like.
pub const BAD_USERS: [&str; 7] = ["", " 7", "7 ", "\t7", "a\tb", "a\u{1b}[31mb", "a\nb"];

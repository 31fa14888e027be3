//! What comes out, and where it can go: closed pipes, full disks, dry runs, the shape of each format.

mod dry_run;
mod formats;
mod hints;
mod inspect;
mod narrow;
mod unwritable;

//! A terminal that a test looks at: what is drawn for a person alone.

use std::fs::File;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A new terminal of 100 columns: the side that shows what is written, and the side that a process writes to.
pub(super) fn open() -> (File, Stdio) {
    let (screen, process) = pair();
    (screen, Stdio::from(process))
}

/// The same, for a process that reads from it as well.
pub(super) fn pair() -> (File, File) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudo terminal");
    grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("the right to use it");
    let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&screen, size).expect("its size");
    let name = ptsname(&screen, Vec::new()).expect("its name").into_string().expect("a path");
    let process = File::options().read(true).write(true).open(name).expect("the other side");
    (File::from(screen), process)
}

//! A terminal that a test looks at: what is drawn for a person alone.

use std::fs::File;
use std::io::Write;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// A new terminal of 100 columns: the side that shows what is written, and the side that a process writes to and reads from.
pub(super) fn pair() -> (File, File) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudo terminal");
    grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("the right to use it");
    let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&screen, size).expect("its size");
    let name = ptsname(&screen, Vec::new()).expect("its name").into_string().expect("a path");
    let process = File::options().read(true).write(true).open(name).expect("the other side");
    (File::from(screen), process)
}

/// A terminal that a process draws on and reads keys from.
pub struct Screen(File);

impl Screen {
    pub(super) fn of(screen: &File) -> Self {
        Self(screen.try_clone().expect("the screen's side of the terminal"))
    }

    /// Types keys.
    #[track_caller]
    pub fn types(&self, keys: &str) {
        (&self.0).write_all(keys.as_bytes()).expect("the terminal takes what is typed");
    }

    /// Makes it larger or smaller.
    #[track_caller]
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.0, size).expect("its size");
    }

    /// Whether it shows what is typed and hands it on by lines, as a shell leaves it.
    pub fn is_as_it_was(&self) -> bool {
        let modes = tcgetattr(&self.0).expect("its modes").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}

/// The whole frames that were drawn on a screen, the lines of each without colours.
pub(super) fn frames(text: &str) -> Vec<Vec<String>> {
    let drawn = text.split("\u{1b}[?2026h\u{1b}[H").skip(1).filter_map(|rest| rest.split_once("\u{1b}[?2026l"));
    drawn.map(|(frame, _)| frame.split("\r\n").map(|line| plain(line).trim_end().to_owned()).collect()).collect()
}

fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += part.split_once(|letter: char| letter.is_ascii_alphabetic()).map_or("", |(_, rest)| rest);
    }
    text
}

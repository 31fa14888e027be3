//! A terminal that is redrawn in place: on the alternate screen, one write a frame, without flicker; and its keys: letters, and those that
//! move, which a terminal sends as several bytes.
//!
//! The terminal gets back what it was however the process ends: by itself, by a signal, by a panic, or when it is
//! suspended.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGTSTP};
use tabled::grid::util::string::get_line_width;

use crate::cli::failure::Result;
use crate::cli::output::row::{Column, Row};
use crate::cli::output::sink::stdout_failure;
use crate::cli::output::table::Table;
use crate::cli::output::terminal::Terminal;
use crate::cli::output::text::{Tone, cut, escape, paint, width};

/// The alternate screen, no cursor, no line that continues on the next.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l";
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// Terminals that know it show nothing in between; others ignore it.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[H";
const END: &str = "\u{1b}[?2026l";
/// Ctrl-L: draw anew what something else has written over.
const REDRAW: Key = Key::Letter(0x0c);
/// The size of a terminal that does not tell.
const USUAL: (usize, usize) = (80, 24);

/// What must be restored: how the terminal read keys before, if it is read at all.
static ENTERED: Mutex<Option<Option<Termios>>> = Mutex::new(None);

/// The terminal, until this value goes.
pub struct Screen {
    terminal: Terminal,
    size: (usize, usize),
    /// What it shows.
    drawn: String,
    /// How wide each column of the table was at most, so that it does not move with each digit.
    floors: Vec<usize>,
    reads_keys: bool,
    keys: KeyReader,
    suspended: Arc<AtomicBool>,
    resumed: Arc<AtomicBool>,
}

impl Screen {
    /// Takes over the terminal that standard output is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn enter(terminal: Terminal) -> Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        let flag = |signal| {
            let flag = Arc::new(AtomicBool::new(false));
            // Without it the terminal stays as it is while the process is suspended.
            let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
            flag
        };
        let mut screen = Self {
            terminal,
            size: size(),
            drawn: String::new(),
            floors: Vec::new(),
            reads_keys: io::stdin().is_terminal(),
            keys: KeyReader::default(),
            suspended: flag(SIGTSTP),
            resumed: flag(SIGCONT),
        };
        screen.take_over()?;
        Ok(screen)
    }

    /// An empty frame of the terminal's size.
    pub fn frame(&mut self) -> Frame {
        let now = size();
        if now != self.size {
            self.size = now;
            self.drawn.clear();
            self.floors.clear();
        }
        let (width, height) = self.size;
        Frame::new(width, height, self.terminal.colours_data, std::mem::take(&mut self.floors))
    }

    /// Shows a frame, unless it is shown already.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn draw(&mut self, frame: Frame) -> Result<()> {
        let (text, floors) = frame.end();
        self.floors = floors;
        if text == self.drawn {
            return Ok(());
        }
        write(&format!("{BEGIN}{text}{END}"))?;
        self.drawn = text;
        Ok(())
    }

    /// Waits that long for keys, or until the frame must be drawn anew: the size changed, or the process was resumed.
    ///
    /// # Errors
    /// The terminal cannot be written after the process was resumed.
    pub fn wait(&mut self, at_most: Duration) -> Result<Vec<Key>> {
        let keys = self.pressed(at_most);
        if keys.contains(&REDRAW) {
            self.drawn.clear();
        }
        if self.suspended.swap(false, Ordering::Relaxed) {
            restore();
            let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
            self.resumed.store(true, Ordering::Relaxed);
        }
        if self.resumed.swap(false, Ordering::Relaxed) {
            self.take_over()?;
        }
        Ok(keys)
    }

    /// Whether what is shown no longer fits: another size, or nothing at all.
    pub fn is_stale(&self) -> bool {
        self.drawn.is_empty() || size() != self.size
    }

    fn pressed(&mut self, at_most: Duration) -> Vec<Key> {
        let stdin = io::stdin();
        let wait = Timespec::try_from(at_most).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let fds = &mut [PollFd::new(&stdin, PollFlags::IN)][..usize::from(self.reads_keys)];
        // A signal ends the wait early.
        if !matches!(poll(fds, Some(&wait)), Ok(1..)) {
            return Vec::new();
        }
        let mut bytes = [0; 64];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) | Err(rustix::io::Errno::IO) => {
                self.reads_keys = false;
                Vec::new()
            }
            Ok(count) => self.keys.keys(&bytes[..count]),
            Err(_) => Vec::new(),
        }
    }

    fn take_over(&mut self) -> Result<()> {
        self.drawn.clear();
        let stdin = io::stdin();
        let mut before = None;
        if self.reads_keys
            && let Ok(modes) = tcgetattr(&stdin)
        {
            let mut keys = modes.clone();
            // Ctrl-C and Ctrl-Z stay signals.
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            let _ = tcsetattr(&stdin, OptionalActions::Now, &keys);
            before = Some(modes);
        }
        if let Ok(mut entered) = ENTERED.lock() {
            entered.get_or_insert(before);
        }
        write(ENTER)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back what it was, once. It locks nothing that the thread which is cut short may hold.
pub fn restore() {
    let Ok(mut entered) = ENTERED.try_lock() else { return };
    if let Some(modes) = entered.take() {
        let _ = write(LEAVE);
        if let Some(modes) = modes {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        }
    }
}

/// Writes past the buffer of standard output, whose lock a panic may hold.
fn write(text: &str) -> Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(io::stdout(), rest) {
            Ok(written) => rest = &rest[written..],
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(stdout_failure(&error.into())),
        }
    }
    Ok(())
}

/// Columns and rows.
fn size() -> (usize, usize) {
    let size = tcgetwinsize(io::stdout()).map(|size| (size.ws_col.into(), size.ws_row.into())).ok();
    size.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(USUAL)
}

/// The lines of a screen, from the top.
pub struct Frame {
    width: usize,
    height: usize,
    coloured: bool,
    lines: Vec<String>,
    /// How wide each column was at most.
    floors: Vec<usize>,
}

impl Frame {
    pub(crate) fn new(width: usize, height: usize, coloured: bool, floors: Vec<usize>) -> Self {
        Self { width, height, coloured, lines: Vec::new(), floors }
    }

    /// Whether a text fits in a line.
    pub fn fits(&self, text: &str) -> bool {
        width(text) <= self.width
    }

    /// Lines that there is still room for.
    pub fn room(&self) -> usize {
        self.height.saturating_sub(self.lines.len())
    }

    pub fn blank(&mut self) {
        self.lines.push(String::new());
    }

    /// A line of texts, each in its tone, cut at the edge; none if there is no room.
    pub fn line<T: AsRef<str>>(&mut self, parts: &[(T, Tone)]) {
        self.line_with(parts, &[]);
    }

    /// The same with the first of some texts that has room at the right edge.
    pub fn line_with<T: AsRef<str>>(&mut self, parts: &[(T, Tone)], right: &[&str]) {
        if self.room() == 0 {
            return;
        }
        let (mut line, mut left) = (String::new(), self.width);
        for (text, tone) in parts {
            let text = escape(text.as_ref());
            let shown = cut(&text, left);
            left = left.saturating_sub(width(&shown));
            paint(&mut line, &shown, *tone, self.coloured);
        }
        if let Some(right) = right.iter().find(|right| width(right) < left) {
            line.extend(std::iter::repeat_n(' ', left - width(right)));
            paint(&mut line, right, Tone::Dim, self.coloured);
        }
        self.lines.push(line);
    }

    /// Rows of a table that have room if some lines stay free below it.
    pub fn rows_with_room(&self, free: usize) -> usize {
        // Headings and a rule.
        self.room().saturating_sub(free + 2)
    }

    /// A table of rows, unless there are none. The last columns, as many as given, go before titles and bars are made hard to read.
    /// Returns the headings of the columns that have no room.
    pub fn table<R: Row>(&mut self, rows: &[R], spare: usize) -> Vec<String> {
        if rows.is_empty() {
            return Vec::new();
        }
        let cells: Vec<_> = rows.iter().map(|row| row.cells(&[])).collect();
        let headings = Column::names(R::HEADINGS, &[]);
        let table = Table::steady(&headings, &cells, (self.width, spare), self.coloured, &mut self.floors);
        self.lines.extend(table.page(&cells).lines().map(str::to_owned));
        table.hidden
    }

    /// The text of the screen, which erases what was behind its lines, and the widths that the next frame keeps.
    pub(crate) fn end(mut self) -> (String, Vec<usize>) {
        self.lines.resize(self.height, String::new());
        for line in &mut self.lines {
            // At the end of a full line the cursor is still on its last character.
            if get_line_width(line) < self.width {
                line.push_str("\u{1b}[K");
            }
        }
        (self.lines.join("\r\n"), self.floors)
    }
}

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Letter(u8),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

const ESCAPE: u8 = 0x1b;
/// Longer sequences are no keys.
const MAX_SEQUENCE: usize = 16;

/// Finds keys in the bytes that a terminal sends. A read may end in the middle of a key.
#[derive(Debug, Default)]
pub(crate) struct KeyReader {
    begun: Vec<u8>,
}

impl KeyReader {
    /// The keys that these bytes end; what is no key is skipped.
    pub(crate) fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        bytes.iter().filter_map(|byte| self.push(*byte)).collect()
    }

    fn push(&mut self, byte: u8) -> Option<Key> {
        match (self.begun.len(), byte) {
            (_, ESCAPE) => self.begun = vec![ESCAPE],
            (1, b'[' | b'O') => self.begun.push(byte),
            // The escape key alone does nothing.
            (0 | 1, _) => {
                self.begun.clear();
                return Some(Key::Letter(byte));
            }
            (..MAX_SEQUENCE, b' '..=b'?') => self.begun.push(byte),
            _ => return moving(&std::mem::take(&mut self.begun)[2..], byte),
        }
        None
    }
}

/// The key of a sequence's parameters and its last byte. Modifiers beside an arrow change nothing.
fn moving(parameters: &[u8], last: u8) -> Option<Key> {
    match (parameters, last) {
        (_, b'A') => Some(Key::Up),
        (_, b'B') => Some(Key::Down),
        (b"5", b'~') => Some(Key::PageUp),
        (b"6", b'~') => Some(Key::PageDown),
        (_, b'H') | (b"1" | b"7", b'~') => Some(Key::Home),
        (_, b'F') | (b"4" | b"8", b'~') => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::cli::output::row;

    row! {
        struct Line as row {
            name: &'static str, flexible;
            units: u64;
        }
    }

    fn lines(frame: Frame) -> Vec<String> {
        frame.end().0.lines().map(|line| line.replace("\u{1b}[K", "")).collect()
    }

    #[test]
    fn a_line_is_cut_at_the_edge_and_its_end_is_left_out_first() {
        let mut frame = Frame::new(10, 3, false, Vec::new());
        frame.line_with(&[("双十一", Tone::Plain), (" ok", Tone::Good)], &["9:15"]);
        frame.line_with(&[("a", Tone::Plain)], &["today, 9:15", "9:15"]);
        frame.line(&[("evil \u{1b}[2J and more", Tone::Plain)]);
        frame.line(&[("no room", Tone::Plain)]);
        assert_eq!(lines(frame), ["双十一 ok", "a     9:15", "evil \\u{1…"]);
    }

    #[test]
    fn what_was_behind_a_line_is_erased_unless_the_line_is_full() {
        let mut frame = Frame::new(5, 3, true, Vec::new());
        for text in ["12345", "1234", "双十1"] {
            frame.line(&[(text, Tone::Bad)]);
        }
        let (text, _) = frame.end();
        assert_eq!(text.lines().map(|line| line.ends_with("\u{1b}[K")).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn a_table_knows_what_has_room_and_keeps_its_widths() {
        let rows = [Line { name: "a", units: 123_456 }, Line { name: "b", units: 1 }];
        let mut frame = Frame::new(40, 6, false, Vec::new());
        assert_eq!([0, 2, 4, 9].map(|free| frame.rows_with_room(free)), [4, 2, 0, 0]);
        assert_eq!(frame.table(&rows, 0), Vec::<String>::new());
        let floors = frame.floors.clone();
        assert_eq!(lines(frame)[2..4], ["a     123456", "b          1"]);
        let mut frame = Frame::new(40, 6, false, floors);
        frame.table(&rows[1..2], 0);
        assert_eq!(lines(frame)[2], "b          1");
    }

    #[test]
    fn a_screen_without_room_shows_what_it_can() {
        for (width, height) in [(1, 1), (2, 3), (5, 4)] {
            let mut frame = Frame::new(width, height, false, Vec::new());
            frame.line(&[("header", Tone::Strong)]);
            let shown = frame.rows_with_room(1).min(1);
            frame.table(&[Line { name: "a", units: 1 }][..shown], 1);
            let lines = lines(frame);
            assert!(
                lines.len() <= height && lines.iter().all(|line| crate::cli::output::text::width(line) <= width),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn keys_that_move_have_several_sequences() {
        let keys = |text: &str| KeyReader::default().keys(text.as_bytes());
        assert_eq!(keys("\x1b[A\x1bOA\x1b[1;5A"), [Key::Up; 3]);
        assert_eq!(keys("\x1b[B\x1b[5~\x1b[6~"), [Key::Down, Key::PageUp, Key::PageDown]);
        assert_eq!(keys("\x1b[H\x1bOH\x1b[1~\x1b[7~"), [Key::Home; 4]);
        assert_eq!(keys("\x1b[F\x1bOF\x1b[4~\x1b[8~"), [Key::End; 4]);
        assert_eq!(keys("q\x0c"), [Key::Letter(b'q'), Key::Letter(0x0c)]);
    }

    #[test]
    fn what_is_no_key_is_skipped_and_the_next_one_is_found() {
        let long = format!("\x1b[{}", "1".repeat(40));
        for before in ["\x1b", "\x1b[C", "\x1b[2~", "\x1b[<0;1;2M", "\x1b\x1b[Z", &long] {
            let keys = KeyReader::default().keys(format!("{before}\x1b[Bq").as_bytes());
            assert_eq!(keys[keys.len() - 2..], [Key::Down, Key::Letter(b'q')], "{before:?}");
        }
        assert_eq!(KeyReader::default().keys(b"\x1bq"), [Key::Letter(b'q')]);
    }

    #[test]
    fn a_key_may_come_in_two_reads() {
        let sequence = b"\x1b[6~";
        for cut in 0..sequence.len() {
            let mut reader = KeyReader::default();
            let mut keys = reader.keys(&sequence[..cut]);
            keys.extend(reader.keys(&sequence[cut..]));
            assert_eq!(keys, [Key::PageDown], "{cut}");
        }
    }
}

use std::collections::VecDeque;
use std::time::Duration;

use crate::redis::connection::*;

/// Gives some pieces, one a read, and then the last one without end, or nothing more.
struct Pieces(VecDeque<io::Result<Vec<u8>>>, &'static [u8]);

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut piece = self.0.pop_front().unwrap_or_else(|| Ok(self.1.to_vec()))?;
        let read = piece.len().min(buffer.len());
        buffer[..read].copy_from_slice(&piece[..read]);
        if read < piece.len() {
            self.0.push_front(Ok(piece.split_off(read)));
        }
        Ok(read)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for Pieces {}

fn pieces(pieces: impl IntoIterator<Item = io::Result<Vec<u8>>>, then: &'static [u8]) -> Connection {
    let target = Target::new("redis://127.0.0.1:1", "the URL", Duration::from_secs(1)).unwrap();
    Connection::over(Box::new(Pieces(pieces.into_iter().collect(), then)), target)
}

fn whole(bytes: &[u8]) -> Connection {
    pieces([Ok(bytes.to_vec())], b"")
}

#[test]
fn texts_and_numbers_are_read_the_same_wherever_a_reply_is_split() {
    let page = b"*2\r\n$2\r\n17\r\n*4\r\n$3\r\na\nb\r\n$1\r\n2\r\n$0\r\n\r\n$2\r\n10\r\n*0\r\n\
        *2\r\n:0\r\n:1\r\n*4\r\n$-1\r\n$2\r\n\r\n\r\n$0\r\n\r\n$-1\r\n:7\r\n";
    for split in 0..page.len() {
        let interrupted = Err(io::ErrorKind::Interrupted.into());
        let split = [Ok(page[..=split].to_vec()), interrupted, Ok(page[split + 1..].to_vec())];
        let mut connection = pieces(split, b"");
        assert_eq!(connection.array().unwrap(), 2);
        assert_eq!(connection.texts(1).unwrap(), [b"17"]);
        assert_eq!(connection.array().unwrap(), 4);
        assert_eq!(connection.texts(4).unwrap(), [&b"a\nb"[..], b"2", b"", b"10"]);
        assert_eq!(connection.array().unwrap(), 0);
        assert!(connection.texts(0).unwrap().is_empty());
        assert_eq!(connection.array().unwrap(), 2);
        assert_eq!([connection.number().unwrap(), connection.number().unwrap()], [0, 1]);
        assert_eq!(connection.array().unwrap(), 4);
        assert_eq!(connection.optional_texts(4).unwrap(), [None, Some(&b"\r\n"[..]), Some(b""), None]);
        assert_eq!(connection.number().unwrap(), 7);
    }
}

const REPLIES: [&[u8]; 9] = [
    b"+OK\r\n",
    b"-NOSCRIPT no such script\r\n",
    b":-7\r\n",
    b"$4\r\na\nb\n\r\n",
    b"$-1\r\n",
    b"*3\r\n:1\r\n*2\r\n$0\r\n\r\n$-1\r\n:2\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"+PONG\r\n",
];

#[test]
fn replies_are_read_as_redis_rs_reads_them() {
    let bytes = REPLIES.concat();
    let mut connection = pieces(bytes.chunks(7).map(|piece| Ok(piece.to_vec())), b"");
    for reply in REPLIES {
        assert_eq!(connection.reply().unwrap(), redis::parse_redis_value(reply).unwrap());
    }
    assert!(matches!(connection.reply().unwrap_err(), StoreError::Unreachable { .. }));
}

#[test]
fn the_buffer_moves_what_is_unread_and_grows_only_for_what_does_not_fit() {
    let text = |byte: u8, length: usize| [format!("${length}\r\n").as_bytes(), &vec![byte; length], b"\r\n"].concat();
    let many: Vec<u8> = (0..100).flat_map(|byte| text(byte, 1000)).collect();
    let long = text(b'x', MAX_READ);
    let mut connection = whole(&[many, long.clone(), long].concat());
    for byte in 0..100 {
        assert_eq!(connection.texts(1).unwrap(), [vec![byte; 1000]]);
    }
    assert_eq!(connection.value().unwrap(), Value::BulkString(vec![b'x'; MAX_READ]));
    assert_eq!(connection.buffer.len(), MAX_READ, "a copied text needs no more");
    assert_eq!(connection.texts(1).unwrap(), [vec![b'x'; MAX_READ]]);
    assert_eq!(connection.buffer.len(), 2 * MAX_READ);
}

#[test]
fn a_reply_without_end_is_an_error_before_it_fills_the_memory() {
    const ZEROS: &[u8] = &[b'0'; MAX_READ];
    for (first, then) in
        [(&b"$1700000000\r\n"[..], ZEROS), (b"+", ZEROS), (b"*200000000\r\n", b":1\r\n"), (b"*1\r\n", b"*1\r\n")]
    {
        let mut connection = pieces([Ok(first.to_vec())], then);
        assert!(matches!(connection.value().unwrap_err(), StoreError::Oversized { .. }));
        assert!(connection.buffer.len() <= MAX_READ);
    }
    let mut connection = pieces([Ok(b"$1700000000\r\n".to_vec())], ZEROS);
    assert!(matches!(connection.texts(1).unwrap_err(), StoreError::Oversized { .. }));
    assert!(connection.buffer.len() <= MAX_BYTES);
}

#[test]
fn failures_have_their_kinds() {
    let array = |mut connection: Connection| connection.array().unwrap_err();
    assert!(matches!(array(whole(b"-NOPERM no `hscan`\r\n")), StoreError::Permission { .. }));
    assert!(matches!(array(whole(b"-LOADING wait\r\n")), error if error.is_transient()));
    for unexpected in [&b"+OK\r\n"[..], b"*-1\r\n"] {
        assert!(matches!(array(whole(unexpected)), StoreError::Reply { .. }));
    }
    let value = |bytes: &[u8]| whole(bytes).value().unwrap_err();
    assert!(matches!(value(b"*1\r\n-ERR no\r\n"), StoreError::Server { .. }));
    for malformed in [&b"$x\r\n"[..], b"*-2\r\n", b"$9223372036854775808\r\n", b":x\r\n"] {
        assert!(matches!(value(malformed), StoreError::Reply { .. }), "{malformed:?}");
    }
    for part in [&b"$5\r\nab"[..], b"*2\r\n:1\r\n", b"+O", b"$2\r\nab"] {
        assert!(matches!(value(part), StoreError::Unreachable { .. }), "{part:?}");
    }
    let waits = pieces([Err(io::ErrorKind::WouldBlock.into())], b"");
    assert!(matches!(array(waits), StoreError::Timeout { .. }));
}

#[test]
fn a_reply_is_there_when_its_last_byte_is() {
    for reply in REPLIES {
        for end in 0..reply.len() {
            assert!(!has_reply(&reply[..end]), "{end} of {reply:?}");
        }
        assert!(has_reply(reply), "{reply:?}");
        assert!(has_reply(&[reply, b"+more"].concat()), "{reply:?}");
    }
    assert!(!has_reply(b"$18446744073709551615\r\n"), "no length overflows");
}

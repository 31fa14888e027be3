//! Sockets to the simulated server, for the real `Store`: audits and repairs run in a history as they are.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use seckill::internals::{Endpoint, REWRITE, RealSystem, Script, Socket, System};
use seckill::{Layout, Store, Target};

use super::calls::{shown_reply, shown_text};
use super::keys::{Bytes, Reply, integer, is_write};
use super::script::{Engine, every_script};

thread_local! {
    /// The server that sockets of this thread lead to.
    static SERVED: RefCell<Option<Rc<Engine>>> = const { RefCell::new(None) };
}

/// Every script of the tool, drop-ins too, by its SHA-1 and by its text.
static SCRIPTS: LazyLock<BTreeMap<&[u8], &Script>> = LazyLock::new(|| {
    let names = |script: &'static Script| [script.sha1, script.text].map(|name| (name.as_bytes(), script));
    every_script().flat_map(names).collect()
});

/// A store of the server that this engine is.
pub fn store(engine: &Rc<Engine>, layout: Layout) -> Store {
    SERVED.set(Some(Rc::clone(engine)));
    let target = Target::new("redis://simulated", "a test", Duration::from_secs(5)).expect("it is a URL");
    let target = target.on(Arc::new(SimulatedSystem));
    Store::new(target, layout, "operator".to_owned())
}

/// The machine that the store runs on: all its sockets lead to the simulated server.
#[derive(Debug)]
struct SimulatedSystem;

impl System for SimulatedSystem {
    fn connect(&self, _: &Endpoint) -> io::Result<Box<dyn Socket>> {
        Ok(Box::new(Simulated::default()))
    }

    fn now(&self) -> Instant {
        RealSystem.now()
    }

    fn unix_time(&self) -> Duration {
        RealSystem.unix_time()
    }

    fn sleep(&self, duration: Duration) {
        RealSystem.sleep(duration);
    }

    fn random(&self) -> u64 {
        RealSystem.random()
    }

    fn wait_readable(&self, sockets: &[&dyn Socket], at_most: Duration) -> Option<usize> {
        RealSystem.wait_readable(sockets, at_most)
    }
}

/// A socket whose other end is a function call.
#[derive(Default)]
struct Simulated {
    received: Vec<u8>,
    replies: VecDeque<u8>,
}

impl Socket for Simulated {}

impl Write for Simulated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.received.extend_from_slice(bytes);
        while let Some((command, length)) = command(&self.received) {
            self.received.drain(..length);
            let engine = SERVED.with_borrow(|served| served.clone()).expect("a server is served");
            let reply = serve(&engine, &command);
            let cut = || Reply::Error("ERR the script was cut".to_owned());
            let mut bytes = Vec::new();
            write(&reply.unwrap_or_else(cut), &mut bytes);
            self.replies.extend(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Simulated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(!self.replies.is_empty(), "a store waits for a reply to nothing");
        self.replies.read(buffer)
    }
}

/// The first command of some bytes, and how long it is; `None` if its end did not come yet.
pub fn command(bytes: &[u8]) -> Option<(Vec<Bytes>, usize)> {
    let mut at = 0;
    let number = |at: &mut usize| {
        let end = *at + bytes[*at..].windows(2).position(|end| end == b"\r\n")?;
        let number = integer(&bytes[*at + 1..end])?;
        *at = end + 2;
        usize::try_from(number).ok()
    };
    let count = number(&mut at)?;
    let mut texts = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(&mut at)?;
        texts.push(bytes.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    (at <= bytes.len()).then_some((texts, at))
}

/// What the server replies to a command; `None`: it died in the middle of it.
pub fn serve(engine: &Engine, command: &[Bytes]) -> Option<Reply> {
    let name = String::from_utf8_lossy(&command[0]).to_ascii_uppercase();
    // A transaction comes in one write, so that nothing else is served within it.
    let queued = match name.as_str() {
        "MULTI" => engine.server.borrow_mut().queued.replace(Vec::new()),
        _ => engine.server.borrow_mut().queued.take(),
    };
    match (queued, name.as_str()) {
        (None, "MULTI") => return Some(Reply::Status("OK")),
        (Some(queued), "EXEC") => {
            return queued.iter().map(|command| serve(engine, command)).collect::<Option<_>>().map(Reply::Array);
        }
        (Some(mut queued), _) => {
            queued.push(command.to_vec());
            engine.server.borrow_mut().queued = Some(queued);
            return Some(Reply::Status("QUEUED"));
        }
        (None, _) => {}
    }
    Some(match name.as_str() {
        "EVAL" if command[1] == REWRITE.as_bytes() => {
            let (keys, args) = command[3..].split_at(2);
            engine.run(REWRITE, keys, args)?
        }
        "EVALSHA" | "EVAL" => {
            let script = SCRIPTS.get(&command[1][..]).expect("a store calls scripts that there are");
            let keys = integer(&command[2]).and_then(|count| usize::try_from(count).ok()).expect("a number of keys");
            let (keys, args) = command[3..].split_at(keys);
            {
                let mut server = engine.server.borrow_mut();
                server.us += 50;
                match &mut server.loaded {
                    Some(loaded) if name == "EVAL" => _ = loaded.insert(script.sha1.into()),
                    Some(loaded) if !loaded.contains(script.sha1.as_bytes()) => {
                        return Some(Reply::Error("NOSCRIPT No matching script. Please use EVAL.".to_owned()));
                    }
                    _ => {}
                }
            }
            engine.run(script.sha1, keys, args)?
        }
        "SCRIPT" => {
            let [_, load, text] = command else { panic!("SCRIPT is simulated with LOAD alone") };
            assert!(load.eq_ignore_ascii_case(b"LOAD"), "SCRIPT is simulated with LOAD alone");
            let sha1 = SCRIPTS.get(&text[..]).expect("a store loads scripts that there are").sha1;
            if let Some(loaded) = &mut engine.server.borrow_mut().loaded {
                loaded.insert(sha1.into());
            }
            Reply::text(sha1)
        }
        "CLUSTER" => Reply::Error("ERR This instance has cluster support disabled".to_owned()),
        "ROLE" => {
            let replica = Reply::Array(["10.0.0.2", "6379", "0"].map(Reply::text).into());
            let is_followed = engine.server.borrow().is_followed;
            let replicas = is_followed.then_some(replica).into_iter().collect();
            Reply::Array(vec![Reply::text("master"), Reply::Int(0), Reply::Array(replicas)])
        }
        // `COUNT n STREAMS key after`, of one ledger.
        "XREAD" => {
            let [_, count, _, key, after] = &command[1..] else { panic!("XREAD is simulated of one stream alone") };
            let after = [b"(", &after[..]].concat();
            match run(engine, "XRANGE", &[key.clone(), after, b"+".into(), b"COUNT".into(), count.clone()]) {
                Reply::Array(rows) if rows.is_empty() => Reply::Nil,
                rows => Reply::Array(vec![Reply::Array(vec![Reply::Text(key.clone()), rows])]),
            }
        }
        _ => run(engine, &name, &command[1..]),
    })
}

/// A command and its reply on one line, with the script that it calls by its name.
pub fn shown(command: &[Bytes], reply: Option<&Reply>) -> String {
    let script = command.get(1).filter(|_| command.len() > 2).and_then(|name| SCRIPTS.get(&name[..]));
    let words: Vec<String> = match script {
        None if command.len() > 2 && command[1] == REWRITE.as_bytes() => vec!["rewrite".to_owned()],
        Some(script) => {
            let keys = integer(&command[2]).and_then(|keys| usize::try_from(keys).ok()).unwrap_or_default();
            let args = command.iter().skip(3 + keys).map(|word| shown_text(word));
            std::iter::once(script.name.to_owned()).chain(args).collect()
        }
        None if command[0] == b"SCRIPT" => vec!["SCRIPT LOAD".to_owned()],
        None => command.iter().map(|word| shown_text(word)).collect(),
    };
    let reply = reply.map_or("cut".to_owned(), shown_reply);
    format!("{} -> {reply}", words.join(" "))
}

fn run(engine: &Engine, name: &str, args: &[Bytes]) -> Reply {
    let server = &mut *engine.server.borrow_mut();
    server.all_writes += u64::from(is_write(name));
    server.run(name, args.to_vec())
}

pub fn write(whole: &Reply, bytes: &mut Vec<u8>) {
    let written = match whole {
        Reply::Nil => bytes.write_all(b"$-1\r\n"),
        Reply::Int(number) => write!(bytes, ":{number}\r\n"),
        Reply::Status(text) => write!(bytes, "+{text}\r\n"),
        Reply::Error(text) => write!(bytes, "-{text}\r\n"),
        Reply::Double(_) => unreachable!("a store speaks protocol 2"),
        Reply::Text(text) => {
            let head = write!(bytes, "${}\r\n", text.len());
            bytes.extend_from_slice(text);
            head.and_then(|()| bytes.write_all(b"\r\n"))
        }
        Reply::Array(parts) => {
            let head = write!(bytes, "*{}\r\n", parts.len());
            parts.iter().for_each(|part| write(part, bytes));
            head
        }
    };
    written.expect("memory takes it");
}

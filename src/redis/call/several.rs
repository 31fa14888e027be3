//! Several calls at once: one pipeline a node.

use redis::{Cmd, Value};

use crate::error::StoreError;
use crate::model::slot::slot;
use crate::redis::cluster::Servers;

/// Commands that are sent before their replies are read.
const A_PIPELINE: usize = 1000;

/// Why there is no reply to one of several commands.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It did not run, and another try may help.
    NotRun,
    /// The server refused it.
    Refused(StoreError),
    /// The connection broke, and nobody knows whether it ran.
    Lost(String),
}

/// What became of a command.
type Answer = Result<Value, Unanswered>;

impl Servers {
    /// Sends commands, each with the slot of its keys, and gives what became of each: replies that came before a
    /// connection broke are not lost.
    pub(crate) fn each_reply(&mut self, commands: &[(Option<u16>, Cmd)]) -> Vec<Answer> {
        let mut answers: Vec<Answer> = commands.iter().map(|_| Err(Unanswered::NotRun)).collect();
        let mut moved = self.send_all(commands, (0..commands.len()).collect(), &mut answers);
        // Without a map some went to the wrong node: with it none should.
        if !moved.is_empty() && self.read_map(None).is_ok() {
            moved = self.send_all(commands, moved, &mut answers);
        }
        for nth in moved {
            answers[nth] = Err(Unanswered::NotRun);
        }
        answers
    }

    /// Sends commands that only read, each about a key, and gives their replies in order.
    ///
    /// # Errors
    /// What the first of them that has no reply failed with.
    pub(crate) fn read_each(&mut self, commands: Vec<(String, Cmd)>) -> Result<Vec<Value>, StoreError> {
        let (keys, commands): (Vec<String>, Vec<_>) = commands
            .into_iter()
            .map(|(key, command)| {
                let slot = slot(key.as_bytes());
                (key, (Some(slot), command))
            })
            .unzip();
        let mut values = Vec::with_capacity(commands.len());
        for (keys, commands) in keys.chunks(A_PIPELINE).zip(commands.chunks(A_PIPELINE)) {
            for ((key, (_, command)), answer) in keys.iter().zip(commands).zip(self.each_reply(commands)) {
                values.push(match answer {
                    Ok(value) => value,
                    Err(Unanswered::Refused(error)) => return Err(error),
                    Err(Unanswered::NotRun | Unanswered::Lost(_)) => self.command(key, command)?,
                });
            }
        }
        Ok(values)
    }

    /// Sends some of the commands, and gives those that belong to another node.
    fn send_all(&mut self, commands: &[(Option<u16>, Cmd)], which: Vec<usize>, answers: &mut [Answer]) -> Vec<usize> {
        let mut by_node: Vec<(usize, Vec<usize>)> = Vec::new();
        for nth in which {
            let node = self.node_of(commands[nth].0);
            match by_node.iter_mut().find(|(known, _)| *known == node) {
                Some((_, of_node)) => of_node.push(nth),
                None => by_node.push((node, vec![nth])),
            }
        }
        // All nodes work side by side.
        let mut under_way = Vec::new();
        for (node, of_node) in by_node {
            let packed: Vec<u8> = of_node.iter().flat_map(|nth| commands[*nth].1.get_packed_command()).collect();
            let server = self.node(node);
            // Without a connection nothing was sent.
            if server.connection().is_err() {
                continue;
            }
            let lost = server.write(&packed).err().map(|error| error.to_string());
            under_way.push((node, of_node, lost));
        }
        let mut moved = Vec::new();
        for (node, of_node, mut lost) in under_way {
            for nth in of_node {
                if let Some(why) = &lost {
                    answers[nth] = Err(Unanswered::Lost(why.clone()));
                    continue;
                }
                let server = self.node(node);
                answers[nth] = match server.read() {
                    Ok(Value::ServerError(error)) if error.code() == "NOSCRIPT" => Err(Unanswered::NotRun),
                    Ok(reply) => match server.checked(reply) {
                        Ok(value) => Ok(value),
                        Err(StoreError::Redirected(to)) => {
                            // A layout that does not fit is refused by whoever sends it again.
                            _ = self.found_cluster();
                            self.redirect(node, &to);
                            moved.push(nth);
                            continue;
                        }
                        Err(error) if self.may_recover(&error) => Err(Unanswered::NotRun),
                        Err(error) => Err(Unanswered::Refused(error)),
                    },
                    Err(error) => Err(Unanswered::Lost(lost.insert(error.to_string()).clone())),
                };
            }
        }
        moved
    }
}

//! The native protocol, over UDP and over a fabric.

use std::io;

use micanite_client::{
    Completion, FabricLink, FabricOptions, FabricUrl, Link, Operation, Options, Outcome as Ended, Reads,
    ServerAddress, SubmitError, UdpOptions,
};

use super::{Failure, Outcome, Port, Reply, Request};
use crate::Result;
use crate::linearizability::operation::{Action, Found};

const MS: u64 = 1_000_000;
/// A loaded machine is slow. Copies of a request that was not lost would only hide errors.
const RESEND_NS: u64 = 500 * MS;
const DEADLINE_NS: u64 = 5_000 * MS;

/// Longest wait in one call: links say by their completions what is over.
const WAIT_NS: u64 = 100 * MS;

/// A non-blocking client.
pub(super) trait Connection {
    fn submit(&mut self, operation: &Operation<'_>, token: u64) -> std::result::Result<(), SubmitError>;
    fn poll(&mut self, sink: impl FnMut(Completion<'_>)) -> io::Result<usize>;
    fn wait(&mut self) -> io::Result<()>;
}

impl Connection for Link {
    fn submit(&mut self, operation: &Operation<'_>, token: u64) -> std::result::Result<(), SubmitError> {
        Self::submit(self, self.now_ns(), operation, token)?;
        self.flush();
        Ok(())
    }

    fn poll(&mut self, sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        Self::poll(self, self.now_ns(), sink)
    }

    fn wait(&mut self) -> io::Result<()> {
        Self::wait(self, WAIT_NS)
    }
}

impl Connection for FabricLink {
    fn submit(&mut self, operation: &Operation<'_>, token: u64) -> std::result::Result<(), SubmitError> {
        Self::submit(self, self.now_ns(), operation, token)?;
        self.flush();
        Ok(())
    }

    fn poll(&mut self, sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        Self::poll(self, self.now_ns(), sink)
    }

    fn wait(&mut self) -> io::Result<()> {
        Self::wait(self, WAIT_NS)
    }
}

pub(super) struct Native<L> {
    link: L,
    token: u64,
}

impl Native<FabricLink> {
    pub fn open_fabric(server: &str, reads: Reads) -> Result<Self> {
        let options = FabricOptions {
            reads,
            deadline_ns: DEADLINE_NS,
            dead_for_ns: 100 * MS,
            ..FabricOptions::default()
        };
        Ok(Self { link: FabricLink::connect(&[FabricUrl::parse(server)?], &options)?, token: 0 })
    }
}

impl Native<Link> {
    pub fn open(server: &str) -> Result<Self> {
        let options = Options {
            deadline_ns: DEADLINE_NS,
            resend_ns_first: RESEND_NS,
            resend_ns_min: RESEND_NS,
            resend_ns_max: RESEND_NS,
            dead_for_ns: 100 * MS,
            ..Options::default()
        };
        let link = Link::connect(&[ServerAddress::resolve(server)?], options, &UdpOptions::default())?;
        Ok(Self { link, token: 0 })
    }
}

/// Translates a request.
pub(super) fn operation<'a>(request: &Request<'a>) -> Operation<'a> {
    let (name, value) = (request.name, request.value);
    let operation = match request.action {
        Action::Set(_) => Operation::set(name, value),
        Action::Add(_) => Operation::add(name, value),
        Action::Cas { .. } => Operation::cas(name, value, request.unique),
        Action::Delete => Operation::delete(name),
        Action::Touch => Operation::touch(name, request.expiry_s),
        _ if request.wants_unique => Operation::gets(name),
        _ => Operation::get(name),
    };
    operation.with_flags(request.flags).with_expiry(request.expiry_s)
}

/// Translates a completion.
pub(super) fn read(completion: &Completion<'_>, action: Action, reply: &mut Reply) -> Outcome {
    reply.resent = completion.resent;
    reply.one_sided = completion.one_sided;
    reply.found = Some(match (completion.outcome, action) {
        (Ended::Ok, Action::Get) => {
            reply.value.extend(completion.value);
            reply.flags = completion.flags;
            reply.unique = completion.cas.unwrap_or(0);
            reply.found = None;
            return Ok(());
        }
        (Ended::Ok, _) => Found::Done,
        (Ended::UseStream, Action::Get) => Found::Something,
        // The first copy may have removed the item.
        (Ended::NotFound, Action::Delete) if completion.resent => Found::Gone,
        (Ended::NotFound, _) => Found::Missing,
        (Ended::NotStored, Action::Add(_)) | (Ended::Exists, Action::Cas { .. }) => Found::Refused,
        (Ended::TimedOut | Ended::Unknown | Ended::ServerDown, _) => Found::Unknown,
        (other, action) => return Err(Failure::Wrong(format!("{other:?} to {action:?}"))),
    });
    Ok(())
}

impl<L: Connection> Port for Native<L> {
    fn call(&mut self, requests: &[Request<'_>], replies: &mut [Reply]) -> Outcome {
        let lost = |_| Failure::Lost;
        let first = self.token;
        self.token += requests.len() as u64;
        let mut pending = requests.len();
        for ((token, request), reply) in (first..).zip(requests).zip(&mut *replies) {
            match self.link.submit(&operation(request), token) {
                Ok(()) => {}
                Err(SubmitError::Full | SubmitError::ServerDown { .. }) => {
                    reply.found = Some(Found::NotSent);
                    pending -= 1;
                }
                Err(error) => return Err(Failure::Wrong(format!("{error:?}"))),
            }
        }
        let mut outcome = Ok(());
        loop {
            // A link that sends nothing looks for its server meanwhile.
            self.link
                .poll(|completion| {
                    let Some(place) = completion.token.checked_sub(first) else { return };
                    let (request, reply) = (&requests[place as usize], &mut replies[place as usize]);
                    pending -= 1;
                    if let Err(wrong) = read(&completion, request.action, reply) {
                        outcome = Err(wrong);
                    }
                })
                .map_err(lost)?;
            if pending == 0 {
                return outcome;
            }
            self.link.wait().map_err(lost)?;
        }
    }
}

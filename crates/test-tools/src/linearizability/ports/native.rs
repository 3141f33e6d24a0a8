//! The native protocol.

use micanite_client::{
    Completion, Link, Operation, Options, Outcome as Ended, ServerAddress, SubmitError, UdpOptions,
};

use super::{Failure, Outcome, Port, Reply, Request};
use crate::Result;
use crate::linearizability::operation::{Action, Found};

const MS: u64 = 1_000_000;
/// A loaded machine is slow. Copies of a request that was not lost would only hide errors.
const RESEND_NS: u64 = 500 * MS;
const DEADLINE_NS: u64 = 5_000 * MS;

pub(super) struct Native {
    link: Link,
    token: u64,
}

impl Native {
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

impl Port for Native {
    fn call(&mut self, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        let lost = |_| Failure::Lost;
        self.token += 1;
        match self.link.submit(self.link.now_ns(), &operation(request), self.token) {
            Ok(()) => self.link.flush(),
            Err(error @ (SubmitError::Full | SubmitError::ServerDown { .. })) => {
                // The link looks for the server meanwhile.
                self.link.poll(self.link.now_ns(), |_| {}).map_err(lost)?;
                return Err(Failure::NotSent(format!("{error:?}")));
            }
            Err(error) => return Err(Failure::Wrong(format!("{error:?}"))),
        }
        let mut outcome = None;
        loop {
            let token = self.token;
            self.link
                .poll(self.link.now_ns(), |completion| {
                    if completion.token == token {
                        outcome = Some(read(&completion, request.action, reply));
                    }
                })
                .map_err(lost)?;
            if let Some(outcome) = outcome {
                return outcome;
            }
            self.link.wait(u64::MAX).map_err(lost)?;
        }
    }
}

//! Directory replies on their way to a client: the server's ports become the relay's.

use micanite_wire::native::{CoreEntry, Directory, DirectoryWriter, Entry, Header, Kind, Status};

/// Ports `server + i` of the server are ports `relay + i` here, for `i` below `count`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortMap {
    pub server: u16,
    pub relay: u16,
    pub count: u16,
}

impl PortMap {
    /// The relay's port for one of the server's.
    fn relayed(&self, port: u16) -> Option<u16> {
        let number = port.checked_sub(self.server)?;
        (number < self.count).then(|| self.relay + number)
    }

    /// Rewrites the datagram if it is a page of a directory; its length stays. Returns how many
    /// ports of the server are none of the relay's: clients reach those past it.
    pub fn rewrite(&self, datagram: &mut Vec<u8>) -> usize {
        let Ok(header) = Header::read(datagram) else {
            return 0;
        };
        if header.kind != Kind::DirectoryReply || header.status != Status::Ok {
            return 0;
        }
        let Some((directory, first, bytes)) = Directory::read(datagram) else {
            return 0;
        };
        // Clients are to stay at the relay's address.
        let directory = Directory { addresses: 0, ..directory };
        let mut again = vec![0; datagram.len().next_multiple_of(8) + 8];
        let Some(mut writer) = DirectoryWriter::new(&mut again, &directory, first) else {
            return 0;
        };
        let mut unknown = 0;
        for (number, entry) in (first..).zip(bytes.chunks(4)) {
            let entry = match directory.entry(number, entry) {
                Some(Entry::Core(core)) => {
                    let port = self.relayed(core.port);
                    unknown += usize::from(port.is_none());
                    let port = port.unwrap_or(core.port);
                    Entry::Core(CoreEntry { port, ..core })
                }
                Some(other) => other,
                None => return unknown,
            };
            writer.push(entry);
        }
        let length = writer.finish(&header);
        again.truncate(length);
        *datagram = again;
        unknown
    }
}

#[cfg(test)]
mod tests {
    use micanite_wire::native::{PartitionAccess, PartitionEntry};

    use super::*;

    const PORTS: PortMap = PortMap { server: 4000, relay: 9000, count: 2 };

    fn page(first: u32, ports: &[u16]) -> Vec<u8> {
        let directory = Directory {
            hash_seed: 5,
            partitions: 2,
            cores: 3,
            stream_port: 4000,
            payload_bytes_max: 1472,
            value_bytes_max: 9,
            ids_window: 64,
            cookie_s: 64,
            addresses: 0,
        };
        let mut datagram = vec![0; 120];
        let mut writer = DirectoryWriter::new(&mut datagram, &directory, first).unwrap();
        for port in ports {
            let (port, node) = (*port, 1);
            assert!(writer.push(Entry::Core(CoreEntry { port, node })));
        }
        let (owner, access) = (2, PartitionAccess::Crew);
        assert!(writer.push(Entry::Partition(PartitionEntry { owner, access })));
        let header = Header { cookie: 77, ..Header::REQUESTS.reply(Kind::DirectoryReply) };
        let length = writer.finish(&header);
        datagram.truncate(length);
        datagram
    }

    #[test]
    fn ports_of_the_server_become_those_of_the_relay_and_nothing_else_changes() {
        let mut datagram = page(0, &[4000, 4001, 4002]);
        assert_eq!(PORTS.rewrite(&mut datagram), 1);
        assert_eq!(datagram, page(0, &[9000, 9001, 4002]));
        let mut datagram = page(1, &[4001, 3999]);
        assert_eq!(PORTS.rewrite(&mut datagram), 1);
        assert_eq!(datagram, page(1, &[9001, 3999]));
    }

    #[test]
    fn datagrams_other_than_directory_pages_are_unchanged() {
        let whole = page(0, &[4000, 4001, 4001]);
        let mut cut = whole[..whole.len() - 8].to_vec();
        let mut requests = whole.clone();
        requests[3] = Kind::Requests as u8;
        for datagram in [&mut cut, &mut requests, &mut vec![], &mut vec![0; 2000]] {
            let before = datagram.clone();
            assert_eq!(PORTS.rewrite(datagram), 0);
            assert_eq!(*datagram, before);
        }
    }
}

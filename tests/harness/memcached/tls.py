"""Certificates of an authority of our own, and raw connections over TLS."""

import ssl
import warnings

import trustme

from harness.memcached.wire import Connection
from harness.poll import until


class Authority:
    """An authority, a certificate for a server on this machine, and one for a client; all in files of
    `folder`."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.chain = folder / "chain.pem"
        self.key = folder / "key.pem"
        self.client = folder / "client.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        self.renew()
        client = self.authority.issue_cert("client@example.org")
        client.private_key_and_cert_chain_pem.write_to_path(self.client)

    def renew(self, key_type=trustme.KeyType.ECDSA):
        """Another certificate and key for the server, in the same files."""
        made = self.authority.issue_cert("localhost", "127.0.0.1", key_type=key_type)
        self.chain.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        made.private_key_pem.write_to_path(self.key)

    @property
    def words(self):
        """memcached's words for these files."""
        return f"ssl_chain_cert={self.chain},ssl_key={self.key},ssl_ca_cert={self.ca}"

    def context(self, certificate=None, version=None):
        """Returns the settings of a client; `certificate` is the client's own."""
        context = ssl.create_default_context(cafile=self.ca)
        if certificate:
            context.load_cert_chain(certificate)
        if version:
            with warnings.catch_warnings():
                # The old versions are what a test is about.
                warnings.simplefilter("ignore", DeprecationWarning)
                context.minimum_version = context.maximum_version = version
        return context


class TlsConnection(Connection):
    """As Connection, over TLS."""

    def __init__(self, address, context, **options):
        super().__init__(address, **options)
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        except OSError:
            self.socket.close()
            raise

    def certificate(self):
        """The server's, as bytes."""
        return self.socket.getpeercert(binary_form=True)


def serving(start, *options, **settings):
    """A server that cannot be asked for its version as anybody would: ready when it says so."""
    server = start(*options, ready=False, **settings)

    def says_ready():
        assert server.alive(), server.stderr()
        return "micanite: ready" in server.stderr()

    until(says_ready, "the server to be ready")
    server.port = server.ports().get("TCP")
    return server

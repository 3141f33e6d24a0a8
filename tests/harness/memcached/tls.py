"""Certificates of an authority of our own, and raw connections over TLS."""

import datetime
import ssl
import warnings

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

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

    def renew(self, key_type=trustme.KeyType.ECDSA, **validity):
        """Another certificate and key for the server, in the same files."""
        made = self.authority.issue_cert("localhost", "127.0.0.1", key_type=key_type, **validity)
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


def certificate_of_version_1(folder):
    """Files of a certificate without extensions that signs itself, and of its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=30))
    fields = elements(elements(made.sign(key, hashes.SHA256()).tbs_certificate_bytes)[0][1])
    # All but the version and the extensions.
    kept = element(0x30, b"".join(element(tag, value) for tag, value in fields if tag not in (0xA0, 0xA3)))
    algorithm = next(element(tag, value) for tag, value in fields if tag == 0x30)
    signature = element(0x03, b"\0" + key.sign(kept, ec.ECDSA(hashes.SHA256())))
    der = element(0x30, kept + algorithm + signature)
    chain, key_file = folder / "version-1.pem", folder / "version-1-key.pem"
    chain.write_text(ssl.DER_cert_to_PEM_cert(der))
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key_file.write_bytes(key.private_bytes(*pem))
    return chain, key_file


def elements(der):
    """DER taken apart: (tag, value) of each element."""
    found = []
    while der:
        tag, length, at = der[0], der[1], 2
        if length >= 0x80:
            at += length & 0x7F
            length = int.from_bytes(der[2:at], "big")
        found.append((tag, der[at : at + length]))
        der = der[at + length :]
    return found


def element(tag, value):
    """An element of DER."""
    length = len(value)
    if length < 0x80:
        return bytes([tag, length]) + value
    digits = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(digits)]) + digits + value


def serving(start, *options, **settings):
    """A server that cannot be asked for its version as anybody would: ready when it says so."""
    server = start(*options, ready=False, **settings)

    def says_ready():
        assert server.alive(), server.stderr()
        return "micanite: ready" in server.stderr()

    until(says_ready, "the server to be ready")
    server.port = server.ports().get("TCP")
    return server

"""A real Apache Kafka that asks who one is: TLS with a certificate of our own authority, names and
passwords by SCRAM or PLAIN. Its open listener is for the test alone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from tests.support.kafka import client
from workers.processes import start_on_free_ports
from workers.sink.kafka.broker import Broker

USER = "orders-sink"
PASSWORD = "a password of the tests, with = and ;"
_MODULES = "org.apache.kafka.common.security"


class SecuredKafka:
    """A broker that runs: anyone reaches it at its own address, and `USER` at `address`."""

    def __init__(self, directory: Path, class_path: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._class_path = directory, class_path
        self.authority = directory / "authority.pem"
        self.other_authority = directory / "other-authority.pem"
        self._identity = directory / "broker.pem"
        _write_certificates(self.authority, self._identity)
        _write_certificates(self.other_authority, directory / "nobody.pem")
        self.broker, self.address = start_on_free_ports(self._start, count=3)
        admin = AdminClient(dict(client(self.broker)))
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(mechanism, 4096)
            wanted = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
            admin.alter_user_scram_credentials([wanted])[USER].result(30)

    def _start(self, port: int, controller_port: int, secured_port: int) -> tuple[Broker, str]:
        address = f"localhost:{secured_port}"
        listeners = f"PLAINTEXT://127.0.0.1:{port},SASL_SSL://{address}"
        broker = Broker(
            self._directory / "broker",
            self._class_path,
            ports=(port, controller_port),
            settings={
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}",
                "advertised.listeners": listeners,
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL"
                ),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                    f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
                ),
                **{
                    f"listener.name.sasl_ssl.scram-sha-{bits}.sasl.jaas.config": (
                        f"{_MODULES}.scram.ScramLoginModule required;"
                    )
                    for bits in (256, 512)
                },
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._identity),
            },
        )
        broker.start()
        return broker, address


def _write_certificates(authority: Path, identity: Path) -> None:
    """An authority's certificate, and a key with a certificate of it for `localhost`."""
    ours, theirs = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Authority {authority.stem}")])
    root = (
        _certificate(issuer, issuer, ours)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ours, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    leaf = (
        _certificate(subject, issuer, theirs)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(ours, hashes.SHA256())
    )
    key = theirs.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    authority.write_bytes(root.public_bytes(Encoding.PEM))
    identity.write_bytes(key + leaf.public_bytes(Encoding.PEM))


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
    )

"""Certificates for hostile clients, made with the program openssl: of a run's own authority (whose key the tests may
read, as the run's owner may) and of a stranger's; expired, too early, too weak, for nobody."""

import datetime
import pathlib
import subprocess

CONFIG = """
[ca]
default_ca = it
[it]
database = {folder}/{name}.index
new_certs_dir = {folder}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
x509_extensions = extensions
[any]
commonName = supplied
[extensions]
basicConstraints = critical,CA:FALSE
{uri}
"""


class Forge:
    """Makes certificates in a folder. Each is one PEM file, certificate and key, as `ssl.SSLContext` takes it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def authority(self, name):
        """A new authority that nobody knows. Its PEM file."""
        pem = self.folder / f"{name}.pem"
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", f"/CN={name}", "-keyout", f"{pem}.key", "-out", f"{pem}.crt")
        return self._join(pem)

    def issue(self, name, authority, uri=None, begin_days=-1.0, end_days=1.0, key="P-256"):
        """A certificate by `authority` (a PEM file), valid between two times from now in days. `key`: "P-256", or the
        number of bits of an RSA key. `uri`: the node's identity; None: it says nothing."""
        pem = self.folder / f"{name}.pem"
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if key == "P-256" else ["-newkey", f"rsa:{key}"]
        self._openssl("req", "-new", *kind, "-nodes", "-subj", f"/CN={name}", "-keyout", f"{pem}.key",
                      "-out", f"{pem}.csr")
        config, named = self.folder / f"{name}.config", f"subjectAltName = URI:{uri}" if uri else ""
        config.write_text(CONFIG.format(folder=self.folder, name=name, uri=named), encoding="ascii")
        (self.folder / f"{name}.index").touch()
        now = datetime.datetime.now(datetime.timezone.utc)
        begin, end = (f"{now + datetime.timedelta(days=days):%Y%m%d%H%M%SZ}" for days in (begin_days, end_days))
        self._openssl("ca", "-batch", "-config", str(config), "-cert", str(authority), "-keyfile", str(authority),
                      "-in", f"{pem}.csr", "-out", f"{pem}.crt", "-notext", "-startdate", begin, "-enddate", end)
        return self._join(pem)

    def all_bad(self, authority, uri):
        """{what is wrong with it: PEM file} of certificates that nobody may accept. Each is good but for one thing."""
        stranger = self.authority("stranger")
        return {
            "another authority's": self.issue("stranger-s", stranger, uri),
            "self-signed": stranger,
            "expired": self.issue("expired", authority, uri, -10, -5),
            "not yet valid": self.issue("early", authority, uri, 5, 10),
            "an RSA key of 1024 bits": self.issue("weak", authority, uri, key="1024"),
        }

    @staticmethod
    def run_of(authority):
        """The name of the run whose authority it is."""
        said = Forge._openssl("x509", "-noout", "-subject", "-nameopt", "multiline", "-in", str(authority))
        return said.split("commonName")[1].split("=")[1].split()[0]

    def _join(self, pem):
        pem.write_text("".join(pathlib.Path(f"{pem}.{part}").read_text("ascii") for part in ("crt", "key")), "ascii")
        pem.chmod(0o600)
        return pem

    @staticmethod
    def _openssl(*argv):
        done = subprocess.run(["openssl", *argv], capture_output=True, text=True, timeout=20, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {' '.join(argv)}: {done.stderr}")
        return done.stdout

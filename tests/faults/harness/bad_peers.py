#!/usr/bin/env python3
"""Hostile clients for one listening socket, and what the listener did about each. A program, to be started on a host:

    bad_peers.py ADDRESS PORT CERTIFICATES.json [HANDSHAKE_LIMIT_S]

CERTIFICATES.json: {"good": PEM or null, "bad": {what is wrong: PEM}}. It prints one JSON object a line:
{"input", "verdict", "ended_s", "said"}; verdict "refused" is what every one must get. Numbers B1 to B8 are those of
docs/faults.md. A listener refuses when it ends the connection within the limit, and says nothing but TLS's alerts
before it knows who is there. A handshake that cannot succeed any more ends at once, any other within its limit.
"""

import concurrent.futures
import json
import pathlib
import random
import socket
import ssl
import struct
import sys
import time

AT_ONCE_S = 1.0
SLACK_S = 3.0  # the machine may be busy; at once must stay sooner than a handshake's limit
TLS_ALERT = 0x15


def connect(address):
    client = socket.create_connection(address, timeout=5)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def read_to_end(client, limit_s):
    """What came until the other side ended the connection, and the seconds until then: None when it did not in time."""
    begin, said = time.monotonic(), b""
    while (left := begin + limit_s - time.monotonic()) > 0:
        client.settimeout(left)
        try:
            data = client.recv(4096)
        except TimeoutError:
            break
        except (ssl.SSLError, OSError):  # an alert or a reset
            data = b""
        if not data:
            return said, time.monotonic() - begin
        said += data
    return said, None


def verdict(said, ended_s, may_say):
    if ended_s is None:
        return "not ended"
    return "refused" if may_say(said) else "answered"


def nothing_or_alert(said):
    return not said or said[0] == TLS_ALERT


def plain(address, data, limit_s=AT_ONCE_S):
    """Sends bytes without TLS."""
    with connect(address) as client:
        begin = time.monotonic()
        try:
            client.sendall(data)
        except OSError:
            pass  # it was ended while we spoke
        said, _ = read_to_end(client, limit_s + SLACK_S)
        ended_s = time.monotonic() - begin
        return verdict(said, ended_s if ended_s < limit_s + SLACK_S else None, nothing_or_alert), ended_s, said


def slow(address, data, limit_s, pause_s=0.1):
    """Sends bytes one by one for longer than the limit."""
    with connect(address) as client:
        begin = time.monotonic()
        for byte in data:
            said, ended_s = read_to_end(client, pause_s)
            if ended_s is not None:
                break
            try:
                client.sendall(bytes([byte]))
            except OSError:
                break
            if time.monotonic() > begin + limit_s + SLACK_S:
                return "not ended", None, said
        return verdict(said, 0, nothing_or_alert), time.monotonic() - begin, said


def context(pem=None, newest=None):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE  # a hostile client trusts everybody
    made.set_ciphers("ALL:@SECLEVEL=0")
    if newest:
        made.minimum_version, made.maximum_version = ssl.TLSVersion.TLSv1, newest
    if pem:
        made.load_cert_chain(pem)
    return made


def tls(address, pem=None, newest=None, send=b"", limit_s=AT_ONCE_S, may_say=lambda said: not said):
    """A handshake with that certificate, then bytes. In TLS 1.3 a client may think that it is in when it is not: only
    what it hears afterwards counts."""
    begin = time.monotonic()
    with connect(address) as raw:
        try:
            client = context(pem, newest).wrap_socket(raw)
        except (ssl.SSLError, OSError) as error:
            return "refused", time.monotonic() - begin, str(error).encode()
        with client:
            try:
                client.sendall(send)
            except (ssl.SSLError, OSError):
                pass
            said, ended_s = read_to_end(client, limit_s + SLACK_S)
            return verdict(said, ended_s, may_say), ended_s, said


def many_silent(address, count, limit_s):
    """Connections that say nothing: each is ended, by the handshake's limit or to make room for another."""
    clients = [connect(address) for _ in range(count)]
    begin = time.monotonic()
    still = sum(read_to_end(client, max(0.01, begin + limit_s + SLACK_S - time.monotonic()))[1] is None
                for client in clients)
    for client in clients:
        client.close()
    return "refused" if still == 0 else "not ended", time.monotonic() - begin, f"{still} of {count} stayed".encode()


# --- the inputs ---


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def header(length, magic=b"TR", version=1, kind=0, sequence=0, checksum=None):
    """The 16 bytes before a frame (transport/frame_header.hpp)."""
    begin = magic + struct.pack("<BBII", version, kind, length, sequence)
    return begin + struct.pack("<I", crc32c(begin) if checksum is None else checksum)


WELCOME = header(4, kind=2) + b"\x01\x00\x01\x00"  # the first frame of both sides: the protocols that they speak


def before_identity(certificates, limit_s):
    """B1, B2 and B8: inputs of somebody who has proven nothing."""
    noise = random.Random(1)
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise.randbytes(505)  # a ClientHello's begin, then noise
    yield "B1 random bytes", lambda to: plain(to, noise.randbytes(4096))
    yield "B1 HTTP", lambda to: plain(to, b"GET / HTTP/1.1\r\nHost: troupe\r\n\r\n")
    yield "B1 zeros", lambda to: plain(to, bytes(4096))
    yield "B1 ones", lambda to: plain(to, b"\xff" * 4096)
    yield "B1 a frame without TLS", lambda to: plain(to, header(64) + bytes(64))
    yield "B1 a frame of 4 GiB without TLS", lambda to: plain(to, header(0xFFFFFFFF))
    yield "B1 a handshake record with noise", lambda to: plain(to, hello, limit_s)
    yield "B2 silence", lambda to: plain(to, b"", limit_s)
    yield "B2 a byte now and then", lambda to: slow(to, hello, limit_s)
    yield "B8 no certificate", tls
    for what, pem in certificates["bad"].items():
        yield f"B8 {what}", lambda to, pem=pem: tls(to, pem)
    if certificates["good"]:
        yield "B8 TLS 1.2", lambda to: tls(to, certificates["good"], ssl.TLSVersion.TLSv1_2)


def after_identity(certificates, limit_s):
    """B3 and B4: malformed frames of somebody with a certificate of the run, who is welcomed before."""
    def send(to, data, limit_s=AT_ONCE_S):
        return tls(to, certificates["good"], send=WELCOME + data, limit_s=limit_s,
                   may_say=lambda said: said in (b"", WELCOME))

    for what, data in {
        "B3 a frame of 4 GiB": header(0xFFFFFFFF, sequence=1),
        "B3 a frame of the limit and one": header((256 << 20) + 1, sequence=1),
        "B3 a control frame of the limit and one": header((1 << 20) + 1, kind=1, sequence=1),
        "B3 another magic": header(0, magic=b"GE", sequence=1),
        "B3 another version": header(0, version=99, sequence=1),
        "B3 an unknown kind": header(0, kind=77, sequence=1),
        "B3 a wrong checksum": header(0, checksum=1, sequence=1),
        "B3 a wrong sequence": header(0, sequence=5),
        "B3 a second welcome": header(4, kind=2, sequence=1) + bytes(4),
    }.items():
        yield what, lambda to, data=data: send(to, data)
    for length in (1, 15, 16, 17, 800):
        data = (header(1000, sequence=1) + bytes(1000))[:length]
        yield f"B4 {length} bytes of a frame, then nothing", lambda to, data=data: send(to, data, limit_s)


def main():
    address = (sys.argv[1], int(sys.argv[2]))
    certificates = json.loads(pathlib.Path(sys.argv[3]).read_text(encoding="utf-8"))
    limit_s = float(sys.argv[4]) if len(sys.argv) > 4 else 5.0
    inputs = list(before_identity(certificates, limit_s))
    if certificates["good"]:
        inputs += after_identity(certificates, limit_s)

    def attack(one):
        what, action = one
        try:
            outcome, ended_s, said = action(address)
        except ConnectionRefusedError:
            outcome, ended_s, said = "nobody listens", None, b""
        return {"input": what, "verdict": outcome, "ended_s": ended_s, "said": said[:64].decode("latin-1")}

    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:  # most of them only wait
        for result in pool.map(attack, inputs):
            print(json.dumps(result), flush=True)
    # Last and alone: to make room for some, a listener may drop others.
    print(json.dumps(attack(("B2 300 silent ones", lambda to: many_silent(to, 300, limit_s)))))


if __name__ == "__main__":
    main()

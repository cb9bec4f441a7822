"""RSA keys of service accounts, made and verified with nothing but arithmetic. For tests: slow, and not constant-time."""

import base64
import hashlib
import secrets

SMALL = [n for n in range(3, 2000, 2) if all(n % d for d in range(3, int(n**0.5) + 1, 2))]
EXPONENT = 65537
# What precedes a SHA-256 digest in a signature of PKCS #1 v1.5.
SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")
RSA_ALGORITHM = bytes.fromhex("300d06092a864886f70d0101010500")


def _is_prime(number):
    if any(number % small == 0 for small in SMALL):
        return False
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(8):
        power = pow(secrets.randbelow(number - 3) + 2, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def _prime(bits):
    while True:
        candidate = secrets.randbits(bits) | (3 << (bits - 2)) | 1
        if candidate % EXPONENT != 1 and _is_prime(candidate):
            return candidate


class Key:
    """A key pair; only the modulus is needed to verify."""

    def __init__(self, bits=2048):
        self._p, self._q = _prime(bits // 2), _prime(bits // 2)
        self.modulus = self._p * self._q
        self._private = pow(EXPONENT, -1, (self._p - 1) * (self._q - 1))

    def pem(self):
        """PKCS #8, as in the key files of service accounts."""
        p, q, d = self._p, self._q, self._private
        numbers = (0, self.modulus, EXPONENT, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
        inner = _der(0x30, b"".join(map(_der_integer, numbers)))
        outer = _der(0x30, _der_integer(0) + RSA_ALGORITHM + _der(0x04, inner))
        lines = base64.encodebytes(outer).decode().replace("\n", "")
        body = "\n".join(lines[start : start + 64] for start in range(0, len(lines), 64))
        return f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"

    def verifies(self, signed, signature):
        size = (self.modulus.bit_length() + 7) // 8
        opened = pow(int.from_bytes(signature, "big"), EXPONENT, self.modulus).to_bytes(size, "big")
        digest = SHA256 + hashlib.sha256(signed).digest()
        return opened == b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest


def _der(tag, content):
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _der_integer(number):
    return _der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))

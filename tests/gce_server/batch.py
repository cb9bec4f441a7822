"""Batches: several requests in one body of the type multipart/mixed, answered in the same way."""

import email.parser
import email.policy
import http
import uuid

from .dispatcher import Answer, Request


def answer(dispatcher, request):
    """Answers every part by itself; credentials of the whole are those of parts that have none."""
    kind = request.headers.get("content-type", "")
    whole = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(
        b"Content-Type: " + kind.encode() + b"\r\n\r\n" + request.body
    )
    if not whole.is_multipart():
        return Answer(400, {"Content-Type": "text/plain"}, b"A batch is multipart/mixed.")
    boundary = f"batch_{uuid.uuid4().hex}"
    written = []
    for part in whole.iter_parts():
        inner = _request(part.get_payload(decode=True), request.headers)
        given = dispatcher.answer(inner, batched=True)
        status = 503 if given.cut else given.status
        headers = {**given.headers, "Content-Length": str(len(given.body))}
        lines = [
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        identifier = part.get("Content-ID", "<>")
        written += [
            f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <response-{identifier.strip().lstrip('<')}\r\n\r\n".encode(),
            "\r\n".join(lines).encode() + b"\r\n\r\n" + given.body + b"\r\n",
        ]
    written.append(f"--{boundary}--\r\n".encode())
    return Answer(200, {"Content-Type": f'multipart/mixed; boundary="{boundary}"'}, b"".join(written))


def _request(payload, outer):
    head, _, body = payload.replace(b"\r\n", b"\n").partition(b"\n\n")
    first, *lines = head.decode("utf-8", "replace").split("\n")
    verb, target, *_ = first.split(" ")
    headers = {name: outer[name] for name in ("authorization", "x-goog-user-project", "user-agent") if name in outer}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Request(verb, target, headers, body)

"""Labels, metadata and tags: their rules, and their fingerprints as conditions of a change."""

import re
import unicodedata

from . import errors

NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
KEY = re.compile(r"[a-zA-Z0-9-_]{1,128}")
MOST_LABELS = MOST_TAGS = 64
VALUE_BYTES = 256 * 1024
ALL_BYTES = 512 * 1024


def _international(character):
    """A lower-case letter, or one of a script without case."""
    return unicodedata.category(character) in ("Ll", "Lo")


def _allowed(character):
    return _international(character) or character in "_-" or unicodedata.category(character).startswith("N")


def check_labels(labels, field):
    if len(labels) > MOST_LABELS:
        raise errors.invalid(field, "", f"At most {MOST_LABELS} labels are allowed.")
    for key, value in labels.items():
        if not (1 <= len(key) <= 63 and _international(key[0]) and all(map(_allowed, key))):
            raise _violation(field, "key", key)
        if not (len(value) <= 63 and all(map(_allowed, value))):
            raise _violation(field, "value", value)


def _violation(field, part, text):
    reason = (
        f"Label {part} '{text}' violates format constraints. The {part} can only contain lowercase letters, numeric "
        "characters, underscores and dashes. The value can be at most 63 characters long. International characters "
        "are allowed."
    )
    error = errors.invalid(field, "", reason)
    error.body["error"]["details"] = [
        errors.error_info(
            "INVALID_FIELD_VALUE", {"field": field, "reason": reason, "value": text}, "compute.googleapis.com"
        )
    ]
    return error


def check_tags(items, field):
    if len(items) > MOST_TAGS:
        raise errors.invalid(field, "", f"At most {MOST_TAGS} tags are allowed.")
    for index, tag in enumerate(items):
        if not NAME.fullmatch(tag):
            raise errors.mismatch(f"{field}.items[{index}]", tag, f"(?:{NAME.pattern})")


def check_metadata(items, field):
    seen, size = set(), 0
    for item in items:
        key, value = item.get("key", ""), item.get("value", "")
        if not KEY.fullmatch(key):
            raise errors.mismatch(f"{field}.items.key", key, KEY.pattern)
        if key in seen:
            raise errors.invalid(field, "", f"Metadata has duplicate key: {key}")
        if len(value.encode()) > VALUE_BYTES:
            raise errors.invalid(
                f"{field}.items.value", "", f"Value is too large: maximum size {VALUE_BYTES} bytes for key {key}."
            )
        seen.add(key)
        size += len(key.encode()) + len(value.encode())
    if size > ALL_BYTES:
        raise errors.invalid(field, "", f"Metadata is too large: maximum size {ALL_BYTES} bytes.")


def metadata(world, items):
    """The metadata of a resource; Google leaves `items` out where there are none."""
    made = {"kind": "compute#metadata", "fingerprint": world.fingerprint(items)}
    if items:
        made["items"] = [{"key": item["key"], "value": item.get("value", "")} for item in items]
    return made


def tags(world, items):
    made = {"fingerprint": world.fingerprint(["tags", *items])}
    if items:
        made["items"] = items
    return made


def set_labels(world, resource, body):
    if body.get("labelFingerprint") != resource["labelFingerprint"]:
        raise errors.condition_not_met("Labels fingerprint either invalid or resource labels have changed")
    labels = body.get("labels", {})
    check_labels(labels, "labels")
    resource.pop("labels", None)
    if labels:
        resource["labels"] = labels
    resource["labelFingerprint"] = label_fingerprint(world, labels)


def set_metadata(world, resource, body):
    if body.get("fingerprint") != resource["metadata"]["fingerprint"]:
        raise errors.condition_not_met("Supplied fingerprint does not match current metadata fingerprint.")
    items = body.get("items", [])
    check_metadata(items, "metadata")
    resource["metadata"] = metadata(world, items)


def set_tags(world, resource, body):
    if body.get("fingerprint") != resource["tags"]["fingerprint"]:
        raise errors.condition_not_met("Supplied fingerprint does not match current tags fingerprint.")
    check_tags(body.get("items", []), "tags")
    resource["tags"] = tags(world, body.get("items", []))


def label_fingerprint(world, labels):
    return world.fingerprint(["labels", sorted(labels.items())])

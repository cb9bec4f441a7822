"""Permissions of IAM: what a call needs, refused where the project does not grant it, and recorded either way."""

from . import errors


def require(call, permission, resource=None, project=None):
    """Refuses the call unless the project grants the permission on the resource."""
    project = project or call.project
    project.used_permissions.add(permission)
    if project.granted is not None and permission not in project.granted:
        raise errors.forbidden(permission, resource or call.target())

"""What a process can give up by itself: files and network (landlock), signals, system calls (seccomp)."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Any

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
# All file rights of ABI 1, then what ABI 2 (refer), 3 (truncate) and 5 (device control) added.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_ALL_TCP, _ALL_SCOPES = 3, 3
_TCP_SINCE, _SCOPES_SINCE = 4, 6

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_abi() -> int:
    """The kernel's landlock ABI; 0 where it has none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    abi: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    return max(abi, 0)


def confine_files(rules: dict[str, Any] | None) -> None:
    """Leave this process and all that come of it only the folders of ``rules``, and no TCP.

    Raises OSError where the kernel refuses.
    """
    if rules is None:
        return
    abi = landlock_abi()
    handled = sum(rights for since, rights in _FILE_RIGHTS.items() if since <= abi)
    attributes = struct.pack("=Q", handled)
    if abi >= _TCP_SINCE:
        attributes += struct.pack("=Q", _ALL_TCP)
    if abi >= _SCOPES_SINCE:
        attributes += struct.pack("=Q", _ALL_SCOPES)
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    for paths, rights in ((rules["read"], _READ), (rules["write"], handled)):
        for path in paths:
            _allow(ruleset, path, rights)
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not os.path.isdir(path):
        # A file takes none of the rights over folders: only execute, write, read, truncate, device control.
        rights &= _EXECUTE | 1 << 1 | _READ_FILE | 1 << 14 | 1 << 15
    rule = struct.pack("=Qi", rights, fd)
    _checked(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    os.close(fd)


def confine_signals() -> None:
    """No signal and no abstract socket beyond this process and its children, where the kernel can (ABI 6)."""
    scopes = struct.pack("=QQQ", 0, 0, _ALL_SCOPES)
    ruleset = _libc.syscall(_CREATE_RULESET, scopes, ctypes.c_size_t(len(scopes)), 0)
    if ruleset >= 0:
        _libc.syscall(_RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)


def install_filter(program: bytes) -> None:
    """Put a seccomp program (struct sock_filter) on this process and all that come of it."""
    if not program:
        return
    code = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(code))
    _checked(_libc.prctl(_SECCOMP, _FILTER, described, 0, 0))


def _checked(returned: int) -> int:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return returned

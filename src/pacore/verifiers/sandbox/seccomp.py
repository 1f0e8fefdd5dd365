"""The system calls that no program to be judged needs, as a seccomp program that refuses them.

Most would widen what a program can attack in the kernel; some hold memory that no limit counts (memfd,
System V segments) or reach other processes. ``socket`` makes the absence of a network hold even where
there is no network namespace; ``socketpair``, which asyncio needs, stays.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping

# Audit architecture, then numbers by name.
_MACHINES: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "shmget": 29,
            "socket": 41,
            "semget": 64,
            "msgget": 68,
            "ptrace": 101,
            "pivot_root": 155,
            "chroot": 161,
            "mount": 165,
            "umount2": 166,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "unshare": 272,
            "perf_event_open": 298,
            "open_by_handle_at": 304,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "memfd_create": 319,
            "bpf": 321,
            "userfaultfd": 323,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "memfd_secret": 447,
            "setpriority": 141,
            "ioprio_set": 251,
            "mq_open": 240,
            "mq_unlink": 241,
            "kcmp": 312,
            "pidfd_getfd": 438,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "umount2": 39,
            "mount": 40,
            "pivot_root": 41,
            "chroot": 51,
            "unshare": 97,
            "ptrace": 117,
            "msgget": 186,
            "semget": 190,
            "shmget": 194,
            "socket": 198,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "perf_event_open": 241,
            "open_by_handle_at": 265,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "memfd_create": 279,
            "bpf": 280,
            "userfaultfd": 282,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "memfd_secret": 447,
            "setpriority": 140,
            "ioprio_set": 30,
            "mq_open": 180,
            "mq_unlink": 181,
            "kcmp": 272,
            "pidfd_getfd": 438,
        },
    ),
}
# Calls that are refused only where their first argument names another process.
_ON_OTHERS: Mapping[str, tuple[int, ...]] = {
    # prlimit64, sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr
    "x86_64": (302, 142, 144, 203, 314),
    "aarch64": (261, 118, 119, 122, 274),
}
# Modes, owners, times and attributes of files, which landlock leaves to whoever owns them.
_METADATA: Mapping[str, tuple[int, ...]] = {
    "x86_64": (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452, 463, 466),
    "aarch64": (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88, 452, 463, 466),
}
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_X32 = 0x40000000


def refusing_program(machine: str | None = None, *, metadata: bool = False) -> bytes:
    """The filter for this machine's architecture as ``struct sock_filter[]``; empty for an unknown one.

    ``metadata``: also the calls that change modes, owners and times of files.
    """
    machine = machine or platform.machine()
    if (known := _MACHINES.get(machine)) is None:
        return b""
    architecture, numbers = known
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
        # Calls of the x32 kind share the architecture but not the numbers.
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for number in (*numbers.values(), *(_METADATA[machine] if metadata else ())):
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    for number in _ON_OTHERS[machine]:
        code += [
            (_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_EQUAL, 1, 0, 0),
            (_RETURN, 0, 0, _REFUSE),
            (_RETURN, 0, 0, _ALLOW),
        ]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)

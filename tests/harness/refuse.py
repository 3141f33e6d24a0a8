"""Runs a command for which the kernel refuses io_uring: `refuse.py ERRNO COMMAND ARGUMENTS..`."""

import ctypes
import os
import struct
import sys

IO_URING_SETUP = 425


def refuse_io_uring(errno):
    """Lets `io_uring_setup` fail with `errno` in this process and in what it becomes: a seccomp filter."""
    libc = ctypes.CDLL(None, use_errno=True)

    def statement(code, true, false, value):
        return struct.pack("HBBI", code, true, false, value)

    filter_bytes = b"".join(
        [
            statement(0x20, 0, 0, 0),  # the number of the system call
            statement(0x15, 0, 1, IO_URING_SETUP),
            statement(0x06, 0, 0, 0x0005_0000 | errno),
            statement(0x06, 0, 0, 0x7FFF_0000),
        ]
    )
    program = ctypes.create_string_buffer(filter_bytes)
    header = struct.pack("HxxxxxxQ", len(filter_bytes) // 8, ctypes.addressof(program))
    no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    for arguments in ((no_new_privileges, 1, 0, 0, 0), (set_seccomp, mode_filter, header, 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse_io_uring(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])

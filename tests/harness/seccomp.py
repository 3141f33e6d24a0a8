"""Runs a command under a seccomp profile in Docker's format, as a container's runtime would: `python
seccomp.py PROFILE REFUSED COMMAND...`, REFUSED being system calls, with commas, that are refused beside (or
none)."""

import ctypes
import ctypes.util
import json
import os
import sys

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
COMPARISONS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}
PR_SET_NO_NEW_PRIVS = 38


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def library():
    """libseccomp, or None."""
    name = ctypes.util.find_library("seccomp") or "libseccomp.so.2"
    try:
        found = ctypes.CDLL(name, use_errno=True)
    except OSError:
        return None
    found.seccomp_init.restype = ctypes.c_void_p
    found.seccomp_init.argtypes = [ctypes.c_uint32]
    found.seccomp_load.argtypes = [ctypes.c_void_p]
    found.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.POINTER(Comparison),
    ]
    return found


def action(rule, default_errno):
    """The number of a rule's action."""
    return ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else ERRNO | rule.get("errnoRet", default_errno)


def load(profile, refused):
    """From here on this process and what it starts may only do what the profile allows."""
    seccomp = library()
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    default_errno = profile["defaultErrnoRet"]
    context = seccomp.seccomp_init(ERRNO | default_errno)
    for rule in profile["syscalls"]:
        # Masked comparisons take the mask first, then the value, in the profile as in the library.
        comparisons = [
            Comparison(one["index"], COMPARISONS[one["op"]], one["value"], one.get("valueTwo", 0))
            for one in rule.get("args", [])
        ]
        for name in set(rule["names"]) - refused:
            number = seccomp.seccomp_syscall_resolve_name(name.encode())
            if number < 0:
                continue  # of another architecture, or newer than the library, which a runtime skips as well
            array = (Comparison * len(comparisons))(*comparisons) if comparisons else None
            failed = seccomp.seccomp_rule_add_array(
                context, action(rule, default_errno), number, len(comparisons), array
            )
            assert failed == 0, f"{name}: {os.strerror(-failed)}"
    assert ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    failed = seccomp.seccomp_load(context)
    assert failed == 0, os.strerror(-failed)


def main():
    """See the module."""
    path, refused, *command = sys.argv[1:]
    with open(path) as text:
        load(json.load(text), set(refused.split(",")))
    os.execv(command[0], command)


if __name__ == "__main__":
    main()

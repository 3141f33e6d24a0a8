// The reply leaves in a new packet: the kernel allocates it and its memory, and copies the bytes. The
// request's packet is freed.
#define LEAVE(packet)                               \
  do {                                              \
    clone_redirect(packet, (packet)->interface, 0); \
    return SHOT;                                    \
  } while (0)
#include "return.h"
